"""joint: few jobs at full speed where that does more, changes that repay, and the order's first jobs first."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muster.cluster.ledger_arrays import Floats
from muster.schedulers.allocation.placement_draft import PlacementDraft
from muster.schedulers.allocation.worth import Worth
from muster.schedulers.joint import joint
from muster.schedulers.joint.for_running import for_running
from muster.schedulers.joint.joint import Joint
from muster.simulation import Run
from muster.workload.models import Model
from tests.building import cluster_of, finishes, job, jobs_of, run
from tests.schedulers.synergy_cases import round_of, speeds, tried
from tests.schedulers.test_node_amounts import by_cpus, cpu_models

CACHED = Model(
    "cached", "image", 32, 1.0, 1.0, 10.0, (1.0,), (5.0, 10.0), ((0.1, 1.0),), source="a test", licence="none"
)
"""Ten times as fast with 10 GB of memory as with 5."""
SHARED = Model(
    "shared",
    "image",
    32,
    1.0,
    2.0,
    10.0,
    (1.0, 2.0),
    (1.0,),
    ((0.5,), (1.0,)),
    source="a test",
    licence="none",
)
"""As fast as it has cores, from one to two."""
LINEAR = Model(
    "linear",
    "image",
    32,
    1.0,
    4.0,
    10.0,
    (1.0, 2.0, 3.0, 4.0),
    (1.0,),
    ((0.25,), (0.5,), (0.75,), (1.0,)),
    source="a test",
    licence="none",
)
"""As fast as it has cores, from one to four."""
CONTENT = Model(
    "content",
    "image",
    32,
    1.0,
    4.0,
    10.0,
    (1.0, 2.0, 3.0, 4.0),
    (1.0,),
    ((0.7,), (0.8,), (0.9,), (1.0,)),
    source="a test",
    licence="none",
)
"""Nearly as fast with one core as with four."""
MODELS = {"cached": CACHED, "shared": SHARED, "linear": LINEAR, "content": CONTENT}


def end_of(result: Run) -> dict[str, float]:
    """When each job ended."""
    return dict(result.record.jobs.select("job_id", "finish_seconds").iter_rows())


def test_scarce_memory_makes_one_job_fast_and_not_two_slow() -> None:
    """Two GPUs and 10 GB: side by side both jobs would take 1,000 seconds."""
    trace = jobs_of(job(0, 1_000, model="cached"), job(0, 1_000, model="cached"))
    result = run(trace, cluster_of(2, memory_gb_per_gpu=5.0), "fifo+joint", models=MODELS)
    assert end_of(result) == {"0": 100.0, "1": 200.0}
    waits = result.record.reasons.filter(pl.col("job_id") == "1")
    assert waits["reason"].to_list() == ["not_selected"]


def test_what_a_job_with_nodes_of_its_own_waits_for() -> None:
    """The GPU beside the first job is one that it may use; the other node's are not."""
    cluster = cluster_of(2, 2, memory_gb_per_gpu=5.0)
    own, other = cluster.nodes
    cluster = replace(cluster, nodes=(replace(own, labels=("own",)), other))
    of_own = [job(0, 1_000, model="cached", constraint="label=own") for _ in range(2)]
    result = run(jobs_of(*of_own), cluster, "fifo+joint", models=MODELS)
    assert result.record.reasons["reason"].to_list() == ["not_selected"]
    gang = job(0, 100, gpus=3, constraint="label=own")
    large = replace(own, gpus=4, gpus_per_island=4, labels=("own",))
    held = job(0, 100, gpus=2, constraint="label=own")
    result = run(jobs_of(held, gang), replace(cluster, nodes=(large, other)), "fifo+joint")
    assert result.record.reasons["reason"].to_list() == ["no_place"]


def test_what_an_elastic_job_waits_for_beside_its_least_size() -> None:
    """It asks for two GPUs and would run on the one that is free, of which it has no memory."""
    elastic = job(0, 1_000, gpus=2, min_gpus=1, max_gpus=2, model="cached")
    trace = jobs_of(job(0, 1_000, model="cached"), elastic)
    result = run(trace, cluster_of(2, memory_gb_per_gpu=5.0), "fifo+joint", models=MODELS)
    assert result.record.reasons["reason"].to_list() == ["not_selected"]


