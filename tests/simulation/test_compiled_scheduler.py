"""The compiled loop and scheduler leave the same records as the Python-level ones, whatever they run on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import fields, replace
from random import Random
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muster.cluster.ledger_arrays import ROWS_USED, Books
from muster.schedulers import registry
from muster.schedulers.backfill.reserving import ReservingScheduler
from muster.schedulers.composed import Composed
from muster.simulation import Failures, Options, Run, simulate
from muster.simulation.engine import Progress, SimulationEngine
from muster.workload.trace import Trace
from tests.building import cluster_of, job, jobs_of
from tests.simulation.cases import just_enough

ORDERS = ("fifo", "fifo-strict", "sjf", "smallest", "priority", "edf", "srtf", "srsf", "las")
ALLOCATIONS = ("proportional", "requested")
PLACEMENTS = ("pack", "first-fit", "consolidate", "spread", "yarn")


class InPython(Composed):
    """The same scheduler, but no part that is known to be compiled."""


def in_python(scheduler: Any) -> InPython:
    return InPython(**{field.name: getattr(scheduler, field.name) for field in fields(Composed)})


def frames(run: Run) -> tuple[pl.DataFrame, ...]:
    return run.record.jobs, run.record.allocations, run.record.decisions, run.record.reasons


def random_trace(random: Random, most_gpus: int) -> Trace:
    return jobs_of(*random_rows(random, most_gpus))


def random_rows(random: Random, most_gpus: int) -> list[dict[str, Any]]:
    shapes = [gpus for gpus in (1, 1, 2, 3, 4, 6, 8) if gpus <= most_gpus]
    rows, now = [], 0.0
    with_requests = random.random() < 0.3
    for _ in range(random.randint(10, 40)):
        now += random.choice([0.0, 0.5, 3.0, 10.0])
        gpus = random.choice(shapes)
        row = job(now, random.choice([1.0, 7.5, 20.0, 60.0, 61.0, 200.0, 320.0]), gpus=gpus)
        row["tenant"] = random.choice(["a", "a", "b", "c"])
        row["model"] = random.choice(["", "resnet18", "gnmt", "alexnet"])
        row["priority"] = random.choice([0.0, 0.0, 1.0])
        row["preemptible"] = random.random() < 0.9
        row["min_runtime_seconds"] = random.choice([0.0, 0.0, 15.0])
        row["deadline_seconds"] = random.choice([None, now + 30.0, now + 300.0])
        row["time_limit_seconds"] = random.choice([None, None, 40.0])
        row["restart_cost_seconds"] = random.choice([None, None, 2.0])
        if gpus == 1 and random.random() < 0.2:
            row["gpu_milli"] = random.choice([250, 400, 500])
        if with_requests and random.random() < 0.5:
            row["cpus"] = random.choice([0.5, 1.0, 2.5]) * gpus
            row["memory_gb"] = 10.0 * gpus
        rows.append(row)
    return rows


def random_options(random: Random) -> Options:
    return Options(
        round_seconds=random.choice([None, None, 10.0, 30.0]),
        restart_cost_seconds=random.choice([0.0, 0.0, 1.5, 5.0]),
        resize_restarts=random.random() < 0.3,
        release_seconds_per_gpu=random.choice([0.0, 0.0, 0.7]),
        failures=random.choice([None, None, Failures(150.0, 20.0)]),
        checkpoint_seconds=random.choice([10.0, 100.0]),
        end_at_limit=random.random() < 0.5,
        knowledge=random.choice(["oracle", "oracle", "none", "noisy:0.5"]),
        network="none",
        measure=random.choice([None, None, (2, 9)]),
        skip_impossible=True,
        seed=random.randint(0, 99),
    )


def random_quota(random: Random) -> dict[str, str]:
    most = {"limits": "a:3,b:8", "guaranteed": "a:2,c:4", "weights": "a:2,b:0.5"}
    return {name: value for name, value in most.items() if random.random() < 0.6}


def random_scheduler(random: Random, order: str) -> Composed:
    given = {"preemptive": random.choice(["true", "false"])} if random.random() < 0.4 else {}
    if order == "las":
        given["quantum_seconds"] = random.choice(["7", "300"])
        if random.random() < 0.4:
            given["queues"] = "20,80"
    if random.random() < 0.2:
        given["strict"] = "true"
    name = f"{order}+{random.choice(ALLOCATIONS)}+{random.choice(PLACEMENTS)}"
    if random.random() < 0.4:
        given["promote_after_seconds"] = random.choice(["5", "60", "300"])
        given["promote_for_good"] = random.choice(["true", "false", "false"])
    if random.random() < 0.4:
        name += "+quota"
        given |= random_quota(random)
    scheduler = registry.build(name, given)
    assert isinstance(scheduler, Composed)
    return scheduler


@pytest.mark.parametrize("order", ORDERS)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
@example(seed=8342798)  # edf: a job without a place in the first of two admissions, not in the second
def test_a_run_is_the_same_as_at_the_python_level(order: str, seed: int) -> None:
    random = Random(seed)
    sizes = [random.choice([1, 2, 4, 8]) for _ in range(random.randint(1, 6))]
    cluster = cluster_of(*sizes, racks=min(len(sizes), random.choice([1, 2])))
    trace, options = random_trace(random, max(sizes)), random_options(random)
    scheduler = random_scheduler(random, order)
    compiled, python = (simulate(trace, cluster, one, options) for one in (scheduler, in_python(scheduler)))
    for one, other in zip(frames(compiled), frames(python), strict=True):
        assert one.equals(other)
    assert compiled.unfinished == python.unfinished


class BackfillInPython(ReservingScheduler):
    """The same scheduler, but each decision is made from scratch."""


def random_backfill(random: Random, order: str) -> ReservingScheduler:
    given = {}
    for name, values in (
        ("reservations", ("1", "2", "4")),
        ("depth", ("3", "20")),
        ("window_seconds", ("30", "300")),
        ("resolution_seconds", ("10",)),
        ("interval_seconds", ("15",)),
        ("moving", ("1", "3")),
    ):
        if random.random() < 0.25:
            given[name] = random.choice(values)
    rule = random.choice(["easy", "easy", "conservative"])
    name = f"{order}+{rule}+{random.choice(ALLOCATIONS)}+{random.choice(['pack', 'consolidate'])}"
    scheduler = registry.build(name, given)
    assert isinstance(scheduler, ReservingScheduler)
    return scheduler


@pytest.mark.parametrize("order", ORDERS)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_backfill_kept_up_is_backfill_from_scratch(order: str, seed: int) -> None:
    random = Random(seed)
    sizes = [random.choice([1, 2, 4, 8]) for _ in range(random.randint(1, 6))]
    rows = random_rows(random, max(sizes))
    for row in rows:
        row.pop("gpu_milli", None)
        row["time_limit_seconds"] = random.choice([None, 30.0, 100.0, 500.0, random.uniform(1, 400)])
    trace, options = jobs_of(*rows), random_options(random)
    scheduler = random_backfill(random, order)
    from_scratch = BackfillInPython(scheduler.order, scheduler.parts, scheduler.rule)
    runs = [simulate(trace, cluster_of(*sizes), one, options) for one in (scheduler, from_scratch)]
    for one, other in zip(*map(frames, runs), strict=True):
        assert one.equals(other)
    assert runs[0].unfinished == runs[1].unfinished


@pytest.fixture
def python_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a decision at the Python level fail."""

    def decide(*_: object) -> None:
        raise AssertionError("a decision was made in Python")

    monkeypatch.setattr(Composed, "decide", decide)
    monkeypatch.setattr(SimulationEngine, "_decide", decide)


