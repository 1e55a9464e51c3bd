"""Every page and everything that can be done on it, in a real browser at a real daemon with 10,000 jobs."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Dialog, Page, Request, Route, expect

from muster.service.home import job_folder
from tests.browser.conftest import MANY, MODELS
from tests.browser.driven import DARK, PHONE, WIDE, Daemon, axe_script, daemon

pytestmark = pytest.mark.needs_browser

PAGES = ("/", "/nodes", "/jobs", "/jobs/1", "/timeline", "/users", "/what-if")


@pytest.mark.parametrize("how", [WIDE, PHONE, DARK], ids=["wide", "phone", "dark"])
def test_pages_load_without_complaint(browser: Browser, busy: Daemon, how: Any) -> None:
    with busy.visited(browser, **how) as visit:
        for path in PAGES:
            page = visit.open(path)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path} is too wide"
        assert visit.complaints == []
        assert visit.hosts <= {visit.url.removeprefix("http://"), ""}


@pytest.mark.parametrize("how", [WIDE, PHONE, DARK], ids=["wide", "phone", "dark"])
def test_pages_are_accessible(browser: Browser, busy: Daemon, how: Any) -> None:
    script = axe_script()
    with busy.visited(browser, **how) as visit:
        for path in PAGES:
            page = visit.open(path)
            page.evaluate(script)
            found = page.evaluate("axe.run()")["violations"]
            serious = [
                (one["id"], one["nodes"][0]["html"])
                for one in found
                if one["impact"] in ("serious", "critical")
            ]
            assert serious == [], path


def test_a_change_shows_by_itself(browser: Browser, busy: Daemon) -> None:
    with busy.visited(browser) as visit:
        page = visit.open("/jobs")
        page.evaluate("globalThis.neverLoadedAgain = true")
        (job,) = busy.submit([{"name": "shows-by-itself", "gpus": 8, "model": "gnmt", "steps": 10}])
        expect(page.get_by_role("link", name=f"{job} shows-by-itself")).to_be_visible()
        with busy.client() as client:
            client.post(f"/v1/jobs/{job}/hold")
        expect(page.locator(f"#job-{job} .badge")).to_have_text("held")
        assert page.evaluate("globalThis.neverLoadedAgain")


def test_jobs_are_searched_sorted_and_paged(browser: Browser, busy: Daemon) -> None:
    with busy.visited(browser) as visit:
        page = visit.open("/jobs")
        page.get_by_label("Search").fill("train-77")
        expect(page.locator("tbody tr")).to_have_count(100)
        expect(page.locator("tbody tr").first).to_contain_text("train-779")
        page.locator("select[name=order]").select_option("name")
        page.locator("select[name=descending]").select_option("smallest first")
        expect(page.locator("tbody tr").first).to_contain_text("train-77")
        page.get_by_label("Search").fill("")
        page.locator("select[name=state]").select_option("queued")
        expect(page.locator("tbody tr .badge").first).to_have_text("queued")
        page.locator('a[rel=next][href*="text=&"][href*="state=queued"]').click()
        expect(page.get_by_text(re.compile("101 to 200 of"))).to_be_visible()
        assert "state=queued" in page.url


def test_buttons_hold_release_cancel_and_resubmit(browser: Browser, busy: Daemon) -> None:
    (job,) = busy.submit([{"name": "to-steer", "gpus": 8, "model": "gnmt", "steps": 10}])
    with busy.visited(browser) as visit:
        visit.page.on("dialog", lambda dialog: dialog.accept())
        page = visit.open(f"/jobs/{job}")
        badge = page.locator("h1 .badge")
        page.get_by_role("button", name="Hold").press("Enter")
        expect(badge).to_have_text("held")
        expect(page.locator("main:focus, main :focus")).to_have_count(1)  # A keyboard keeps its place.
        page.get_by_role("button", name="Release").click()
        expect(badge).to_have_text("queued")
        page.get_by_role("button", name="Cancel").click()
        expect(badge).to_have_text("cancelled")
        page.get_by_role("button", name="Submit again").click()
        expect(page.get_by_role("heading", name="to-steer")).not_to_contain_text(f"Job {job} ")
        assert visit.complaints == []


def test_reasons_of_a_waiting_job_are_loaded(browser: Browser, busy: Daemon) -> None:
    with busy.visited(browser) as visit:
        page = visit.open(f"/jobs/{MANY}")
        expect(page.get_by_role("heading", name="Why it waits")).to_be_visible()
        expect(page.locator("[data-part]")).to_contain_text(re.compile(f"Job {MANY} .* has waited"))


def test_the_expected_start_shows_once_it_is_computed(browser: Browser) -> None:
    with tempfile.TemporaryDirectory() as folder:
        flags = ("--fake-nodes", "1x4gpu,8cpu,32gb", "--listen", "127.0.0.1:0")
        with daemon(Path(folder, "home"), *flags) as small, small.visited(browser) as visit:
            asked = {"name": "waits", "gpus": 4, "time_limit_seconds": 3600.0}
            *_, last = small.submit([asked] * 3)
            # Without events nothing else makes the page ask again.
            page = visit.page
            page.route("**/v1/events", lambda route: route.abort())
            page.goto(f"{visit.url}/jobs/{last}")
            expect(page.locator("[data-part]")).to_contain_text(
                re.compile(r"It is expected to start in .* simulation")
            )
            expect(page.locator("[data-again]")).to_have_count(0)


def test_map_is_coloured_drained_and_leads_to_jobs(browser: Browser, busy: Daemon) -> None:
    with busy.visited(browser) as visit:
        visit.page.on("dialog", lambda dialog: dialog.accept())
        page = visit.open("/nodes")
        page.get_by_label("Colour of a GPU").select_option("user")
        expect(page.locator("a.cell")).not_to_have_count(0)
        page.wait_for_url("**/nodes?by=user")
        expect(page.get_by_role("list", name="Key").locator("li")).to_have_count(1)
        expect(page.locator("a.cell:not(.c1, .c2, .c3, .c4, .c5, .c6)")).to_have_count(0)
        last = page.locator("#node-node-15")
        last.get_by_role("button", name="Drain").click()
        expect(last.locator(".badge")).to_have_text("drained")
        last.get_by_role("button", name="Use again").click()
        expect(last.locator(".badge")).to_have_count(0)
        page.locator("a.cell").first.click()
        expect(page.get_by_role("heading", name=re.compile("^Job "))).to_be_visible()


def test_a_choice_made_while_the_page_is_fetched_stays(browser: Browser, busy: Daemon) -> None:
    with busy.visited(browser) as visit:
        page = visit.open("/nodes")
        colour = page.get_by_label("Colour of a GPU")
        asked: list[Route] = []
        page.route("**/nodes?by=user", lambda route: asked.append(route), times=1)
        with page.expect_request("**/nodes?by=user"):
            colour.select_option("user")
        colour.select_option("model")
        page.get_by_role("heading", name="Nodes").click()
        with page.expect_response("**/nodes?by=user"):
            asked[0].continue_()
        page.wait_for_url("**/nodes?by=model")
        expect(colour).to_have_value("model")
        expect(page.get_by_role("list", name="Key").locator("li").first).to_have_text(
            re.compile("|".join(MODELS))
        )


@pytest.mark.parametrize("hours", [-2, 2])
def test_times_are_those_of_the_daemon(browser: Browser, busy: Daemon, hours: int) -> None:
    """Whatever the browser's clock says."""
    with busy.visited(browser) as visit:
        clock = f"const now = Date.now.bind(Date); Date.now = () => now() + {hours * 3_600_000};"
        visit.page.add_init_script(clock)
        page = visit.open("/nodes")
        page.locator("a.cell").first.click()
        since = page.locator("dd time[data-since]")
        expect(since).to_have_text(re.compile(r"^[1-9][\d.]* (s|min)$"))
        page = visit.open("/timeline")
        expect(page.locator("#timeline")).to_have_attribute("data-entries", re.compile("[1-9]"))


