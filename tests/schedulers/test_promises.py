"""What a composed scheduler promises about time, at its edges."""

from __future__ import annotations

import pytest

from tests.building import cluster_of, column, finishes, job, jobs_of, run

NEVER_ENDS = [job(0, 1000), job(0, 1000)]


def test_a_job_is_promoted_when_it_has_waited_too_long() -> None:
    # Short jobs keep coming; without promotion job 0, the longest, would run last.
    trace = jobs_of(job(0, 80), *(job(10 * n, 10) for n in range(40)))
    starved = run(trace, cluster_of(1), "srtf")
    helped = run(trace, cluster_of(1), "srtf", {"promote_after_seconds": "100"})
    assert column(starved, "finish_seconds")[0] == pytest.approx(480)
    first_run = column(helped, "start_seconds")[0]
    assert first_run == pytest.approx(100, abs=1e-3)
    assert column(helped, "finish_seconds")[0] == pytest.approx(180, abs=1e-3)


def test_promotion_in_rounds_takes_effect_a_round_later() -> None:
    trace = jobs_of(job(0, 80), *(job(10 * n, 10) for n in range(40)))
    result = run(trace, cluster_of(1), "srtf", {"promote_after_seconds": "100"}, round_seconds=10.0)
    assert column(result, "start_seconds")[0] == pytest.approx(120)


def test_releasing_gpus_are_kept_for_the_job_promised_them() -> None:
    # Job 1 outranks job 0, whose GPUs take 40 s to come free; no job is stopped a second time meanwhile.
    trace = jobs_of(job(0, 1000, gpus=4), job(10, 100, gpus=4), job(15, 900, gpus=1))
    result = run(trace, cluster_of(4), "srtf", release_seconds_per_gpu=10.0)
    assert column(result, "start_seconds")[1] == pytest.approx(50)
    assert column(result, "preemptions") == [1, 0, 0]
    assert finishes(result)[1] == pytest.approx(150)


@pytest.mark.parametrize(
    "allocation",
    ["proportional", "least-loss", "joint", "tune", "tune-plus", "opt", "greedy", "tune-published"],
)
def test_gpus_that_come_free_one_by_one_are_kept(allocation: str) -> None:
    # Both nodes are promised to job 2. What job 0 gives back is free 2 s before what job 1 does.
    trace = jobs_of(job(0, 2690), job(0, 3573, gpus=2), job(100, 632, gpus=16), job(101, 5000, gpu_milli=500))
    result = run(trace, cluster_of(8, 8), f"srtf+{allocation}", release_seconds_per_gpu=2.0)
    assert column(result, "start_seconds")[2] == pytest.approx(104)
    assert column(result, "start_seconds")[3] >= 104 + 632
    assert column(result, "preemptions") == [1, 1, 0, 0]


@pytest.mark.parametrize("round_seconds", [300.0, None])
@pytest.mark.parametrize("order", ["las", "srtf", "ftf"])
def test_restarts_as_long_as_a_turn_do_not_switch_for_ever(order: str, round_seconds: float | None) -> None:
    # An interruption costs a third of each job's work: it is not worth it, so the jobs run one after the other.
    trace = jobs_of(*NEVER_ENDS)
    done = run(trace, cluster_of(1), order, restart_cost_seconds=300.0, round_seconds=round_seconds)
    assert column(done, "preemptions") == [0, 0]
    assert finishes(done)[0] == 1000.0


def test_a_job_behind_a_blocked_head_is_not_stopped_in_vain() -> None:
    # Job 4 outranks job 3 and needs one node whole; a GPU is free on each node, but jobs 0 and 2 cannot be stopped.
    trace = jobs_of(
        job(0, 1000, preemptible=False, priority=5),
        job(0, 10, priority=5),
        job(0, 1000, preemptible=False, priority=5),
        job(0, 500),
        job(20, 50, gpus=2, priority=9),
    )
    settings = {"strict": "true"}
    done = run(trace, cluster_of(2, 2), "priority+proportional+consolidate", settings)
    assert column(done, "preemptions") == [0] * 5
    assert finishes(done)[3] == 500.0


@pytest.mark.parametrize(
    "allocation", ["proportional", "tune", "tune-plus", "opt", "greedy", "joint", "least-loss"]
)
@pytest.mark.parametrize(("order", "settings"), [("fifo-strict", {}), ("srtf", {"strict": "true"})])
def test_no_job_passes_one_that_does_not_fit(order: str, settings: dict[str, str], allocation: str) -> None:
    """Two GPUs are idle beside the first job, which may not be stopped, until the second, of eight, has run."""
    rows = job(0, 1000, gpus=6, preemptible=False), job(10, 50, gpus=8), job(20, 100), job(30, 200, gpus=2)
    done = run(jobs_of(*rows), cluster_of(8), f"{order}+{allocation}", settings)
    assert column(done, "start_seconds") == [0, 1000, 1050, 1050]
    reasons = done.record.reasons.sort("from_seconds", "job_id")
    assert reasons["reason"].to_list() == ["no_gpus", "behind_head", "behind_head", "no_gpus"]


@pytest.mark.parametrize("allocation", ["proportional", "tune", "tune-plus", "opt"])
def test_shares_of_a_gpu_make_room_for_a_gang_whose_turn_it_is(allocation: str) -> None:
    """Three halves run; a gang that needs every GPU has had less service, and then they alternate."""
    halves = [job(0, 2000, gpu_milli=500)] * 3
    done = run(
        jobs_of(*halves, job(10, 300, gpus=8)),
        cluster_of(8),
        f"las+{allocation}",
        {"quantum_seconds": "60"},
        restart_cost_seconds=5,
    )
    # An interruption costs 5 s, so each start works for 60 s before it makes room, at multiples of 60 s from 10 on.
    assert column(done, "start_seconds")[3] == 70.0
    assert column(done, "preemptions") == [2, 2, 2, 2]
    assert finishes(done) == [2190.0, 2190.0, 2190.0, 2320.0]
