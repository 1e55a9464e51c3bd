"""What a scheduler sees of a job whose number of GPUs may change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from muster.cluster.ledger import NodeAllocation
from muster.cluster.ledger_arrays import MICRO
from muster.cluster.shipped import parse_cluster
from muster.schedulers.contract import Jobs
from muster.service.controller.columns import LiveColumns
from muster.service.request import JobRequest
from muster.service.store.rows import JobRow

CLUSTER = parse_cluster("1x4gpu,8cpu,100gb")
REQUEST = JobRequest(
    name="job", command=("true",), directory="/", gpus=2, min_gpus=1, max_gpus=4, cpus=4, steps=1000
)
JOB = JobRow(1, "ann", REQUEST, 0.0)


def columns(row: JobRow = JOB, gpus: int = 0) -> LiveColumns:
    """With this job, on so many GPUs."""
    made = LiveColumns(CLUSTER, dict)
    made.admit([row])
    if gpus:
        here = NodeAllocation(CLUSTER.nodes[0].name, tuple(range(gpus)), 2.0 * gpus, 10.0)
        made.place(row.id, [here], 0.0)
    return made


def seen(of: LiveColumns) -> Jobs:
    return Jobs(of.table, np.array([JOB.id]), 0.0)


def test_the_bounds_are_the_owners() -> None:
    jobs = seen(columns())
    assert [*jobs.min_gpus, *jobs.gpus, *jobs.max_gpus] == [1, 2, 4]
    assert jobs.requested_per_gpu[0, 1] == 2 * MICRO


def test_a_planned_job_counts_as_holding_its_plan() -> None:
    made = columns(gpus=3)
    made.not_begun(JOB.id, 0.0)
    assert seen(made).held_gpus == 0
    made.counts_as_running(JOB.id, 0.0)
    assert seen(made).held_gpus == 3


def test_a_speed_on_other_gpus_counts_in_proportion() -> None:
    """What is left is in seconds on the GPUs that it asks for, whether it is running or was read from the store."""
    made = columns(gpus=1)
    made.began(JOB, 0.0)
    made.reported(replace(JOB, steps_done=100.0, steps_per_second=2.0), 0.0)
    assert seen(made).estimated_remaining == pytest.approx(900 / 4)
    before = replace(JOB, steps_done=100.0, run_seconds=60.0, restart_seconds=10.0, attained_gpu_seconds=60.0)
    assert seen(columns(before)).estimated_remaining == pytest.approx(900 / 4)


def test_a_job_that_keeps_its_size_has_no_other_one_planned() -> None:
    """The scheduler may have planned another size before the job said that it can have none."""
    fixed = replace(JOB, fixed_gpus=3)
    for planned in (3, 4):
        made = columns(gpus=planned)
        made.keeps_its_size(fixed, 0.0)
        jobs = seen(made)
        assert [*jobs.min_gpus, *jobs.gpus, *jobs.max_gpus] == [3, 3, 3]
        assert jobs.requested_per_gpu[0, 1] == 2 * MICRO
        assert made.ledger.holds(JOB.id) == (JOB.id in made.plan) == (planned == 3)