def test_timeline_and_map_give_a_job_one_colour(browser: Browser, tmp_path: Path) -> None:
    """Whatever it is by, also after a colour was given to what has ended."""
    tenants, models = ("research", "ads", ""), ("gnmt", "resnet50", "alexnet", "")
    asked = [
        {
            "name": f"job-{at % 5}",
            "gpus": 1,
            "steps": 10**9,
            "model": models[at % 4] or None,
            "tenant": tenants[at % 3] or None,
        }
        for at in range(14)
    ]
    with (
        daemon(tmp_path / "home", "--fake-nodes", "2x8gpu", "--scheduler", "fifo") as it,
        it.visited(browser) as visit,
    ):
        first, *others = it.submit(asked)
        page = visit.open("/jobs")
        expect(page.locator("tbody .running")).to_have_count(len(asked))
        with it.client() as client:
            client.post(f"/v1/jobs/{first}/cancel")
        expect(page.locator("tbody .running")).to_have_count(len(others))
        for by in ("job", "user", "tenant", "model", "name"):
            page = visit.open(f"/nodes?by={by}")
            on_map = {
                str(cell.get_attribute("href")): re.findall(r"c\d|others", str(cell.get_attribute("class")))
                for cell in page.locator("a.cell").all()
            }
            key = page.locator(".key.of-cells li").all_inner_texts()
            page = visit.open("/timeline")
            page.get_by_label("Colour").select_option(by)
            expect(page.locator("#timeline")).to_have_attribute("data-entries", str(len(asked)))
            found = page.evaluate("entries.map((one) => [`/jobs/${one.job_id}`, [classChosen()(one)]])")
            assert {job: colour for job, colour in found if job in on_map} == on_map, by
            assert set(key) <= set(page.locator("#key li").all_inner_texts()), by
        assert visit.complaints == []


