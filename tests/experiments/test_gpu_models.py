"""Profiles of current models on a GPU: how the time is divided, which points are held out, and the model files."""

from __future__ import annotations

import gzip
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from experiments.gpu_models.data import SAMPLES_PER_S, _document, _picture, _sound
from experiments.gpu_models.documents import Measured, read
from experiments.gpu_models.held_out import SHARES, Budget, OutOfTime, affordable, held_out_points
from experiments.gpu_models.model_files import main, model_from, prediction_errors
from experiments.gpu_models.recipes import RECIPES
from experiments.gpu_models.store import Store
from muster.profiling.compute import ComputeProfile
from muster.profiling.grid import predicted_steps_per_s
from muster.profiling.optimistic import InputProfile, Profile
from muster.profiling.rates import Rate
from muster.workload.models import read_model

ROOT = Path(__file__).parents[2]
MEASURED, SHIPPED = ROOT / "experiments/gpu_models/measured", ROOT / "muster/workload/model_files"
CORES = tuple(float(number) for number in range(1, 17))
MACHINE = {
    "gpu": "NVIDIA H100 80GB HBM3",
    "gpu_type": "h100",
    "driver": "1.2",
    "cpu": "a CPU",
    "cores": 16,
    "memory_gb": 100.0,
    "versions": {"torch": "2.11.0"},
    "date": "2026-01-02",
}


def rate(steps_per_s: float) -> Rate:
    return Rate(steps_per_s, 0.01, 0.02, 6, True)


COMPUTE = ComputeProfile(
    64, 1, True, {16: rate(1 / 0.02), 32: rate(1 / 0.03), 64: rate(1 / 0.05)}, None, "", 30.0
)
"""10 ms and 0.625 ms for each sample."""


def a_profile() -> Profile:
    """A job that needs 8 cores for 20 steps a second, and half of its samples cached."""
    reading = InputProfile(
        samples=6400,
        batches_per_epoch=100,
        full_gb=0.64,
        batch_gb=0.0064,
        uncached=rate(0.0625 / 0.0064),
        storage_gb_per_s=0.0625,
        storage_is_limit=True,
        memory_gb_per_s=50.0,
        miss_cpu_seconds=0.0,
    )
    rates = {cores: rate(min(2.5 * cores, 20.0)) for cores in (4.0, 6.0, 8.0, 16.0)}
    return Profile(CORES, rates, reading, True, 70.0, 0.0, True)


def test_time_left_is_divided_equally_among_models_left() -> None:
    now = [100.0]
    budget = Budget(560.0, lambda: now[0])
    assert budget.deadline(4) == 140
    now[0] += 80  # the first took less than its part
    assert budget.deadline(3) == 80 + 160
    budget.check(240)
    now[0] += 161
    with pytest.raises(OutOfTime):
        budget.check(240)


@pytest.mark.parametrize(("seconds", "points"), [(-5.0, 0), (7.9, 0), (40.0, 5), (400.0, 9)])
def test_points_that_there_is_time_for(seconds: float, points: int) -> None:
    assert affordable(seconds, 8.0, 9) == points


@pytest.mark.parametrize("count", range(10))
def test_held_out_points_were_not_visited_by_the_profile(count: int) -> None:
    points = held_out_points(CORES, {16.0, 8.0, 4.0, 6.0}, count)
    cores = list(chain.from_iterable(there for _, there in points))
    assert len(cores) == len(set(cores)) == count
    assert not {16.0, 8.0, 4.0, 6.0} & set(cores)
    assert min(cores, default=2.0) >= 2
    assert [share for share, _ in points] == list(SHARES[:count])
    assert all(there == sorted(there) for _, there in points)


def test_where_all_cores_were_visited_memory_is_held_out() -> None:
    points = held_out_points((1.0, 2.0), {1.0, 2.0}, 9)
    assert points == [(1.0, [1.0]), (0.6, [2.0])]


def test_a_stored_profile_is_read_as_it_was_measured(tmp_path: Path) -> None:
    measured = Measured("image", ["python3"], MACHINE, a_profile(), COMPUTE, [{"cores": 5.0}], 7.0)
    measured.write(tmp_path)
    assert read(tmp_path / "image.json") == measured
    Measured("image", ["python3"], MACHINE).write(tmp_path)
    assert read(tmp_path / "image.json").profile is None


def test_a_model_file_has_the_gpu_and_the_prediction_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = model_from("image", a_profile(), MACHINE)
    expected = predicted_steps_per_s(model, 5.0, 0.384)
    held_out = [{"cores": 5.0, "memory_gb": 0.384, **vars(rate(expected / 1.1))}]
    command = ["python3", "-m", "train"]
    Measured("image", command, MACHINE, a_profile(), COMPUTE, held_out, 7.0).write(tmp_path)
    Measured("speech", command, MACHINE).write(tmp_path)
    main(tmp_path, tmp_path)
    found = read_model(tmp_path / "vit-b16-h100.toml")
    assert found.gpu_type == "h100"
    assert found.speed_on("H100") == found.speed
    assert "NVIDIA H100 80GB HBM3 (driver 1.2), 16 cores of a CPU, PyTorch 2.11.0" in found.source
    assert (found.batch, found.family, found.notes) == (64, "image", ())
    assert found.compute is not None
    assert found.compute.fixed_samples == pytest.approx(16.0)
    assert found.compute.largest_batch == 64
    assert prediction_errors(found, held_out) == pytest.approx([0.1])
    text = (tmp_path / "vit-b16-h100.toml").read_text()
    assert "# Not visited: 5 cores, 60.0 % cached: 11.364 steps/s ± 1.0 %, predicted +10.0 %" in text
    assert "| 10.0 % | 10.0 % | 10.0 % | 80 points, 560 s, 8.0 times as long |" in capsys.readouterr().out


def test_shipped_models_of_a_gpu_are_what_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(MEASURED, tmp_path)
    made = sorted(tmp_path.glob("*.toml"))
    assert [path.stem for path in made] == [
        "dit-b8-h200",
        "gpt2-124m-h200",
        "vit-b16-h200",
        "whisper-small-h200",
    ]
    for path in made:
        assert (SHIPPED / path.name).read_text() == path.read_text()
    table = capsys.readouterr().out
    assert "| 5 | 147 s | 2.2 % | 6.5 % | 8.7 % |" in table


def test_stored_samples_have_the_sizes_of_real_ones(tmp_path: Path) -> None:
    assert 8 <= len(_sound(3)) / 2 / SAMPLES_PER_S <= 24
    assert len(gzip.decompress(_document(3)).split()) >= 1024
    assert _picture(np.random.default_rng(1), 30, 40).shape == (30, 40, 3)
    for number in range(3):
        (tmp_path / str(number)).write_bytes(bytes([number]))
    store = Store(tmp_path, 12, 1e6)
    assert [store[index] for index in (0, 4, 11)] == [b"\0", b"\1", b"\2"]
    assert len(store) == 12


def test_a_recipe_has_whole_batches_and_files_for_its_samples() -> None:
    for recipe in RECIPES.values():
        assert recipe.samples % recipe.batch == 0
        assert recipe.files <= recipe.samples
