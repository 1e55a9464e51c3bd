"""The bound of a whole run's mean JCT: by hand, against brute force, and never above what any scheduler reaches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations
from math import nan
from random import Random
from typing import Any

import pytest

from muster.cluster import Cluster
from muster.report import summarise
from muster.schedulers.presets import known_presets
from muster.simulation.engine import SimulationEngine, World
from muster.simulation.jct_bound import mean_jct_bound
from muster.simulation.rules import rules_named
from muster.workload.models import Model, shipped_models
from tests.building import cluster_of, job, jobs_of, run
from tests.schedulers.synergy_cases import on_types, servers, typed
from tests.simulation.cases import Case, WatchedEngine, simulated
from tests.simulation.random_runs import case_of


def bound_of(
    rows: Sequence[dict[str, Any]],
    cluster: Cluster,
    scheduler: str = "fifo",
    models: dict[str, Model] | None = None,
    **options: Any,
) -> float:
    """What `--certify` records."""
    result = run(jobs_of(*rows), cluster, scheduler, models=models, certify=True, **options)
    bound = summarise(result.record)["jct_bound"]
    assert bound["reason"] == ""
    mean = result.record.jobs.filter("measured")["jct_seconds"].mean()
    assert bound["mean_over_bound"] == pytest.approx(mean / bound["mean_seconds"])
    return float(bound["mean_seconds"])


def test_a_job_takes_its_time_alone() -> None:
    assert bound_of([job(0, 10)], cluster_of(4)) == pytest.approx(10)
    assert bound_of([job(0, 10), job(5, 20, gpus=2)], cluster_of(4)) == pytest.approx(15)


def test_jobs_of_all_gpus_take_turns_by_remaining_time() -> None:
    """At 4 the short one passes: it ends at 6, the long one at 12."""
    rows = [job(0, 10, gpus=2), job(4, 2, gpus=2)]
    assert bound_of(rows, cluster_of(2), "srtf") == pytest.approx((12 + 2) / 2)


def test_no_job_is_faster_on_a_machine_of_all_gpus() -> None:
    """Four jobs on two GPUs: two end at 10 and two at 20. Shortest remaining time on one machine would give 12.5."""
    assert bound_of([job(0, 10)] * 4, cluster_of(2)) == pytest.approx(15)


def test_jobs_of_other_nodes_are_bounded_apart() -> None:
    mixed = typed(cluster_of(1, 1), ["v100", "p100"])
    rows = [job(0, 10, constraint="gpu_type=v100")] * 2
    assert bound_of(rows, mixed) == pytest.approx(15)
    assert bound_of([*rows, job(0, 60, constraint="gpu_type=p100")], mixed) == pytest.approx(30)


def test_an_elastic_job_has_its_best_size() -> None:
    """Alone it has all four GPUs and ends at 5; the second of two has them after that."""
    elastic = job(0, 10, gpus=2, min_gpus=1, max_gpus=4, model="gnmt")
    assert bound_of([elastic], cluster_of(4)) == pytest.approx(5)
    assert bound_of([elastic] * 2, cluster_of(4)) == pytest.approx(7.5)


def test_faster_gpus_count_more() -> None:
    """The slow GPU does half of the work of the fast one, so both are one and a half."""
    model = on_types(shipped_models()["gnmt"], {"v100": 1.0, "p100": 0.5})
    mixed = typed(cluster_of(1, 1, cpus_per_gpu=24, memory_gb_per_gpu=500), ["v100", "p100"])
    alone = bound_of([job(0, 10, model="gnmt")], mixed, models={"gnmt": model})
    both = bound_of([job(0, 10, model="gnmt")] * 2, mixed, models={"gnmt": model})
    # Mean moments at 1/3 and 1 of the time alone, and half of it for each.
    assert both == pytest.approx(alone * (1 / 3 + 1 + 1) / 2, rel=1e-3)


@pytest.mark.parametrize("gpus", [1, 2])
def test_cpus_bound_jobs_that_prepare_much_input(gpus: int) -> None:
    """Eight alexnets on 24 cores: the cores that a batch needs, at the most economical measured number."""
    model = shipped_models()["alexnet"]
    fair = model.speed[model.cpus_per_gpu.index(3.0)][model.memory_gb_per_gpu.index(62.5)]
    most = model.speed[model.cpus_per_gpu.index(24.0 / gpus)][-1]
    economy = min(cpus / speeds[-1] for cpus, speeds in zip(model.cpus_per_gpu, model.speed, strict=True))
    turn = 600 * fair * gpus * economy / 24
    by_hand = turn * 8 / 2 + 600 * fair / most / 2
    assert bound_of([job(0, 600, gpus=gpus, model="alexnet")] * 8, servers(1)) == pytest.approx(by_hand)
    assert by_hand > 600 * fair / most


def test_a_share_of_a_gpu_may_have_all_cores_of_its_node() -> None:
    """A quarter of a GPU with one core is as fast as a GPU with four."""
    model = shipped_models()["alexnet"]
    one, four = (model.speed[model.cpus_per_gpu.index(cores)][-1] for cores in (1.0, 4.0))
    quarter = job(0, 600, gpu_milli=250, model="alexnet")
    assert bound_of([quarter], cluster_of(1, cpus_per_gpu=1)) == pytest.approx(600 * one / four)


@pytest.mark.parametrize("name", ["alexnet", "m5", "gnmt", "resnet18", "resnet50", "pollux-bert"])
def test_a_lone_job_of_each_kind_is_at_its_bound(name: str) -> None:
    """With CPUs and memory to spare `joint` gives it its fastest size and amounts."""
    for row in (job(0, 600, gpus=2, model=name), job(0, 600, gpus=1, min_gpus=1, max_gpus=4, model=name)):
        result = run(jobs_of(row), cluster_of(8, cpus_per_gpu=24), "srtf+joint", network="none", certify=True)
        assert summarise(result.record)["jct_bound"]["mean_over_bound"] == pytest.approx(1, rel=1e-6)


def test_only_measured_jobs_count() -> None:
    rows = [job(0, 10), job(0, 10), job(0, 1000)]
    assert bound_of(rows, cluster_of(1), measure=(0, 1)) == pytest.approx(15)


@pytest.mark.parametrize(
    ("rows", "scheduler", "reason"),
    [
        ([job(0, 10, time_limit_seconds=5), job(0, 10)], "fifo", "not all jobs completed"),
        ([job(0, 9000)] * 3, "gandiva", "jobs share GPUs"),
    ],
)
def test_where_the_proof_fails_there_is_no_bound(
    rows: list[dict[str, Any]], scheduler: str, reason: str
) -> None:
    result = run(jobs_of(*rows), cluster_of(2), scheduler, certify=True, end_at_limit=True)
    bound = summarise(result.record)["jct_bound"]
    assert bound == {"mean_seconds": None, "reason": reason, "mean_over_bound": None}


def test_workers_and_servers_have_no_bound() -> None:
    bound = simulated(case_of(9).but(certify=True)).record.run["jct_bound"]
    assert bound["reason"] == "jobs have workers and servers that the scheduler counts"


def test_rules_of_other_simulators_have_no_bound() -> None:
    rules = rules_named("synergy-published")
    record = run(jobs_of(job(0, 10)), cluster_of(1), "fifo", rules=rules, certify=True).record
    assert record.run["jct_bound"]["mean_seconds"] is None
    assert "synergy-published" in record.run["jct_bound"]["reason"]


def test_a_run_that_is_not_certified_says_nothing() -> None:
    bound = summarise(run(jobs_of(job(0, 10)), cluster_of(2), "fifo").record)["jct_bound"]
    assert bound == {"mean_seconds": None, "reason": "", "mean_over_bound": None}


class _KeepsWorld(WatchedEngine):
    """Keeps what is simulated, so that the bound costs no certified decisions."""

    world: World

    def __init__(self, world: World, *args: Any, **options: Any) -> None:
        type(self).world = world
        super().__init__(world, *args, **options)


def _bound_over_mean(case: Case) -> float:
    """NaN where the run has no bound."""
    engine: type[SimulationEngine] = _KeepsWorld
    record = simulated(case, engine).record
    counted = record.jobs.filter("measured")
    shared = record.allocations["slice_group"].drop_nulls().len()
    if shared or counted.is_empty() or (counted["outcome"] != "completed").any():
        return nan
    world = _KeepsWorld.world
    bound = mean_jct_bound(world.table, world.cluster, world.models, record.jobs["measured"].to_numpy())
    return bound / float(counted["jct_seconds"].to_numpy().mean())


def _unlimited(number: int) -> Case:
    """A random run in which all jobs complete."""
    case = case_of(number)
    rows = [{**row, "time_limit_seconds": None} for row in case.rows]
    return replace(case, rows=rows).but(certify=False)


def test_no_random_run_is_below_its_bound() -> None:
    ratios = [_bound_over_mean(_unlimited(number)) for number in range(100) if number % 10 != 9]
    known = [ratio for ratio in ratios if ratio == ratio]
    assert len(known) > 60
    assert max(known) <= 1 + 1e-9


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_no_shipped_scheduler_is_below_the_bound(number: int) -> None:
    case = _unlimited(number)
    rows = [row for row in case.rows if row["gpus"] and row["gpu_milli"] == 1000]
    case = replace(case, rows=rows, settings={}).but(skip_impossible=True)
    names = [name for name in known_presets() if ":" not in name]
    names += ["las+joint", "smallest+joint", "srtf+opt", "srtf+greedy", "srtf+requested"]
    ratios = {name: _bound_over_mean(replace(case, scheduler=name)) for name in names}
    assert {name: ratio for name, ratio in ratios.items() if ratio > 1 + 1e-9} == {}
    assert sum(ratio == ratio for ratio in ratios.values()) > len(names) / 2


def _optimum(jobs: Sequence[tuple[int, int, int]], gpus: int) -> int:
    """The least sum of JCTs of jobs (submission, duration, GPUs) that start, stop and continue at whole seconds."""

    @cache
    def rest(now: int, left: tuple[int, ...]) -> int:
        open_jobs = [at for at, seconds in enumerate(left) if seconds]
        if not open_jobs:
            return 0
        there = [at for at in open_jobs if jobs[at][0] <= now]
        best = None
        for count in range(len(there) + 1):
            for chosen in combinations(there, count):
                if sum(jobs[at][2] for at in chosen) > gpus or (there and not chosen):
                    continue
                after = tuple(seconds - (at in chosen) for at, seconds in enumerate(left))
                cost = len(there) + rest(now + 1, after)
                best = cost if best is None else min(best, cost)
        assert best is not None
        return best

    return rest(0, tuple(duration for _, duration, _ in jobs))


def test_the_bound_is_close_to_the_optimum_of_tiny_cases() -> None:
    chance = Random(7)
    ratios = []
    for _ in range(60):
        gpus = chance.randint(2, 4)
        jobs = sorted(
            (chance.randint(0, 3), chance.randint(1, 4), chance.randint(1, gpus))
            for _ in range(chance.randint(2, 4))
        )
        rows = [job(submit, duration, gpus=needed) for submit, duration, needed in jobs]
        ratios.append(bound_of(rows, cluster_of(gpus)) * len(jobs) / _optimum(jobs, gpus))
    assert max(ratios) <= 1 + 1e-9
    assert sum(ratios) / len(ratios) > 0.85
    assert min(ratios) > 0.6