@pytest.mark.usefixtures("python_fails")
@pytest.mark.parametrize("given", [{}, {"limits": "a:2"}, {"promote_after_seconds": "5"}], ids=str)
@pytest.mark.parametrize("order", ORDERS)
def test_a_shipped_order_runs_compiled(order: str, given: dict[str, str]) -> None:
    """Otherwise the comparison above compares nothing."""
    trace = jobs_of(*(job(at, 10.0 + at) for at in range(9)))
    scheduler = registry.build(f"{order}+quota" if "limits" in given else order, given)
    assert simulate(trace, cluster_of(2, 1), scheduler, Options()).unfinished == 0


@pytest.mark.usefixtures("python_fails")
def test_a_node_without_gpus_has_no_share_to_exceed() -> None:
    """A run stays compiled where each job requests at most the share of a GPU, on nodes that have one."""
    cluster = cluster_of(2, 1)
    small = replace(cluster.nodes[1], gpus=0, gpus_per_island=1, cpus=1.0)
    cluster = replace(cluster, nodes=(cluster.nodes[0], small))
    trace = jobs_of(*(job(at, 10.0 + at, cpus=2.0, memory_gb=10.0) for at in range(9)))
    assert simulate(trace, cluster, registry.build("fifo"), Options()).unfinished == 0


