"""Why a queued job waits, as a clause."""

from __future__ import annotations

import pytest

from muster.service.request import JobRequest
from muster.service.store.rows import JobRow
from muster.service.waiting import describe_reason

NOTED = 100.0
REQUEST = JobRequest(name="job", command=("true",), directory="/")


@pytest.mark.parametrize(
    ("now", "seconds"), [(NOTED, "30.0"), (NOTED + 10, "20.0"), (NOTED + 30, "0"), (NOTED + 99, "0")]
)
def test_the_seconds_of_a_protection_run_down(now: float, seconds: str) -> None:
    figures = {"needs": 2, "seconds": 30.0}
    row = JobRow(1, "ann", REQUEST, 0.0, reason="protected", reason_parameters=figures, reason_since=NOTED)
    assert f"may be interrupted in {seconds} s at the earliest" in describe_reason(row, now)


def test_the_seconds_to_a_planned_start_run_down() -> None:
    figures = {"seconds": 3600.0}
    row = JobRow(1, "ann", REQUEST, 0.0, reason="reserved", reason_parameters=figures, reason_since=NOTED)
    assert "backfill plans its start in 30.0 min" in describe_reason(row, NOTED + 1800)


def test_the_figures_of_other_reasons_stay() -> None:
    row = JobRow(
        1,
        "ann",
        REQUEST,
        0.0,
        reason="no_gpus",
        reason_parameters={"needs": 2, "free": 0},
        reason_since=NOTED,
    )
    assert describe_reason(row, NOTED + 30) == "it needs 2 GPUs and 0 are free"


@pytest.mark.parametrize(
    ("sizes", "needs", "said"),
    [
        ({"gpus": 20, "min_gpus": 1}, 1, "it needs at least 1 GPU and 0 are free"),
        ({"gpus": 20, "min_gpus": 1}, 20, "it needs 20 GPUs and 0 are free"),
        ({"gpus": 1, "gpu_share": 0.5}, 0.5, "it needs 0.5 of a GPU and 0 are free"),
    ],
)
def test_the_least_of_a_job_that_may_shrink_is_named(
    sizes: dict[str, float], needs: float, said: str
) -> None:
    request = REQUEST.model_copy(update=sizes)
    row = JobRow(1, "ann", request, 0.0, reason="no_gpus", reason_parameters={"needs": needs, "free": 0})
    assert describe_reason(row, NOTED) == said
