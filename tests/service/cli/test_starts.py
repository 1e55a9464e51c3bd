"""`muster queue --start` and `muster would` against a running API."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.formatting import duration
from muster.service.store.rows import Submission
from tests.cli.conftest import Outcome

from ..serving import Serving, a_request

Muster = Callable[..., Outcome]


@pytest.fixture
def queue(api: Serving, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Two jobs that wait, while the store's clock stands still."""
    moment = api.store.now()
    monkeypatch.setattr(api.store, "now", lambda: moment)
    limited = a_request(gpus=8, time_limit_seconds=300.0)
    return api.store.submit([Submission("ann", limited) for _ in range(2)])


def test_the_queue_has_the_expected_starts(muster: Muster, queue: list[int]) -> None:
    found = muster("queue", "--start", "--draws", "5")
    assert found.status == 0, found.err
    assert "expected start" in found.out
    assert duration(300.0) in found.out
    said = " ".join(found.out.split())
    assert "one simulation, as nothing has to be drawn. 0 jobs running, 2 waiting" in said
    answer = json.loads(muster("queue", "--start", "--draws", "5", "--json").out)
    assert [one["job_id"] for one in answer["jobs"]] == queue
    assert answer["jobs"][1]["start"]["high_seconds"] == pytest.approx(300.0, abs=0.1)
    assert answer["simulated"]["draws"] == 1


def test_would_asks_the_daemon_without_a_log(muster: Muster, queue: list[int]) -> None:
    asked = ("would", "--gpus", "2", "--cpus", "4", "--memory", "8gb", "--time-limit", "1h", "--draws", "5")
    found = muster(*asked)
    assert found.status == 0, found.err
    assert [line.split()[:2] for line in found.out.splitlines()[-2:]] == [["2", "10.0"], ["1", "10.0"]]
    assert len(json.loads(muster("queue", "--json").out)["jobs"]) == len(queue)


def test_would_says_that_a_job_starts_now(muster: Muster, api: Serving) -> None:
    """An empty service: the shapes that are asked about are no jobs of unknown length."""
    found = muster("would", "--gpus", "2")
    lines = [line.split() for line in found.out.splitlines()]
    assert lines[0] == ["No", "job", "runs", "or", "waits,", "and", "none", "has", "ended."]
    assert lines[2:] == [["2", "now", "now"], ["1", "now", "now"]]
    assert json.loads(muster("would", "--gpus", "2", "--json").out)["guessed"] == 0


def test_would_counts_the_jobs_of_unknown_length(muster: Muster, queue: list[int], api: Serving) -> None:
    api.store.submit([Submission("ann", a_request(gpus=8))])
    found = muster("would", "--gpus", "2")
    said = "0 jobs running, 3 waiting; none has ended: 1 job of unknown length counts as 1 h more."
    assert found.out.splitlines()[0] == said
    assert [line.split()[1:] for line in found.out.splitlines()[2:]] == [["1.17", "h", "1.17", "h"]] * 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("would", "--gpus", "9"), "--gpus: found 9"),
        (("would", "--gpus", "1", "--partition", "b"), "--partition: found 'b'; allowed with a log only"),
        (("would", "--gpus", "1", "--at", "3h"), "--at: found '3h'; allowed with a log only"),
        (("would", "--gpus", "1", "--memory", "1000gb"), "--memory: found 1000"),
        (("would", "log.txt", "--gpus", "1"), "--time-limit: a log needs it"),
        (("queue", "--draws", "5"), "--draws: found 5; allowed with --start only"),
        (("queue", "--start", "--watch"), "--start: allowed without --watch"),
    ],
)
def test_mistakes_name_their_flag(
    muster: Muster, api: Serving, arguments: tuple[str, ...], says: str
) -> None:
    found = muster(*arguments)
    assert (found.status, says in found.err) == (2, True), found.err


def test_would_without_log_and_daemon_says_so(muster: Muster, no_daemon: Path) -> None:
    found = muster("would", "--gpus", "1")
    assert (found.status, "muster serve" in found.err) == (1, True), found.err


def test_starts_of_an_empty_queue_are_none(muster: Muster, api: Serving) -> None:
    shown = muster("queue", "--start")
    assert (shown.status, "No job has been submitted yet" in shown.out) == (0, True), shown.err
    assert json.loads(muster("queue", "--start", "--json").out)["simulated"] is None
    api.store.submit([Submission("ann", a_request(held=True))])
    assert json.loads(muster("queue", "--start", "--json").out)["jobs"][0]["start"] is None
