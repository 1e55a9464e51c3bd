"""What a trace may say of the samples of jobs that work in blocks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from muster.problems import InputError
from muster.simulation import rules_named
from tests.building import cluster_of, finishes, job, jobs_of, run

SECONDS_A_SAMPLE = 0.03
BLOCK = 1000 * SECONDS_A_SAMPLE
"""Seconds of a block of one GPU."""


def finish_with(samples: list[Any]) -> list[float | None]:
    """Finish times of jobs of one GPU that arrive together, each on a GPU of its own."""
    trace = jobs_of(*(job(0, 255) for _ in samples))
    columns = [
        pl.Series("time_per_iteration_s", [SECONDS_A_SAMPLE] * len(samples)),
        pl.Series("total_iterations", samples),
    ]
    trace = replace(trace, jobs=trace.jobs.with_columns(columns))
    rules = rules_named("dally-published")
    settings = {**rules.settings_for("dally-nowait"), "lease_seconds": "10000"}
    return finishes(run(trace, cluster_of(len(samples)), "dally-nowait", settings, rules=rules))


@pytest.mark.parametrize("samples", ["0", "-1", "inf", "-inf", "nan", "2.5", "many", None])
def test_samples_that_are_no_whole_number_are_refused(samples: str | None) -> None:
    with pytest.raises(InputError, match=r"total_iterations: .*allowed: a whole number of samples above 0"):
        finish_with(["1000", samples])


@pytest.mark.parametrize(("samples", "blocks"), [(1, 1), (1000, 1), (1001, 2), (8500, 9)])
def test_work_is_the_samples_in_whole_blocks(samples: int, blocks: int) -> None:
    assert finish_with([samples]) == pytest.approx([blocks * BLOCK])
