"""The compiled input stage against plain interpolation, its laws on random models, and the epoch formula."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from muster.speed.input_pipeline import model_table
from muster.speed.input_stage import input_stage_seconds, relative_speed, storage_needed_gb_per_s
from muster.workload.model_file import STORAGE_BOUND_TOLERANCE
from muster.workload.models import Dataset, Model, shipped_models, synergy_models
from tests.speed.random_models import datasets, monotone_models

cpu_amounts = st.one_of(st.floats(0.01, 60), st.sampled_from([0.0, 1.0, 3.0, 24.0]))
memory_amounts = st.one_of(st.floats(0, 500), st.sampled_from([20.83, 62.5, 125.0, 250.0]))
storage_amounts = st.one_of(st.floats(0.001, 5), st.sampled_from([0.0, math.inf]))


@st.composite
def models_with_data(draw: st.DrawFn) -> Model:
    """A random model, half of the time with a data set that its measured speeds do not contradict."""
    model = draw(monotone_models())
    dataset = draw(st.one_of(st.none(), datasets()))
    if dataset is None:
        return model
    fastest = np.array(
        [
            min(model.seconds_per_iteration / row[j] for row in model.speed)
            for j in range(len(model.memory_gb_per_gpu))
        ]
    )
    reads = np.array(
        [read_seconds(1.0, dataset, m, dataset.storage_gb_per_s) for m in model.memory_gb_per_gpu]
    )
    sample_gb = float((fastest / reads).min()) / model.batch * draw(st.floats(0.2, 1.0))
    return dataclasses.replace(model, dataset=dataclasses.replace(dataset, sample_gb=sample_gb))


def read_seconds(batch_gb: float, dataset: Dataset, memory_gb: float, storage: float) -> float:
    """An iteration's part of the epoch's p D / memory bandwidth + (1 - p) D / storage bandwidth."""
    p = min(1.0, memory_gb / dataset.size_gb)
    from_storage = 0.0 if p == 1 else math.inf if storage == 0 else (1 - p) * dataset.size_gb / storage
    epoch = p * dataset.size_gb / dataset.memory_gb_per_s + from_storage
    return epoch * batch_gb / dataset.size_gb


def plain_seconds(model: Model, cpus: float, memory: float) -> float:
    """Speed linear in CPUs at each memory point, then seconds linear in memory; np.interp clamps."""
    slower = min(1.0, cpus / model.cpus_per_gpu[0])
    speeds = [
        slower * np.interp(cpus, model.cpus_per_gpu, column) for column in zip(*model.speed, strict=True)
    ]
    seconds = [model.seconds_per_iteration / speed for speed in speeds]
    return float(np.interp(memory, model.memory_gb_per_gpu, seconds))


def test_synergys_models_are_exact_at_every_measured_point() -> None:
    models = list(synergy_models().values())
    table = model_table(models)
    for index, model in enumerate(models):
        for row, cpus in enumerate(model.cpus_per_gpu):
            for column, memory in enumerate(model.memory_gb_per_gpu):
                seconds = input_stage_seconds(table, index, cpus, memory, 0.0)
                assert seconds == model.seconds_per_iteration / model.speed[row][column]
                speed = relative_speed(table, index, cpus, memory, 0.0)
                assert speed == pytest.approx(model.speed[row][column], rel=1e-15)


def test_figures_worked_by_hand() -> None:
    table = model_table([synergy_models()["alexnet"]])
    # Half a CPU: half the speed of one. 7.5 CPUs: halfway between 1.75 and 2.
    assert relative_speed(table, 0, 0.5, 62.5, 1.0) == pytest.approx(0.15)
    assert relative_speed(table, 0, 7.5, 62.5, 1.0) == pytest.approx(1.875)
    # Halfway between 62.5 and 125 GB at 12 CPUs: the mean of the seconds 0.6/2 and 0.6/2.94.
    assert input_stage_seconds(table, 0, 12.0, 93.75, 1.0) == pytest.approx((0.3 + 0.6 / 2.94) / 2)
    # Outside the grid the border holds.
    assert relative_speed(table, 0, 100.0, 1e4, 1.0) == pytest.approx(2.94)
    assert relative_speed(table, 0, 3.0, 0.0, 1.0) == pytest.approx(0.1)
    assert input_stage_seconds(table, 0, 0.0, 62.5, 1.0) == math.inf
    assert relative_speed(table, 0, 0.0, 62.5, 1.0) == 0


def test_without_a_profile_nothing_matters() -> None:
    table = model_table([None])
    assert input_stage_seconds(table, 0, 0.0, 0.0, 0.0) == 0
    assert relative_speed(table, 0, 0.0, 0.0, 0.0) == 1
    assert storage_needed_gb_per_s(table, 0, 1.0, 1.0) == 0
    assert table["compute_seconds"][0] == table["reference_seconds"][0] == 1


@pytest.mark.parametrize("gpus", range(1, 17))
def test_a_data_set_that_just_fits_needs_no_storage(gpus: int) -> None:
    """The seventh part of seven times an amount is a little less than the amount."""
    model = shipped_models()["gpt2-124m-h200"]
    assert model.dataset is not None
    table, whole = model_table([model]), model.dataset.size_gb
    of_each = round(whole * 1e6) * gpus / 1e6 / gpus
    assert input_stage_seconds(table, 0, 4.0, of_each, 0.0) == pytest.approx(
        input_stage_seconds(table, 0, 4.0, whole, 0.0), rel=1e-9
    )


@settings(deadline=None)
@given(monotone_models(), cpu_amounts.filter(bool), memory_amounts)
def test_agrees_with_plain_interpolation(model: Model, cpus: float, memory: float) -> None:
    seconds = input_stage_seconds(model_table([model]), 0, cpus, memory, 1.0)
    assert seconds == pytest.approx(plain_seconds(model, cpus, memory), rel=1e-9)


@settings(deadline=None)
@given(models_with_data(), cpu_amounts, memory_amounts, storage_amounts, st.tuples(*[st.floats(0, 50)] * 3))
def test_more_is_never_slower_and_nothing_beats_the_best(
    model: Model, cpus: float, memory: float, storage: float, more: tuple[float, float, float]
) -> None:
    table = model_table([model])
    now = input_stage_seconds(table, 0, cpus, memory, storage)
    rounding = 1 + 1e-12
    assert input_stage_seconds(table, 0, cpus + more[0], memory, storage) <= now * rounding
    assert input_stage_seconds(table, 0, cpus, memory + more[1], storage) <= now * rounding
    assert input_stage_seconds(table, 0, cpus, memory, storage + more[2]) <= now * rounding
    assert relative_speed(table, 0, cpus, memory, storage) <= model.best_speed * rounding


@settings(deadline=None)
@given(models_with_data(), st.floats(0.1, 60), st.floats(0, 500), st.floats(0.001, 5))
def test_a_small_step_changes_little(model: Model, cpus: float, memory: float, storage: float) -> None:
    table = model_table([model])
    now = input_stage_seconds(table, 0, cpus, memory, storage)
    for step in (1e-9, -1e-9):
        near = input_stage_seconds(table, 0, cpus * (1 + step), memory * (1 + step), storage * (1 + step))
        assert near == pytest.approx(now, rel=1e-4)


@settings(deadline=None)
@given(monotone_models(), st.data())
def test_no_point_beats_the_chords_between_measured_points(model: Model, data: st.DataObject) -> None:
    """What a linear program over measured points relies on for its bound."""
    cpus = data.draw(st.floats(model.cpus_per_gpu[0], model.cpus_per_gpu[-1]))
    memory = data.draw(st.floats(model.memory_gb_per_gpu[0], model.memory_gb_per_gpu[-1]))
    by_memory = [np.interp(cpus, model.cpus_per_gpu, column) for column in zip(*model.speed, strict=True)]
    mixture = np.interp(memory, model.memory_gb_per_gpu, by_memory)
    assert relative_speed(model_table([model]), 0, cpus, memory, 1.0) <= mixture * (1 + 1e-9)


@settings(deadline=None)
@given(models_with_data())
def test_storage_of_the_measurement_gives_the_measured_seconds(model: Model) -> None:
    assume(model.dataset is not None)
    assert model.dataset is not None
    table = model_table([model])
    for row, cpus in enumerate(model.cpus_per_gpu):
        for column, memory in enumerate(model.memory_gb_per_gpu):
            measured = model.seconds_per_iteration / model.speed[row][column]
            seconds = input_stage_seconds(table, 0, cpus, memory, model.dataset.storage_gb_per_s)
            assert measured * (1 - STORAGE_BOUND_TOLERANCE) * (1 - 1e-9) <= seconds <= measured * (1 + 1e-9)


@settings(deadline=None)
@given(models_with_data(), st.floats(0.1, 60), memory_amounts)
def test_storage_needed_is_where_storage_stops_to_matter(model: Model, cpus: float, memory: float) -> None:
    table = model_table([model])
    needed = storage_needed_gb_per_s(table, 0, cpus, memory)
    unlimited = relative_speed(table, 0, cpus, memory, math.inf)
    if math.isinf(needed):
        return
    assert relative_speed(table, 0, cpus, memory, needed) == pytest.approx(unlimited, rel=1e-9)
    if needed > 1e-9:
        assert relative_speed(table, 0, cpus, memory, needed * 0.5) < unlimited
        # The paper's form: (1 - p) D / (epoch - p D / memory bandwidth), the epoch at unlimited storage.
        dataset = model.dataset
        assert dataset is not None
        epoch = model.seconds_per_iteration / unlimited * dataset.size_gb / (model.batch * dataset.sample_gb)
        p = memory / dataset.size_gb
        left = epoch - p * dataset.size_gb / dataset.memory_gb_per_s
        assert needed == pytest.approx((1 - p) * dataset.size_gb / left, rel=1e-6)