def test_timeline_zooms_moves_and_leads_to_jobs(browser: Browser, busy: Daemon) -> None:
    with busy.visited(browser) as visit:
        page = visit.open("/timeline")
        canvas = page.locator("#timeline")
        expect(canvas).to_have_attribute("data-entries", re.compile("[1-9]"))
        key = page.locator("#key")
        expect(key).to_be_hidden()
        page.get_by_label("Colour").select_option("user")
        expect(key.locator("li")).to_have_count(1)
        page.get_by_label("Colour").select_option("job")
        before = _picture(page)
        page.get_by_role("button", name="Zoom in").click()
        zoomed = _picture(page)
        canvas.press("ArrowLeft")
        moved = _picture(page)
        assert len({before, zoomed, moved}) == 3
        for window in ("the last 6 hours", "the last hour"):
            page.locator("#window").select_option(window)
        box = canvas.bounding_box()
        assert box is not None
        right, top = box["x"] + box["width"] - 3, box["y"] + 8
        # Jobs that have just started come under the pointer as the picture goes on with time.
        for step in range(300):
            page.mouse.move(right - step % 2, top)
            if page.locator("#under").inner_text().startswith("Job "):
                break
            page.wait_for_timeout(200)
        page.mouse.click(right, top)
        expect(page.get_by_role("heading", name=re.compile("^Job "))).to_be_visible()


def test_timeline_loads_what_was_zoomed_to_meanwhile(browser: Browser, busy: Daemon) -> None:
    with busy.visited(browser) as visit:
        page = visit.open("/timeline")
        expect(page.locator("#timeline")).to_have_attribute("data-entries", re.compile("[1-9]"))
        asked: list[Route] = []
        page.route("**/v1/timeline?*", lambda route: asked.append(route))
        for _ in range(3):
            page.get_by_role("button", name="Zoom out").click()
        with page.expect_request(lambda request: _since(request) < _since(asked[0].request) - 60):
            asked[0].continue_()


def test_timeline_shows_each_change_by_itself(browser: Browser, busy: Daemon) -> None:
    with busy.visited(browser) as visit:
        page = visit.open("/timeline")
        canvas = page.locator("#timeline")
        for _ in range(2):
            expect(canvas).to_have_attribute("data-entries", re.compile("[1-9]"))
            before = str(canvas.get_attribute("data-entries"))
            with busy.client() as client:
                running = client.get("/v1/jobs:search", state="running", limit=1)["jobs"][0]["job_id"]
                client.post(f"/v1/jobs/{running}/cancel")
            expect(canvas).not_to_have_attribute("data-entries", before)


