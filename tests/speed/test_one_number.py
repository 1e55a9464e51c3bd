"""A model has the same seconds an iteration wherever they are asked for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from muster.cli.network import network
from muster.cli.size import size
from muster.cluster.shipped import parse_cluster
from muster.schedulers.contract import Jobs
from muster.service.controller.columns import LiveColumns
from muster.service.known_models import KnownModels
from muster.service.request import JobRequest
from muster.service.start_question import SeenQueue, question_of
from muster.service.store.rows import JobRow
from muster.service.waiting import ClosedNodes
from muster.sizing.ring import UNSTATED_BATCH, sized_ring
from muster.speed.input_pipeline import model_table
from muster.speed.network.forms import PlacementShapes
from muster.speed.network.model_file import network_models
from muster.speed.network.speed import NetworkSpeed
from muster.speed.rates import reference_seconds
from muster.speed.worker_options import worker_options
from muster.workload.models import find, read_model, shipped_models
from tests.building import finishes, jobs_of, run
from tests.service.serving import a_status
from tests.speed.test_worker_options import Places
from tests.workload.test_models import GOOD

DALLY = parse_cluster("dally-2x8x8")
ROOMY = replace(
    DALLY,
    nodes=tuple(replace(node, cpus=400.0, memory_gb=4000.0, storage_gb_per_s=100.0) for node in DALLY.nodes),
)
"""With CPUs and memory that feed every model."""
PLACES = {"1": {0: 1}, "4": {0: 4}, "4,4": {0: 4, 2: 4}, "4/4": {0: 4, 8: 4}, "2,3/2": {0: 2, 1: 3, 9: 2}}
ITERATIONS = 1000


@pytest.mark.parametrize("name", sorted(shipped_models()))
@pytest.mark.parametrize("place", sorted(PLACES))
def test_network_and_simulator_agree(name: str, place: str, capsys: pytest.CaptureFixture[str]) -> None:
    (shown,) = shown_by_network(name, place, capsys)
    rows = Places(gpus=PLACES[place], cpus=24.0, memory_gb=250.0)
    gpus = sum(PLACES[place].values())
    trace = jobs_of({"submit_seconds": 0, "iterations": ITERATIONS, "gpus": gpus, "model": name})
    (finish,) = finishes(run(trace, ROOMY, rows, contention=False))
    assert finish == pytest.approx(ITERATIONS * shown, rel=1e-9)


@pytest.mark.parametrize("name", sorted(shipped_models()))
def test_service_and_schedulers_agree_with_them(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    model = find(name)
    assert model is not None
    (alone,) = shown_by_network(name, "1", capsys)
    table = model_table([model])
    # The service counts steps by these seconds, with what a GPU's share feeds.
    assert reference_seconds(table, 0, np.array([24.0, 250.0, 1.0])) == pytest.approx(alone)
    (spread,) = shown_by_network(name, "4/4", capsys)
    shapes = PlacementShapes(NetworkSpeed(network_models([name])[0], ROOMY), ROOMY)
    found = worker_options(table, shapes, np.array([0]), np.array([8]), np.array([8]))
    in_two_racks = [kind[1:] == [2, 2] for kind in found.kinds[0].tolist()]
    (fed,) = found.input_seconds(np.array([24.0]), np.array([250.0]), np.array([1.0]))
    assert max(fed, found.seconds[0][in_two_racks][0]) == pytest.approx(spread)
    assert max(fed, found.compute_seconds[0]) >= alone * (1 - 1e-9)


@pytest.mark.parametrize("name", sorted(shipped_models()))
def test_size_agrees_with_network_and_simulator(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A ring with a GPU's own batch for each worker is the gang of that size; on the place that `size` says."""
    model = find(name)
    assert model is not None
    for workers in (1, 4, 12, 24):
        batch = (model.batch or UNSTATED_BATCH) * workers
        ring = {"sync": "ring", "cluster": "dally-2x8x8", "worker": "gpu=1"}
        size(name, limit="gpu=24", batch=batch, iterations=1, as_json=True, **ring)
        found = json.loads(capsys.readouterr().out)
        row = found["by_workers"][workers - 1]
        (shown,) = shown_by_network(name, row["place"], capsys)
        assert row["iteration_seconds"] == pytest.approx(shown, rel=1e-9)