def test_parts_of_several_gpus_are_no_place_for_a_larger_one() -> None:
    trace = jobs_of(*(job(0, 100, gpu_milli=600) for _ in range(2)), job(0, 100, gpu_milli=800))
    reasons = run(trace, cluster_of(2), "fifo+joint").record.reasons
    assert reasons["reason"].to_list() == ["no_place"]
    assert reasons["parameters"].to_list() == ['{"needs": 0.8, "free": 0.8}']


def test_a_head_for_which_others_are_left_out_begins_with_them() -> None:
    """Under a strict order: the gang is worth more without the second job, and leaves it a GPU."""
    trace = jobs_of(job(0, 100, gpus=3, model="cached"), job(0, 1_000, model="cached"))
    cluster = cluster_of(2, 2, memory_gb_per_gpu=5.0)
    result = run(trace, cluster, "fifo-strict+joint", models=MODELS)
    assert result.record.jobs["start_seconds"].to_list() == [0, 0]
    held = result.record.allocations.filter(pl.col("from_seconds") == 0)
    assert held.filter(pl.col("job_id") == "0")["gpus"].sum() == 3


def test_an_interruption_is_made_only_where_it_repays() -> None:
    """The running job is ranked last; taking its memory gains the same speed, and costs a restart."""
    trace = jobs_of(job(0, 100_000, model="cached"), job(5_000, 10_000, model="cached"))
    cluster = cluster_of(2, memory_gb_per_gpu=5.0)
    dear = run(trace, cluster, "srtf+joint", models=MODELS, restart_cost_seconds=7_200.0)
    assert end_of(dear) == {"0": 10_000.0, "1": 11_000.0}
    cheap = run(trace, cluster, "srtf+joint", models=MODELS, restart_cost_seconds=60.0)
    assert end_of(cheap) == {"0": 11_060.0, "1": 6_000.0}


def test_a_job_that_waited_too_long_goes_before_worthier_ones() -> None:
    """A stream of short jobs would keep the long one waiting for ever."""
    stream = [job(90.0 * at, 1_000, model="cached") for at in range(60)]
    trace = jobs_of(job(0, 10_000, model="cached"), *stream)
    settings = {"promote_after_seconds": "1000"}
    result = run(trace, cluster_of(2, memory_gb_per_gpu=5.0), "srtf+joint", settings, models=MODELS)
    starts = dict(result.record.jobs.select("job_id", "start_seconds").iter_rows())
    assert starts["0"] <= 1_100


def test_a_promoted_job_goes_before_one_that_gains_more() -> None:
    """The running job is a hundred times as fast with all cores, for which the other one asks."""
    gains = replace(SHARED, name="gains", cpus_per_gpu=(1.0, 96.0), speed=((1.0,), (100.0,)))
    models = {"gains": replace(gains, reference_cpus_per_gpu=1.0)}
    trace = jobs_of(job(0, 40_000, model="gains"), job(0, 50_000, cpus=96.0))
    cluster, settings = cluster_of(4, cpus_per_gpu=24.0), {"promote_after_seconds": "1000"}
    result = run(trace, cluster, "srtf+joint", settings, models=models, restart_cost_seconds=1.0)
    assert result.record.jobs["start_seconds"].to_list()[1] == pytest.approx(1_000, abs=10)


def test_jobs_share_cores_where_that_costs_the_first_little() -> None:
    """With both cores a job is sixteen times as fast as with a GPU's share of them; one core is half of that."""
    trace = jobs_of(job(0, 16_000, model="shared"), job(0, 1_600, model="shared"))
    result = run(trace, cluster_of(16, cpus_per_gpu=0.125), "fifo+joint", models=MODELS)
    assert end_of(result) == {"0": 1_100.0, "1": 200.0}


