"""What the pages show, and to whom."""

from __future__ import annotations

import html
import re
import shlex
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import text, update

from muster.cluster.ledger import NodeAllocation
from muster.formatting import duration
from muster.gpu_use import GpuUse
from muster.schedulers.registry import build
from muster.service.daemon_status import RefusedStart
from muster.service.interval_ends import IntervalEnd
from muster.service.pages.views import ENDS
from muster.service.shown import gpus_of
from muster.service.store.rows import (
    ASKED_TO_STOP,
    AllocationInterval,
    Phase,
    State,
    StopReason,
    StoreChanges,
    Submission,
)
from muster.service.store.tables import JOBS

from ..serving import Serving, a_request
from .conftest import LogIn

PAGES = ("/", "/nodes", "/jobs", "/jobs/1", "/timeline", "/users")


def run_job(api: Serving, job: int, node: str = "node-0", gpus: tuple[int, ...] = (0, 1)) -> None:
    """Let a job hold GPUs, as the controller notes it."""
    changes = StoreChanges()
    changes.job(job, state=State.RUNNING, epoch=1, first_start=1.0, last_start=1.0, reason="placed")
    held = NodeAllocation[str](node=node, gpu_ids=gpus, milli=1000, cpus=2.0, memory_gb=4.0)
    changes.opened.append(AllocationInterval(job, 1, held, 1.0))
    changes.event(job, 1.0, "started", node)
    with api.store.claimed():
        api.store.commit(changes)


@pytest.mark.parametrize(
    ("rank", "box", "command"),
    [
        (2, "logs?rank=2", "muster logs --rank 2 1"),
        (0, "logs?rank=0", "muster logs 1"),
        (None, "logs?rank=0", "muster logs 1"),
    ],
)
def test_output_is_of_the_process_that_failed(
    api: Serving, log_in: LogIn, rank: int | None, box: str, command: str
) -> None:
    """Whatever the message says of it."""
    api.store.submit([Submission("ann", a_request())])
    failed = {"state": State.FAILED, "finished": 1.0, "message": "killed by the memory limit of 2 GB"}
    api.store.commit(StoreChanges(jobs={1: {**failed, "failed_rank": rank}}))
    page = api.ask("GET", "/jobs/1", headers=log_in("ann"), tcp=True).body.decode()
    assert f'data-log="/v1/jobs/1/{box}"' in page
    assert f"<code>{command}</code>" in page
    why = api.ask("GET", "/v1/jobs/1/why", headers=log_in("ann"), tcp=True).json
    assert why["sentences"][-1] == f"What it wrote: `{command}`."


@pytest.mark.parametrize("path", PAGES)
def test_pages_need_a_login(api: Serving, path: str) -> None:
    answer = api.ask("GET", path, tcp=True)
    assert answer.status == 303
    assert answer.headers["location"] == f"/login?to={path.replace('/', '%2F')}"


@pytest.mark.parametrize("path", [*PAGES, "/login", "/static/live.js", "/static/colours.css"])
def test_pages_trust_nothing_from_elsewhere(api: Serving, log_in: LogIn, path: str) -> None:
    api.store.submit([Submission("ann", a_request())])
    answer = api.ask("GET", path, headers=log_in("ann"), tcp=True)
    assert answer.status == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    if "html" in answer.headers["content-type"]:
        text = answer.body.decode()
        assert not re.search(r"\sstyle=|\son[a-z]+=|<script(?![^>]*\ssrc=)|<style", text)
        assert not re.search(r"(src|href)=\"(?!/|#|data:,)", text)


def test_job_of_another_user_is_not_found(api: Serving, log_in: LogIn) -> None:
    (job,) = api.store.submit([Submission("bob", a_request(name="secret-name"))])
    run_job(api, job)
    ann = log_in("ann")
    for path in (f"/jobs/{job}", f"/jobs/{job}/why", f"/v1/jobs/{job}/resubmit"):
        method = "POST" if path.startswith("/v1") else "GET"
        assert api.ask(method, path, headers=ann, tcp=True).status == 404
    for path in (
        "/",
        "/nodes",
        "/jobs",
        "/timeline",
        "/users",
        "/v1/jobs:search",
        "/v1/timeline?since=0&until=9e9",
    ):
        shown = api.ask("GET", path, headers=ann, tcp=True).body.decode()
        assert "secret-name" not in shown
        assert "bob" not in shown