@pytest.mark.parametrize("name", sorted(shipped_models()))
def test_the_service_counts_and_estimates_by_it(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (alone,) = shown_by_network(name, "1", capsys)
    status = a_status(tmp_path, "1x1gpu,24cpu,250gb")
    known = KnownModels(tmp_path).all
    request = JobRequest(name="job", command=("true",), directory="/", model=name, steps=ITERATIONS)
    row = JobRow(1, "ann", request, 0.0)
    columns = LiveColumns(status.cluster, known)
    columns.admit([row])
    left = Jobs(columns.table, np.array([1]), 0.0).estimated_remaining
    assert left == pytest.approx(ITERATIONS * alone, rel=1e-9)
    question = question_of(SeenQueue(0.0, [row], [], [], ClosedNodes()), replace(status, models=known), 1)
    (found,) = question.answer()
    assert found.ends["1"] - found.starts["1"].median == pytest.approx(max(ITERATIONS * alone, 1.0), rel=1e-9)


@pytest.mark.parametrize("name", ["resnet50", "bert"])
def test_own_models_lack_the_shipped_network_of_their_name(name: str) -> None:
    """A model file without `[network]` is insensitive to the network, also under a shipped model's name or alias."""
    shipped = find("resnet50")
    assert shipped is not None
    mine = replace(shipped, name=name, aliases=(), network=None)
    rows = Places(gpus=PLACES["4/4"], cpus=24.0, memory_gb=250.0)
    trace = jobs_of({"submit_seconds": 0, "duration_seconds": ITERATIONS, "gpus": 8, "model": name})
    (finish,) = finishes(run(trace, ROOMY, rows, models={name: mine}, contention=False))
    assert finish == pytest.approx(ITERATIONS, rel=1e-9)
    columns = LiveColumns(DALLY, lambda: {name: mine})
    request = JobRequest(name="job", command=("true",), directory="/", gpus=8, model=name)
    columns.admit([JobRow(1, "ann", request, 0.0)])
    assert columns.forms is None


@pytest.mark.parametrize("gpu_type", ["k80", "a100", "v100"])
@pytest.mark.parametrize("seconds", ["", "seconds = 0.1\n"])
def test_other_types_of_gpu_have_the_simulators_seconds(
    gpu_type: str, seconds: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    types = "[gpu_types.k80]\ncompute_scale = 0.1\n[gpu_types.a100]\nspeed = [[0.2, 0.6], [0.2, 1.2], [0.2, 3.5]]\n"
    file = tmp_path / "mine.toml"
    file.write_text(f"{GOOD}[compute]\nfixed_samples = 0\n{seconds}{types}")
    mine, cluster = read_model(file), f"1x8{gpu_type},800cpu,8tb"
    network(str(file), cluster=cluster, placement="8", as_json=True)
    shown = json.loads(capsys.readouterr().out)["placements"][0]["iteration_seconds"]
    ring = {"sync": "ring", "cluster": cluster, "worker": "gpu=1", "limit": "gpu=8", "batch": 8 * mine.batch}
    size(str(file), iterations=1, as_json=True, **ring)
    sized = json.loads(capsys.readouterr().out)["by_workers"][7]["iteration_seconds"]
    table = model_table([mine], (gpu_type,))
    (record,) = table["on_type"][:, 0][:1].tolist()
    simulated = reference_seconds(table, record, np.array([100.0, 1000.0, 1.0]))
    assert (shown, sized) == pytest.approx((simulated, simulated))


@pytest.mark.parametrize("name", ["resnet50", "pollux-bert", "gnmt"])
def test_a_total_batch_is_sized_as_schedulers_size_it(name: str) -> None:
    """Twelve workers with the batch of sixteen: what `worker_options` says of the best place."""
    model = find(name)
    assert model is not None
    sized = sized_ring(model, 16 * model.batch, ROOMY, {"gpu": 1.0}, {"gpu": 12.0}, 1)
    shapes = PlacementShapes(NetworkSpeed(network_models([name])[0], ROOMY), ROOMY)
    found = worker_options(model_table([model]), shapes, np.array([0]), np.array([16]), np.array([12]))
    assert sized.places[11] == "6,6"
    in_one_rack = [kind[1:] == [2, 1] for kind in found.kinds[0].tolist()]
    assert sized.iteration_seconds[11] == pytest.approx(found.seconds[0][in_one_rack][0])


def shown_by_network(name: str, place: str, capsys: pytest.CaptureFixture[str]) -> list[float]:
    """Seconds of an iteration that `muster network` prints."""
    network(name, cluster="dally-2x8x8", placement=place, as_json=True)
    rows = json.loads(capsys.readouterr().out)["placements"]
    return [row["iteration_seconds"] for row in rows]
