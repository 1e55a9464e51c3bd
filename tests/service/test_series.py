"""Where a job's time goes, and how fast it should be: the figures agree with each other and with the law of speed."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.cluster.ledger import NodeAllocation
from muster.service.api.answers import JobSeries
from muster.service.series import series_of
from muster.service.store.rows import State, StateRequest, Submission
from muster.speed.gains import network_for, stages_of
from muster.workload.models import shipped_models

from .controller.test_fake_nodes import CLUSTER, MODELS, World
from .serving import a_request


def test_shares_add_up_and_predict_the_fake_engines_speed(tmp_path: Path) -> None:
    world = World(tmp_path, "las+tune-plus")
    job, unknown = world.store.submit(
        [Submission("ann", a_request(model=model, steps=400)) for model in ("resnet18", None)]
    )
    for _ in range(20):
        world.turn(1.0)
    row, other = world.store.job(job), world.store.job(unknown)
    assert row is not None
    assert other is not None
    assert row.state is State.RUNNING
    found = series_of(row, world.store, world.status)
    JobSeries.model_validate(found)
    assert sum(found["shares"].values()) == pytest.approx(1.0)
    (stretch,) = found["starts"]
    held = [one.allocation for one in world.store.allocation_intervals(job)]
    pace = world.pace(job, held)
    assert stretch["predicted_steps_per_second"] == pytest.approx(pace.steps_per_second)
    assert series_of(other, world.store, world.status)["shares"] is None
    world.store.request_state(job, StateRequest.HOLD, "ann")
    for _ in range(20):
        world.turn(1.0)
    row = world.store.job(job)
    assert row is not None
    shares = series_of(row, world.store, world.status)["shares"]
    assert shares["restart"] == pytest.approx(row.restart_seconds / row.run_seconds)
    assert sum(shares.values()) == pytest.approx(1.0)
    world.store.close()


@pytest.mark.parametrize("name", sorted(shipped_models()))
def test_no_stage_of_a_shipped_model_is_negative(name: str, tmp_path: Path) -> None:
    held = [
        NodeAllocation[str](
            node=node.name, gpu_ids=(0, 1), milli=1000, cpus=2.0, memory_gb=40.0, storage_gb_per_s=0.1
        )
        for node in CLUSTER.nodes
    ]
    model = MODELS[name.lower()]
    stages = stages_of(model, CLUSTER, held, 2.0 * len(held), network_for(model, CLUSTER))
    assert min(stages.input, stages.compute, stages.communication) >= 0.0
    assert stages.total > 0.0
