"""`muster top` and `muster dashboard` show what the API answers."""

from __future__ import annotations

import json
import re
from string import ascii_letters

from muster.cli.top import _letters
from muster.service.store.rows import Submission

from ..pages.conftest import SAME_SITE
from ..pages.test_pages import run_job
from ..serving import Serving, a_request
from .conftest import Muster


def test_top_shows_gpus_and_queue(api: Serving, muster: Muster) -> None:
    first, second = api.store.submit([Submission("ann", a_request(name="held")) for _ in range(2)])
    run_job(api, first, gpus=(0, 3))
    shown = muster("top", "--once").out
    assert "2 of 8 GPUs held; 1 running, 1 queued." in shown
    assert "a..a" in shown
    assert re.search(rf"^ *a +{first} +held ", shown, re.MULTILINE)
    assert max(map(len, shown.splitlines())) <= 80
    seen = json.loads(muster("top", "--json").out)
    assert seen["nodes"] == api.ask("GET", "/v1/nodes").json["nodes"]
    assert [job["job_id"] for job in seen["queue"]["jobs"]] == [first, second]


def test_jobs_26_apart_have_letters_of_their_own(api: Serving, muster: Muster) -> None:
    jobs = api.store.submit([Submission("ann", a_request()) for _ in range(27)])
    for gpu, job in ((0, jobs[0]), (1, jobs[26])):
        run_job(api, job, gpus=(gpu,))
    assert re.search(r" ab\.", muster("top", "--once").out)


def test_once_is_a_screen_and_says_how_many_jobs_are_left(api: Serving, muster: Muster) -> None:
    api.store.submit([Submission("ann", a_request()) for _ in range(70)])
    shown = muster("top", "--once").out
    assert len(shown.splitlines()) <= 24
    listed = len(re.findall(r"^ *\d+ .* queued ", shown, re.MULTILINE))
    assert f"{70 - listed} more jobs of all users: muster queue lists them." in shown


def test_top_shows_the_notices_of_nodes_below_them(api: Serving, muster: Muster) -> None:
    api.status.clocks = {f"node-{number}": 3600.0 for number in range(3)}
    api.store.submit([Submission("ann", a_request()) for _ in range(30)])
    shown = muster("top", "--once").out
    notices = api.ask("GET", "/v1/nodes").json["notices"]
    assert len(notices) == 3
    assert json.loads(muster("top", "--json").out)["notices"] == notices
    words = " ".join(shown.split())
    assert words.index("CPUs held") < words.index(" ".join(notices)) < words.index("more jobs")
    assert len(shown.splitlines()) <= 24


def test_all_jobs_left_out_of_a_whole_answer_are_counted(api: Serving, muster: Muster) -> None:
    api.store.submit([Submission("ann", a_request()) for _ in range(30)])
    shown = muster("top", "--once").out
    listed = len(re.findall(r"^ *\d+ .* queued ", shown, re.MULTILINE))
    assert 5 <= listed < 30
    assert f"{30 - listed} more jobs: muster queue lists them." in shown


def test_jobs_past_the_last_letter_are_marked() -> None:
    letters = _letters([{"gpu_jobs": [[job] for job in range(100, 164)]}])
    assert "".join(text.plain for text in letters.values()) == f"{ascii_letters}0123456789##"


def test_dashboard_prints_an_address_that_logs_in_once(api: Serving, muster: Muster) -> None:
    address = muster("dashboard", "--no-open").out.split()[-1]
    page, _, code = address.partition("/login#")
    assert page == api.tcp_url
    statuses = [
        api.ask("POST", "/v1/session", {"code": code}, headers=SAME_SITE, tcp=True).status for _ in range(2)
    ]
    assert statuses == [201, 401]
