"""The model of a profile against the analytic form that it was made from, and its file."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.fitting.input_analytic import AnalyticInput
from muster.profiling.grid import predicted_steps_per_s
from muster.profiling.model import memory_points, model_of, model_toml
from muster.profiling.optimistic import InputProfile, Profile
from muster.profiling.rates import Rate
from muster.speed.input_pipeline import model_table
from muster.speed.input_stage import relative_speed
from muster.workload.models import Dataset, read_model

POSITIVE = st.floats(0.01, 100)


def rate(steps_per_s: float) -> Rate:
    return Rate(steps_per_s, 0.01, 0.02, 6, True)


def profile_of(form: AnalyticInput, cpus: tuple[float, ...]) -> Profile:
    """What a profile without noise measures of a job of this form."""
    data = form.dataset
    assert data is not None
    samples = 50 * form.batch
    full_gb = samples * data.sample_gb
    seconds = form.iteration_seconds(cpus, full_gb, data.storage_gb_per_s)
    uncached = rate(1 / float(form.iteration_seconds(cpus[-1], 0.0, data.storage_gb_per_s)))
    reading = InputProfile(
        samples=samples,
        batches_per_epoch=50,
        full_gb=full_gb,
        batch_gb=full_gb / 50,
        uncached=uncached,
        storage_gb_per_s=data.storage_gb_per_s,
        storage_is_limit=True,
        memory_gb_per_s=data.memory_gb_per_s,
        miss_cpu_seconds=0.0,
    )
    rates = {cores: rate(1 / float(took)) for cores, took in zip(cpus, seconds, strict=True)}
    return Profile(cpus, rates, reading, True, 60.0, 0.0, True)


@given(
    compute=POSITIVE,
    prepare=POSITIVE,
    read_uncached=POSITIVE,
    read_cached=st.floats(0.001, 1),
    batch=st.integers(1, 1000),
    storage_change=st.floats(0.1, 1),
)
@settings(deadline=None)  # the first example loads a kernel
def test_the_memory_axis_is_the_analytic_form(
    compute: float,
    prepare: float,
    read_uncached: float,
    read_cached: float,
    batch: int,
    storage_change: float,
) -> None:
    sample_gb = 0.001
    batch_gb = batch * sample_gb
    storage, memory_speed = batch_gb / read_uncached, batch_gb / min(read_cached, read_uncached)
    data = Dataset(50 * batch_gb, sample_gb, storage, memory_speed)
    form = AnalyticInput(batch, batch / compute, prepare / batch, data)
    cpus = (0.5, 1.0, 2.0, 4.0)
    model = model_of(profile_of(form, cpus), name="x", family="image", batch=None, source="a test")
    assert model.batch == batch
    for cores in cpus:
        for gigabytes in model.memory_gb_per_gpu:
            expected = 1 / float(form.iteration_seconds(cores, gigabytes, storage))
            assert predicted_steps_per_s(model, cores, gigabytes) == pytest.approx(expected, rel=1e-9)
    # Slower storage than measured: what waited for nothing may wait now, and by the same form.
    table, slower = model_table([model]), storage * storage_change
    seconds = model.seconds_per_iteration / relative_speed(table, 0, 4.0, model.memory_gb_per_gpu[2], slower)
    assert seconds == pytest.approx(
        float(form.iteration_seconds(4.0, model.memory_gb_per_gpu[2], slower)), rel=0.031
    )


@given(name=st.text(st.characters(codec="utf-8"), min_size=1).filter(str.strip))
@settings(deadline=None)
def test_the_file_gives_the_model_back(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    data = Dataset(0.4, 0.001, 0.02, 5.0)
    form = AnalyticInput(8, 400.0, 0.01, data)
    model = model_of(
        profile_of(form, (0.25, 1.0, 2.0)), name=name, family="image", batch=None, source="a test"
    )
    path = tmp_path_factory.getbasetemp() / "model.toml"
    path.write_text(model_toml(model, ["measured"]), encoding="utf-8")
    assert read_model(path) == model


def test_noise_is_smoothed_when_the_file_is_read(tmp_path: Path) -> None:
    rates = {1.0: rate(5.0), 2.0: rate(10.1), 4.0: rate(10.0)}
    noisy = Profile((1.0, 2.0, 4.0), rates, None, True, 60.0, 0.0, True)
    model = model_of(noisy, name="noisy", family="image", batch=None, source="a test")
    assert (model.batch, model.dataset, len(model.memory_gb_per_gpu)) == (1, None, 1)
    (tmp_path / "noisy.toml").write_text(model_toml(model, []))
    monotone = read_model(tmp_path / "noisy.toml")
    assert np.array(monotone.speed).ravel().tolist() == [0.5, 1.0, 1.0]


def test_memory_points_are_parts_of_the_data_set() -> None:
    form = AnalyticInput(8, 400.0, 0.01, Dataset(0.4, 0.001, 0.02, 5.0))
    points = memory_points(profile_of(form, (1.0, 2.0)).reading)
    assert points == pytest.approx((0.05, 0.1, 0.2, 0.3, 0.4))


def test_measuring_loads_nothing_compiled_and_only_numpy() -> None:
    """So a profile can be taken wherever a training job runs; its model is made elsewhere."""
    source = "import sys, muster.profiling.optimistic; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    found = {name for name in loaded.stdout.split() if name.partition(".")[0] in {"polars", "pydantic"}}
    assert not found | {name for name in loaded.stdout.split() if name.startswith("muster.speed")}


def test_a_file_says_which_type_of_gpu_was_measured(tmp_path: Path) -> None:
    profile = Profile((1.0, 2.0), {1.0: rate(1.0), 2.0: rate(2.0)}, None, True, 60.0, 0.0, True)
    model = model_of(profile, name="net", family="image", batch=8, source="a test")
    for gpu_type in (None, "h100"):
        (tmp_path / "net.toml").write_text(model_toml(replace(model, gpu_type=gpu_type), []))
        assert read_model(tmp_path / "net.toml").gpu_type == gpu_type
