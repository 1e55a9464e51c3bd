"""Jobs that train to a loss: how much work that is, and what a scheduler makes of the losses so far."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.problems import InputError
from muster.simulation.sizes import with_sizes
from muster.speed.parameter_server.reported import fitted_remaining, reported_losses
from muster.workload.jobs import JobTable, job_table
from muster.workload.trace import read_trace, write_trace
from tests.building import column, finishes, jobs_of, run
from tests.schedulers.smd_cases import machines, sized_job


def to_loss(**more: Any) -> dict[str, Any]:
    """A job that reaches 0.5 after 1,800 iterations: 1 / (0.001 k + 0.7) + 0.1."""
    row = sized_job(target_loss=0.5, loss_slope=0.001, loss_offset=0.7, loss_floor=0.1, **more)
    del row["iterations"]
    return row


def table_of(*rows: dict[str, Any]) -> JobTable:
    cluster = machines(2)
    return with_sizes(job_table(jobs_of(*rows), cluster, {}, {}), cluster, "trace")


@settings(max_examples=50, deadline=None)
@given(st.floats(1e-5, 1e-1), st.floats(0.1, 5), st.floats(0, 1), st.floats(0.05, 0.95))
def test_the_work_ends_at_the_first_iteration_with_the_loss(
    slope: float, offset: float, floor: float, part: float
) -> None:
    target = floor + part / offset
    row = to_loss() | {"target_loss": target, "loss_slope": slope, "loss_offset": offset, "loss_floor": floor}
    needed = jobs_of(row).jobs["iterations"][0]
    assert 1 / (slope * needed + offset) + floor <= target * (1 + 1e-12)
    assert 1 / (slope * (needed - 1) + offset) + floor > target * (1 - 1e-12)


def test_a_job_to_a_loss_runs_as_one_of_its_iterations(tmp_path: Path) -> None:
    by_loss, counted = jobs_of(to_loss()), jobs_of(sized_job(iterations=1800.0))
    assert by_loss.jobs["iterations"].to_list() == [1800.0]
    assert finishes(run(by_loss, machines(2), "smd")) == finishes(run(counted, machines(2), "smd"))
    write_trace(by_loss, tmp_path / "t.csv")
    assert "iterations" not in (tmp_path / "t.csv").read_text().splitlines()[0]
    assert read_trace(tmp_path / "t.csv").jobs.equals(by_loss.jobs)


def test_losses_show_what_is_left_where_nothing_else_does() -> None:
    table = table_of(*[to_loss()] * 40)
    index = np.arange(40)
    assert np.isnan(fitted_remaining(table.sized, index, np.zeros(40))).all()
    errors = {}
    for done in (900.0, 1600.0):
        left = fitted_remaining(table.sized, index, np.full(40, done))
        assert (~np.isnan(left)).mean() > 0.9
        errors[done] = float(np.nanmedian(np.abs(done + left - 1800) / 1800))
    # Half of the curve, with 2 % of noise, leaves the floor a little open; nearer the target it is known better.
    assert errors[900.0] < 0.1
    assert errors[1600.0] < errors[900.0]


def test_jobs_without_a_target_loss_are_not_guessed_at() -> None:
    table = table_of(sized_job(), sized_job())
    assert np.isnan(fitted_remaining(table.sized, np.arange(2), np.full(2, 500.0))).all()


def test_the_same_job_reports_the_same_losses() -> None:
    sized = table_of(to_loss()).sized[0]
    steps, losses = reported_losses(sized, 3, 500.0)
    again = reported_losses(sized, 3, 500.0)
    np.testing.assert_array_equal(losses, again[1])
    assert not np.array_equal(losses, reported_losses(sized, 4, 500.0)[1])
    curve = 1 / (0.001 * steps + 0.7) + 0.1
    assert 0.01 < np.std(losses / curve) < 0.03


def test_without_known_durations_a_run_ends_on_the_target() -> None:
    trace = jobs_of(to_loss(), to_loss(submit_seconds=50.0), to_loss(gpus=4))
    result = run(trace, machines(1), "smd", {"interval_seconds": "60"}, knowledge="none")
    assert result.unfinished == 0
    assert column(result, "iterations") == [1800.0] * 3


@pytest.mark.parametrize(
    ("change", "reply"),
    [
        ({"target_loss": 0.1}, "the loss curve never gets there"),
        ({"target_loss": 2.0}, "the loss curve begins there"),
        ({"loss_slope": None}, "a job with target_loss needs its loss curve"),
        ({"loss_slope": 0.0}, "a number above 0"),
        ({"loss_slope": 1e-300}, "more than 1e12 iterations"),
        ({"iterations": 5.0}, "keep exactly one"),
        ({"target_loss": None}, "allowed: a loss above 0"),
    ],
)
def test_a_curve_that_leads_nowhere_is_refused(change: dict[str, Any], reply: str) -> None:
    with pytest.raises(InputError, match=reply):
        jobs_of(to_loss(), to_loss() | change)
