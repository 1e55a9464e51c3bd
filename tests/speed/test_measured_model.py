"""A model that has the measured speed on two numbers of GPUs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from muster.speed.input_pipeline import model_table
from muster.speed.local_batch import input_seconds, local_batches
from muster.speed.measured_model import as_measured
from muster.workload.models import Dataset, Model, find


@pytest.mark.parametrize("name", ["pollux-yolov3", "pollux-deepspeech2", "gpt2-124m-h200"])
@pytest.mark.parametrize(("usual", "other", "faster"), [(2, 5, 2.2), (2, 3, 1.4), (4, 1, 0.3), (2, 24, 5.0)])
def test_it_has_the_measured_speed_on_both_sizes(name: str, usual: int, other: int, faster: float) -> None:
    """Also where a batch of few samples is not divided evenly among the GPUs."""
    measured = as_measured(_known(name), "measured", usual, other, faster)
    table, number = model_table([measured]), np.zeros(2, np.int64)
    _, passes, last_pass = local_batches(table, number, usual / np.array([usual, other]))
    on_usual, on_other = (passes * last_pass).tolist()
    assert on_usual / on_other == pytest.approx(faster, rel=1e-4)


def test_its_data_set_is_read_as_before() -> None:
    known = replace(_known("resnet50"), dataset=Dataset(100.0, 0.001, 0.06, 10.0))
    amounts = [np.array([amount]) for amount in (3.0, 10.0, 0.03)]
    before, after = (
        input_seconds(model_table([model]), np.zeros(1, np.int64), np.ones(1), *amounts)
        for model in (known, as_measured(known, "measured", 2, 4, 1.5))
    )
    assert after == pytest.approx(before)


def _known(name: str) -> Model:
    model = find(name)
    assert model is not None
    return model
