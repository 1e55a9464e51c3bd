"""The bound on waiting, `promote_after_seconds`: it holds for every scheduler, and a promoted job has one turn."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster import Cluster, Node
from muster.cluster.shipped import parse_cluster
from muster.problems import InputError
from muster.schedulers.ageing import LEAST_TURN_SECONDS
from muster.schedulers.registry import build, presets
from muster.simulation.simulate import Run
from muster.workload.models import synergy_models
from tests.building import cluster_of, column, job, jobs_of, run
from tests.schedulers.test_dally_network import gang
from tests.schedulers.test_dally_timers import NOISY, racked

BOUND = 2000.0
LEASE = 500.0
PREEMPTING = (
    "srtf",
    "las",
    "srtf+consolidate",
    "dally-plus",
    "dally-plus-oracle",
    "tiresias",
    "muster",
    "srtf+joint",
)
LEASING = ("dally", "dally-consolidated", "themis", "las+least-loss")
SIZING = (
    "smd",
    "smd-reservation",
    "optimus",
    "oasis",
    "drf-1to1",
    "tetris-1to1",
    "equal-1to1",
    "first-fit-sized",
)
BOUNDED = (
    *(one.name for one in presets() if one.name != "slurm"),
    *SIZING,
    "density-first-fit",
    "gandiva",
)
"""Every preset and every whole scheduler but the replica of a program, and Slurm, which has no such setting."""


def longest_wait(result: Run) -> float:
    """Seconds that any job was without GPUs, from its arrival or a stop to the next start."""
    since = dict(result.record.jobs.select("job_id", "submit_seconds").rows())
    worst = 0.0
    held = result.record.allocations.select("job_id", "from_seconds", "to_seconds").sort("from_seconds")
    for name, begins, ends in held.rows():
        worst = max(worst, begins - since[name])
        since[name] = max(since[name], ends)
    return worst


JOBS = st.lists(
    st.builds(
        lambda submit, gpus, work, model: gang(gpus, work * gpus, submit_seconds=submit, model=model),
        st.integers(0, 3000),
        st.sampled_from([1, 1, 2, 3, 4, 8]),
        st.integers(100, 6000),
        st.sampled_from(["quiet", "noisy"]),
    ),
    min_size=4,
    max_size=10,
)


@given(JOBS, st.sampled_from([*PREEMPTING, *LEASING, *SIZING]), st.sampled_from([0.0, 30.0]))
@settings(max_examples=60, deadline=None)
def test_no_job_waits_longer_than_the_bound_and_turns(
    rows: list[dict[str, Any]], name: str, cost: float
) -> None:
    given = {"promote_after_seconds": str(BOUND)}
    turn = max(LEAST_TURN_SECONDS, 13 * cost)
    if name in LEASING:
        given["lease_seconds"] = str(LEASE)
        turn = LEASE
    cluster = racked((4, 4), (4, 4))
    result = run(jobs_of(*rows), cluster, name, given, layers={"noisy": NOISY}, restart_cost_seconds=cost)
    assert result.unfinished == 0
    # Each job that waits longer has one turn before it, and those that run may be protected for one.
    assert longest_wait(result) <= BOUND + (len(rows) + 1) * (turn + 300.0) + 1.0


SCARCE = ("2x4gpu,8cpu,40gb", "2x4gpu,4cpu,200gb", "2x4gpu,12cpu,100gb")
HUNGRY = st.lists(
    st.builds(
        lambda submit, gpus, work, model: job(submit, work, gpus=gpus, model=model),
        st.integers(0, 3000),
        st.sampled_from([1, 1, 2, 3, 4, 8]),
        st.integers(100, 6000),
        st.sampled_from(sorted(synergy_models())),
    ),
    min_size=4,
    max_size=12,
)


@given(HUNGRY, st.sampled_from(["muster", "srtf+joint"]), st.sampled_from(SCARCE))
@settings(max_examples=30, deadline=None)
def test_the_bound_holds_where_others_are_worth_more(
    rows: list[dict[str, Any]], name: str, nodes: str
) -> None:
    """Where CPU or memory is short, joint lets jobs wait beside idle GPUs."""
    given = {"promote_after_seconds": str(BOUND)}
    result = run(jobs_of(*rows), parse_cluster(nodes), name, given, restart_cost_seconds=0.0)
    assert result.unfinished == 0
    assert longest_wait(result) <= BOUND + (len(rows) + 1) * (LEAST_TURN_SECONDS + 300.0) + 1.0


@pytest.mark.parametrize("name", BOUNDED)
def test_every_preset_serves_a_large_job_within_the_bound(name: str) -> None:
    # Single jobs of 90 s keep all four GPUs of the node in use; a gang that needs all of them is overdue at 630.
    small = [job(20 * n, 90) for n in range(75)]
    trace = jobs_of(*small, job(30, 100, gpus=4))
    result = run(trace, cluster_of(4), name, {"promote_after_seconds": "600"})
    (start,) = result.record.jobs.filter(gpus=4)["start_seconds"].to_list()
    # The jobs that run then are interrupted, or end within 90 s; some presets decide once in 10 s.
    assert start <= 30 + 600 + 90 + 10
    assert result.unfinished == 0


@pytest.mark.parametrize("name", ["fjf", "slurm-like", "synergy", "dally-nowait", "optimus", "equal-1to1"])
def test_without_the_bound_the_large_job_starves(name: str) -> None:
    small = [job(20 * n, 90) for n in range(75)]
    result = run(jobs_of(*small, job(30, 100, gpus=4)), cluster_of(4), name)
    (start,) = result.record.jobs.filter(gpus=4)["start_seconds"].to_list()
    assert start > 1500


@pytest.mark.parametrize("name", ["optimus", "drf-1to1", "smd"])
def test_a_sized_job_gets_its_least_size_when_promoted(name: str) -> None:
    # The first job fills the cluster for 9000 s and may be interrupted; the second is overdue at 510.
    trace = jobs_of(job(0, 9000, gpus=4), job(10, 2000, gpus=2))
    result = run(trace, cluster_of(4), name, {"promote_after_seconds": "500"})
    starts = column(result, "start_seconds")
    assert starts[1] <= 510 + 1e-3
    assert result.unfinished == 0


@pytest.mark.parametrize("seconds", ["-1", "nan"])
def test_a_sizing_bound_takes_seconds_from_0_on(seconds: str) -> None:
    with pytest.raises(InputError, match="promote_after_seconds"):
        build("smd", {"promote_after_seconds": seconds})


def test_a_promoted_job_has_one_turn_and_no_more() -> None:
    # A long job among short ones that keep coming: promoted at 1000 s, it runs a turn and is outranked again.
    trace = jobs_of(job(0, 3000), *(job(100 * n, 100) for n in range(60)))
    result = run(trace, cluster_of(1), "srtf", {"promote_after_seconds": "1000"}, restart_cost_seconds=0.0)
    held = result.record.allocations.filter(job_id="0").sort("from_seconds").rows(named=True)
    assert held[0]["from_seconds"] == pytest.approx(1000, abs=1e-3)
    assert held[0]["to_seconds"] - held[0]["from_seconds"] == pytest.approx(LEAST_TURN_SECONDS, abs=100)
    assert len(held) > 2


def test_scattered_gpus_are_gathered_for_a_promoted_gang() -> None:
    # A gang that fits on one machine only; single jobs that keep coming never leave one empty.
    small = [job(20 * n, 130) for n in range(400)]
    trace = jobs_of(*small, job(30, 500, gpus=4))
    given = {"promote_after_seconds": "600"}
    result = run(trace, cluster_of(4, 4), "las+consolidate", given, restart_cost_seconds=0.0)
    (start,) = result.record.jobs.filter(gpus=4)["start_seconds"].to_list()
    assert start <= 30 + 600 + 301


@pytest.mark.parametrize("name", ["srtf+tune-plus", "srtf+opt"])
def test_all_running_jobs_make_room_if_fewer_do_not(name: str) -> None:
    # Ranks alternate between the machines: the last half of the jobs leaves only half of the gang's machine.
    nodes = tuple(
        Node(label, "t", at, 4, "v100", 4, 4, 4, 1.0, 1.0, labels=(label,)) for at, label in enumerate("ab")
    )
    running = [job(0, 9000 + at, constraint=f"label={'ab'[at % 2]}") for at in range(8)]
    trace = jobs_of(*running, job(30, 20000, gpus=4, constraint="label=a"))
    cluster, given = Cluster("two", nodes, ("r0", "r1")), {"promote_after_seconds": "600"}
    result = run(trace, cluster, name, given, restart_cost_seconds=0.0)
    assert column(result, "start_seconds")[-1] == pytest.approx(630)


def test_the_least_recent_of_the_promoted_goes_first() -> None:
    # Both are overdue when the machine is free: the longer job, which SRTF puts last, waits since earlier.
    trace = jobs_of(job(0, 900, preemptible=False), job(10, 400), job(20, 300), job(890, 50))
    result = run(trace, cluster_of(1), "srtf", {"promote_after_seconds": "500"}, restart_cost_seconds=0.0)
    assert column(result, "start_seconds")[1] == pytest.approx(900)
    assert column(result, "start_seconds")[2] == pytest.approx(1200)


def test_a_promotion_is_not_missed_by_rounding() -> None:
    # One GPU is free on each of two machines. (33.3 + 500) - 33.3 is below 500 in floating point.
    blockers = [job(0, 9000, constraint=f"label={name}") for name in ("a", "b")]
    nodes = tuple(
        Node(name, "t", at, 2, "v100", 2, 2, 2, 1.0, 1.0, labels=(name,)) for at, name in enumerate("ab")
    )
    given = {"promote_after_seconds": "500", "lease_seconds": "4000"}
    trace = jobs_of(*blockers, job(33.3, 50, gpus=2))
    result = run(trace, Cluster("two", nodes, ("r0", "r1")), "fifo+fully-consolidated", given)
    assert column(result, "start_seconds") == pytest.approx([0, 0, 533.3])
