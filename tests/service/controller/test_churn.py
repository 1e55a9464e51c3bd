"""Where an engine cannot resize, jobs start hardly more often than where it can."""

from pathlib import Path

import pytest

from muster.service.engines.fake import FakeEngine
from tests.service.controller.churn import (
    SCHEDULERS,
    StiffFakeEngine,
    ended_world,
    first_grants,
    mean_jct_of,
    outcome_of,
    starts_of,
)

JOBS = 16


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_an_engine_without_resizing_churns_no_more(tmp_path: Path, scheduler: str) -> None:
    resizing, stiff = (
        outcome_of(tmp_path / engine.__name__, scheduler, engine, JOBS, seed=0)
        for engine in (FakeEngine, StiffFakeEngine)
    )
    assert starts_of(stiff) <= 1.1 * starts_of(resizing)
    if scheduler == "fifo+tune":
        assert [row.epoch for row in stiff] == [1] * JOBS


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_cpus_fixed_at_the_first_grant_are_no_better(tmp_path: Path, scheduler: str) -> None:
    """Jobs take as long in all as if every later start took the CPUs and memory of the first one."""
    stiff = outcome_of(tmp_path / "stiff", scheduler, StiffFakeEngine, JOBS, seed=0)
    world = ended_world(tmp_path / "fixed", first_grants(scheduler), StiffFakeEngine, JOBS, seed=0)
    fixed = [row for row in world.store.jobs() if row.epoch]
    held: dict[int, set[tuple[float, float]]] = {}
    for interval in world.store.allocation_intervals():
        here = interval.allocation
        each = round(here.cpus / here.gpus, 4), round(here.memory_gb / here.gpus, 4)
        held.setdefault(interval.job, set()).add(each)
    world.store.close()
    assert [len(amounts) for amounts in held.values()] == [1] * JOBS
    assert mean_jct_of(stiff) <= 1.05 * mean_jct_of(fixed)
    if scheduler == "fifo+tune":
        assert mean_jct_of(stiff) == mean_jct_of(fixed)
