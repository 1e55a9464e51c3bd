"""What must hold in every run, whatever the cluster, the jobs, the scheduler, the failures."""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.simulation import Run
from muster.workload.models import model
from tests.simulation.cases import AskedEveryRound, Case, allowed, cases, free_gpus_after, simulated, tables

CLOSE = 1e-6


@settings(max_examples=12, deadline=None)
@given(case=cases())
def test_nothing_is_held_twice_and_gangs_are_whole(case: Case) -> None:
    rows = tables(simulated(case))["allocations"]
    by_id = {row["job_id"]: row for row in case.rows}
    nodes = {node.name: node for node in case.cluster.nodes}
    gpus: dict[tuple[str, int], float] = defaultdict(float)
    sharing: dict[tuple[str, int], int] = defaultdict(int)
    amounts: dict[tuple[str, str], float] = defaultdict(float)
    gangs: dict[str, float] = defaultdict(float)
    changes = [(row["from_seconds"], 1, row) for row in rows] + [(row["to_seconds"], -1, row) for row in rows]
    for _, together in groupby(sorted(changes, key=lambda change: change[0]), key=lambda change: change[0]):
        touched = []
        for _, sign, row in together:
            touched.append(row)
            gangs[row["job_id"]] += sign * row["gpus"]
            for gpu in row["gpu_ids"]:
                if row["slice_group"] is None:
                    gpus[row["node"], gpu] += sign * row["gpus"] / len(row["gpu_ids"])
                else:
                    sharing[row["node"], gpu] += sign
            for resource in ("cpus", "memory_gb", "storage_gb_per_s"):
                amounts[row["node"], resource] += sign * row[resource]
        for row in touched:
            assert max(row["gpu_ids"]) < nodes[row["node"]].gpus
            assert all(gpus[row["node"], gpu] <= 1 + CLOSE for gpu in row["gpu_ids"])
            # A job that shares a GPU, in turns or packed, shares it with none that holds it alone.
            assert all(
                gpus[row["node"], gpu] < CLOSE or not sharing[row["node"], gpu] for gpu in row["gpu_ids"]
            )
            for resource in ("cpus", "memory_gb", "storage_gb_per_s"):
                assert amounts[row["node"], resource] <= getattr(nodes[row["node"]], resource) + CLOSE
            held, asked = (
                gangs[row["job_id"]] / by_id[row["job_id"]]["gpu_milli"] * 1000,
                by_id[row["job_id"]],
            )
            assert abs(held) < CLOSE or asked["min_gpus"] - CLOSE <= held <= asked["max_gpus"] + CLOSE
    for row in rows:
        assert allowed(nodes[row["node"]], by_id[row["job_id"]]["constraint"])
        assert row["from_seconds"] >= by_id[row["job_id"]]["submit_seconds"]


@settings(max_examples=12, deadline=None)
@given(case=cases())
def test_work_is_conserved(case: Case) -> None:
    found = tables(simulated(case))
    stretches = stretches_by_job(found["allocations"])
    shared = {row["job_id"] for row in found["allocations"] if row["slice_group"] is not None}
    for job in found["jobs"]:
        asked = next(row for row in case.rows if row["job_id"] == job["job_id"])
        assert job["outcome"] == "completed"
        assert job["iterations_done"] == job["iterations"]
        assert job["submit_seconds"] <= job["start_seconds"] <= job["finish_seconds"]
        assert job["wait_seconds"] + job["run_seconds"] == pytest.approx(job["jct_seconds"], abs=CLOSE)
        stages = ("input_stall", "compute", "communication", "restart")
        spent = sum(job[f"{stage}_seconds"] for stage in stages)
        assert spent == pytest.approx(job["run_seconds"], abs=CLOSE)
        held = stretches[job["job_id"]]
        assert sum(end - begin for begin, end, _ in held) == pytest.approx(job["run_seconds"], abs=CLOSE)
        service = sum((end - begin) * gpus for begin, end, gpus in held)
        assert service == pytest.approx(job["attained_gpu_seconds"], abs=CLOSE)
        productive = job["run_seconds"] - job["restart_seconds"]
        most_gpus = max(gpus for _, _, gpus in held)
        fastest = job["iterations"] * fastest_iteration(asked["model"]) * job["gpus"] / most_gpus
        assert productive >= fastest - CLOSE
        if not asked["model"] and not case.options.failures:
            assert productive >= job["ideal_seconds"] * job["gpus"] / most_gpus - CLOSE
            if job["job_id"] not in shared and most_gpus == pytest.approx(job["gpus"]):
                assert productive == pytest.approx(job["ideal_seconds"], abs=CLOSE)
        restarts = len(held) if case.options.resize_restarts else job["preemptions"] + job["moves"]
        assert case.options.restart_cost_seconds is not None
        # With a node at most the work since the last checkpoint is lost.
        most_lost = case.options.checkpoint_seconds if case.options.failures else 0.0
        most_each = case.options.restart_cost_seconds + most_lost
        assert job["restart_seconds"] <= restarts * most_each + CLOSE


@settings(max_examples=12, deadline=None)
@given(case=cases(failing=False))
def test_owners_are_heard(case: Case) -> None:
    """Who may not be stopped is not; a start is left alone for the least run time."""
    found = tables(simulated(case))
    stretches = stretches_by_job(found["allocations"])
    for job in found["jobs"]:
        asked = next(row for row in case.rows if row["job_id"] == job["job_id"])
        if not asked["preemptible"]:
            assert job["preemptions"] == 0
        runs = joined(stretches[job["job_id"]])
        assert len(runs) <= job["preemptions"] + 1
        for begin, end in runs[:-1]:
            assert end - begin >= asked["min_runtime_seconds"] - CLOSE


