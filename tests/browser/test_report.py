"""Everything that can be done on a report, in a real browser: figures are those of the record."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from muster.formatting import natural_order
from muster.inputs import knowledge_of
from muster.report.page import write_report
from muster.report.record import read_record
from muster.runtime.recorded_holding import holding_of
from muster.runtime.records import CompactTable, Record
from tests.browser.driven import DARK, PHONE, WIDE, axe_script
from tests.report.hand_made import scheduled, tables, write, write_comparison

pytestmark = pytest.mark.needs_browser

TENANTS = ["vision", "speech", "search"]


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = [scheduled(order, jobs=120, tenants=TENANTS) for order in ("fifo", "las")]
    folder = write_comparison(runs, tmp_path_factory.mktemp("comparison"))
    write_report(folder, knowledge_of=knowledge_of)
    return folder


@contextmanager
def opened(browser: Browser, folder: Path, **how: Any) -> Iterator[Page]:
    """The page of a folder; at its end nothing may have been complained about or requested."""
    context = browser.new_context(**(how or WIDE))
    context.set_default_timeout(60_000)
    page = context.new_page()
    complaints: list[str] = []
    requests: list[str] = []
    page.on(
        "console", lambda line: complaints.append(line.text) if line.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    address = (folder / "report.html").as_uri()
    page.goto(address)
    if how.get("java_script_enabled", True):
        page.locator("html[data-ready]").wait_for()
    yield page
    assert complaints == []
    assert requests == [address]
    context.close()


def records(folder: Path) -> list[Record]:
    return [read_record(folder / f"{order}+proportional+pack") for order in ("fifo", "las")]


def chart(page: Page, name: str) -> Locator:
    return page.locator(f"figure[data-chart={name}]")


def rows(page: Page, name: str) -> list[dict[str, str]]:
    """The rows of a chart, as its button saves them."""
    with page.expect_download() as saved:
        chart(page, name).get_by_role("button", name="CSV").click()
    assert saved.value.suggested_filename == f"{name}.csv"
    with saved.value.path().open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def svg(page: Page, name: str) -> str:
    """A chart as its button saves it."""
    with page.expect_download() as saved:
        chart(page, name).get_by_role("button", name="SVG").click()
    text: str = saved.value.path().read_text()
    return text


@pytest.mark.parametrize("how", [WIDE, PHONE, DARK], ids=["wide", "phone", "dark"])
def test_the_page_loads_and_is_accessible(browser: Browser, comparison: Path, how: Any) -> None:
    with opened(browser, comparison, **how) as page:
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.locator("#extremes button").first.click()
        for dialog in (True, False):
            if not dialog:
                page.keyboard.press("Escape")
            # The policy of the page lets no other script in; the checker is run beside it.
            page.evaluate(axe_script())
            found = page.evaluate("axe.run()")["violations"]
            assert [
                (one["id"], one["nodes"][0]["html"])
                for one in found
                if one["impact"] in ("serious", "critical")
            ] == []


def test_a_filter_reaches_every_chart(browser: Browser, comparison: Path) -> None:
    with opened(browser, comparison) as page:
        page.get_by_label("Tenant", exact=True).select_option("speech")
        runs = [run.jobs.filter(pl.col("tenant") == "speech") for run in records(comparison)]
        expect(page.locator("#chosen")).to_contain_text(f"{runs[0].height} jobs of 120")
        for name, column in (("mean-wait", "wait_seconds"), ("mean-jct", "jct_seconds")):
            means = [float(row["mean_seconds"]) for row in rows(page, name)]
            assert means == pytest.approx([run[column].mean() for run in runs], abs=1)
        assert {row["group"] for row in rows(page, "wait-by-tenant")} == {"speech"}
        for name, column in (("wait", "wait_seconds"), ("jct", "jct_seconds")):
            found = rows(page, name)
            for at, run in enumerate(runs):
                own = found[at * len(found) // 2 : (at + 1) * len(found) // 2]
                row = next(row for row in own if float(row["seconds"]) >= 3000)
                below = run.filter(pl.col(column) <= float(row["seconds"])).height / run.height
                assert float(row["share_of_jobs"]) == pytest.approx(below, abs=1 / run.height)
        page.get_by_label("Size", exact=True).select_option("1 GPU")
        share = max(float(row["share_of_gpus"]) for row in rows(page, "gpu-use"))
        axis = max(map(float, re.findall(r"text-anchor=\"end\"[^>]*>([\d.]+) %<", svg(page, "gpu-use"))))
        assert 100 * share <= axis <= 250 * share
        assert axis < 100
        page.get_by_role("button", name="Show all").click()
        expect(page.locator("#chosen")).to_have_text("All 120 jobs")
        assert ">100 %<" in svg(page, "gpu-use")


def test_tenants_stand_as_people_count(browser: Browser, tmp_path: Path) -> None:
    tenants = ["vc1", "vc10", "vc11", "vc2", "vc02", "w"]
    runs = [scheduled(order, jobs=60, tenants=tenants) for order in ("fifo", "las")]
    write_report(write_comparison(runs, tmp_path), ["html"])
    with opened(browser, tmp_path) as page:
        ordered = sorted(tenants, key=natural_order)
        assert list(dict.fromkeys(row["group"] for row in rows(page, "wait-by-tenant"))) == ordered
        assert page.get_by_label("Tenant", exact=True).locator("option").all_inner_texts() == [
            "all",
            *ordered,
        ]


def test_the_bars_of_a_chart_have_one_unit(browser: Browser, comparison: Path) -> None:
    """The program of the page chooses the unit as Python does for the still chart."""
    still = (comparison / "charts" / "jct-by-size.svg").read_text()
    with opened(browser, comparison) as page:
        live = svg(page, "jct-by-size")
    label = re.compile(r">(?:&lt;)?([\d.,]+ (?:d|h|min|s))<")
    assert sorted(label.findall(live)) == sorted(label.findall(still))
    assert len({figure.split()[1] for figure in label.findall(live)}) == 1


def test_use_and_queue_add_up(browser: Browser, comparison: Path) -> None:
    with opened(browser, comparison) as page:
        use, queue = rows(page, "gpu-use"), rows(page, "queue")
        end = max(run.jobs["finish_seconds"].max() for run in records(comparison))  # type: ignore[type-var]
        start = records(comparison)[0].jobs["submit_seconds"].min()
        assert isinstance(end, float)
        assert isinstance(start, float)
        for at, run in enumerate(records(comparison)):
            half = len(use) // 2
            share = sum(float(row["share_of_gpus"]) for row in use[at * half : (at + 1) * half]) / half
            held = run.allocations.select(pl.col("gpus") * (pl.col("to_seconds") - pl.col("from_seconds")))
            assert share == pytest.approx(float(held.to_series().sum()) / 32 / (end - start), rel=1e-3)
            waiting = sum(float(row["jobs_waiting"]) for row in queue[at * half : (at + 1) * half]) / half
            assert waiting * (end - start) == pytest.approx(run.jobs["wait_seconds"].sum(), rel=1e-3)


def test_jobs_that_gained_most_open_their_story(browser: Browser, comparison: Path) -> None:
    with opened(browser, comparison) as page:
        fifo, las = records(comparison)
        both = fifo.jobs.join(las.jobs, on="job_id")
        change = both.with_columns((pl.col("wait_seconds_right") - pl.col("wait_seconds")).alias("change"))
        best = change.sort("change").row(0, named=True)
        first = page.locator("#extremes tbody tr:not(.part)").first
        expect(first.get_by_role("button")).to_have_text(best["job_id"])
        first.get_by_role("button").click()
        story = page.get_by_role("dialog")
        expect(story.get_by_role("heading", level=3)).to_have_text(["fifo", "las"])
        for at, run in enumerate((fifo, las)):
            held = run.allocations.filter(pl.col("job_id") == best["job_id"])
            stretches = held.unique(["from_seconds", "to_seconds"]).height
            section = story.locator("section").nth(at)
            expect(section.locator("li.ran")).to_have_count(stretches)
            said = holding_of(run, best["job_id"], None, knowledge_of({}))
            assert said is not None
            expect(section.locator(".holding")).to_have_text(" ".join(said.sentences))
            expect(section.locator("li.ran").last).to_contain_text(held.sort("from_seconds")["node"][-1])
        page.keyboard.press("Escape")
        expect(story).to_be_hidden()
        page.get_by_label("by", exact=True).select_option("completion time")
        expect(page.locator("#extremes thead")).to_contain_text("Completion time under fifo")
        page.get_by_label("Job", exact=True).fill("job-7")
        page.get_by_role("button", name="Open").click()
        expect(story.get_by_role("heading", level=2)).to_have_text("Job job-7")


def test_charts_zoom_together_and_say_what_is_there(browser: Browser, comparison: Path) -> None:
    with opened(browser, comparison) as page:
        canvas = chart(page, "queue").locator("canvas.live")
        canvas.press("ArrowRight")
        expect(chart(page, "queue").locator("output")).to_contain_text(
            re.compile("After .*; fifo: .* jobs wait")
        )
        before = float(rows(page, "gpu-use")[-1]["from_seconds"])
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 100, box["y"] + 100)
        page.mouse.down()
        page.mouse.move(box["x"] + 200, box["y"] + 100)
        page.mouse.up()
        expect(page.locator("#chosen")).to_contain_text("submitted")
        assert float(rows(page, "gpu-use")[-1]["from_seconds"]) < before / 2
        canvas.press("+")
        canvas.press("-")
        canvas.press("Escape")
        expect(page.locator("#chosen")).to_have_text("All 120 jobs")
        mean = chart(page, "mean-wait")
        mean.locator("canvas.live").hover(position={"x": 200, "y": 12})
        mean.locator("canvas.live").press("ArrowDown")
        expect(mean.locator("output")).to_contain_text("mean")


def test_a_bar_of_the_nodes_leads_to_its_job(browser: Browser, comparison: Path) -> None:
    with opened(browser, comparison) as page:
        nodes = chart(page, "lanes-1")
        page.get_by_label("Colour by", exact=True).select_option("tenant")
        held = rows(page, "lanes-1")
        allocations = records(comparison)[0].allocations
        assert len(held) == allocations.height
        assert {row["job_id"] for row in held} == set(allocations["job_id"])
        canvas = nodes.locator("canvas.live")
        for _ in range(12):
            canvas.press("ArrowLeft")
            if "story" in (nodes.locator("output").text_content() or ""):
                break
        canvas.press("Enter")
        expect(page.get_by_role("dialog")).to_contain_text(re.compile("Ran .* on: node-"))


@pytest.mark.parametrize(("kind", "first"), [("PNG", b"\x89PNG"), ("SVG", b"<svg xmlns=")])
def test_each_chart_is_saved_as_a_picture(
    browser: Browser, comparison: Path, kind: str, first: bytes
) -> None:
    # A page each: Chromium asks before it saves the eleventh file of a page.
    with opened(browser, comparison, **DARK) as page:
        for name in ("mean-wait", "jct", "gpu-use", "queue", "jct-by-size", "lanes-1"):
            with page.expect_download() as saved:
                chart(page, name).get_by_role("button", name=kind).click()
            assert saved.value.path().read_bytes().startswith(first)


def test_long_names_of_bars_are_drawn_in_full(browser: Browser, tmp_path: Path) -> None:
    tenants = ["a-tenant-whose-name-is-as-long-as-that-of-its-whole-department", "b"]
    names = ["srtf+proportional+consolidate+easy", "multifactor+proportional+pack"]
    runs = [scheduled("fifo", jobs=20, tenants=tenants, name=name) for name in names]
    write_report(write_comparison(runs, tmp_path), knowledge_of=knowledge_of)
    with opened(browser, tmp_path, **PHONE) as page:
        drawn = "".join(re.findall(r">([^<]+)<", svg(page, "wait-by-tenant")))
    assert all(name in drawn for name in (*names, *tenants)), drawn


@pytest.mark.parametrize("how", [WIDE, PHONE], ids=["wide", "phone"])
def test_no_text_of_a_still_chart_is_cut(browser: Browser, tmp_path: Path, how: Any) -> None:
    names = ["fifo+proportional+pack", "sjf+requested+consolidate", "gittins+tune-plus"]
    runs = [scheduled("fifo", jobs=30, tenants=TENANTS, name=name) for name in names]
    write_report(write_comparison(runs, tmp_path))
    with opened(browser, tmp_path, **how) as page:
        page.emulate_media(media="print")
        page.locator("details").evaluate_all("all => all.forEach((one) => (one.open = true))")
        outside = page.evaluate(
            """() => [...document.querySelectorAll("figure svg")].filter((svg) => svg.clientWidth).flatMap((svg) => {
              const room = svg.getBoundingClientRect();
              return [...svg.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()])
                .filter(([, box]) => box.width && (box.left < room.left - 0.5 || box.right > room.right + 0.5))
                .map(([words, box]) => `${words}: ${box.left - room.left} to ${box.right - room.right}`);
            })"""
        )
        assert outside == []
        assert page.locator("figure svg:visible").count() > 5


def test_the_recorded_history_stands_beside_the_runs(browser: Browser, tmp_path: Path) -> None:
    fifo = scheduled("fifo", jobs=40, tenants=TENANTS)
    folder = write_comparison([fifo, scheduled("las", jobs=40, tenants=TENANTS)], tmp_path)
    unplaced = fifo.allocations.with_columns(
        pl.lit(None, pl.String).alias("node"), pl.lit(None, pl.List(pl.Int64)).alias("gpu_ids")
    )
    (folder / "recorded").mkdir()
    replace(fifo, compact_allocations=CompactTable(unplaced)).write(folder / "recorded")
    write_report(folder)
    with opened(browser, folder) as page:
        expect(page.locator(".assumed")).to_contain_text("(+0 %); half of the starts are within 0 s")
        use = rows(page, "gpu-use")
        shares = [
            [row["share_of_gpus"] for row in use if row["scheduler"] == name] for name in ("fifo", "recorded")
        ]
        assert shares[0] == shares[1]
        page.get_by_label("From", exact=True).select_option("recorded")
        expect(page.locator("figure[data-chart^=lanes]:visible")).to_have_count(1)
        expect(page.locator("#extremes thead")).to_contain_text("Wait under recorded")
        page.locator("#extremes button").first.click()
        expect(page.get_by_role("dialog")).to_contain_text("nodes not recorded")


def test_without_scripts_and_on_paper_charts_stand_still(browser: Browser, comparison: Path) -> None:
    with opened(browser, comparison, java_script_enabled=False, **WIDE) as page:
        expect(chart(page, "queue").locator("svg").first).to_be_visible()
        expect(chart(page, "nodes-1").locator("svg").first).to_be_attached()
        expect(page.locator("#explore")).to_be_hidden()
    with opened(browser, comparison) as page:
        page.emulate_media(media="print")
        expect(chart(page, "queue").locator("svg").first).to_be_visible()
        expect(chart(page, "queue").locator("canvas.live")).to_be_hidden()
        page.get_by_label("Tenant", exact=True).evaluate(
            "select => { select.selectedIndex = 1; select.dispatchEvent(new Event('change')); }"
        )
        expect(chart(page, "queue").locator("canvas.live")).to_be_visible()
        expect(chart(page, "queue").locator("svg").first).to_be_hidden()


def test_times_of_a_story_have_one_unit(browser: Browser, comparison: Path) -> None:
    with opened(browser, comparison) as page:
        page.locator("#extremes button").first.click()
        stories = page.get_by_role("dialog").locator(".steps").all_inner_texts()
        units = [re.findall(r" (d|h|min|s)(?= from | on: )", story) for story in stories]
        assert [len(set(found)) for found in units] == [1, 1]
        assert max(map(len, units)) > 2


def test_the_line_above_a_row_runs_under_its_name_too(browser: Browser, comparison: Path) -> None:
    """Chromium draws the ground of a column that stays in place over lines that two cells share."""
    with opened(browser, comparison) as page:
        for table in page.locator("table:visible").all():
            assert table.evaluate("(table) => getComputedStyle(table).borderCollapse") == "separate"
            names = table.locator("tbody tr > th:first-child").all()
            lines = {name.evaluate("(name) => getComputedStyle(name).borderTopWidth") for name in names}
            assert lines == {"1px"}


def test_a_run_in_which_nothing_happened_opens(browser: Browser, tmp_path: Path) -> None:
    write_report(write(tables(jobs=[]), tmp_path))
    with opened(browser, tmp_path) as page:
        expect(page.locator("#chosen")).to_have_text("All 0 jobs")


def test_jobs_without_gpus_are_a_size_of_their_own(browser: Browser, tmp_path: Path) -> None:
    jobs = [
        {"job_id": name, "gpus": gpus, "submit_seconds": 0.0, "finish_seconds": 9.0}
        for name, gpus in (("cpus", 0.0), ("part", 0.5), ("whole", 1.0))
    ]
    held = [
        {
            "job_id": name,
            "node": "node-0",
            "gpu_ids": ids,
            "gpus": gpus,
            "from_seconds": 0.0,
            "to_seconds": 9.0,
        }
        for name, ids, gpus in (("cpus", [], 0.0), ("part", [0], 0.5), ("whole", [1], 1.0))
    ]
    write(tables(jobs, held), tmp_path)
    write_report(tmp_path, ["html"])
    sizes = ["part of a GPU", "1 GPU"]
    with opened(browser, tmp_path) as page:
        assert [row["scheduler"] for row in rows(page, "jct-by-size")] == ["no GPU", *sizes]
        assert page.get_by_label("Size", exact=True).locator("option").all_inner_texts() == [
            "all",
            "no GPU",
            *sizes,
        ]
        # No lane of a node is theirs.
        assert page.locator("#legend > span").all_inner_texts() == sizes
        assert page.locator("#legend .chip").first.get_attribute("class") == "chip shade-1"


def test_a_long_name_of_a_job_stays_in_its_cell(browser: Browser, tmp_path: Path) -> None:
    name = "x" * 80
    job = {"job_id": name, "submit_seconds": 0.0, "wait_seconds": 1.0, "finish_seconds": 9.0}
    row = {"job_id": name, "node": "node-0", "from_seconds": 1.0, "to_seconds": 9.0}
    write(tables([job], [row]), tmp_path)
    write_report(tmp_path, ["html"])
    with opened(browser, tmp_path, **PHONE) as page:
        button = page.locator("#extremes button")
        expect(button).to_have_text(name)
        assert button.evaluate(
            "one => one.getBoundingClientRect().right <= one.closest('th').getBoundingClientRect().right"
        )


@pytest.mark.parametrize("how", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("several", [True, False])
def test_no_wide_letters_of_a_chart_are_cut(
    browser: Browser, tmp_path: Path, how: Any, several: bool
) -> None:
    """In a heading where there are several runs, beside or above a bar where there is one."""
    tenants = ["MACHINE-LEARNING", "W" * 60]
    runs = [scheduled(order, jobs=20, tenants=tenants) for order in ("fifo", "las")]
    folder = write_comparison(runs, tmp_path) if several else write(runs[0], tmp_path)
    write_report(folder, ["html"])
    with opened(browser, folder, **how) as page:
        drawn = svg(page, "wait-by-tenant")
        outside = page.evaluate(
            """drawn => {
              const place = document.body.appendChild(document.createElement("div"));
              place.innerHTML = drawn;
              const room = place.firstChild.getBoundingClientRect();
              return [...place.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()])
                .filter(([, box]) => box.left < room.left - 0.5 || box.right > room.right + 0.5)
                .map(([words]) => words);
            }""",
            drawn,
        )
    assert outside == []
    assert "W" * 60 in "".join(re.findall(r">([^<]+)<", drawn))
