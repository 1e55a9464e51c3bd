"""The engine against the slow simulator of `slow.py`, on hundreds of random small cases."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muster.cluster import Cluster, Node
from muster.simulation import rules_named
from muster.workload.models import Model
from muster.workload.trace import Trace, trace_of
from tests.building import finishes, run
from tests.simulation.reference_simulator import ORDERS, Slow, SlowJob

PACE = Fraction(3, 4)
"""Seconds an iteration of the one model of these tests: divides no round, exact in binary (ties tie)."""

small_nodes = st.lists(st.integers(1, 8), min_size=1, max_size=4)
placements = st.sampled_from(["pack", "consolidate"])


@st.composite
def queues(
    draw: st.DrawFn, nodes: st.SearchStrategy[list[int]] = small_nodes
) -> tuple[list[int], list[SlowJob]]:
    """A cluster and up to twelve jobs, tight enough to queue and round enough to tie."""
    sizes = draw(nodes)
    submit = st.integers(0, 60).map(Fraction)
    jobs = [
        SlowJob(
            number,
            draw(submit),
            min(draw(st.sampled_from([1, 1, 1, 2, 2, 3, 4, 5, 8, 12])), sum(sizes)),
            Fraction(draw(st.integers(1, 50))),
            draw(st.integers(0, 3)),
        )
        for number in range(draw(st.integers(1, 12)))
    ]
    return sizes, jobs


def one_island_each(sizes: list[int]) -> Cluster:
    """Nodes whose GPUs are all neighbours, so that which GPU of a node is taken cannot matter."""
    nodes = tuple(
        Node(f"node{at}", "plain", 0, size, "v100", size, 3.0 * size, 62.5 * size, 0.0625 * size, 1.25)
        for at, size in enumerate(sizes)
    )
    return Cluster("slow", nodes, ("rack",))


def trace_of_slow(jobs: list[SlowJob], work: str, model: Model | None = None) -> Trace:
    columns = {
        "job_id": [str(job.number) for job in jobs],
        "submit_seconds": [float(job.submit) for job in jobs],
        "gpus": [job.gpus for job in jobs],
        "priority": [float(job.priority) for job in jobs],
        "model": [model.name if model else "" for _ in jobs],
        work: [float(job.iterations) for job in jobs],
    }
    return trace_of(columns, "slow", {model.name: model} if model else None)


def expected(jobs: list[SlowJob]) -> list[float]:
    """Finish times by number."""
    return [float(job.finish or -1) for job in sorted(jobs, key=lambda job: job.number)]


@settings(max_examples=20, deadline=None)
@given(case=queues(), placement=placements, restart=st.sampled_from([0, 1, 4]))
@example(case=([8, 2, 2], [SlowJob(0, Fraction(0), 12, Fraction(5))]), placement="consolidate", restart=0)
def test_rounds(case: tuple[list[int], list[SlowJob]], placement: str, restart: int) -> None:
    sizes, jobs = case
    trace, cluster = trace_of_slow(jobs, "duration_seconds"), one_island_each(sizes)
    for order in ORDERS:
        name = f"{order}+proportional+{placement}"
        result = run(trace, cluster, name, round_seconds=10.0, restart_cost_seconds=float(restart))
        slow = Slow(fresh(jobs), sizes, order, gathered=placement == "consolidate", restart=restart)
        assert finishes(result) == pytest.approx(expected(slow.by_rounds(10)), abs=1e-6), order


@settings(max_examples=20, deadline=None)
@given(case=queues(), placement=placements, restart=st.sampled_from([0, 1, 4]))
def test_events(case: tuple[list[int], list[SlowJob]], placement: str, restart: int) -> None:
    sizes, jobs = case
    trace, cluster = trace_of_slow(jobs, "duration_seconds"), one_island_each(sizes)
    for order in ORDERS:
        name = f"{order}+proportional+{placement}"
        quantum = 9 if order == "las" else None
        settings = {"quantum_seconds": "9"} if quantum else None
        result = run(trace, cluster, name, settings, restart_cost_seconds=float(restart))
        slow = Slow(fresh(jobs), sizes, order, gathered=placement == "consolidate", restart=restart)
        assert finishes(result) == pytest.approx(expected(slow.by_events(quantum)), abs=1e-6), order


@settings(max_examples=20, deadline=None)
@given(case=queues(), placement=placements)
def test_whole_iterations_a_round(case: tuple[list[int], list[SlowJob]], placement: str) -> None:
    """Synergy's counting: floor(10 / 0.75) = 13 iterations a round, done at the round's end, all compete."""
    sizes, jobs = case
    model = Model(
        "slow", "image", 1, float(PACE), 3.0, 62.5, (3.0,), (62.5,), ((1.0,),), "made up", "CC0-1.0"
    )
    trace, cluster = trace_of_slow(jobs, "iterations", model), one_island_each(sizes)
    rules = rules_named("synergy-published")
    for order in ("fifo", "srtf", "srsf", "las", "priority"):
        name = f"{order}+proportional+{placement}"
        result = run(
            trace, cluster, name, rules.settings, {model.name: model}, round_seconds=10.0, rules=rules
        )
        slow = Slow(fresh(jobs, PACE), sizes, order, gathered=placement == "consolidate")
        slow.preemptive = True
        assert finishes(result) == pytest.approx(expected(slow.by_rounds(10, whole=True)), abs=1e-6), order


def fresh(jobs: list[SlowJob], pace: Fraction = Fraction(1)) -> list[SlowJob]:
    """The jobs before anything happened to them; the slow simulator writes into its own."""
    return [SlowJob(job.number, job.submit, job.gpus, job.iterations, job.priority, pace) for job in jobs]