@settings(max_examples=40, deadline=None)
@given(case=cases(failing=False))
def test_no_job_is_stopped_in_vain(case: Case) -> None:
    """Where a job is stopped, another begins or changes on one of its nodes at the same moment.

    Leases may give up places in vain where interruptions are free.
    """
    found = tables(simulated(case.but(release_seconds_per_gpu=0.0, restart_cost_seconds=3.0)))
    rows = [row for row in found["allocations"] if row["slice_group"] is None]
    ends = {job["job_id"]: job["finish_seconds"] for job in found["jobs"]}
    begun = {(row["job_id"], row["from_seconds"]) for row in found["allocations"]}
    for row in rows:
        moment, job = row["to_seconds"], row["job_id"]
        if moment == ends[job] or (job, moment) in begun:
            continue
        nodes = {other["node"] for other in rows if (other["job_id"], other["to_seconds"]) == (job, moment)}
        assert any(
            other["from_seconds"] == moment and other["node"] in nodes for other in found["allocations"]
        )


@settings(max_examples=12, deadline=None)
@given(case=cases())
def test_decisions_and_reasons_say_what_happened(case: Case) -> None:
    result = simulated(case)
    found = tables(result)
    for row in found["decisions"]:
        now = [
            held
            for held in found["allocations"]
            if held["from_seconds"] <= row["time_seconds"] < held["to_seconds"]
        ]
        assert row["running"] == len({held["job_id"] for held in now})
        free = free_gpus_after(result, case.cluster, row["time_seconds"])
        if case.options.failures or case.options.release_seconds_per_gpu:
            assert row["free_gpus"] <= free + CLOSE
        else:
            assert row["free_gpus"] == pytest.approx(free, abs=CLOSE)
    explained: dict[str, float] = defaultdict(float)
    for row in found["reasons"]:
        explained[row["job_id"]] += row["to_seconds"] - row["from_seconds"]
    for job in found["jobs"]:
        assert explained[job["job_id"]] == pytest.approx(job["wait_seconds"], abs=CLOSE)


@settings(max_examples=12, deadline=None)
@given(case=cases(rounds=st.sampled_from([5.0, 7.5])))
def test_skipping_rounds_changes_nothing(case: Case) -> None:
    assert outcome(simulated(case)) == outcome(simulated(case, AskedEveryRound))


@settings(max_examples=12, deadline=None)
@given(case=cases(), order=st.randoms(use_true_random=False))
def test_order_of_the_files_rows_does_not_matter(case: Case, order: Any) -> None:
    for number, row in enumerate(case.rows):
        row["submit_seconds"] += number / 64
    shuffled = list(case.rows)
    order.shuffle(shuffled)
    other = Case(
        case.cluster, shuffled, case.scheduler, case.settings, case.options.__class__(**without_noise(case))
    )
    same = Case(case.cluster, case.rows, case.scheduler, case.settings, other.options)
    assert outcome(simulated(same)) == outcome(simulated(other))


@settings(max_examples=12, deadline=None)
@given(case=cases(failing=False))
def test_a_longer_trace_leaves_its_beginning_alone(case: Case) -> None:
    """Strict FIFO: who comes later never changes what happens to those before."""
    strict = Case(case.cluster, case.rows, "fifo-strict", {}, case.options)
    last = max(row["submit_seconds"] for row in case.rows)
    more = [row | {"job_id": f"more{row['job_id']}", "submit_seconds": last + 1} for row in case.rows]
    longer = Case(case.cluster, [*case.rows, *more], "fifo-strict", {}, case.options)
    before = outcome(simulated(strict))
    assert before == {job: then for job, then in outcome(simulated(longer)).items() if job in before}


def test_same_input_and_seed_give_the_same_bytes(tmp_path: Path) -> None:
    @settings(max_examples=12, deadline=None)
    @given(case=cases())
    def check(case: Case) -> None:
        folders = [tmp_path / "one", tmp_path / "two"]
        for folder in folders:
            folder.mkdir(exist_ok=True)
            simulated(case).record.write(folder)
        one, two = ({file.name: file.read_bytes() for file in folder.iterdir()} for folder in folders)
        assert one == two
        assert len(one) == 5

    check()


def outcome(run: Run) -> dict[str, tuple[Any, ...]]:
    """What came of each job."""
    kept = ("start_seconds", "finish_seconds", "run_seconds", "preemptions", "moves", "restart_seconds")
    return {job["job_id"]: tuple(job[key] for key in kept) for job in run.record.jobs.to_dicts()}


def without_noise(case: Case) -> dict[str, Any]:
    """The options with true beliefs: noise is drawn by place in the table."""
    return vars(case.options) | {"knowledge": "oracle"}


def stretches_by_job(rows: list[dict[str, Any]]) -> dict[str, list[tuple[float, float, float]]]:
    """For each job when it held how many GPUs, in order of time."""
    found: dict[str, dict[tuple[float, float], float]] = defaultdict(lambda: defaultdict(float))
    for row in rows:
        found[row["job_id"]][row["from_seconds"], row["to_seconds"]] += row["gpus"]
    return {job: sorted((*when, gpus) for when, gpus in times.items()) for job, times in found.items()}


def joined(held: list[tuple[float, float, float]]) -> list[tuple[float, float]]:
    """Stretches without a gap in between as one."""
    runs: list[tuple[float, float]] = []
    for begin, end, _ in held:
        if runs and runs[-1][1] == begin:
            runs[-1] = (runs[-1][0], end)
        else:
            runs.append((begin, end))
    return runs


def fastest_iteration(name: str) -> float:
    """Seconds an iteration at the best measured point."""
    if not name:
        return 1.0
    known = model(name)
    return known.seconds_per_iteration / known.best_speed
