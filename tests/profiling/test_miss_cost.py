"""The rate beside more CPU work, against the two cases that can be solved by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.profiling.miss_cost import rate_beside
from muster.profiling.rates import Rate

POSITIVE = st.floats(0.01, 10)
CORES = (0.25, 1.0, 2.0, 8.0)


def rates_of(speeds: list[float]) -> dict[float, Rate]:
    return {cores: Rate(speed, 0.0, 0.0, 5, True) for cores, speed in zip(CORES, speeds, strict=True)}


@given(cores=st.floats(0.1, 8), per_step=POSITIVE, more=st.floats(0, 10))
def test_a_job_that_waits_for_cpu_shares_it(cores: float, per_step: float, more: float) -> None:
    rates = rates_of([at / per_step for at in CORES])
    assert rate_beside(rates, cores, more) == pytest.approx(cores / (per_step + more))


@given(per_step=POSITIVE, more=POSITIVE)
def test_cpu_to_spare_is_used_first(per_step: float, more: float) -> None:
    """Beyond one core the job gains nothing: the rate stays until one core no longer is left for it."""
    rates = rates_of([min(at, 1.0) / per_step for at in CORES])
    expected = min(1 / per_step, 8 / (per_step + more))
    assert rate_beside(rates, 8.0, more) == pytest.approx(expected)


def test_noise_does_not_make_less_cpu_better() -> None:
    rates = rates_of([2.0, 9.0, 8.5, 8.0])
    assert [rate_beside(rates, cores, 0.0) for cores in CORES] == [2.0, 8.0, 8.0, 8.0]
    assert rate_beside(rates, 0.125, 0.0) == 1.0
