"""Reasons as data that any reader of JSON takes, and as sentences."""

from __future__ import annotations

import json
from math import inf, nan

import pytest

from muster.schedulers.reasons import REASONS, reason


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


@pytest.mark.parametrize("code", REASONS.values())
@pytest.mark.parametrize("figure", [2.0, inf, nan])
def test_a_reason_is_json_whatever_a_scheduler_of_ones_own_says(code: int, figure: float) -> None:
    assert json.loads(reason(code).to_json(2.0, figure), parse_constant=refuse).items() <= {
        (name, 2.0) for name in (reason(code).a, reason(code).b)
    }
    assert "{" not in reason(code).words(2.0, figure)


def test_reasons_are_sentences() -> None:
    assert reason(REASONS["no_gpus"]).words(1, 0.5) == "it needs 1 GPU and 0.5 is free"
    assert reason(REASONS["no_gpus"]).words(2, 1) == "it needs 2 GPUs and 1 is free"
    assert reason(REASONS["no_gpus"]).words(2, 0) == "it needs 2 GPUs and 0 are free"
    passed = "it needs 1 GPU; 6 are free, less what jobs before it take or have reserved"
    assert reason(REASONS["no_gpus"]).words(1, 6) == passed
    assert "; 1 is free, but not" in reason(REASONS["no_place"]).words(1, 1)
    assert (
        reason(REASONS["over_limit"]).words(1, 2)
        == "its tenant may hold at most 1 at once, and it needs 2 GPUs"
    )
    timer = reason(REASONS["delay_timer"])
    assert timer.parameters(2, inf) == {"waited": 2}
    assert timer.words(2, inf) == "it waits for a machine-level offer: its timer is at 2 of inf leases"


def test_reasons_of_jobs_that_may_shrink_state_the_least() -> None:
    few = "it needs at least 1 GPU and 0 are free"
    assert reason(REASONS["no_gpus"]).words(1, 0, at_least=True) == few
    left = (
        "it needs at least 2 GPUs; the jobs served before it leave 3, and others were worth more to the goal"
    )
    assert reason(REASONS["outranked"]).words(2, 3, at_least=True) == left
