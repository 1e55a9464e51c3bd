"""Against what was measured and simulated elsewhere; skipped where the reference data is absent."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from experiments.fitting import network as fit
from experiments.fitting.measured import MeasuredFit, StepTimes, fit_measured, read_placements
from muster.cluster import Cluster, Links, Node
from muster.cluster.structured import zero_records
from muster.speed.network.dimensions import ASTRA, dimensions
from muster.speed.network.layers import read_layers
from muster.speed.network.model_file import find, read_model_file
from muster.speed.network.models import NetworkModel
from muster.speed.network.placement import SHAPE_DTYPE, Shapes
from muster.speed.network.speed import NetworkSpeed

SCALES = {
    "VGG": 0.01549,
    "AlexNet": 0.0199,
    "MobileNetV3": 0.00639,
    "ResNet18": 0.001223,
    "ResNet50": 0.03395,
    "BERT": 0.0001121,
}
"""The compute scales of Dally's authors."""
ANY_CLUSTER = Cluster("any", (Node("n", "t", 0, 8, "V100", 4, 8.0, 99.0, 0.5, 200.0),), ("a",), Links())


def shape_of(dims: str) -> Shapes:
    """A shape that the astra flavour takes apart into the dimensions `index:level:units ...` of a run."""
    units = {int(part.split(":")[0]): int(part.split(":")[2]) for part in dims.split()}
    gpus = int(np.prod(list(units.values())))
    shape: Shapes = zero_records(1, SHAPE_DTYPE)
    shape[0] = (gpus, units.get(1, 1), units.get(2, 1), units.get(3, 1), 0, 200.0, 200.0)
    return shape


def compute_fractions(reference: Path, models: dict[str, NetworkModel]) -> tuple[list[float], list[float]]:
    """Of every run: ours and theirs."""
    speed = NetworkSpeed(list(models.values()), ANY_CLUSTER, flavour="astra")
    ours, theirs = [], []
    with (reference / "parity/dally/astra_runs.csv").open() as runs:
        for run in csv.DictReader(runs):
            shape = shape_of(run["dims"])
            sizes, _, _ = dimensions(ASTRA, shape[0], speed.tree.level_gb_per_s, speed.tree.hop_seconds)
            assert sizes.tolist() == [int(part.split(":")[2]) for part in run["dims"].split()]
            model = np.array([list(models).index(run["model"])])
            ours.append(float(speed.efficiency(model, shape)[0]))
            theirs.append(float(run["fraction_compute"]))
    return ours, theirs


def test_astra_flavour_follows_every_run_of_the_backend(unshipped_reference: Path) -> None:
    layered = read_layers(unshipped_reference / "parity/dally/layers.csv")
    models: dict[str, NetworkModel] = {name: layered[name].scaled(scale) for name, scale in SCALES.items()}
    ours, theirs = compute_fractions(unshipped_reference, models)
    off = np.abs(np.array(ours) / np.array(theirs) - 1.0)
    assert off.size == 102
    assert off.mean() <= 0.005
    assert off.max() <= 0.12


def test_the_shipped_compact_models_stand_in_for_the_layers(unshipped_reference: Path) -> None:
    """Points of efficiency, over all runs; the layers themselves are off by 0.2 in the mean."""
    models = {name: file.model for name in SCALES if (file := find(name)) is not None}
    assert list(models) == list(SCALES)
    ours, theirs = compute_fractions(unshipped_reference, dict(models))
    off = 100.0 * np.abs(np.array(ours) - np.array(theirs))
    assert off.mean() <= 0.5
    assert off.max() <= 7.0


@pytest.mark.parametrize("application", ["bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3"])
def test_the_measured_form_fits_pollux_within_a_tenth(reference: Path, application: str) -> None:
    """Fitted to two thirds of the rows, judged on the other third."""
    times = read_placements(reference / "data/profiles/pollux" / application)
    kept = np.random.default_rng(1).permutation(times.gpus.size) % 3 > 0

    def some(mask: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> StepTimes:
        return StepTimes(times.gpus[mask], times.machines[mask], times.batch[mask], times.seconds[mask])

    assert np.median(fit_measured(some(kept)).errors(some(~kept))) <= 0.10


def test_the_fit_command_prints_rows_and_writes_what_ships(
    reference: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(reference / "data/profiles/pollux"), "--write", str(tmp_path / "fits")]
    assert fit.main(arguments) == 0
    printed = capsys.readouterr().out
    for name in ("bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3"):
        assert name in printed
        shipped = find(f"pollux-{name}")
        assert shipped is not None
        ours = read_model_file(tmp_path / "fits" / f"{name}.toml")
        assert ours.error == shipped.error
        assert ours.model.compute_seconds == pytest.approx(shipped.model.compute_seconds, rel=1e-3)


def test_a_known_measured_model_is_found_again() -> None:
    generator = np.random.default_rng(5)
    gpus = generator.integers(1, 17, 400)
    machines = np.minimum(generator.integers(1, 5, 400), gpus)
    times = StepTimes(gpus, machines, generator.choice([16, 32, 64, 128], 400), np.ones(400))
    true = MeasuredFit(0.05, 0.004, 0.08, 0.01, 0.3, 0.02, 2.5)
    exact = StepTimes(times.gpus, times.machines, times.batch, true.step_seconds(times))
    found = fit_measured(exact)
    assert found.errors(exact).max() < 1e-3
    assert found.overlap == pytest.approx(2.5, rel=0.02)
    assert found.uplink_seconds == pytest.approx(0.3, rel=0.02)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("placement,local_bsz\n11,4\n", "step_time: this column is missing"),
        ("placement,local_bsz,step_time\n1x,4,0.5\n11,4,-1\n", ":3: step_time: found '-1'"),
    ],
)
def test_the_fit_command_explains_mistakes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, expected: str
) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app/placements.csv").write_text(text)
    assert fit.main([str(tmp_path)]) == 2
    assert expected in capsys.readouterr().err
    assert fit.main([str(tmp_path / "app")]) == 2
    assert fit.main([str(tmp_path), "--nic", "0"]) == 2
