"""What jobs report of their steps on several sizes becomes a law of all sizes, with the fit of `speed.scaling`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from muster.cluster.ledger import NodeAllocation
from muster.cluster.shipped import parse_cluster
from muster.schedulers.contract import Jobs, SizeSpeeds, Snapshot, Trigger
from muster.schedulers.registry import build
from muster.service.controller.columns import LiveColumns
from muster.service.learned_sizes import LearnedSizes, with_size
from muster.service.request import JobRequest
from muster.service.store.rows import JobRow, SizeSteps
from muster.speed.scaling import PRIOR, ScalingLaw

LAW = ScalingLaw(np.concatenate([np.log([0.05, 0.4, 0.3]), PRIOR.mean]))
"""A GPU's usual batch counts as one sample."""
USUAL = 4


def seconds_on(gpus: int) -> float:
    """What a step really takes on one node, of a job that asks for `USUAL` GPUs."""
    rows = (np.array([one], float) for one in (1.0, gpus, USUAL / gpus))
    return float(LAW.step_seconds(*rows)[0])


def elastic(number: int, *sizes: int, **fields: Any) -> JobRow:
    """A job that has measured its steps on some sizes."""
    request = JobRequest(
        name="job", command=("true",), directory="/", gpus=USUAL, min_gpus=1, max_gpus=16, **fields
    )
    measured = tuple(SizeSteps(1, size, seconds_on(size)) for size in sizes)
    return JobRow(number, "ann", request, 0.0, size_steps=measured)


def shown(speeds: SizeSpeeds, job: int, *sizes: int) -> list[float]:
    gpus = np.array(sizes)
    seconds = speeds.seconds_per_iteration(np.full(len(gpus), job), gpus, np.ones_like(gpus), "")
    return [float(one) for one in seconds]


def test_one_size_says_nothing_of_others() -> None:
    learned = LearnedSizes()
    assert not learned.learn(elastic(1, 2))
    assert not learned
    assert np.isnan(shown(learned, 1, 1, 2, 4)).all()


def test_few_sizes_predict_the_others() -> None:
    learned = LearnedSizes()
    assert learned.learn(elastic(1, 1, 2, 8))
    assert learned
    assert shown(learned, 1, 1, 2, 4, 8) == pytest.approx([seconds_on(n) for n in (1, 2, 4, 8)], rel=0.03)


def test_jobs_of_a_model_share_what_is_known() -> None:
    learned = LearnedSizes()
    learned.learn(elastic(1, 1, 8, model="Net"))
    learned.learn(elastic(2, model="net"))
    learned.learn(elastic(3))
    assert shown(learned, 2, 4) == shown(learned, 1, 4)
    assert np.isnan(shown(learned, 3, 4)[0])


def test_a_job_of_one_size_learns_and_teaches_nothing() -> None:
    request = JobRequest(name="job", command=("true",), directory="/", gpus=2, model="net")
    learned = LearnedSizes()
    assert not learned.learn(JobRow(1, "ann", request, 0.0))
    assert np.isnan(shown(learned, 1, 2)[0])


def test_small_changes_keep_the_law_and_large_ones_change_it() -> None:
    learned, row = LearnedSizes(), elastic(1, 1, 2, 8)
    learned.learn(row)
    before = shown(learned, 1, 4)
    for factor, changes in ((1.04, False), (0.97, False), (1.3, True), (1.3, False)):
        slower = SizeSteps(1, 8, seconds_on(8) * factor)
        row = replace(row, size_steps=with_size(row.size_steps, slower))
        assert learned.learn(row) is changes
        assert (shown(learned, 1, 4) == before) is (factor < 1.1)
    assert len(row.size_steps) == 3


CLUSTER = parse_cluster("1x16gpu,64cpu,640gb")


def sizes_given(*rows: JobRow) -> list[int]:
    """How many GPUs joint gives these jobs."""
    columns = LiveColumns(CLUSTER, dict)
    columns.admit(rows)
    jobs = Jobs(columns.table, np.array([row.id for row in rows]), 0.0)
    profiles, known = columns.resource_profiles, columns.learned_sizes or None
    given = (0.0, Trigger.ARRIVAL, jobs, columns.table, columns.ledger, profiles)
    joint = build("fifo+joint")
    decision, _ = joint.decide(Snapshot(*given, size_speeds=known), joint.initial(CLUSTER))
    columns.carry_out(decision.changes, 0.0)
    return [sum(len(here.gpu_ids) for here in columns.plan.get(row.id, ())) for row in rows]


def test_what_is_known_changes_the_sizes_that_joint_gives() -> None:
    """Without it both jobs are as fast as their GPUs are many; one has shown that more gain it nothing."""
    first, second = elastic(1), elastic(2)
    assert sizes_given(first, second) == [16, 0]
    flat = replace(first, size_steps=tuple(SizeSteps(1, gpus, 1.0) for gpus in (1, 2, 4, 8, 16)))
    assert sizes_given(flat, second) == [1, 15]


def test_what_is_left_of_a_job_goes_by_what_it_has_shown() -> None:
    """A step takes as long on one GPU as on the four that it asks for, so no GPU shortens the rest."""
    flat = replace(elastic(1, steps=1000), size_steps=tuple(SizeSteps(1, gpus, 2.0) for gpus in (1, 2, 4)))
    columns = LiveColumns(CLUSTER, dict)
    columns.admit([flat])
    columns.place(1, [NodeAllocation(CLUSTER.nodes[0].name, (0,), 1.0, 1.0)], 0.0)
    columns.began(flat, 0.0)
    columns.reported(replace(flat, steps_done=100.0, steps_per_second=0.5), 0.0)
    jobs = Jobs(columns.table, np.array([1]), 0.0)
    assert jobs.estimated_remaining[0] == pytest.approx(1800, rel=0.02)