def test_a_job_starts_slowly_where_it_could_not_start_later() -> None:
    """Four cores: one job alone is as fast as two together, but what is not stopped may keep another waiting long."""
    trace = jobs_of(job(0, 1_000, model="linear"), job(0, 1_000, model="linear"))
    cluster = cluster_of(2, cpus_per_gpu=2.0)
    kept = run(trace, cluster, "fifo+joint", models=MODELS)
    assert kept.record.jobs["start_seconds"].to_list() == [0.0, 0.0]
    assert end_of(kept) == {"0": pytest.approx(2_000 / 3), "1": 1_000.0}
    stopped = run(trace, cluster, "srtf+joint", models=MODELS)
    assert end_of(stopped) == {"0": 500.0, "1": 1_000.0}


def test_jobs_of_one_gpu_pass_a_gang_that_is_never_stopped() -> None:
    """Beside a job that fills the other node, 40 GB are left: for the gang or for four jobs of one GPU."""
    trace = jobs_of(
        job(0, 100_000, gpus=24),
        job(10, 1_000, gpus=4, model="cached"),
        *(job(10, 1_000, model="cached") for _ in range(4)),
    )
    cluster = cluster_of(8, 24, memory_gb_per_gpu=5.0)
    kept = run(trace, cluster, "fifo+joint", models=MODELS)
    assert kept.record.jobs["start_seconds"].to_list() == [0.0, 110.0, 10.0, 10.0, 10.0, 10.0]
    stopped = run(trace, cluster, "las+joint", models=MODELS)
    assert stopped.record.jobs["start_seconds"].to_list()[1] == 10.0


@pytest.mark.parametrize("order", ["fifo", "las", "gittins"])
def test_a_spread_gang_gets_cores_that_others_hardly_use(order: str) -> None:
    """Two nodes of two GPUs and four cores: a long job on each has all cores until the gang comes."""
    long = [job(0, 10_000, model="content"), job(0, 10_000, model="content")]
    trace = jobs_of(*long, job(100, 1_000, gpus=2, model="linear"))
    result = run(trace, cluster_of(2, 2, cpus_per_gpu=2.0), f"{order}+joint", models=MODELS)
    assert end_of(result)["2"] == 1_100.0


def test_a_spread_gang_takes_no_cores_that_others_use_better() -> None:
    """As above with the models exchanged: one core for each GPU makes the gang 0.7 over 0.8 as fast as its share."""
    long = [job(0, 10_000, model="linear"), job(0, 10_000, model="linear")]
    trace = jobs_of(*long, job(100, 1_000, gpus=2, model="content"))
    result = run(trace, cluster_of(2, 2, cpus_per_gpu=2.0), "fifo+joint", models=MODELS)
    assert end_of(result)["2"] == pytest.approx(100 + 1_000 * 0.8 / 0.7)


def test_a_gang_over_several_nodes_goes_where_it_is_fast() -> None:
    """Two nodes have one core a GPU and the next two four; the second gang has the slow ones, as others are taken."""
    few, many = cluster_of(2, 2, cpus_per_gpu=1.0), cluster_of(2, 2, cpus_per_gpu=4.0)
    nodes = few.nodes + tuple(replace(node, name=f"many{at}") for at, node in enumerate(many.nodes))
    trace = jobs_of(
        *(job(at, 1_000, gpus=gpus, model="linear", preemptible=False) for at, gpus in ((0, 4), (10, 3)))
    )
    result = run(trace, replace(few, nodes=nodes), "las+joint", models=MODELS)
    fast, slow = 4 / 2.5, 1 / 2.5  # durations are those with the mean share of a GPU, two and a half cores
    assert finishes(result) == [1_000 / fast, 10 + 1_000 / slow]


def test_a_gang_takes_free_gpus_of_two_nodes_before_a_job_moves() -> None:
    """A short and a long job begin on each node; no place is faster than another."""
    alike = [job(0, 10_000), job(0, 100), job(1, 10_000), job(1, 100)]
    trace = jobs_of(*alike, job(1_000, 20_000, gpus=2))
    result = run(trace, cluster_of(2, 2), "srtf+joint", restart_cost_seconds=60.0)
    assert result.record.jobs["moves"].to_list() == [0, 0, 0, 0, 0]
    assert end_of(result)["4"] == 21_000.0


