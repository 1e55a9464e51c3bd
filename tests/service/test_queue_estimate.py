"""One forecast a decision, shared by all requests; none waits for one that does not end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muster.schedulers.registry import build
from muster.service.daemon_status import DaemonStatus
from muster.service.forecast import NoForecast, forecast
from muster.service.home import make_home, store_url
from muster.service.queue_estimate import QueueEstimates
from muster.service.store import Store
from muster.service.store.rows import Submission

from .serving import a_request, a_status


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    make_home(tmp_path / "home")
    opened = Store.open(store_url(tmp_path / "home"))
    yield opened
    opened.close()


class Fifo:
    """A scheduler of somebody's own, around fifo."""

    def __init__(self) -> None:
        self._fifo = build("fifo", {})
        self.name = "somebody's"

    def __deepcopy__(self, _: object) -> Fifo:
        return self  # So that a test hears of the calls.

    def initial(self, cluster: Any) -> Any:
        return self._fifo.initial(cluster)

    def decide(self, view: Any, state: Any) -> Any:
        return self._fifo.decide(view, state)

    def describe(self) -> Any:
        return self._fifo.describe()


class Counting(Fifo):
    """Says how many forecasts began: a simulation begins with `initial`."""

    def __init__(self) -> None:
        super().__init__()
        self.simulations = 0

    def initial(self, cluster: Any) -> Any:
        self.simulations += 1
        return super().initial(cluster)


class Endless(Fifo):
    """Never answers, until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = threading.Event()

    def decide(self, view: Any, state: Any) -> Any:
        self.let_go.wait()
        return super().decide(view, state)


class Failing(Fifo):
    """As anybody's code may."""

    def decide(self, view: Any, state: Any) -> Any:
        raise KeyError("job 17 of another user")


def status_of(store: Store, home: Path, policy: Any) -> DaemonStatus:
    store.submit([Submission("ann", a_request(steps=9))] * 3)
    return replace(a_status(home), policy=policy)


def test_a_hundred_requests_share_one_forecast_per_decision(store: Store, tmp_path: Path) -> None:
    scheduler = Counting()
    status = status_of(store, tmp_path, scheduler)
    estimates = QueueEstimates(store, status)

    async def hundred(*jobs: int) -> None:
        reply = await asyncio.gather(*(estimates.with_job(job) for job in jobs * 33))
        assert all(job in estimate.jobs for job, estimate in zip(jobs * 33, reply, strict=True))
        assert all(estimate.expected is not None for estimate in reply)

    async def asks() -> None:
        await hundred(1, 2, 3)
        await hundred(1, 2, 3)
        assert scheduler.simulations == 1
        status.decisions += 1
        await hundred(1, 2, 3)
        assert scheduler.simulations == 2
        # Of a job that came after it nothing is known yet.
        store.submit([Submission("ann", a_request(steps=9))])
        await hundred(1, 2, 4)
        assert scheduler.simulations == 3

    asyncio.run(asks())


def test_no_request_waits_for_a_simulation_that_does_not_end(store: Store, tmp_path: Path) -> None:
    scheduler = Endless()
    estimates = QueueEstimates(store, status := status_of(store, tmp_path, scheduler), patience=0.1)

    async def asks() -> None:
        late = await estimates.with_job(1)
        assert (late.expected, late.obstacle) == (None, "a simulation of the queue takes longer than 0.1 s")
        assert sorted(late.jobs) == [1, 2, 3]
        status.decisions += 1
        assert (await estimates.with_job(1)).obstacle == "an earlier simulation has not ended yet"
        scheduler.let_go.set()
        assert estimates._thinks is not None
        estimates._thinks.join()
        status.decisions += 1
        estimates._patience = 300.0
        assert (await estimates.with_job(1)).expected is not None

    asyncio.run(asks())


def test_a_scheduler_that_fails_is_no_failure_of_the_forecast(store: Store, tmp_path: Path) -> None:
    status = status_of(store, tmp_path, Failing())
    with pytest.raises(NoForecast, match=r"the scheduler fails in a simulation \(KeyError\)"):
        forecast(store.living(), status)
    reply = asyncio.run(QueueEstimates(store, status).with_job(1))
    assert reply.obstacle == "the scheduler fails in a simulation (KeyError)"
