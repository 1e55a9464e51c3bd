"""What owners state in a trace is honoured, refused, or named in a note as without effect."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.problems import InputError
from muster.report.metrics import summarise
from muster.schedulers import registry
from muster.simulation import Run
from tests.building import cluster_of, column, finishes, job, jobs_of, run

ORDERS = sorted(
    info.name for info in registry.parts() if info.slot == "queue_order" and not info.name.endswith("-sim")
)


def notes(result: Run) -> list[str]:
    return list(result.record.run["trace"]["notes"])


@pytest.mark.parametrize("scheduler", ["fifo+proportional", "las+tune-plus"])
def test_a_job_ends_at_its_time_limit_if_asked(scheduler: str) -> None:
    trace = jobs_of(job(0, 100, time_limit_seconds=40.0), job(1, 10, time_limit_seconds=10.0))
    result = run(trace, cluster_of(1), scheduler, end_at_limit=True)
    assert column(result, "outcome") == ["timed_out", "completed"]
    assert column(result, "run_seconds") == pytest.approx([40, 10])
    assert max(column(result, "finish_seconds")) == pytest.approx(50)
    assert column(result, "jct_seconds")[0] is None
    summary = summarise(result.record)
    assert (summary["timed_out"], summary["completed"], summary["unfinished"]) == (1, 1, 0)
    assert result.unfinished == 0


@pytest.mark.parametrize("scheduler", ["fifo+proportional", "las+tune-plus", "fifo+easy", "slurm"])
def test_unasked_a_limit_only_informs_and_the_result_says_so(scheduler: str) -> None:
    trace = jobs_of(job(0, 100, time_limit_seconds=40.0), job(1, 10, time_limit_seconds=10.0))
    result = run(trace, cluster_of(1, 1), scheduler)
    assert column(result, "outcome") == ["completed", "completed"]
    assert column(result, "run_seconds") == pytest.approx([100, 10])
    assert "1 job ran past the time limit; --end-at-limit ends jobs there" in notes(result)
    assert not any(
        "time limit" in note for note in notes(run(trace, cluster_of(1), scheduler, end_at_limit=True))
    )
    assert result.record.run["settings"]["end_at_limit"] is False


def test_a_limit_counts_across_interruptions() -> None:
    """A job of 30 s is interrupted once. Starting again costs 2 s, which its limit of 31 s does not have."""
    trace = jobs_of(job(0, 30, time_limit_seconds=31.0), job(10, 5, priority=1.0))
    ended, informed = (
        run(trace, cluster_of(1), "priority", restart_cost_seconds=2.0, end_at_limit=on)
        for on in (True, False)
    )
    assert column(ended, "outcome") == ["timed_out", "completed"]
    assert column(informed, "outcome") == ["completed", "completed"]
    assert [column(one, "run_seconds")[0] for one in (ended, informed)] == pytest.approx([31, 32])


def test_the_earliest_deadline_runs_first() -> None:
    trace = jobs_of(
        job(0, 50, deadline_seconds=200.0),
        job(0, 10),
        job(1, 20, deadline_seconds=30.0),
        job(2, 30, deadline_seconds=70.0),
    )
    in_order = run(trace, cluster_of(1), "edf+proportional", restart_cost_seconds=0.0)
    assert finishes(in_order) == pytest.approx([100, 110, 21, 51])
    assert summarise(in_order.record)["deadlines"] == {"jobs": 3, "met": 1.0}
    by_arrival = run(trace, cluster_of(1), "fifo+proportional")
    assert finishes(by_arrival) == pytest.approx([50, 60, 80, 110])
    assert summarise(by_arrival.record)["deadlines"] == {"jobs": 3, "met": pytest.approx(1 / 3)}


def test_what_has_no_effect_is_named() -> None:
    trace = jobs_of(job(0, 5, priority=2.0, deadline_seconds=9.0), job(0, 5, gpus=2, max_gpus=4), job(0, 5))
    said = notes(run(trace, cluster_of(4), "fifo+proportional"))
    assert "this scheduler ignores priority, which 1 job of 3 state" in said
    assert "this scheduler ignores deadline_seconds, which 1 job of 3 state" in said
    assert "this scheduler ignores min_gpus and max_gpus, which 1 job of 3 state" in said
    for scheduler, column_name in (("edf", "deadline"), ("priority", "priority"), ("gandiva", "max_gpus")):
        assert not [note for note in notes(run(trace, cluster_of(4), scheduler)) if column_name in note]


@pytest.mark.parametrize("scheduler", ["slurm", "fifo", "multifactor+easy", "slurm-like", "gittins+joint"])
def test_a_number_of_nodes_is_kept_or_named(scheduler: str) -> None:
    """One GPU is on one node under every scheduler."""
    trace = jobs_of(job(0, 50, gpus=2, nodes=2), job(0, 50, nodes=1), job(0, 50, gpus=2))
    result = run(trace, cluster_of(4, 4), scheduler)
    nodes = result.record.allocations.filter(job_id="0")["node"].n_unique()
    assert (nodes == 2) != ("this scheduler ignores nodes, which 1 job of 3 state" in notes(result))


@pytest.mark.parametrize("scheduler", ["slurm", "multifactor", "multifactor+easy", "slurm-like", "priority"])
def test_a_priority_goes_first_or_is_named(scheduler: str) -> None:
    trace = jobs_of(job(0, 50), job(1, 50), job(2, 50, priority=5.0))
    result = run(trace, cluster_of(1), scheduler)
    _, second, third = column(result, "finish_seconds")
    note = "this scheduler ignores priority, which 1 job of 3 state"
    assert (third < second) != (note in notes(result))


def test_a_size_that_never_fits_is_refused() -> None:
    trace = jobs_of(job(0, 5, gpus=8, min_gpus=2), job(0, 5))
    with pytest.raises(InputError, match="job 0 can never run: cluster test has 4 GPUs"):
        run(trace, cluster_of(4), "fifo+proportional")
    result = run(trace, cluster_of(4), "fifo+proportional", skip_impossible=True)
    assert column(result, "outcome") == ["refused", "completed"]


@pytest.mark.parametrize(
    "rest", ["proportional", "requested", "tune", "tune-plus", "greedy", "opt", "joint", "least-loss"]
)
@pytest.mark.parametrize("asks", [{"cpus": 20.0}, {"memory_gb": 400.0}])
def test_a_request_for_more_than_one_machine_is_divided(rest: str, asks: dict[str, float]) -> None:
    """Two GPUs of one machine would do, but what is requested beside them is that of two machines."""
    result = run(jobs_of(job(0, 50, 2, **asks), job(0, 5)), cluster_of(4, 4), f"fifo+{rest}")
    assert column(result, "outcome") == ["completed", "completed"]


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, []),
        (1, ["left out 1 job that cluster test could never hold: 0"]),
        (5, ["left out 5 jobs that cluster test could never hold: 0, 1, 2, 3, 4"]),
        (7, ["left out 7 jobs that cluster test could never hold: 0, 1, 2, 3, 4 and 2 more"]),
    ],
)
def test_jobs_that_are_left_out_are_counted_and_named(count: int, said: list[str]) -> None:
    trace = jobs_of(*[job(0, 5, gpus=8)] * count, job(0, 5))
    result = run(trace, cluster_of(4), "fifo+proportional", skip_impossible=True)
    assert [note for note in notes(result) if "left out" in note] == said


@pytest.mark.parametrize(
    ("asks", "said"),
    [
        ({"cpus": 30.0}, "the largest has 24 CPU cores"),
        ({"memory_gb": 501.0}, "the largest has 500 GB"),
        ({"gpus": 4, "cpus": 30.0, "memory_gb": 10.0}, None),
        ({"gpus": 10, "cpus": 37.0}, "CPU cores"),
        ({"gpus": 0, "cpus": 25.0}, "the largest has 24 CPU cores"),
        ({"gpus": 0, "cpus": 24.0, "memory_gb": 501.0}, "the largest has 500 GB"),
    ],
)
def test_a_request_that_fits_no_machine_is_refused(asks: dict[str, float], said: str | None) -> None:
    trace = jobs_of(job(0, 5) | asks)
    cluster = cluster_of(8, 4)
    if said is None:
        assert run(trace, cluster, "fifo+proportional").unfinished == 0
        return
    with pytest.raises(InputError, match=said):
        run(trace, cluster, "fifo+proportional")
    assert run(trace, cluster, "fifo+proportional", skip_impossible=True).refused == ("0",)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("allocation", ["proportional", "tune", "tune-plus"])
def test_jobs_without_gpus_run_beside_the_others(order: str, allocation: str) -> None:
    trace = jobs_of(
        *(job(at, 100, model="resnet18") for at in range(4)),
        job(5, 50, gpus=0, cpus=2.0, memory_gb=10.0),
        job(6, 50, gpus=0, cpus=4.0),
        *(job(10 + at, 30, gpus=2, model="gnmt") for at in range(3)),
    )
    result = run(trace, cluster_of(4), f"{order}+{allocation}")
    assert result.unfinished == 0
    held = result.record.allocations
    rows = [row for row in held.to_dicts() if row["job_id"] in ("4", "5")]
    assert {(row["job_id"], row["gpus"], row["cpus"], row["memory_gb"]) for row in rows} == {
        ("4", 0.0, 2.0, 10.0),
        ("5", 0.0, 4.0, 0.0),
    }
    assert column(result, "run_seconds")[4:6] == pytest.approx([50, 50], abs=200)
    summarise(result.record)


@pytest.mark.parametrize("scheduler", ["fifo+proportional", "las+tune-plus"])
def test_a_job_without_gpus_prefers_a_node_without(scheduler: str) -> None:
    with_gpus = cluster_of(2, 2)
    nodes = (with_gpus.nodes[0], replace(with_gpus.nodes[1], gpus=0, gpus_per_island=1))
    trace = jobs_of(job(0, 10), job(0, 10, gpus=0, cpus=3.0), job(1, 10, model="gnmt"))
    result = run(trace, replace(with_gpus, nodes=nodes), scheduler)
    held = {row["job_id"]: row["node"] for row in result.record.allocations.to_dicts()}
    assert held == {"0": "node0", "1": "node1", "2": "node0"}
    assert finishes(result)[1] == pytest.approx(10)


@pytest.mark.parametrize("scheduler", ["dally", "dally-plus", "gandiva", "smd"])
def test_a_scheduler_without_place_for_them_refuses(scheduler: str) -> None:
    trace = jobs_of(job(0, 5, gpus=0, cpus=1.0))
    with pytest.raises(InputError, match="has no place for jobs with gpus = 0"):
        run(trace, cluster_of(4), scheduler)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (job(0, 5, gpus=0), "cpus: is empty"),
        (job(0, 5, gpus=0, cpus=1.0, model="gnmt"), "model: found 'gnmt'; is stated for a job with gpus = 0"),
        (job(0, 5, gpus=0, cpus=1.0, max_gpus=2), "max_gpus: found 2; is stated for a job with gpus = 0"),
    ],
)
def test_a_row_without_gpus_is_checked(row: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        jobs_of(row)