def test_timeline_says_how_a_bar_ended(browser: Browser, tmp_path: Path) -> None:
    """The sign at its end differs from that of a bar that goes on, and the line under the picture has the word."""
    with (
        daemon(tmp_path / "home", "--fake-nodes", "1x1gpu") as it,
        it.client() as client,
        it.visited(browser) as visit,
    ):
        (job,) = it.submit([{"name": "long", "gpus": 1, "steps": 10**9}])
        page = visit.open(f"/jobs/{job}")
        expect(page.locator("h1 .badge")).to_have_text("running")
        client.post(f"/v1/jobs/{job}/cancel")
        expect(page.locator("h1 .badge")).to_have_text("cancelled")
        page = visit.open("/timeline")
        canvas = page.locator("#timeline")
        expect(canvas).to_have_attribute("data-entries", "1")
        page.evaluate("following = false")  # It stays where it is.
        box = canvas.bounding_box()
        assert box is not None
        middle = float(page.evaluate("x((entries[0].since + entries[0].until) / 2)"))
        page.mouse.move(box["x"] + middle, box["y"] + 20)
        expect(page.locator("#under")).to_have_text(re.compile(f"^Job {job} long of .*, cancelled$"))
        page.evaluate("draw()")
        marked = _picture(page)
        page.evaluate("entries[0].ended = null; draw()")
        assert _picture(page) != marked
        assert visit.complaints == []


def _since(request: Request) -> float:
    """Of a request for a part of the timeline; of any other never."""
    return float(parse_qs(urlsplit(request.url).query).get("since", ["inf"])[0])


@pytest.mark.parametrize("how", [WIDE, PHONE], ids=["wide", "phone"])
def test_long_names_fit_on_the_page_of_a_job(browser: Browser, busy: Daemon, how: Any) -> None:
    (job,) = busy.submit([{"name": "x" * 200, "gpus": 8}])
    with busy.visited(browser, **how) as visit:
        page = visit.open(f"/jobs/{job}")
        expect(page.locator("#why p").first).to_contain_text("xxx")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_log_follows_to_the_end_of_the_job(browser: Browser) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home, gate = Path(folder, "home"), Path(folder, "gate")
        flags = ("--gpus", "1", "--cpus", "1", "--memory", "1GB", "--listen", "127.0.0.1:0")
        with daemon(home, *flags) as first, first.visited(browser) as visit:
            begun = Path(folder, "begun")
            silent = f"while [ ! -e {begun} ]; do sleep 0.1; done; "
            wait = f"{silent}echo before; while [ ! -e {gate} ]; do sleep 0.1; done; echo after"
            page = visit.open("/timeline")
            expect(page.locator("#nothing")).to_be_visible()
            (job,) = first.submit([{"name": "talks", "gpus": 1, "command": ["sh", "-c", wait]}])
            expect(page.locator("#nothing")).to_be_hidden()
            page = visit.open(f"/jobs/{job}")
            expect(page.get_by_text("Nothing printed yet.")).to_be_visible()
            begun.touch()
            expect(page.locator("[data-log]")).to_have_text("before\n")
            expect(page.get_by_text("Nothing printed yet.")).to_be_hidden()
            gate.touch()
            expect(page.locator("[data-log]")).to_have_text("before\nafter\n")
            expect(page.locator("h1 .badge")).to_have_text("completed")


def test_log_of_ten_gigabytes_begins_near_its_end(browser: Browser) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        flags = ("--gpus", "1", "--cpus", "1", "--memory", "1GB", "--listen", "127.0.0.1:0")
        with daemon(home, *flags) as first, first.visited(browser) as visit:
            (job,) = first.submit([{"name": "short", "gpus": 1, "command": ["echo", "whole"]}])
            page = visit.open(f"/jobs/{job}")
            expect(page.locator("h1 .badge")).to_have_text("completed")
            expect(page.locator("[data-log]")).to_have_text("whole\n")
            expect(page.locator("#log-earlier")).to_be_hidden()
            with (job_folder(home, job) / "output" / "0.log").open("r+b") as log:
                log.truncate(10 * 2**30)
                log.seek(0, os.SEEK_END)
                log.write(b"".join(b"line %d\n" % number for number in range(20_000)))
            asked: list[str] = []
            page.on("request", lambda request: asked.append(request.url) if "/logs?" in request.url else None)
            with page.expect_response(
                # A browser under load may have dropped the body by now.
                lambda answer: answer.url.endswith("&limit=65536") and answer.headers["content-length"] == "0"
            ):
                page.reload()
            expect(page.locator("[data-log]")).to_have_text(re.compile(r"^line \d+\n.*line 19999\n$", re.S))
            expect(page.locator("#log-earlier")).to_contain_text(f"muster logs {job}")
            assert len(asked) <= 3