def test_a_gang_does_not_keep_the_first_job_waiting() -> None:
    """It fills seven GPUs more than the short job does; nothing else is short, so that the order decides."""
    trace = jobs_of(job(0, 10_000, gpus=8), job(5_000, 100))
    result = run(trace, cluster_of(8), "srtf+joint", restart_cost_seconds=60.0)
    assert end_of(result) == {"0": 10_160.0, "1": 5_100.0}


def test_beside_a_job_with_a_choice_a_gang_fills_the_gpus() -> None:
    """Another job may have one GPU or two: the order alone does not decide, and the gang counts a half."""
    elastic = job(0, 50_000, gpus=1, min_gpus=1, max_gpus=2)
    trace = jobs_of(job(0, 10_000, gpus=8, min_gpus=8, max_gpus=8), job(5_000, 100, gpus=2), elastic)
    result = run(trace, cluster_of(8, 1), "srtf+joint", restart_cost_seconds=60.0)
    assert end_of(result)["0"] == 10_000.0


@pytest.mark.parametrize("order", ["las", "gittins", "srtf"])
def test_jobs_that_run_on_keep_their_places(order: str) -> None:
    """The order stops jobs all the time, and no place is faster than another: another one would cost a restart."""
    moves = stops = 0
    for seed in range(3):
        random = np.random.default_rng(seed)
        starts, seconds = np.sort(random.uniform(0, 45_000, 60)), random.lognormal(8.3, 1.2, 60)
        sizes = random.choice([1, 1, 2, 4, 8], 60)
        jobs = zip(starts.round().tolist(), seconds.round().tolist(), sizes.tolist(), strict=True)
        trace = jobs_of(*(job(start, length, gpus=gpus) for start, length, gpus in jobs))
        result = run(trace, cluster_of(4, 4, 4, 4), f"{order}+joint", restart_cost_seconds=60.0)
        moves += int(result.record.jobs["moves"].sum())
        stops += int(result.record.jobs["preemptions"].sum())
    assert stops > 80
    assert moves < stops / 10


def test_a_gang_whose_request_fills_no_node_is_spread() -> None:
    """Eight GPUs with 100 GB each; a node of eight has 500 GB."""
    trace = jobs_of(job(0, 100, gpus=8, memory_gb=800.0))
    result = run(trace, cluster_of(8, 8), "fifo+joint")
    assert result.unfinished == 0
    assert result.record.allocations["gpus"].sort().to_list() == [3, 5]


def test_a_gang_starts_where_a_larger_one_before_it_does_not_fit() -> None:
    """Both are larger than any machine and request the same beside each GPU; 36 CPUs are free."""
    first = job(0, 1_000, cpus=12.0, preemptible=False)
    trace = jobs_of(first, job(1, 100, gpus=13, cpus=39.0), job(2, 100, gpus=6, cpus=18.0))
    result = run(trace, cluster_of(4, 4, 4, 4), "fifo+joint")
    assert end_of(result) == {"0": 1_000.0, "1": 1_100.0, "2": 102.0}


def test_shares_of_a_gpu_are_placed_where_resizes_restart() -> None:
    """Two of the three share a GPU, beside a gang that has the other three."""
    shares = [job(0, 100, gpu_milli=400) for _ in range(2)]
    trace = jobs_of(*shares, job(0, 100, gpus=3), job(0, 100, gpu_milli=400))
    result = run(trace, cluster_of(4), "fifo+joint", resize_restarts=True)
    assert end_of(result) == {"0": 100.0, "1": 100.0, "2": 100.0, "3": 200.0}


@pytest.mark.parametrize("order", ["fifo", "priority"])
def test_a_share_of_a_gpu_goes_before_later_whole_jobs(order: str) -> None:
    """Two GPUs come free at 100 s; the share and one of the whole jobs start, and the other one after them."""
    whole = [job(0, 100), job(0, 100)]
    trace = jobs_of(*whole, job(10, 50, gpu_milli=500), job(20, 50), job(20, 50))
    result = run(trace, cluster_of(2), f"{order}+joint")
    assert end_of(result) == {"0": 100.0, "1": 100.0, "2": 150.0, "3": 150.0, "4": 200.0}


