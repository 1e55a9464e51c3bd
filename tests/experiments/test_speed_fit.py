"""The Optimus speed fit: exact on exact data, honest on measured data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.fitting.speed_fit import (
    fit_asynchronous,
    fit_synchronous_coefficients,
    synchronous_seconds,
    synchronous_step,
)
from experiments.fitting.step_times import errors, main, read_placements
from muster.problems import InputError
from muster.speed.parameter_server import asynchronous

coefficient = st.one_of(st.just(0.0), st.floats(1e-3, 10))


@settings(max_examples=50, deadline=None)
@given(st.lists(coefficient, min_size=5, max_size=5).filter(any), st.integers(0, 1000))
def test_noiseless_points_are_predicted_exactly(coefficients: list[float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = np.array(coefficients)
    batch, w, p = rng.integers(1, 64, 30), rng.integers(1, 20, 30), rng.integers(1, 20, 30)
    seconds = synchronous_seconds(truth, batch, w, p)
    fitted = fit_synchronous_coefficients(batch[:10], w[:10], p[:10], seconds[:10])
    assert (fitted >= 0).all()
    np.testing.assert_allclose(synchronous_seconds(fitted, batch, w, p), seconds, rtol=1e-6)


def test_the_fitted_form_is_a_step_time() -> None:
    coefficients = np.array([0.01, 0.3, 0.2, 0.001, 0.002])
    step = synchronous_step(coefficients, batch=240)
    for w, p in ((1, 1), (8, 3)):
        assert step.iteration_seconds(w, p) == pytest.approx(
            synchronous_seconds(coefficients, [240 / w], [w], [p])[0]
        )


def test_asynchronous_speeds_give_back_their_form() -> None:
    w, p = (axis.ravel() for axis in np.meshgrid([1, 2, 4, 8], [1, 2, 5]))
    truth = asynchronous(2.0, 3.0, 0.05, 0.02)
    fitted = fit_asynchronous(w, p, 1 / truth.iteration_seconds(w, p))
    assert fitted.iteration_seconds(16, 7) == pytest.approx(float(truth.iteration_seconds(16, 7)))


def test_every_point_counts_by_its_relative_error() -> None:
    # One coefficient, two points that disagree: least squares of 1 - c/1 and 1 - c/100.
    fitted = fit_synchronous_coefficients([0, 0], [0, 0], [1, 1], [1.0, 100.0])
    seconds = synchronous_seconds(fitted, [0], [0], [1])[0]
    assert seconds == pytest.approx((1 + 0.01) / (1 + 0.0001))


def test_measurements_must_be_positive() -> None:
    with pytest.raises(InputError, match=r"found \[0.0, -2.0\]"):
        fit_synchronous_coefficients([1, 1, 1], [1, 2, 3], [1, 1, 1], [1.0, 0.0, -2.0])
    with pytest.raises(InputError, match="at least one"):
        fit_asynchronous([], [], [])


@pytest.mark.parametrize("application", ["bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3"])
def test_ten_measured_points_predict_the_rest_within_15_percent(reference: Path, application: str) -> None:
    folder = reference / "data" / "profiles" / "pollux" / application
    measured = read_placements(next(folder.glob("placements.csv*")))
    found = errors(measured, draws=30)
    assert found.typical < 0.15
    assert found.bad_draw < 0.15
    # The ten points cannot know more than all of them.
    assert found.all_fitted <= found.typical


def test_the_table_is_the_same_every_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    rows = [
        f"{w}{n},{b},{0.1 + 0.01 * b + 0.02 * rng.random()},0" for w in "1234" for n in "1234" for b in (4, 8)
    ]
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "placements.csv").write_text(
        "placement,local_bsz,step_time,sync_time\n" + "\n".join(rows)
    )
    main(tmp_path)
    first = capsys.readouterr().out
    main(tmp_path)
    assert capsys.readouterr().out == first
    assert "| app | 32 | " in first


def test_bad_tables_are_named(tmp_path: Path) -> None:
    path = tmp_path / "placements.csv"
    path.write_text("placement,local_bsz,step_time\n11,8,0.5\n1x,8,0.5\n12,8,\n")
    with pytest.raises(InputError, match=r":3: .*\n.*:4: "):
        read_placements(path)
    path.write_text("placement,local_bsz,step_time\n")
    with pytest.raises(InputError, match="no measurement"):
        read_placements(path)
    with pytest.raises(InputError, match=r"placements\.csv"):
        main(tmp_path)
