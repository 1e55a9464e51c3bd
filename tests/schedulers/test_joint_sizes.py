"""joint chooses how many GPUs elastic jobs have, against closed forms and an exact program."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, linear_sum_assignment, milp

from muster.cluster.ledger_arrays import Floats, Ints
from muster.schedulers.composed import Composed
from muster.schedulers.contract import Decision, SizeSpeeds, Snapshot, State
from muster.schedulers.gpu_limits import GpuLimits
from muster.schedulers.joint.modelled_speeds import ANY_TYPE, TypedSizes
from muster.schedulers.joint.size_choice import SizeOptions, best_sizes
from muster.schedulers.joint.sizes import gains_from_type
from muster.schedulers.registry import build
from muster.simulation import Options, Run, simulate
from muster.workload.models import Compute, synergy_models
from muster.workload.trace import Trace
from tests.building import cluster_of, job, jobs_of, run
from tests.schedulers.synergy_cases import asked_at_first, on_types
from tests.schedulers.test_dally_network import CHATTY, LINKS, gang, small_cluster
from tests.schedulers.test_node_amounts import by_cpus

FIXED = replace(by_cpus("fixed", {1: 1.0}), compute=Compute(48.0, None))
MODELS = {"fixed": FIXED}
ELASTIC: dict[str, Any] = {"gpus": 2, "min_gpus": 1, "max_gpus": 8}


def sizes_of(result: Run, job_id: str) -> list[float]:
    """The GPUs of a job, one number for each time that it holds something else."""
    held = result.record.allocations.filter(pl.col("job_id") == job_id)
    at_once = held.group_by("from_seconds").agg(pl.col("gpus").sum()).sort("from_seconds")
    sizes = at_once["gpus"].to_list()
    return [size for at, size in enumerate(sizes) if at == 0 or size != sizes[at - 1]]


def finished(result: Run) -> list[float]:
    """When the jobs ended, in their order."""
    return result.record.jobs["finish_seconds"].to_list()


def test_a_job_alone_has_as_many_gpus_as_it_can_use() -> None:
    """Compute is in proportion to the samples of a GPU: on eight GPUs in place of two it takes a quarter."""
    result = run(jobs_of(job(0, 400, **ELASTIC)), cluster_of(8), "fifo+joint")
    assert sizes_of(result, "0") == [8]
    assert finished(result) == [100.0]


def test_running_jobs_shrink_for_newcomers_that_repay() -> None:
    """Three fifths of a pass take as long with few samples as with many: small gangs do more in all."""
    trace = jobs_of(*(job(1_000.0 * at, 500_000, model="fixed", **ELASTIC) for at in range(5)))
    result = run(trace, cluster_of(8, 8), "las+joint", models=MODELS, restart_cost_seconds=60.0)
    held = result.record.allocations.filter(
        (pl.col("from_seconds") <= 5_000) & (pl.col("to_seconds") > 5_000)
    )
    assert held["job_id"].n_unique() == 5
    assert held["gpus"].sum() == 16


def test_a_running_job_keeps_its_size_where_a_restart_costs_more() -> None:
    """It runs on eight GPUs when another comes; a restart would cost two hours."""
    trace = jobs_of(job(0, 40_000, **ELASTIC), job(100, 400, **ELASTIC))
    result = run(trace, cluster_of(8), "fifo+joint", {"preemptive": "true"}, restart_cost_seconds=7_200.0)
    assert sizes_of(result, "0") == [8]


def test_an_elastic_job_grows_as_soon_as_others_end() -> None:
    """It has worked longer than a restart costs; a rigid job could not be interrupted for twelve times that."""
    trace = jobs_of(job(0, 200, gpus=2), job(0, 20_000, **ELASTIC))
    result = run(trace, cluster_of(8), "las+joint", restart_cost_seconds=60.0)
    grown = result.record.allocations.filter((pl.col("job_id") == "1") & (pl.col("gpus") == 8))
    assert sizes_of(result, "1") == [6, 8]
    assert grown["from_seconds"].to_list() == [200.0]


def test_a_rigid_job_has_what_it_asks_for() -> None:
    result = run(jobs_of(job(0, 400, gpus=2), job(0, 400, **ELASTIC)), cluster_of(8), "fifo+joint")
    assert sizes_of(result, "0") == [2]
    assert sizes_of(result, "1") == [6]


def elastic_trace(draw: st.DrawFn) -> Trace:
    """Some jobs of random bounds."""
    rows = []
    for at in range(draw(st.integers(1, 8))):
        least = draw(st.integers(1, 4))
        gpus = draw(st.integers(least, 8))
        most = draw(st.integers(gpus, 12))
        rows.append(
            job(
                at * draw(st.sampled_from([0.0, 50.0])),
                400,
                gpus=gpus,
                min_gpus=least,
                max_gpus=most,
                model="resnet18",
            )
        )
    return jobs_of(*rows)


@given(st.data(), st.sampled_from(["fifo", "las", "srtf"]), st.sampled_from([0.0, 30.0]))
@settings(deadline=None, max_examples=40)
def test_every_size_is_within_the_bounds_of_its_job(data: st.DataObject, order: str, cost: float) -> None:
    trace = data.draw(st.composite(elastic_trace)())
    result = run(trace, cluster_of(8, 4), f"{order}+joint", restart_cost_seconds=cost)
    assert result.unfinished == 0
    held = result.record.allocations.group_by("job_id", "from_seconds").agg(pl.col("gpus").sum())
    bounds = trace.jobs.select("job_id", "min_gpus", "max_gpus")
    both = held.join(bounds, on="job_id")
    assert ((both["gpus"] >= both["min_gpus"]) & (both["gpus"] <= both["max_gpus"])).all()


@given(
    st.lists(st.lists(st.integers(1, 20), min_size=1, max_size=5), min_size=1, max_size=6), st.integers(0, 24)
)
@settings(deadline=None, max_examples=300)
def test_concave_jobs_get_the_most_worth_for_all_gpus(gains: list[list[int]], gpus: int) -> None:
    """Each further GPU gains less: the exact program takes the largest gains, and so must the prices."""
    falling = [np.sort(rows)[::-1] + np.arange(len(rows))[::-1] * 1e-6 for rows in map(np.array, gains)]
    at = np.repeat(np.arange(len(gains)), list(map(len, gains)))
    sizes = np.concatenate([np.arange(1, len(rows) + 1) for rows in gains])
    worth = np.concatenate([np.cumsum(rows) for rows in falling])
    options = SizeOptions(TypedSizes(at, sizes, np.full(len(at), ANY_TYPE)), worth)
    taken = best_sizes(options, np.array([ANY_TYPE]), np.array([gpus])).rows
    assert sizes[taken].sum() <= gpus
    assert len(set(at[taken].tolist())) == len(taken)
    best = np.sort(np.concatenate(falling))[::-1][:gpus].sum()
    assert worth[taken].sum() >= best - 1e-4 * max(best, 1)


class SlowOverMachines:
    """Speeds of a job that gains from each GPU of a machine, and is slow over several machines."""

    def seconds_per_iteration(self, jobs: Ints, gpus: Ints, nodes: Ints, gpu_type: str) -> Floats:
        """The seconds of an iteration."""
        return np.where(nodes > 1, 3.0, 1.0 / gpus)


class NotTried:
    """Nothing is known of the speeds of a job."""

    def seconds_per_iteration(self, jobs: Ints, gpus: Ints, nodes: Ints, gpu_type: str) -> Floats:
        """NaN for each size."""
        return np.full(len(jobs), np.nan)


class KnowsSpeeds(Composed):
    """A scheduler that knows such speeds of all jobs."""

    speeds: ClassVar[SizeSpeeds] = SlowOverMachines()

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        """Decide with them."""
        return super().decide(replace(snapshot, size_speeds=self.speeds), state)


class KnowsNothing(KnowsSpeeds):
    """One that is to learn them."""

    speeds: ClassVar[SizeSpeeds] = NotTried()


def knowing(kind: type[KnowsSpeeds]) -> KnowsSpeeds:
    """joint that knows so much."""
    fifo = build("fifo+joint", {"preemptive": "true"})
    assert isinstance(fifo, Composed)
    return kind(**{field.name: getattr(fifo, field.name) for field in fields(fifo) if field.init})


def with_known_speeds(trace: Trace, *gpus: int, restart_cost_seconds: float = 0.0) -> Run:
    """The run of a trace under joint that knows such speeds, on machines of so many GPUs."""
    options = Options(network="none", restart_cost_seconds=restart_cost_seconds)
    return simulate(trace, cluster_of(*gpus), knowing(KnowsSpeeds), options)


def test_no_more_gpus_where_they_would_be_too_far_apart() -> None:
    """One GPU is free on each of two machines: one of them is faster than both, and on one machine two would be."""
    fixed = {"gpus": 3, "preemptible": False}
    rows = (*(job(0, 4_000, **fixed) for _ in range(2)), job(10, 400, gpus=1, min_gpus=1, max_gpus=2))
    assert sizes_of(with_known_speeds(jobs_of(*rows), 4, 4), "2")[0] == 1


@pytest.mark.parametrize(("gradient_gb", "gpus", "seconds"), [(1.0, 2, 202.0), (0.2, 4, 140.4)])
def test_a_job_grows_over_machines_where_the_links_let_it(
    gradient_gb: float, gpus: int, seconds: float
) -> None:
    """On four GPUs of two machines a pass takes 0.5 s in place of 1 s, and its gradients 1 s or 0.2 s.

    The same where speeds are to be learned, and no size was tried.
    """
    layers = {"chatty": replace(CHATTY, gradient_gb=gradient_gb)}
    trace = jobs_of(gang(2, 400, model="chatty", min_gpus=1, max_gpus=4))
    cluster = small_cluster(2, 2, racks=1)
    for scheduler in (build("gittins+joint"), knowing(KnowsNothing)):
        result = run(trace, cluster, scheduler, layers=layers, network="physical")
        assert sizes_of(result, "0") == [gpus]
        assert finished(result) == pytest.approx([seconds])


def test_a_large_job_grows_further_when_gpus_become_free() -> None:
    """A restart loses a seventh of its speed in the hour that counts: 16 GPUs in place of 8 make 1.7 times as much.

    Twice the speed counts 1.14 times as much there: a seventh off that would leave nothing to gain.
    """
    rows = (job(0, 20_000, gpus=8, preemptible=False), job(0, 400_000, gpus=8, min_gpus=1, max_gpus=16))
    result = with_known_speeds(jobs_of(*rows), 16, restart_cost_seconds=600.0)
    assert sizes_of(result, "1") == [8, 16]


def test_a_job_that_others_disturb_changes_less_often() -> None:
    """Each restart costs 120 s and one more GPU gains a seventh: it takes the GPU back if it can keep it long enough.

    After a few interruptions a job is not believed any more to go on for as long as it has been here.
    """
    short = (job(5_000 + 600.0 * at, 300, gpus=1) for at in range(24))
    result = with_known_speeds(jobs_of(job(0, 400_000, **ELASTIC), *short), 8, restart_cost_seconds=120.0)
    assert len(sizes_of(result, "0")) <= 1 + 24 + 4  # twice for each of 24 if it takes the GPU back each time


TWO_TYPES = replace(
    cluster_of(4, 4, 4, 2),
    nodes=tuple(
        replace(node, gpu_type="v100" if at < 2 else "a100")
        for at, node in enumerate(cluster_of(4, 4, 4, 2).nodes)
    ),
)
ON_TYPES = {
    "resnet18": on_types(synergy_models()["resnet18"], {"a100": 3.0, "v100": 1.0}),
    "gnmt": on_types(synergy_models()["gnmt"], {"a100": 1.05, "v100": 1.0}),
}


def types_held(result: Run) -> pl.DataFrame:
    """The types of GPU on which each job was at a time."""
    type_of = {node.name: node.gpu_type for node in TWO_TYPES.nodes}
    held = result.record.allocations.with_columns(gpu_type=pl.col("node").replace_strict(type_of))
    return held.group_by("job_id", "from_seconds").agg(pl.col("gpu_type").unique().sort())


def test_a_gang_that_is_alike_on_all_types_has_gpus_of_two() -> None:
    """Two jobs that stay leave four GPUs of one type and two of the other."""
    stay = [
        job(0, 10_000, gpus=4, model="gnmt", preemptible=False, constraint=f"gpu_type={gpu_type}")
        for gpu_type in ("a100", "v100")
    ]
    trace = jobs_of(*stay, job(20, 100, gpus=6, model="alike"))
    models = ON_TYPES | {"alike": on_types(synergy_models()["gnmt"], {"a100": 1.0, "v100": 1.0})}
    result = run(trace, TWO_TYPES, "las+joint", models=models)
    gang = types_held(result).filter(pl.col("job_id") == "2")
    assert gang.rows() == [("2", 20.0, ["a100", "v100"])]


def test_what_a_gang_on_two_types_holds_counts_on_each() -> None:
    """It holds four V100s and two A100s, so that four of each are left; the others are faster on A100s."""
    gang = job(0, 10_000, gpus=6, model="alike", preemptible=False)
    trace = jobs_of(gang, *(job(10, 400, gpus=gpus, model="resnet18") for gpus in (4, 2)))
    models = ON_TYPES | {"alike": on_types(synergy_models()["gnmt"], {"a100": 1.0, "v100": 1.0})}
    result = run(trace, TWO_TYPES, "las+joint", models=models)
    held = types_held(result).filter(pl.col("from_seconds") <= 10).sort("job_id")
    assert held.rows() == [("0", 0.0, ["a100", "v100"]), ("1", 10.0, ["a100"]), ("2", 10.0, ["v100"])]


def test_the_job_that_gains_more_has_the_faster_type() -> None:
    """Both want four GPUs on one machine; the one to which an A100 matters is submitted later."""
    rows = (
        job(0, 400, gpus=4, model="gnmt", preemptible=False),
        job(0, 400, gpus=4, model="resnet18", preemptible=False),
    )
    result = run(jobs_of(*rows), TWO_TYPES, "fifo+joint", models=ON_TYPES)
    held = dict(types_held(result).select("job_id", "gpu_type").iter_rows())
    assert held == {"0": ["v100"], "1": ["a100"]}


def test_a_rigid_job_moves_to_a_faster_type_that_comes_free() -> None:
    """It starts on V100s as the A100s are taken, and has worked for eight restarts when those are free."""
    first = job(0, 1_500, gpus=4, model="resnet18", preemptible=False)
    trace = jobs_of(first, job(10, 100_000, gpus=4, model="resnet18"))
    result = run(trace, TWO_TYPES, "las+joint", models=ON_TYPES, restart_cost_seconds=60.0)
    held = types_held(result).filter(pl.col("job_id") == "1").sort("from_seconds")
    assert held["gpu_type"].to_list() == [["v100"], ["a100"]]
    assert held["from_seconds"].to_list() == [10.0, 500.0]


def test_only_jobs_that_a_type_makes_faster_may_change_soon() -> None:
    alike = on_types(synergy_models()["gnmt"], {"a100": 1.0, "v100": 1.0})
    models = {"resnet18": ON_TYPES["resnet18"], "gnmt": alike}
    rows = [
        job(0, 100, model="resnet18"),
        job(0, 100, model="gnmt"),
        job(0, 100, model="unknown"),
        job(0, 100, model="resnet18", constraint="gpu_type=v100"),
        job(0, 100, model="resnet18", gpu_milli=500),
    ]
    soon = asked_at_first(gains_from_type, rows, TWO_TYPES, models)
    assert soon == [True, False, False, False, False]
    assert not any(asked_at_first(gains_from_type, rows[:3], cluster_of(8), models))


def test_a_type_that_the_owner_states_is_kept() -> None:
    rows = [job(0, 4_000, gpus=2, model="resnet18", constraint="gpu_type=v100") for _ in range(3)]
    result = run(jobs_of(*rows), TWO_TYPES, "las+joint", models=ON_TYPES)
    assert {name for each in types_held(result)["gpu_type"] for name in each} == {"v100"}


@pytest.mark.parametrize("order", ["fifo", "las", "gittins"])
def test_a_type_that_the_owner_states_is_kept_on_a_network(order: str) -> None:
    """Four of the five fill the machines with V100s; the last one waits beside free A100s."""
    rows = [
        job(10 * at, 2_000, gpus=2, model="chatty", preemptible=False, constraint="gpu_type=v100")
        for at in range(5)
    ]
    known: dict[str, Any] = {"layers": {"chatty": CHATTY}, "network": "physical"}
    cluster = replace(TWO_TYPES, links=LINKS)
    result = run(jobs_of(*rows), cluster, f"{order}+joint", **known)
    assert {name for each in types_held(result)["gpu_type"] for name in each} == {"v100"}
    assert result.record.jobs["start_seconds"].to_list()[:4] == [0.0, 10.0, 20.0, 30.0]


def test_a_job_stays_on_the_type_of_which_speeds_are_known() -> None:
    """Six jobs want two GPUs each; the model file states nothing of the six A100s that are free."""
    known = {"resnet18": replace(synergy_models()["resnet18"], gpu_type="v100")}
    rows = [job(0, 400, gpus=2, model="resnet18") for _ in range(6)]
    result = run(jobs_of(*rows), TWO_TYPES, "fifo+joint", models=known)
    assert {name for each in types_held(result)["gpu_type"] for name in each} == {"v100"}


@given(st.data(), st.sampled_from(["fifo", "las"]))
@settings(deadline=None, max_examples=20)
def test_a_gang_never_mixes_types(data: st.DataObject, order: str) -> None:
    trace = data.draw(st.composite(elastic_trace)())
    result = run(trace, TWO_TYPES, f"{order}+joint", models=ON_TYPES, restart_cost_seconds=30.0)
    assert result.unfinished == 0
    held = types_held(result)
    assert (held["gpu_type"].list.len() == 1).all()


def test_prices_by_type_are_near_the_best_assignment() -> None:
    """Each job wants one GPU of some type: the best assignment is known exactly, and prices alone may miss it."""
    rng, reached = np.random.default_rng(1), []
    types = np.array([0, 1])
    for _ in range(300):
        jobs, room = int(rng.integers(1, 9)), rng.integers(1, 5, 2)
        worth = rng.uniform(0.1, 5.0, (jobs, 2))
        sizes = TypedSizes(np.repeat(np.arange(jobs), 2), np.ones(2 * jobs, np.int64), np.tile(types, jobs))
        taken = best_sizes(SizeOptions(sizes, worth.reshape(-1)), types, room).rows
        assert len(set(sizes.at[taken].tolist())) == len(taken)
        assert (np.bincount(sizes.gpu_type[taken], minlength=2) <= room).all()
        columns = np.repeat(worth, room, axis=1)
        best = columns[linear_sum_assignment(columns, maximize=True)].sum()
        reached.append(worth.reshape(-1)[taken].sum() / best)
    assert np.mean(reached) >= 0.99


def test_sizes_within_limits_are_close_to_the_best() -> None:
    """Two groups of jobs with limits of their own, and jobs in none; an integer program knows the best choice."""
    rng, reached = np.random.default_rng(3), []
    for _ in range(200):
        jobs, gpus = int(rng.integers(2, 9)), int(rng.integers(8, 33))
        group = rng.integers(-1, 2, jobs)
        limit = GpuLimits(group, np.ones(jobs), rng.integers(0, 9, 2).astype(np.float64))
        at, size = (each.reshape(-1) for each in np.divmod(np.arange(jobs * 8).reshape(jobs, 8), 8))
        power = rng.uniform(0.3, 1.0, (jobs, 1))
        worth = (rng.uniform(0.5, 2.0, (jobs, 1)) * np.arange(1, 9) ** power).reshape(-1)
        options = SizeOptions(TypedSizes(at, size + 1, np.full(len(at), ANY_TYPE)), worth)
        taken = best_sizes(options, np.array([ANY_TYPE]), np.array([gpus]), [limit]).rows
        assert len(set(at[taken].tolist())) == len(taken)
        assert (limit.usage(at[taken], size[taken] + 1).sum(axis=0) <= limit.left).all()
        rows = np.vstack([*(at == each for each in range(jobs)), size + 1, *limit.usage(at, size + 1).T])
        room = np.concatenate([np.ones(jobs), [gpus], limit.left])
        reached.append(worth[taken].sum() / most_within(worth, rows, room))
    assert min(reached) >= 0.95
    assert np.mean(reached) >= 0.995


def test_groups_have_their_shares_before_others_get_more() -> None:
    """The jobs of group 0 are worth ten times as much; what group 1 cannot use of its share goes to them."""
    at, size = (each.reshape(-1) for each in np.divmod(np.arange(4 * 8).reshape(4, 8), 8))
    gpus, group = size + 1, np.array([0, 0, 1, 1])
    worth = np.where(group[at] == 0, 10.0, 1.0) * gpus**0.9
    for most, expected in ((8, [4, 4, 4, 4]), (2, [6, 6, 2, 2])):
        rows = (gpus <= most) | (group[at] == 0)
        options = SizeOptions(TypedSizes(at, gpus, np.full(len(at), ANY_TYPE)), worth).rows(rows)
        share = GpuLimits(group, np.zeros(4), np.array([8.0, 8.0]))
        taken = best_sizes(options, np.array([ANY_TYPE]), np.array([16]), (), [share]).rows
        assert options.sizes.at[taken].tolist() == [0, 1, 2, 3]
        assert options.sizes.gpus[taken].tolist() == expected


def test_gangs_alike_on_all_types_fill_each_of_them() -> None:
    """Half of the jobs are worth as much on each of three types; an integer program knows the best choice."""
    rng, reached = np.random.default_rng(2), []
    types, room = np.arange(3), np.array([24, 16, 24])
    for _ in range(100):
        jobs = int(rng.integers(5, 30))
        gpus = rng.choice([1, 2, 4, 8, 12, 16], jobs)
        alike = rng.random((jobs, 1)) < 0.5
        each = (
            gpus[:, None]
            * rng.uniform(0.3, 1.0, (jobs, 1))
            * np.where(alike, 1.0, rng.uniform(1, 7, (jobs, 3)))
        )
        sizes = TypedSizes(np.repeat(np.arange(jobs), 3), np.repeat(gpus, 3), np.tile(types, jobs))
        taken = best_sizes(SizeOptions(sizes, each.reshape(-1)), types, room).rows
        assert (np.bincount(sizes.gpu_type[taken], sizes.gpus[taken], 3) <= room).all()
        reached.append(each.reshape(-1)[taken].sum() / most_worth(each, gpus, room))
    assert np.mean(reached) >= 0.999


@pytest.mark.parametrize("elsewhere", [1, 3])
def test_many_jobs_have_sizes_near_the_best(elsewhere: int) -> None:
    """400 jobs on one of two types or another, and prices as they were on as many types, or on another number."""
    rng, types, room = np.random.default_rng(4), np.arange(2), np.array([600, 500])
    gpus = rng.choice([1, 2, 4, 8, 16], 400)
    worth = gpus[:, None] * rng.uniform(0.3, 1.0, (400, 1)) * rng.uniform(1, 3, (400, 2))
    sizes = TypedSizes(np.repeat(np.arange(400), 2), np.repeat(gpus, 2), np.tile(types, 400))
    options = SizeOptions(sizes, worth.reshape(-1))
    best = most_worth(worth, gpus, room)
    first = best_sizes(options, types, room)
    assert first.prices is not None
    for near in (first.prices, np.ones(elsewhere), 0 * first.prices):
        taken = best_sizes(options, types, room, near=near).rows
        assert (np.bincount(sizes.gpu_type[taken], sizes.gpus[taken], 2) <= room).all()
        assert options.worth[taken].sum() >= 0.999 * best


def most_worth(worth: Floats, gpus: Ints, room: Ints) -> float:
    """The most that jobs are worth, each on one type or none, by an integer program."""
    jobs, types = worth.shape
    once = np.kron(np.eye(jobs), np.ones(types))
    used = np.kron(gpus, np.eye(types))
    return most_within(worth.reshape(-1), np.vstack([once, used]), np.concatenate([np.ones(jobs), room]))


def most_within(worth: Floats, rows: Floats, room: Floats) -> float:
    """The most that whole columns are worth, each taken once at most, by an integer program."""
    within = LinearConstraint(rows.astype(np.float64), -np.inf, room)
    whole = np.ones(len(worth), np.int64)
    best = milp(-worth, constraints=within, integrality=whole, bounds=Bounds(0, 1))
    assert best.x is not None
    return float(worth @ np.rint(best.x))