def test_page_of_a_running_job_says_what_more_would_bring(api: Serving, log_in: LogIn) -> None:
    (mine,) = api.store.submit([Submission("ann", a_request(model="resnet18"))])
    run_job(api, mine, gpus=(0,))
    api.store.commit(StoreChanges(jobs={mine: {"phase": Phase.RUNNING}}))
    ann = log_in("ann")
    assert (
        f'data-part="/jobs/{mine}/why"'
        in api.ask("GET", f"/jobs/{mine}", headers=ann, tcp=True).body.decode()
    )
    shown = api.ask("GET", f"/jobs/{mine}/why", headers=ann, tcp=True).body.decode()
    assert "<p>It has 1 GPU because its owner asks for exactly that.</p>" in shown
    assert "<p>With 10 GB more memory it would be" in shown
    said = api.ask("GET", f"/v1/jobs/{mine}/why", headers=ann, tcp=True).json["sentences"]
    shown = shown.replace("&#39;", "&#x27;")
    assert all(f"<p>{html.escape(sentence)}</p>" in shown for sentence in said[1:])


def test_page_of_a_held_job_says_why_it_waits(api: Serving, log_in: LogIn) -> None:
    (job,) = api.store.submit([Submission("ann", a_request(held=True))])
    ann = log_in("ann")
    shown = api.ask("GET", f"/jobs/{job}", headers=ann, tcp=True).body.decode()
    assert ("<h2>Why it waits</h2>" in shown, "Why it has what it has" in shown) == (True, False)
    why = api.ask("GET", f"/jobs/{job}/why", headers=ann, tcp=True).body.decode()
    assert (
        f"<p>Job {job} (job) is held; it competes again after <code>muster release {job}</code>.</p>" in why
    )


def test_commands_in_messages_are_code_and_the_rest_is_text(api: Serving, log_in: LogIn) -> None:
    (job,) = api.store.submit([Submission("ann", a_request())])
    api.store.commit(StoreChanges(jobs={job: {"message": "`muster <i>` not `<b>`"}}))
    for path in ("/jobs", f"/jobs/{job}"):
        shown = api.ask("GET", path, headers=log_in("ann"), tcp=True).body.decode()
        assert "<code>muster &lt;i&gt;</code> not `&lt;b&gt;`" in shown, path


