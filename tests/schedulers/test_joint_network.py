"""joint on a network: gangs where it costs them little, and moves that repay."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.schedulers.allocation.draft_allocator import AllocationInput
from muster.schedulers.allocation.placement_draft import PlacementDraft
from muster.schedulers.joint import joint
from muster.schedulers.joint.on_network import plans_on_network
from muster.simulation import Run
from muster.workload.generators.synergy import generate
from tests.building import cluster_of, column, finishes, jobs_of, run
from tests.schedulers.test_dally_network import CHATTY, gang, small_cluster
from tests.schedulers.test_joint import MODELS

LAYERS = {"chatty": CHATTY}
ONE_RACK: dict[str, Any] = {"layers": LAYERS, "network": "physical"}


def nodes_of(result: Run, job: str) -> list[str]:
    """The nodes that a job ever held, by name."""
    held = result.record.allocations.filter(pl.col("job_id") == job)
    return sorted(held["node"].unique().to_list())


def test_a_gang_takes_the_rack_that_holds_all_of_it() -> None:
    """As few nodes as hold it would be the free one of the first rack and one of the second."""
    trace = jobs_of(gang(2, 2_000), gang(4, 400, model="chatty", submit_seconds=1))
    result = run(trace, small_cluster(2, 4), "fifo+joint", layers=LAYERS, restart_cost_seconds=30.0)
    assert nodes_of(result, "0") == ["n0"]
    assert nodes_of(result, "1") == ["n2", "n3"]


def test_a_gang_takes_one_of_the_machines_left_free() -> None:
    """Two of the four are taken in the same decision. Over two it would go at 0.8 of its speed, which is enough."""
    trace = jobs_of(gang(3, 300, model="mild"), gang(2, 800, model="mild"))
    layers = {"mild": replace(CHATTY, gradient_gb=0.2)}
    result = run(trace, small_cluster(2, 4, racks=1), "fifo+joint", layers=layers, network="physical")
    assert len(nodes_of(result, "0")) == 2
    assert len(nodes_of(result, "1")) == 1


@pytest.mark.parametrize("order", ["fifo", "las"])
@pytest.mark.parametrize("reference", [4, 1])
def test_a_job_is_on_the_nodes_that_make_it_fast(reference: int, order: str) -> None:
    """Three nodes have two cores a GPU, two have four; another gang communicates, so that places differ."""
    few, many = small_cluster(2, 3, racks=1), small_cluster(2, 2, racks=1)
    nodes = [replace(node, cpus=4.0) for node in few.nodes]
    nodes += [replace(node, name=f"many{at}", cpus=8.0) for at, node in enumerate(many.nodes)]
    trace = jobs_of(gang(2, 400, model="chatty"), gang(2, 1_000, model="linear"))
    speeds = tuple((cores / reference,) for cores in range(1, 5))
    linear = replace(MODELS["linear"], reference_cpus_per_gpu=float(reference), speed=speeds)
    models = MODELS | {"linear": linear}
    result = run(trace, replace(few, nodes=tuple(nodes)), f"{order}+joint", models=models, **ONE_RACK)
    assert nodes_of(result, "1") == ["many0"]


def test_a_fast_kind_counts_less_than_a_fast_place() -> None:
    """With three and a half cores a GPU it is at 0.875 of its speed with four, over two nodes with four at 0.83."""
    few, many = small_cluster(2, 1, racks=1), small_cluster(1, 2, racks=1)
    nodes = [replace(node, cpus=7.0) for node in few.nodes]
    nodes += [replace(node, name=f"many{at}", cpus=4.0) for at, node in enumerate(many.nodes)]
    layers = {"linear": replace(CHATTY, gradient_gb=0.2)}
    trace = jobs_of(gang(2, 1_000, model="linear"))
    options: dict[str, Any] = {"models": MODELS, "layers": layers, "network": "physical"}
    result = run(trace, replace(few, nodes=tuple(nodes)), "las+joint", **options)
    assert nodes_of(result, "0") == ["n0"]


@pytest.mark.parametrize(("gradient_gb", "first"), [(0.8, "slow"), (1.2, "other")])
@pytest.mark.parametrize("order", ["fifo", "las", "gittins"])
def test_a_slow_place_is_taken_before_others_do(order: str, gradient_gb: float, first: str) -> None:
    """One GPU is free on each machine, where the gang has 0.56 or 0.45 of its speed; another one comes after it."""
    busy = gang(3, 5_000, preemptible=False)
    slow, other = gang(2, 1_000, model="slow", submit_seconds=1), gang(2, 1_000, submit_seconds=1)
    layers = {"slow": replace(CHATTY, gradient_gb=gradient_gb)}
    cluster = small_cluster(4, 2, racks=1)
    trace = jobs_of(busy, busy, slow, other)
    result = run(
        trace, cluster, f"{order}+joint", layers=layers, network="physical", restart_cost_seconds=600.0
    )
    at_once = [start == 1.0 for start in column(result, "start_seconds")[2:]]
    assert at_once == [first == "slow", first == "other"]


def crowded(restart_cost_seconds: float) -> Run:
    """A gang that only finds one GPU on each of two machines, until one of them becomes free at 100 s."""
    trace = jobs_of(gang(3, 300), gang(3, 9_000), gang(2, 2_000, model="chatty", submit_seconds=1))
    cluster = small_cluster(4, 2, racks=1)
    return run(trace, cluster, "las+joint", **ONE_RACK, restart_cost_seconds=restart_cost_seconds)


def test_a_running_gang_moves_to_one_machine_if_it_repays() -> None:
    """Over two machines it is half as fast: 1 GB at 1 GB/s beside 1 s of compute; within one, 0.01 s is exposed."""
    result = crowded(5.0)
    assert column(result, "moves") == [0, 0, 1]
    # 49.5 s of the work is done when it moves; the rest takes 1.01 s a second.
    assert finishes(result)[2] == pytest.approx(100 + 5 + (1_000 - 49.5) * 1.01, rel=1e-3)


def test_a_running_gang_moves_beside_many_others() -> None:
    """As above with ten more machines, so that it gains less than 5 % of what all jobs are worth; the same jobs run."""
    others = [gang(4, 9_000) for _ in range(10)]
    trace = jobs_of(gang(3, 300), gang(3, 9_000), *others, gang(2, 2_000, model="chatty", submit_seconds=1))
    result = run(trace, small_cluster(4, 12, racks=1), "las+joint", **ONE_RACK, restart_cost_seconds=5.0)
    assert column(result, "moves")[-1] == 1
    assert sum(column(result, "moves")) == 1


def test_a_running_gang_stays_where_a_move_costs_too_much() -> None:
    result = crowded(7_200.0)
    assert column(result, "moves") == [0, 0, 0]
    assert finishes(result)[2] == pytest.approx(1 + 2_000, rel=1e-3)


@pytest.mark.parametrize(("restart_cost_seconds", "moves"), [(100.0, 1), (200.0, 0)])
def test_a_move_gains_more_than_its_restart_loses(restart_cost_seconds: float, moves: int) -> None:
    """One machine is 4 % faster than two, a restart of 100 s loses 2.8 % of an hour; no job is protected any more."""
    layers = {"mild": replace(CHATTY, gradient_gb=0.04)}
    trace = jobs_of(gang(3, 9_000), gang(3, 90_000), gang(2, 80_000, model="mild", submit_seconds=1))
    cluster = small_cluster(4, 2, racks=1)
    options: dict[str, Any] = {"layers": layers, "network": "physical"}
    result = run(trace, cluster, "las+joint", **options, restart_cost_seconds=restart_cost_seconds)
    assert column(result, "moves") == [0, 0, moves]


@pytest.mark.parametrize(("gradient_gb", "stops"), [(3.0, 0), (6.0, 1)])
def test_others_run_where_all_gain_more_than_five_percent(gradient_gb: float, stops: int) -> None:
    """Beside two jobs that stay, worth 4.2, a gang has one GPU on each machine: 0.25 or 0.14 as fast as on one.

    It is worth 0.6 or 0.39 there. The two that would have these GPUs are worth 0.74, as they are behind it: 3 or 8 %
    of all more. One of those that stay has a choice of sizes, so that the order alone does not decide.
    """
    kept = gang(2, 200_000, preemptible=False)
    others = [gang(1, 50_000, submit_seconds=100)] * 2
    spread = gang(2, 2_000, model="chatty", submit_seconds=1)
    trace = jobs_of(kept, kept | {"min_gpus": 1, "max_gpus": 2}, spread, *others)
    layers = {"chatty": replace(CHATTY, gradient_gb=gradient_gb)}
    options: dict[str, Any] = {"layers": layers, "network": "physical", "restart_cost_seconds": 1.0}
    result = run(trace, small_cluster(3, 2, racks=1), "srtf+joint", **options)
    assert column(result, "preemptions") == [0, 0, stops, 0, 0]


def test_a_gang_that_nothing_hurts_is_spread_for_another() -> None:
    """Packed, the two of three GPUs would leave the other one GPU of each machine, and half its speed."""
    trace = jobs_of(gang(3, 300), gang(3, 300), gang(2, 200, model="chatty"), gang(1, 100), gang(1, 100))
    result = run(trace, small_cluster(4, 2, racks=1), "fifo+joint", **ONE_RACK, restart_cost_seconds=5.0)
    assert finishes(result) == pytest.approx([100, 100, 101, 200, 200])


def test_a_gang_does_not_displace_jobs_for_an_idle_gpu() -> None:
    """Seven run on eight GPUs; the gang, last in the order, would stop three of them and keep all GPUs busy."""
    trace = jobs_of(*[gang(1, 100_000)] * 7, gang(4, 2_000_000, model="chatty", submit_seconds=10))
    result = run(trace, small_cluster(4, 2, racks=1), "srtf+joint", **ONE_RACK, restart_cost_seconds=60.0)
    assert finishes(result)[:7] == [100_000.0] * 7


def test_a_job_of_low_rank_takes_no_gpus_of_others() -> None:
    """Its four GPUs would count more than the one of the shortest job, beside which three are idle."""
    trace = jobs_of(gang(1, 100), gang(4, 600), gang(4, 5_000, model="chatty", submit_seconds=20))
    result = run(trace, small_cluster(4, 2, racks=1), "srtf+joint", **ONE_RACK, restart_cost_seconds=1.0)
    assert column(result, "preemptions") == [0, 0, 0]
    assert finishes(result)[:2] == pytest.approx([100, 150])


def test_a_running_job_of_an_unknown_model_keeps_its_share() -> None:
    """Amounts that it holds make it no faster by its model, so its plans are worth as much without any."""
    elastic = gang(1, 900, model="chatty", submit_seconds=0) | {"min_gpus": 1, "max_gpus": 4}
    trace = jobs_of(elastic, gang(2, 700, model="chatty", submit_seconds=40), gang(3, 500, submit_seconds=60))
    result = run(trace, cluster_of(4, 4, racks=2), "las+joint", layers=LAYERS, restart_cost_seconds=60.0)
    held = result.record.allocations.select(pl.col("cpus", "memory_gb") / pl.col("gpus"))
    assert (held["cpus"].min(), held["memory_gb"].min()) == (3.0, 62.5)


def test_a_job_that_cannot_be_stopped_keeps_its_share() -> None:
    """Where all others are placed again, the memory of the job beside which they come would make one of them fast."""
    trace = jobs_of(
        gang(1, 300, model="chatty", submit_seconds=5, preemptible=False),
        gang(2, 200, model="chatty"),
        gang(1, 100, model="cached", submit_seconds=50),
        gang(3, 3_000, model="chatty", submit_seconds=50),
    )
    nodes = replace(small_cluster(4, 2, racks=1), nodes=cluster_of(4, 4, memory_gb_per_gpu=5.0).nodes)
    result = run(trace, nodes, "las+joint", models=MODELS, **ONE_RACK)
    held = result.record.allocations.filter(pl.col("job_id") == "0")
    assert (held["cpus"].min(), held["memory_gb"].min()) == (3.0, 5.0)


def test_a_gang_that_fits_beside_the_first_has_its_cores() -> None:
    """The shortest job would be 3.8 times as fast with all cores, and three GPUs idle: by its rank it counted more."""
    speeds = ((1.0,), (1.93,), (2.87,), (3.8,))
    steep = replace(MODELS["linear"], name="steep", reference_cpus_per_gpu=1.0, speed=speeds)
    trace = jobs_of(gang(1, 4_000, model="steep"), gang(3, 30_000, model="chatty"))
    result = run(trace, small_cluster(4, 1, racks=1), "srtf+joint", models={"steep": steep}, **ONE_RACK)
    assert column(result, "start_seconds") == [0, 0]


def seen_beside_all(given: AllocationInput, *asked: Any) -> list[tuple[float, PlacementDraft]]:
    """The drafts, looked at beside all that might be made: none is worth more than the most. None is remembered."""
    gangs, sizes, worth, stays, by_density = asked
    given.proposal.remembered = None
    made = plans_on_network(given, gangs, sizes, worth, stays.copy(), by_density)
    given.proposal.remembered = None
    most = worth.at_most(np.flatnonzero(given.opened.planned), given.opened.gpus)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worth, "at_most", lambda *_: inf)
        possible = plans_on_network(given, gangs, sizes, worth, stays, by_density)
    assert max(worth.of(draft) for _, draft in possible) <= most + 1e-9
    if len(made) < len(possible):
        _, taken = max(possible, key=lambda draft: round(draft[0], 9))
        assert ((taken.first >= 0) == (made[0][1].first >= 0)).all()
    return made


@given(st.integers(0, 2**32), st.sampled_from(["las", "srtf", "gittins"]), st.booleans())
@settings(deadline=None, max_examples=40)
def test_drafts_that_run_others_are_made_if_one_may_win(seed: int, order: str, restarts: bool) -> None:
    """Gangs that the network hurts, jobs that share cores, and jobs that nothing hurts."""
    random = np.random.default_rng(seed)
    rows = [
        gang(
            int(random.choice([1, 1, 2, 3, 4, 6])),
            float(random.integers(100, 4_000)),
            model=str(random.choice(["chatty", "shared", "cached", "unknown"])),
            submit_seconds=60 * at,
        )
        for at in range(14)
    ]
    layers = {name: replace(CHATTY, name=name) for name in ("chatty", "shared")}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joint, "plans_on_network", seen_beside_all)
        cluster = small_cluster(4, 4)
        known: dict[str, Any] = {"layers": layers, "models": MODELS, "resize_restarts": restarts}
        run(jobs_of(*rows), cluster, f"{order}+joint", restart_cost_seconds=60.0, **known)


@pytest.mark.parametrize(("order", "seed"), [("las", 10), ("las", 11), ("srtf", 8)])
def test_a_gang_on_several_nodes_always_has_cores(order: str, seed: int) -> None:
    """Where it may not be stopped and all others are placed again, these could take all that its nodes have."""
    trace = generate(60, 2.5, (40, 40, 20), multi_gpu=True, seed=seed)
    cluster = cluster_of(8, 8, 8, 8, racks=2)
    result = run(trace, cluster, f"{order}+joint", network="physical", restart_cost_seconds=60.0)
    assert column(result, "preemptions") != [0] * 60
    assert result.record.allocations.filter(pl.col("cpus") <= 0).is_empty()