@pytest.mark.parametrize("order", ["fifo", "priority"])
def test_a_share_of_a_gpu_does_not_go_before_earlier_jobs(order: str) -> None:
    """All three may use one node alone; the GPU of the other one makes room for both that wait, by count."""
    one, other = cluster_of(1, 1).nodes
    cluster = replace(cluster_of(1, 1), nodes=(replace(one, labels=("a",)), other))
    rows = [job(0, 100), job(10, 50), job(20, 50, gpu_milli=500)]
    trace = jobs_of(*({**row, "constraint": "label=a"} for row in rows))
    result = run(trace, cluster, f"{order}+joint")
    assert end_of(result) == {"0": 100.0, "1": 150.0, "2": 200.0}


def test_a_request_that_no_node_has_room_for_is_the_reason() -> None:
    """The running job leaves seven GPUs and 100 GB; the other needs 450 GB."""
    trace = jobs_of(job(0, 100, memory_gb=400.0), job(1, 100, memory_gb=450.0))
    result = run(trace, cluster_of(8), "fifo+joint")
    waits = result.record.reasons.filter(pl.col("job_id") == "1")
    assert waits["reason"].to_list() == ["no_place"]


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Model], float]:
    """Two to four jobs of one GPU for a node with four, and its cores for each GPU."""
    known = [draw(cpu_models(name)) for name in ("one", "two", "three")]
    chosen = draw(st.lists(st.sampled_from(known), min_size=2, max_size=4))
    return chosen, draw(st.sampled_from([1.0, 2.0, 3.5]))


LATE = by_cpus("one", {1.0: 0.3, 3.0: 0.3, 6.0: 1.2})
"""Two of it on four cores are worth less than one with all cores, and three more."""


@given(cases())
@example(([LATE] * 3, 1.0))
@settings(deadline=None, max_examples=200)
def test_one_node_is_worth_nearly_what_brute_force_finds(case: tuple[list[Model], float]) -> None:
    """Every subset of the jobs with every choice of cores of each, weighted as the docstring of joint says."""
    chosen, cpus_per_gpu = case
    models = {model.name: model for model in chosen}
    weights = [1 / (1 + at / 4) for at in range(len(chosen))]
    given_round = round_of(
        cluster_of(4, cpus_per_gpu=cpus_per_gpu), [(model.name, 1) for model in chosen], models
    )
    with tried(Joint(), given_round):
        reached = worth(speeds(given_round), weights)
    best = 0.0
    for cores in product(*([0.0, *model.cpus_per_gpu] for model in chosen)):
        if sum(cores) <= 4 * cpus_per_gpu:
            fast = [
                model.speed[model.cpus_per_gpu.index(count)][0] if count else 0.0
                for model, count in zip(chosen, cores, strict=True)
            ]
            best = max(best, worth(np.array(fast), weights))
    assert reached >= 0.7 * best


def worth(fast: np.ndarray[tuple[int], np.dtype[np.float64]], weights: list[float]) -> float:
    """Return what joint counts: progress, and that a job runs at all."""
    return float((fast + for_running(stops_jobs=True).worth * (fast > 0)) @ weights)


class BoundedWorth(Worth):
    """Whose plans are worth no more than it says that any is."""

    def of(self, plan: PlacementDraft, relative: Floats | None = None, restarts: bool = True) -> float:
        found = super().of(plan, relative, restarts)
        assert found <= self.at_most(np.flatnonzero(plan.planned), plan.gpus) + 1e-9
        return found


@given(st.integers(0, 2**32), st.sampled_from(["fifo", "las", "srtf"]))
@settings(deadline=None, max_examples=25)
def test_no_plan_is_worth_more_than_the_most(seed: int, order: str) -> None:
    """More jobs than GPUs, on nodes of two sizes; some jobs share cores, some need memory."""
    random = np.random.default_rng(seed)
    rows = [
        job(
            60.0 * at,
            float(random.integers(100, 4_000)),
            gpus=int(random.choice([1, 1, 2, 3, 6])),
            model=str(random.choice([*MODELS, ""])),
        )
        for at in range(16)
    ]
    cluster = cluster_of(4, 4, 2, memory_gb_per_gpu=7.0, cpus_per_gpu=1.5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joint, "Worth", BoundedWorth)
        run(jobs_of(*rows), cluster, f"{order}+joint", models=MODELS, restart_cost_seconds=60.0)
