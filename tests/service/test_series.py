"""Where a job's time goes, and how fast it should be: the figures agree with each other and with the law of speed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster.cluster.ledger import NodeAllocation
from muster.service.api.answers import JobSeries
from muster.service.series import series_of
from muster.service.store import Store
from muster.service.store.rows import JobRow, State, StateRequest, StepsDone, StoreChanges, Submission
from muster.speed.gains import stages_of
from muster.workload.models import synergy_models

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
    check_measured(found, row, world.store)
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
    stopped = series_of(row, world.store, world.status)
    JobSeries.model_validate(stopped)
    shares = stopped["shares"]
    assert shares["restart"] == pytest.approx(row.restart_seconds / row.run_seconds)
    assert sum(shares.values()) == pytest.approx(1.0)
    check_measured(stopped, row, world.store)
    world.store.close()


def check_measured(found: dict[str, Any], row: JobRow, store: Store) -> None:
    """No time is lost or counted twice, and a fake job has run at the speed that its model predicts."""
    assert sum(found["spent"].values()) == pytest.approx(store.now() - row.submitted)
    for stretch in found["starts"]:
        assert stretch["since"] <= stretch["works_from"] <= (stretch["until"] or store.now() + store.origin)
    if row.state is State.RUNNING:
        assert found["measured"] == []
        assert row.last_start is not None
        assert row.first_step is not None
        assert found["spent"]["restart_seconds"] == pytest.approx(row.first_step - row.last_start)
        return
    (piece,), (stretch,) = found["measured"], found["starts"]
    assert (piece["since"], piece["until"]) == (stretch["works_from"], stretch["until"])
    predicted = stretch["predicted_steps_per_second"]
    assert stretch["steps_per_second"] == piece["steps_per_second"] == pytest.approx(predicted, rel=0.05)
    assert found["spent"]["restart_seconds"] == row.restart_seconds


def test_speed_is_that_between_reports_of_one_start(tmp_path: Path) -> None:
    """A start that counts back has made no steps; between two starts there is no speed."""
    world = World(tmp_path, "fifo")
    (job,) = world.store.submit([Submission("ann", a_request(model="resnet18", steps=10**9))])
    noted = (
        (1, 10.0, 0.0),
        (1, 20.0, 50.0),
        (1, 30.0, 40.0),
        (2, 50.0, 30.0),
        (2, 50.0, 30.0),
        (2, 54.0, 50.0),
    )
    world.store.commit(StoreChanges(steps=[StepsDone(job, *one) for one in noted]))
    row = world.store.job(job)
    assert row is not None
    found = series_of(row, world.store, world.status)
    pieces = [(piece["since"] - world.store.origin, piece["steps_per_second"]) for piece in found["measured"]]
    assert pieces == [(10.0, 5.0), (20.0, 0.0), (50.0, 5.0)]
    world.store.close()


@pytest.mark.parametrize("name", sorted(synergy_models()))
def test_no_stage_of_a_shipped_model_is_negative(name: str, tmp_path: Path) -> None:
    held = [
        NodeAllocation[str](
            node=node.name, gpu_ids=(0, 1), milli=1000, cpus=2.0, memory_gb=40.0, storage_gb_per_s=0.1
        )
        for node in CLUSTER.nodes
    ]
    model = MODELS[name.lower()]
    stages = stages_of(model, CLUSTER, held, 2.0 * len(held))
    assert min(stages.input, stages.compute, stages.communication) >= 0.0
    assert stages.total > 0.0