@pytest.mark.parametrize("order", ["fifo", "sjf", "las"])
def test_jobs_that_ended_ask_for_no_decision(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a change of CPUs restarts jobs, the end of a job's protection asks for one: only while it runs."""
    asked: list[int] = []

    class Counting(SimulationEngine):
        def run(self, progress: Callable[[Progress], None] | None = None) -> None:
            super().run(progress)
            asked.append(len(self.decision_seconds))

    monkeypatch.setattr(sys.modules["muster.simulation.simulate"], "SimulationEngine", Counting)
    trace = jobs_of(*[job(0, 5000)] * 3, job(0, 5000, gpus=4), job(50, 100), job(60, 500, gpus=8))
    for scheduler in (registry.build(order), in_python(registry.build(order))):
        simulate(trace, cluster_of(8), scheduler, Options(restart_cost_seconds=60.0, resize_restarts=True))
    assert asked[0] == asked[1]


@pytest.fixture
def books(monkeypatch: pytest.MonkeyPatch) -> list[Books]:
    """The books of each run at its end; they have just the room that was reserved."""
    kept: list[Books] = []

    class Measured(SimulationEngine):
        def run(self, progress: Callable[[Progress], None] | None = None) -> None:
            super().run(progress)
            kept.append(self.ledger.books)

    monkeypatch.setattr(sys.modules["muster.simulation.simulate"], "SimulationEngine", Measured)
    monkeypatch.setattr("muster.cluster.ledger._grown", just_enough)
    return kept


@pytest.mark.parametrize(
    ("name", "compiled"),
    [("priority+spread", True), ("priority+spread", False), ("priority+least-loss", False)],
)
def test_there_is_room_for_what_is_put_back_in_vain(name: str, compiled: bool, books: list[Books]) -> None:
    """Stopped gangs of 100 rows look for their places while others hold every GPU, a row each."""
    trace = jobs_of(*(job(100 * at, 1000, gpus=100, priority=1.0 * at) for at in (0, 0, 1, 1)))
    scheduler = registry.build(name)
    simulate(trace, cluster_of(*[2] * 100), scheduler if compiled else in_python(scheduler), Options())
    assert books[0].totals[ROWS_USED] <= len(books[0].rows)


@pytest.mark.parametrize("allocation", ["tune", "tune-plus", "joint"])
def test_there_is_room_for_many_jobs_without_gpus(allocation: str, books: list[Books]) -> None:
    """More of them start at once on one node than it and its GPUs have rows."""
    trace = jobs_of(job(0, 10), *(job(0, 10, gpus=0, cpus=0.01, memory_gb=0.01) for _ in range(70)))
    simulate(trace, cluster_of(2), registry.build(f"las+{allocation}"), Options())
    assert books[0].totals[ROWS_USED] <= len(books[0].rows)
