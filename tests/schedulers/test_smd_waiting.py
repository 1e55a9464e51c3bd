"""What waiting costs: which jobs smd and its field serve first, when they decide, and what they leave alone."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muster.cluster import Cluster
from muster.report import summarise
from muster.schedulers.workers_and_servers.one_to_one import DensityFirstFit, TetrisPairs
from muster.schedulers.workers_and_servers.sizing_problem import SizingProblem, demands_of
from muster.schedulers.workers_and_servers.smd import Smd
from muster.schedulers.workers_and_servers.waiting import _capacity
from muster.schedulers.workers_and_servers.waiting_core import (
    FIRST_SLOT_SECONDS,
    SIZES,
    boundaries_of,
    spread,
)
from muster.simulation import Run
from muster.simulation.sizes import with_sizes
from muster.workload.jobs import job_table
from muster.workload.trace import Trace
from tests.building import cluster_of, column, finishes, job, jobs_of, run
from tests.schedulers.smd_cases import FIELD, machines, random_question, sized_job, trace_of_seed
from tests.schedulers.test_smd_choice import charged, pairs_of, profit, sizes_of


def rated(priority: float, target_hours: float, **more: Any) -> dict[str, Any]:
    """A job of 50 minutes on one GPU that is worth its priority until shortly before its target."""
    utility = {
        "utility_priority": priority,
        "utility_urgency_per_hour": 30.0,
        "utility_target_seconds": target_hours * 3600.0,
    }
    return job(0, 3000) | utility | more


def test_the_job_that_can_wait_waits() -> None:
    done = run(jobs_of(rated(51, 10), rated(50, 1)), cluster_of(1), "smd")
    assert summarise(done.record)["utility"]["total"] >= 100.0
    assert column(done, "start_seconds") == [3000.0, 0.0]


def test_the_published_objective_takes_the_most_utility_now() -> None:
    trace = jobs_of(rated(51, 10), rated(50, 1))
    done = run(trace, cluster_of(1), "smd", {"objective": "published"})
    assert column(done, "start_seconds") == [0.0, 3000.0]


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 500))
def test_slots_grow_until_all_work_could_be_done(seed: int, jobs: int) -> None:
    rng = np.random.default_rng(seed)
    job, count = np.repeat(np.arange(jobs), 3), 3 * jobs
    usage, left = rng.uniform(0, 8, (count, 4)), rng.lognormal(9, 2, count)
    capacity = rng.uniform(50, 500, 4)
    boundaries = boundaries_of(jobs, job, usage, left, capacity)
    slots = np.diff(boundaries)
    areas = ((usage / capacity).max(axis=1) * left).reshape(jobs, 3).min(axis=1)
    horizon = max(areas.sum(), left.reshape(jobs, 3).min(axis=1).max(), FIRST_SLOT_SECONDS * len(slots))
    assert slots[0] == FIRST_SLOT_SECONDS
    assert slots[1:] / slots[:-1] == pytest.approx(slots[1] / slots[0])
    assert boundaries[-1] == pytest.approx(horizon)


@given(st.integers(0, 10**6))
def test_sizes_from_the_fastest_to_the_slowest_are_compared(seed: int) -> None:
    rng = np.random.default_rng(seed)
    job = np.repeat(np.arange(5), rng.integers(1, 40, 5))
    seconds = rng.permutation(len(job)).astype(float)
    held = rng.random(len(job)) < 0.05
    kept = spread(job, seconds, held)
    assert np.isin(np.flatnonzero(held), kept).all()
    for one in range(5):
        of_job, few = np.flatnonzero(job == one), kept[job[kept] == one]
        assert np.isin(of_job[[seconds[of_job].argmin(), seconds[of_job].argmax()]], few).all()
        evenly = few[~held[few]]
        assert min(len(of_job), SIZES) <= len(few)
        assert len(evenly) <= SIZES


def test_a_slot_has_what_is_free_in_its_mean_second() -> None:
    """Jobs that may not change leave inside of slots, on a boundary, and after the last one."""
    question = random_question(2, 3, most=2)
    until = np.array([5, 40, 70, 400])
    usage = np.arange(4.0 * question.capacity.size).reshape(4, -1)
    question = replace(question, fixed_until=until.astype(float), fixed_usage=usage)
    boundaries = np.array([0, 10, 40, 100])
    expected = [
        np.mean(
            [question.capacity + usage[until <= second].sum(axis=0) for second in range(begin, end)], axis=0
        )
        for begin, end in pairwise(boundaries)
    ]
    assert _capacity(question, boundaries.astype(float)) == pytest.approx(np.array(expected))


@pytest.mark.parametrize("name", ["smd", "smd-reservation"])
def test_equal_gangs_do_not_starve_the_oldest(name: str) -> None:
    trace = jobs_of(*(job(60.0 * number, 5580, 8) for number in range(40)))
    done = run(trace, cluster_of(8), name)
    ends = finishes(done)
    assert ends[0] is not None
    assert ends[0] <= 4 * 3600
    assert sum(column(done, "preemptions")) == 0
    assert ends == sorted(end for end in ends if end is not None)


@pytest.mark.parametrize("name", FIELD)
def test_a_completion_lets_a_waiting_job_start_at_once(name: str) -> None:
    fixed = sized_job(max_workers=2, servers=2, gpus=2)
    trace = jobs_of(fixed, fixed | {"submit_seconds": 1.0}, fixed | {"submit_seconds": 2.0})
    done = run(trace, machines(1, gpus=2, cpus=10.0), name, {"interval_seconds": "100000"})
    if name == "oasis":
        pytest.skip("a job may be refused, or booked for a later slot")
    ends, starts = finishes(done), column(done, "start_seconds")
    assert None not in ends
    for start in starts[1:]:
        assert start in (0.0, 1.0, 2.0) or start in ends


@pytest.mark.parametrize("name", FIELD)
def test_a_job_that_arrives_takes_what_is_free_at_once(name: str) -> None:
    trace = jobs_of(sized_job(), sized_job(submit_seconds=100.0))
    # Four servers of 0.5 GB/s each fill two cards of 1.25 GB/s; with 2.5 GB/s two nodes have room for both jobs.
    done = run(trace, machines(2, nic_gb_per_s=2.5), name, {"interval_seconds": "250"})
    assert column(done, "start_seconds") == [0.0, 100.0]


def best_first(question: SizingProblem) -> float:
    """The most profit of all joint choices, by enumeration, one job after the other."""
    choices = [pairs_of(question, at) for at in range(len(question))]
    return max(
        profit(question, list(sizes))
        for sizes in product(*choices)
        if (charged(question, list(sizes)) <= question.capacity + 1e-9).all()
    )


@pytest.mark.parametrize("reserved", [False, True])
@given(seed=st.integers(0, 10_000), jobs=st.integers(1, 3))
@settings(max_examples=30, deadline=None)
def test_small_decisions_are_exact_by_default(reserved: bool, seed: int, jobs: int) -> None:
    question = random_question(seed, jobs, most=2, reserved=reserved)
    answer = Smd(objective="published").answer(question, None)
    assert profit(question, sizes_of(answer)) == pytest.approx(best_first(question), rel=2e-4)


@given(weights=st.lists(st.tuples(st.integers(1, 8), st.integers(1, 50)), min_size=5, max_size=14))
@settings(max_examples=30, deadline=None)
def test_gangs_under_reservation_are_packed_exactly(weights: list[tuple[int, int]]) -> None:
    rows = [
        job(0, 3600, gpus)
        | {
            "utility_priority": float(worth),
            "utility_urgency_per_hour": 0.0,
            "utility_target_seconds": 3600.0,
        }
        for gpus, worth in weights
    ]
    settings = {"objective": "published", "interval_seconds": "1e9"}
    done = run(jobs_of(*rows), cluster_of(8), "smd-reservation", settings)
    started = [at == 0.0 for at in column(done, "start_seconds")]
    best = max(
        sum(worth for _, worth in chosen)
        for count in range(len(weights) + 1)
        for chosen in combinations(weights, count)
        if sum(gpus for gpus, _ in chosen) <= 8
    )
    assert sum(worth for (_, worth), now in zip(weights, started, strict=True) if now) >= best * (1 - 1e-3)


def test_tetris_adds_a_pair_at_a_time() -> None:
    # Room for three pairs; the owner allows four.
    done = run(jobs_of(sized_job()), machines(1, gpus=3, cpus=32.0, nic_gb_per_s=9.0), "tetris-1to1")
    held = done.record.allocations.filter(pl.col("role") == "worker")
    assert held["gpus"].to_list() == [3.0]


@given(seed=st.integers(0, 10_000), jobs=st.integers(1, 8))
@settings(max_examples=25, deadline=None)
def test_tetris_stops_only_where_no_pair_fits(seed: int, jobs: int) -> None:
    question = random_question(seed, jobs, most=4)
    answer = TetrisPairs().answer(question, None)
    left = question.capacity - charged(question, sizes_of(answer))
    for at, (workers, servers) in enumerate(sizes_of(answer)):
        assert workers == servers
        grown = (workers + 1) * (question.demands.worker + question.demands.server)[at]
        one_more = (question.demands.worker + question.demands.server)[at, :4]
        assert (grown > question.demands.limit[at] + 1e-9).any() or (one_more > left + 1e-9).any()


def test_density_first_fit_serves_worth_for_its_share_first() -> None:
    small = job(0, 3600, 1) | {
        "utility_priority": 3.0,
        "utility_urgency_per_hour": 0.0,
        "utility_target_seconds": 1.0,
    }
    large = small | {"gpus": 4, "utility_priority": 10.0}
    done = run(jobs_of(large, *[small] * 4), cluster_of(4), "density-first-fit")
    assert column(done, "start_seconds") == [3600.0, 0.0, 0.0, 0.0, 0.0]
    assert DensityFirstFit.name == "density-first-fit"


# Interruptions.


def allocations_at(run: Run, moment: float) -> dict[str, list[dict[str, Any]]]:
    """What each job holds from this moment on."""
    held = run.record.allocations.filter((pl.col("from_seconds") <= moment) & (pl.col("to_seconds") > moment))
    found: dict[str, list[dict[str, Any]]] = {}
    for row in held.iter_rows(named=True):
        found.setdefault(row["job_id"], []).append(row)
    return found


def used_on(nodes: int, rows: list[dict[str, Any]]) -> np.ndarray:
    """GPUs, CPU cores and GB by node."""
    used = np.zeros((nodes, 3))
    for row in rows:
        used[int(row["node"][1:])] += [row["gpus"], row["cpus"], row["memory_gb"]]
    return used


def limits_of(trace: Trace, cluster: Cluster) -> dict[str, np.ndarray]:
    """GPUs, CPU cores and GB that each owner allows, at most what the cluster has."""
    table = with_sizes(job_table(trace, cluster, {}, {}), cluster, "trace")
    allowed = demands_of(table, np.arange(len(table))).limit[:, :3]
    most = np.array([(node.gpus, node.cpus, node.memory_gb) for node in cluster.nodes]).sum(axis=0)
    return dict(zip(trace.jobs["job_id"].to_list(), np.minimum(allowed, most), strict=True))


def by_role(nodes: int, rows: list[dict[str, Any]]) -> np.ndarray:
    """What workers hold in all, and what servers hold."""
    roles = [[row for row in rows if row["role"] == role] for role in ("worker", "server")]
    return np.concatenate([used_on(nodes, of_role).sum(axis=0) for of_role in roles])


@pytest.mark.parametrize("name", [name for name in FIELD if name != "oasis"])
@example(seed=271, cost=120.0)
@given(seed=st.integers(0, 1000), cost=st.sampled_from([0.0, 30.0, 120.0]))
@settings(max_examples=6, deadline=None)
def test_no_job_is_stopped_or_shrunk_in_vain(name: str, seed: int, cost: float) -> None:
    """Where the old place of a job fits beside all that the others hold afterwards, it was stopped for nothing.

    Under reservation a job may also be stopped where its limit does not fit beside those of the others.
    """
    nodes = 2
    trace = trace_of_seed(seed, jobs=8, per_hour=6.0)
    cluster = machines(nodes, gpus=8, cpus=64, nic_gb_per_s=100.0)
    done = run(trace, cluster, name, {"interval_seconds": "900"}, restart_cost_seconds=cost)
    capacity = np.tile([8.0, 64.0, 128.0], (nodes, 1))
    limits = limits_of(trace, cluster) if name == "smd-reservation" else {}
    ends = {row["job_id"]: row["finish_seconds"] for row in done.record.jobs.iter_rows(named=True)}
    for moment in done.record.allocations["to_seconds"].unique().to_list():
        before, after = allocations_at(done, np.nextafter(moment, 0)), allocations_at(done, moment)
        for one, rows in before.items():
            if ends[one] is not None and ends[one] <= moment:
                continue
            now, then = by_role(nodes, after.get(one, [])), by_role(nodes, rows)
            if (now >= then - 1e-6).all() or (now > then + 1e-6).any():
                continue  # It has no less of anything, or another size: fewer workers and more servers.
            if limits and one not in after:
                charged = sum(limits[other] for other in [one, *after])
                if (charged > capacity.sum(axis=0) + 1e-6).any():
                    continue
            others = used_on(nodes, [row for other in after if other != one for row in after[other]])
            assert (others + used_on(nodes, rows) > capacity + 1e-6).any(), (one, moment)


@pytest.mark.parametrize("name", [name for name in FIELD if name != "oasis"])
def test_a_job_that_may_not_be_interrupted_keeps_its_size(name: str) -> None:
    rows = trace_of_seed(5, jobs=12, per_hour=12.0)
    kept = rows.jobs.with_columns(preemptible=pl.lit(False))
    done = run(
        type(rows)(**{**vars(rows), "jobs": kept}),
        machines(3, gpus=8, cpus=64),
        name,
        {"interval_seconds": "600"},
        restart_cost_seconds=30.0,
    )
    assert column(done, "preemptions") == [0] * 12
    assert column(done, "moves") == [0] * 12
    assert done.unfinished == 0


@pytest.mark.parametrize("name", FIELD)
def test_restarts_take_little_of_the_time_by_default(name: str) -> None:
    done = run(
        trace_of_seed(3, jobs=20, per_hour=6.0), machines(3, gpus=8, cpus=64), name, restart_cost_seconds=60.0
    )
    lost, ran = sum(column(done, "restart_seconds")), sum(column(done, "run_seconds"))
    assert lost <= 0.077 * ran
