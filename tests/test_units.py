"""Quantities with a suffix against exact arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.units import parse_gb, parse_gb_per_s, parse_seconds


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_gb, "500GB", 500.0),
        (parse_gb, "500 gb", 500.0),
        (parse_gb, "64GiB", 64 * 2**30 / 1e9),
        (parse_gb, "1.5TB", 1500.0),
        (parse_gb, "1e3MB", 1.0),
        (parse_gb, 7, 7.0),
        (parse_gb_per_s, "10Gbit/s", 1.25),
        (parse_gb_per_s, "10Gbps", 1.25),
        (parse_gb_per_s, "500MB/s", 0.5),
        (parse_gb_per_s, "0.5gb/s", 0.5),
        (parse_gb_per_s, "2GiB/s", 2 * 2**30 / 1e9),
        (parse_gb_per_s, "0.0625", 0.0625),
        (parse_seconds, "500ns", 500e-9),
        (parse_seconds, "5us", 5e-6),
        (parse_seconds, "5µs", 5e-6),
        (parse_seconds, "5min", 300.0),
        (parse_seconds, "2h", 7200.0),
        (parse_seconds, "1d", 86400.0),
        (parse_seconds, 300, 300.0),
    ],
)
def test_what_people_write(parse: Callable[[str | float], float], text: str, value: float) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    "wrong",
    ["", "GB", "-1GB", "1.2.3GB", "nan", "inf", "5 apples", "5GB/s", True, -1, float("inf"), float("nan")],
)
def test_a_wrong_size_is_refused_with_what_is_allowed(wrong: str | float) -> None:
    with pytest.raises(ValueError, match="a size such as 500GB"):
        parse_gb(wrong)


@pytest.mark.parametrize("wrong", ["500GB", "10Gbit", "fast"])
def test_a_rate_needs_its_per_second(wrong: str) -> None:
    with pytest.raises(ValueError, match="a rate such as 10Gbit/s"):
        parse_gb_per_s(wrong)


def test_a_rate_in_b_for_bits_or_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="bits or bytes"):
        parse_gb_per_s("10Gb/s")


@given(
    st.decimals(min_value=0, max_value=10**6, places=4),
    st.sampled_from([("kB", 1000), ("MiB", 2**20), ("TB", 10**12)]),
)
def test_the_value_is_the_nearest_float(number: object, unit: tuple[str, int]) -> None:
    assert parse_gb(f"{number}{unit[0]}") == float(Fraction(str(number)) * unit[1] / 10**9)