def test_pages_come_back_after_a_restart(browser: Browser) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        nodes = ("--fake-nodes", "2x4gpu,8cpu,32gb")
        with daemon(home, *nodes, "--listen", "127.0.0.1:0") as first:
            context = first.visited(browser)
            visit = context.__enter__()
            page = visit.open("/jobs")
            port = visit.url.rpartition(":")[2]
            nodes_page, said = page.context.new_page(), list[str]()

            def agree(dialog: Dialog) -> None:
                said.append(dialog.message)
                dialog.accept()

            nodes_page.on("dialog", agree)
            nodes_page.goto(f"{visit.url}/nodes")
        expect(page.locator("#live")).to_contain_text("does not answer")
        drain = nodes_page.get_by_role("button", name="Drain").first
        drain.click()
        expect(drain).to_be_enabled()
        assert "daemon does not answer" in said[-1]
        with daemon(home, *nodes, "--listen", f"127.0.0.1:{port}") as second:
            expect(page.locator("#live")).to_have_text("live")
            second.submit([{"name": "after-restart", "gpus": 1, "model": "gnmt", "steps": 10**9}])
            expect(page.get_by_role("link", name="after-restart")).to_be_visible()
            context.__exit__(None, None, None)


def test_logout_leads_to_the_login(browser: Browser, busy: Daemon) -> None:
    with busy.visited(browser) as visit:
        page = visit.open("/")
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_label("Token")).to_be_visible()
        page.goto(visit.url + "/jobs")
        page.wait_for_url("**/login?to=%2Fjobs")
        with busy.client() as client:
            token = client.post("/v1/tokens", {"user": "ann", "role": "operator"})["token"]
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("unknown or was revoked")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", name="Jobs")).to_be_visible()


def _picture(page: Page) -> str:
    found: str = page.evaluate("document.getElementById('timeline').toDataURL()")
    return found


def test_a_question_is_asked_answered_and_forgotten(browser: Browser, tmp_path: Path) -> None:
    with (
        daemon(tmp_path / "home", "--fake-nodes", "1x1gpu", "--round", "5") as it,
        it.client() as client,
        it.visited(browser) as visit,
    ):
        (job,) = it.submit([{"name": "short", "gpus": 1, "steps": 1}])
        page = visit.open(f"/jobs/{job}")
        expect(page.locator("h1 .badge")).to_have_text("completed")
        page.get_by_role("link", name="What if").click()
        page.get_by_label("Scheduler").fill("las")
        page.get_by_label("Nodes to add").fill("1x1gpu")
        page.get_by_role("button", name="Simulate").click()
        expect(page.get_by_role("heading", level=2)).to_have_text(re.compile("las, 1x1gpu more done"))
        rows = page.locator("tbody tr")
        expect(rows.first).to_contain_text("As now")
        (found,) = client.get("/v1/what-if")["what_ifs"]
        expect(rows.nth(1)).to_contain_text(found["runs"][1]["scheduler"])
        with page.context.expect_page() as opened:
            page.get_by_role("link", name="Report with charts").click(modifiers=["Control"])
        report = opened.value
        report.locator("html[data-ready]").wait_for()
        expect(report.get_by_role("heading", level=1)).to_be_visible()
        assert report.evaluate("origin") == "null"
        page.get_by_role("button", name="Forget").click()
        expect(page.get_by_text("Nothing has been asked")).to_be_visible()
        assert visit.complaints == []
