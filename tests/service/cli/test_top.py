"""`muster top` and `muster dashboard` show what the API answers."""

from __future__ import annotations

import json

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
    assert "b..b" in shown
    assert max(map(len, shown.splitlines())) <= 80
    seen = json.loads(muster("top", "--json").out)
    assert seen["nodes"] == api.ask("GET", "/v1/nodes").json["nodes"]
    assert [job["job_id"] for job in seen["queue"]["jobs"]] == [first, second]


def test_dashboard_prints_an_address_that_logs_in_once(api: Serving, muster: Muster) -> None:
    address = muster("dashboard", "--no-open").out.split()[-1]
    page, _, code = address.partition("/login#")
    assert page == api.tcp_url
    statuses = [
        api.ask("POST", "/v1/session", {"code": code}, headers=SAME_SITE, tcp=True).status for _ in range(2)
    ]
    assert statuses == [201, 401]
