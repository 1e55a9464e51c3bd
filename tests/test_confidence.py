"""Quantiles of Student's t against SciPy's and against the closed forms of one and two degrees of freedom."""

from __future__ import annotations

from math import pi, sqrt, tan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit

from muster.confidence import t_quantile


@given(st.floats(0.01, 0.999), st.integers(1, 400))
def test_a_quantile_is_that_of_scipy(confidence: float, degrees: int) -> None:
    assert t_quantile(confidence, degrees) == pytest.approx(stdtrit(degrees, 0.5 + confidence / 2), rel=1e-11)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
def test_one_and_two_degrees_follow_their_closed_forms(confidence: float) -> None:
    assert t_quantile(confidence, 1) == pytest.approx(tan(pi * confidence / 2), rel=1e-12)
    of_two = confidence * sqrt(2 / (1 - confidence**2))
    assert t_quantile(confidence, 2) == pytest.approx(of_two, rel=1e-12)