def test_page_of_a_job_shows_its_command_as_a_shell_takes_it(api: Serving, log_in: LogIn) -> None:
    asked = a_request(command=("sh", "-c", "echo '<b>'"), preemptible=False, environment={"TOKEN": "secret"})
    (job,) = api.store.submit([Submission("ann", asked)])
    shown = api.ask("GET", f"/jobs/{job}", headers=log_in("ann"), tcp=True).body.decode()
    facts = {name: html.unescape(value) for name, value in re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", shown)}
    assert facts["command"] == shlex.join(asked.command)
    assert facts["preemptible"] == "no"
    assert "<b>" not in shown
    assert "secret" not in shown


def test_page_of_a_job_says_units_and_resizes(api: Serving, log_in: LogIn) -> None:
    """A job that was resized once has two stretches and one start."""
    asked = a_request(model="resnet18", time_limit_seconds=5400.0, memory_gb=1.5)
    (job,) = api.store.submit([Submission("ann", asked)])
    run_job(api, job)
    larger = NodeAllocation[str](node="node-0", gpu_ids=(0, 1, 2), milli=1000, cpus=2.0, memory_gb=4.0)
    resized = StoreChanges(closed={(job, 1): 5.0}, opened=[AllocationInterval(job, 1, larger, 5.0)])
    with api.store.claimed():
        api.store.commit(resized)
    shown = api.ask("GET", f"/jobs/{job}", headers=log_in("ann"), tcp=True).body.decode()
    facts = dict(re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", shown))
    assert (facts["time limit"], facts["memory"]) == ("1.50 h", "1.50 GB")
    assert facts["Ran in earlier starts"].endswith("; 1 start in all, resized 1 time")
    assert shown.split('<table id="starts">')[1].split("</table>")[0].count('<th scope="row"') == 2


def test_page_of_users_groups_digits(api: Serving, log_in: LogIn) -> None:
    api.store.submit([Submission("ann", a_request())] * 1001)
    shown = api.ask("GET", "/users", headers=log_in("ann"), tcp=True).body.decode()
    assert re.findall('<td class="figure" data-label="(?:Waiting|Jobs)">(1.?001)</td>', shown) == [
        "1,001",
        "1,001",
    ]


def test_pages_without_jobs_say_so(api: Serving, log_in: LogIn) -> None:
    ann = log_in("ann")

    def shown(path: str) -> str:
        return api.ask("GET", path, headers=ann, tcp=True).body.decode()

    assert "No job has been submitted yet" in shown("/jobs")
    (job,) = api.store.submit([Submission("ann", a_request())])
    assert "No job matches." in shown("/jobs?text=nothing")
    assert "1 job in all, none on this page." in shown("/jobs?offset=100")
    assert "Nothing printed yet." in shown(f"/jobs/{job}")
    api.store.commit(StoreChanges(jobs={job: {"state": State.CANCELLED, "finished": 1.0}}))
    assert "It has printed nothing." in shown(f"/jobs/{job}")


def test_a_browser_is_led_back_from_an_unknown_address(api: Serving, log_in: LogIn) -> None:
    browser = log_in("ann") | {"Accept": "text/html,*/*"}
    for path, status, said in (
        ("/nosuch", 404, "There is no page at /nosuch."),
        ("/nosuch/<b>", 404, "There is no page at /nosuch/&lt;b&gt;."),
        ("/jobs/x", 422, "found &#39;x&#39;"),
        ("/jobs/9", 404, "There is no job 9"),
        ("/jobs?stat=waiting", 422, "there is no such parameter"),
    ):
        answer = api.ask("GET", path, headers=browser, tcp=True)
        page = answer.body.decode()
        assert (answer.status, answer.headers["content-type"]) == (status, "text/html; charset=utf-8"), path
        assert said in page, path
        assert '<a href="/">To the overview</a>' in page, path
    stranger = api.ask("GET", "/nosuch", headers={"Accept": "text/html"}, tcp=True)
    assert (stranger.status, stranger.headers["location"]) == (303, "/login?to=%2Fnosuch")
    for path, headers in (("/v1/nosuch", browser), ("/v1/jobs/9", browser), ("/nosuch", log_in("ann"))):
        answer = api.ask("GET", path, headers=headers, tcp=True)
        assert (answer.status, answer.headers["content-type"]) == (404, "application/json"), path


def test_a_browser_gets_a_page_where_the_daemon_fails(api: Serving, log_in: LogIn) -> None:
    (job,) = api.store.submit([Submission("ann", a_request())])
    headers = log_in("ann")
    browser = headers | {"Accept": "text/html,*/*"}
    with api.store._database.writing() as connection:
        connection.execute(update(JOBS).values(request="no JSON"))
    for path, sent, kind in (
        (f"/jobs/{job}", browser, "text/html; charset=utf-8"),
        (f"/jobs/{job}", headers, "application/json"),
        (f"/v1/jobs/{job}", browser, "application/json"),
    ):
        answer = api.ask("GET", path, headers=sent, tcp=True)
        assert (answer.status, answer.headers["content-type"]) == (500, kind)
        assert "the daemon's log has the details" in html.unescape(answer.body.decode())
    with api.store._database.writing() as connection:
        connection.execute(text("ALTER TABLE sessions RENAME TO gone"))
    answer = api.ask("GET", "/jobs", headers=browser, tcp=True)
    page = answer.body.decode()
    assert (answer.status, answer.headers["content-type"]) == (503, "text/html; charset=utf-8")
    assert answer.headers["retry-after"] == "1"
    assert "The store cannot be used" in page
    assert '<meta http-equiv="refresh" content="5">' in page
    assert api.ask("GET", "/jobs", headers=headers, tcp=True).json["error"]["status"] == 503


def test_page_of_a_job_is_of_one_moment(api: Serving, log_in: LogIn, monkeypatch: pytest.MonkeyPatch) -> None:
    (job,) = api.store.submit([Submission("ann", a_request())])
    read = api.store.allocation_intervals

    def read_while_it_starts(*asked: Any, **how: Any) -> Any:
        with ThreadPoolExecutor(1) as controller:
            controller.submit(run_job, api, job).result()
        return read(*asked, **how)

    ann = log_in("ann")
    with monkeypatch.context() as patched:
        patched.setattr(api.store, "allocation_intervals", read_while_it_starts)
        shown = api.ask("GET", f"/jobs/{job}", headers=ann, tcp=True).body.decode()
    assert ('class="badge queued"' in shown, "on node-0" in shown, "started" in shown) == (True, False, False)
    after = api.ask("GET", f"/jobs/{job}", headers=ann, tcp=True).body.decode()
    assert ('class="badge running"' in after, "on node-0" in after, "started" in after) == (True, True, True)


def test_page_of_a_waiting_job_says_once_when_it_starts(api: Serving, log_in: LogIn) -> None:
    running, waiting = api.store.submit([Submission("ann", a_request(steps=100)) for _ in range(2)])
    run_job(api, running, gpus=(0,))
    ann = log_in("ann")
    path = f"/jobs/{waiting}/why"
    while "data-again" in (shown := api.ask("GET", path, headers=ann, tcp=True).body.decode()):
        assert shown.count("When it starts is being computed") == 1
    said = api.ask("GET", f"/v1{path}", headers=ann, tcp=True).json
    assert shown.count(f"It is expected to start in {duration(said['start']['median_seconds'])} (1 ") == 1


def test_pages_say_why_the_engine_does_not_start_a_job(api: Serving, log_in: LogIn) -> None:
    (job,) = api.store.submit([Submission("ann", a_request())])
    before = api.ask("GET", "/", headers=log_in("ann"), tcp=True).body.decode()
    assert "no such account" not in before
    api.status.refusals = {job: RefusedStart("no such account", 1, 0.0)}
    for path in ("/", "/jobs", f"/jobs/{job}"):
        shown = api.ask("GET", path, headers=log_in("ann"), tcp=True).body.decode()
        assert f"{api.status.engine}: no such account; tried once" in shown, path


def test_map_shows_which_gpus_are_held(api: Serving, log_in: LogIn) -> None:
    mine, other = api.store.submit([Submission("ann", a_request()), Submission("bob", a_request())])
    run_job(api, mine, gpus=(0, 1))
    run_job(api, other, gpus=(3,))
    (first, _) = api.ask("GET", "/v1/nodes", headers=log_in("ann"), tcp=True).json["nodes"]
    assert first["gpu_jobs"] == [[mine], [mine], [], [None]]
    shown = api.ask("GET", "/nodes", headers=log_in("ann"), tcp=True).body.decode()
    assert shown.count(f'href="/jobs/{mine}"') == 2
    assert "1 job of other users" in shown


def test_map_shows_how_busy_gpus_are(api: Serving, log_in: LogIn) -> None:
    (job,) = api.store.submit([Submission("ann", a_request())])
    run_job(api, job, gpus=(0, 1, 2, 3))

    def shown(by: str) -> str:
        return api.ask("GET", f"/nodes?by={by}", headers=log_in("ann"), tcp=True).body.decode()

    assert "is not known: no driver says so" in shown("use")
    assert ">use</option>" not in shown("job")
    api.status.gpu_use = {"node-0": (GpuUse(0.97, 61.0), GpuUse(0.2, 3.0), GpuUse(0.0, 0.5), None)}
    (first, second) = api.ask("GET", "/v1/nodes", headers=log_in("ann"), tcp=True).json["nodes"]
    assert first["gpu_use"][1:] == [
        {"busy": 0.2, "memory_gb": 3.0},
        {"busy": 0.0, "memory_gb": 0.5},
        None,
    ]
    assert second["gpu_use"] == []
    page = shown("use")
    for gpu, colour, words in (
        (0, "c3", ", 97 % busy, 61 GB taken"),
        (1, "c1", ", 20 % busy, 3 GB taken"),
        (2, "c2", ", 0 % busy, 0.5 GB taken"),
        (3, "others", ""),
    ):
        cell = f'class="cell busy {colour}" href="/jobs/{job}" title="GPU {gpu}: job {job} '
        assert re.search(re.escape(cell) + r'[^",]*' + re.escape(words) + '"', page), (gpu, page)
    assert ">use</option>" in shown("job")


def some_tenants(api: Serving) -> list[int]:
    """Of 8 GPUs a is guaranteed 4 and holds 1, b is guaranteed 2 and holds 4; a job without a tenant waits."""
    api.status.policy = build("quota+las", {"guaranteed": "a:4,b:2"})
    wanted = (("ann", "a"), ("bob", "b"), ("ann", "b"), ("bob", None))
    jobs = api.store.submit([Submission(user, a_request(tenant=tenant)) for user, tenant in wanted])
    run_job(api, jobs[0], "node-0", (0,))
    run_job(api, jobs[1], "node-0", (1, 2, 3))
    run_job(api, jobs[2], "node-1", (0,))
    return jobs


def test_tenants_borrow_from_each_other(api: Serving, log_in: LogIn) -> None:
    some_tenants(api)
    root = log_in("root")
    nameless, a, b = api.ask("GET", "/v1/users", headers=root, tcp=True).json["tenants"]
    assert (nameless["tenant"], nameless["queued"], nameless["held_gpus"]) == ("", 1, 0.0)
    assert (a["tenant"], a["running"], a["held_gpus"], a["share_gpus"]) == ("a", 1, 1.0, 4.0)
    assert (b["held_gpus"], b["share_gpus"], b["share"]) == (4.0, 2.0, "guaranteed")
    assert [one["borrows"] for one in (nameless, a)] == [[], []]
    assert b["borrows"] == [{"lender": None, "gpus": 2.0}]
    page = api.ask("GET", "/users", headers=root, tcp=True).body.decode()
    assert "Tenant b borrows 2 GPUs: 2 unclaimed." in page
    assert "4 of 2 guaranteed" in page
    assert "3 below" in page
    api.status.policy = build("quota+las", {"guaranteed": "a:6,b:2"})
    *_, b = api.ask("GET", "/v1/users", headers=root, tcp=True).json["tenants"]
    assert b["borrows"] == [{"lender": "a", "gpus": 2.0}]
    api.status.policy = build("fifo", {})
    shares = api.ask("GET", "/v1/users", headers=root, tcp=True).json["tenants"]
    assert [(one["share"], one["share_gpus"]) for one in shares] == [("equal", 8 / 3)] * 3


def test_users_see_the_tenants_of_their_own_jobs(api: Serving, log_in: LogIn) -> None:
    some_tenants(api)
    a, b = api.ask("GET", "/v1/users", headers=log_in("ann"), tcp=True).json["tenants"]
    assert [(one["tenant"], one["jobs"], one["held_gpus"]) for one in (a, b)] == [
        ("a", 1, 1.0),
        ("b", 1, 1.0),
    ]
    assert b["borrows"] == []
    page = api.ask("GET", "/users", headers=log_in("ann"), tcp=True).body.decode()
    assert "Only your own jobs count here." in page
    assert "borrows" not in page
    assert api.ask("GET", "/v1/users", headers=log_in("eve"), tcp=True).json == {"users": [], "tenants": []}


def test_without_tenants_the_page_has_none(api: Serving, log_in: LogIn) -> None:
    api.store.submit([Submission("ann", a_request())])
    root = log_in("root")
    assert api.ask("GET", "/v1/users", headers=root, tcp=True).json["tenants"] == []
    assert "Tenant" not in api.ask("GET", "/users", headers=root, tcp=True).body.decode()


def test_map_is_coloured_by_tenant(api: Serving, log_in: LogIn) -> None:
    first, second, *_ = some_tenants(api)
    page = api.ask("GET", "/nodes?by=tenant", headers=log_in("root"), tcp=True).body.decode()
    for job, user, tenant, colour in ((first, "ann", "a", "c1"), (second, "bob", "b", "c2")):
        cell = f'class="cell busy {colour}" href="/jobs/{job}" title="GPU '
        words = f": job {job} job of {user}, tenant {tenant}"
        assert re.search(re.escape(cell) + r"\d" + re.escape(words) + '"', page), (job, page)


def test_page_of_a_job_says_its_share_of_a_gpu(api: Serving, log_in: LogIn) -> None:
    (job,) = api.store.submit([Submission("ann", a_request(gpus=1, gpu_share=0.5))])
    shown = api.ask("GET", f"/jobs/{job}", headers=log_in("ann"), tcp=True).body.decode()
    assert "UTC, 0.5 of a GPU" in shown


def test_names_on_gpus_can_be_read(api: Serving) -> None:
    """WCAG 2.1: 4.5 to 1, on the cells of the map and on the bars of the timeline."""
    style, script = (api.ask("GET", f"/static/{name}").body.decode() for name in ("pages.css", "timeline.js"))
    colours = dict(re.findall(r"--((?:on-)?cell(?:-\w+)?): (#\w+);", style))
    text = luminance(colours.pop("on-cell"))
    assert len(colours) == 7
    for colour in colours.values():
        assert (text + 0.05) / (luminance(colour) + 0.05) >= 4.5, colour
    assert 'colour("on-cell")' in script
    assert "colour(`cell-${" in script


def luminance(colour: str) -> float:
    """As WCAG defines it, of `#rgb` or `#rrggbb`."""
    digits = colour[1:] if len(colour) == 7 else "".join(digit * 2 for digit in colour[1:])
    shares = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    light = [one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in shares]
    return sum(part * weight for part, weight in zip(light, (0.2126, 0.7152, 0.0722), strict=True))


def test_search_finds_and_sorts(api: Serving, log_in: LogIn) -> None:
    names = ("bert one", "resnet_50%", "bert two")
    api.store.submit([Submission("ann", a_request(name=name)) for name in names])
    api.store.submit([Submission("bob", a_request(name="bert three"))])
    root = log_in("root")

    def found(query: str, headers: dict[str, str] = root) -> list[str]:
        answer = api.ask("GET", f"/v1/jobs:search?{query}", headers=headers, tcp=True).json
        assert answer["total"] >= len(answer["jobs"])
        return [job["name"] for job in answer["jobs"]]

    assert found("text=BERT") == ["bert three", "bert two", "bert one"]
    assert found("text=BERT", log_in("ann")) == ["bert two", "bert one"]
    assert found("text=_50%25") == ["resnet_50%"]
    assert found("text=2") == ["resnet_50%"]
    assert found("text=bob") == ["bert three"]
    assert found("order=name&descending=false&limit=2") == ["bert one", "bert three"]
    assert found("order=name&descending=false&limit=2&offset=2") == ["bert two", "resnet_50%"]
    assert found("state=running") == []
    assert found("until=1") == []


def test_unknown_order_is_refused(api: Serving, log_in: LogIn) -> None:
    answer = api.ask("GET", "/v1/jobs:search?order=colour", headers=log_in("ann"), tcp=True)
    assert answer.status == 422


def test_job_is_submitted_again_by_its_owner(api: Serving, log_in: LogIn) -> None:
    (job,) = api.store.submit([Submission("ann", a_request(name="again", gpus=2))])
    assert api.ask("POST", f"/v1/jobs/{job}/resubmit", headers=log_in("root"), tcp=True).status == 403
    made = api.ask("POST", f"/v1/jobs/{job}/resubmit", headers=log_in("ann"), tcp=True)
    row = api.store.job(made.json["job_id"])
    assert row is not None
    assert (row.user, row.request) == ("ann", a_request(name="again", gpus=2))


def test_job_that_no_longer_fits_is_not_submitted_again(api: Serving, log_in: LogIn) -> None:
    (job,) = api.store.submit([Submission("ann", a_request(gpus=1000))])
    refused = api.ask("POST", f"/v1/jobs/{job}/resubmit", headers=log_in("ann"), tcp=True)
    assert (refused.status, "found 1000" in refused.message) == (422, True)
    assert [row.id for row in api.store.jobs()] == [job]


def test_numbers_are_those_of_the_api(api: Serving, log_in: LogIn) -> None:
    jobs = api.store.submit([Submission("ann", a_request(gpus=2)) for _ in range(5)])
    run_job(api, jobs[0])
    root = log_in("root")
    counts = api.ask("GET", "/v1/queue", headers=root, tcp=True).json["counts"]
    held = sum(
        node["held_gpus"] for node in api.ask("GET", "/v1/nodes", headers=root, tcp=True).json["nodes"]
    )
    shown = api.ask("GET", "/", headers=root, tcp=True).body.decode()
    sentence = f"{held:g} of 8 GPUs held; {counts['running']} job running, {counts['queued']} jobs waiting."
    assert sentence in shown


def test_overview_says_what_waiting_jobs_ask_for(api: Serving, log_in: LogIn) -> None:
    """The sum over the queue, of all users for each of them."""
    root = log_in("root")
    assert "more asked for" not in api.ask("GET", "/", headers=root, tcp=True).body.decode()
    wanted = ({"gpus": 2}, {"gpus": 3, "cpus": 6.0}, {"gpus": 1, "gpu_share": 0.5, "memory_gb": 12.5})
    first, *_ = api.store.submit([Submission("ann", a_request(**asked)) for asked in wanted] * 2)
    run_job(api, first)
    queue = api.ask("GET", "/v1/queue", headers=root, tcp=True).json
    waiting = [job for job in queue["jobs"] if job["state"] == "queued"]
    assert queue["demand"]["gpus"] == {"amount": sum(map(gpus_of, waiting)), "jobs": len(waiting)}
    for name in ("cpus", "memory_gb"):
        stated = [
            asked[name]
            for job in waiting
            if (asked := api.ask("GET", f"/v1/jobs/{job['job_id']}").json["request"])[name] is not None
        ]
        assert queue["demand"][name] == {"amount": sum(stated), "jobs": len(stated)}
    for user in ("root", "bob"):
        assert api.ask("GET", "/v1/queue", headers=log_in(user), tcp=True).json["demand"] == queue["demand"]
        page = api.ask("GET", "/", headers=log_in(user), tcp=True).body.decode()
        assert "9 more asked for by 5 waiting jobs" in page
        assert "12 more asked for by 2 waiting jobs" in page
        assert "25 more asked for by 2 waiting jobs" in page


def test_timeline_says_how_what_was_held_has_ended(api: Serving, log_in: LogIn) -> None:
    """Of others it says neither whose it was nor how it ended."""
    mine, other = api.store.submit([Submission(user, a_request()) for user in ("ann", "bob")])
    run_job(api, mine, gpus=(0,))
    run_job(api, other, gpus=(1,))
    changes = StoreChanges(closed={(mine, 1): 5.0, (other, 1): 6.0})
    changes.event(mine, 4.0, ASKED_TO_STOP, StopReason.PREEMPTED)
    changes.event(mine, 5.0, "stopped")
    changes.job(mine, state=State.QUEUED)
    changes.job(other, state=State.FAILED, finished=6.0)
    with api.store.claimed():
        api.store.commit(changes)
    run_job(api, mine, gpus=(2,))
    path = "/v1/timeline?since=0&until=9e9"
    for user, ends in (("root", ["preempted", "failed", None]), ("ann", ["preempted", None, None])):
        entries = api.ask("GET", path, headers=log_in(user), tcp=True).json["entries"]
        assert [entry["ended"] for entry in entries] == ends
    page = api.ask("GET", "/timeline", headers=log_in("ann"), tcp=True).body.decode()
    assert "<li>‖ preempted</li>" in page


def test_each_end_of_a_bar_has_its_own_sign() -> None:
    assert set(ENDS) == set(IntervalEnd)
    assert len({sign for sign, _ in ENDS.values()}) == len(ENDS)
