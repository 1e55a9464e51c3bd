"""Seconds of jobs that change size: exported for the GPUs that they ask for, and believed by ended starts alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import muster
from muster.cluster.shipped import parse_cluster
from muster.schedulers.contract import Jobs
from muster.service.controller.columns import LiveColumns
from muster.service.export import trace_of_what_ran
from muster.service.request import JobRequest
from muster.service.store.rows import JobRow, Phase, State, Submission

from .controller.test_fake_nodes import CLUSTER, World


def test_what_ran_is_exported_for_the_gpus_that_are_asked_for(tmp_path: Path) -> None:
    world = World(tmp_path, "gittins+joint")
    request = JobRequest(
        name="job", command=("true",), directory="/", gpus=1, min_gpus=1, max_gpus=4, steps=4000
    )
    world.store.submit([Submission("ann", request)])
    while world.store.living():
        world.turn(5.0)
    (row,) = world.store.jobs()
    trace = trace_of_what_ran(world.store)
    assert (row.run_seconds, trace["duration_seconds"][0]) == pytest.approx((1000.0, 4000.0))
    again = muster.simulate(trace, CLUSTER, "gittins+joint", restart_cost="0s")
    assert again.summary["jct_seconds"]["mean"] == pytest.approx(1000.0)
    world.store.close()


def test_steps_and_seconds_are_of_the_same_starts() -> None:
    """A daemon after it, or with another node, takes a job to be as long as the one before did."""
    columns = LiveColumns(parse_cluster("1x4gpu"), dict)
    request = JobRequest(name="job", command=("true",), directory="/", steps=1_000_000)
    columns.admit(
        [
            JobRow(
                1,
                "ann",
                request,
                0.0,
                state=State.RUNNING,
                phase=Phase.RUNNING,
                epoch=2,
                run_seconds=100.0,
                steps_before=100.0,
                steps_done=5100.0,
            )
        ]
    )
    assert Jobs(columns.table, np.array([1]), 0.0).estimated_remaining[0] == pytest.approx(994_900.0)
