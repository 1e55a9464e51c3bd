"""The read-only tools, asked by the protocol's own client over standard input and output."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from muster.service.store.rows import State, Submission
from tests.service.serving import a_request, serving

pytestmark = pytest.mark.needs_mcp


def asked(tool: str, arguments: Mapping[str, Any], **environment: str) -> tuple[bool, str]:
    """Whether a tool failed, and what it answered."""
    mcp = pytest.importorskip("mcp", reason="the extra mcp is not installed")

    async def ask() -> tuple[bool, str]:
        server = mcp.StdioServerParameters(
            command=sys.executable, args=["-m", "muster", "mcp"], env={**os.environ, **environment}
        )
        async with mcp.Client(server) as assistant:
            listed = await assistant.list_tools()
            assert {one.name for one in listed.tools} == {"queue", "why", "would", "advise", "compare"}
            assert all(one.annotations.read_only_hint for one in listed.tools)
            answer = await assistant.call_tool(tool, dict(arguments))
            return bool(answer.is_error), "".join(part.text for part in answer.content)

    return asyncio.run(ask())


def test_queue_and_why_are_those_of_the_daemon(tmp_path: Path) -> None:
    with serving(tmp_path / "home") as api:
        (job,) = api.store.submit([Submission("ann", a_request(name="asked"))])
        failed, found = asked("queue", {}, MUSTER_URL=api.url)
        assert not failed, found
        assert [row["job_id"] for row in json.loads(found)["jobs"]] == [job]
        failed, found = asked("why", {"job": job}, MUSTER_URL=api.url)
        assert not failed, found
        assert json.loads(found)["job_id"] == job
        failed, found = asked("would", {"gpus": 4}, MUSTER_URL=api.url)
        assert not failed, found
        assert [shape["gpus"] for shape in json.loads(found)["shapes"]] == [4, 2, 1]
        assert api.store.counts()[State.QUEUED] == 1


def test_compare_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("job_id,submit_seconds,gpus,duration_seconds\n1,0,1,100\n2,10,1,100\n")
    monkeypatch.chdir(tmp_path)
    failed, found = asked(
        "compare", {"trace": str(trace), "cluster": "1x1gpu,4cpu,16gb", "schedulers": ["fifo", "srtf"]}
    )
    assert not failed, found
    assert len(json.loads(found)["runs"]) == 2
    assert list(tmp_path.iterdir()) == [trace]


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("compare", {"trace": "none.csv", "cluster": "philly", "schedulers": ["fifo"]}, "none.csv"),
        ("compare", {"trace": "none.csv", "cluster": "philly", "schedulers": ["a.py:B"]}, "found code"),
        ("advise", {"log": "--help", "cluster": "philly"}, "--help"),
        ("why", {"job": -1}, "-1"),
    ],
)
def test_mistakes_are_answered_and_nothing_is_run(tool: str, arguments: dict[str, Any], message: str) -> None:
    failed, found = asked(tool, arguments)
    assert failed
    assert message in found
