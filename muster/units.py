"""Quantities with a suffix, as people write them, to the units used inside: GB (10^9 bytes), GB/s, seconds.

A plain number is already in the unit used inside. Prefixes are decimal (`MB` = 10^6 bytes) or, with an i,
binary (`GiB` = 2^30 bytes). Upper and lower case mean the same, but for rates such as `10Gb/s`, which
some read as bits and some as bytes: that one is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal

from muster.problems import InputError, Problem

_NUMBER_AND_UNIT = re.compile(
    r"\s*\+?(\d+(?:\.\d*)?(?:e[+-]?\d{1,2})?|\.\d+)\s*([a-zµμ/]*)\s*", re.IGNORECASE
)
_AMBIGUOUS_RATE = re.compile(r"[kKMGTP]b/s")
_GB = Decimal(10) ** 9
GB_PER_MIB = 2**20 / 1e9
MIB_PER_GB = 1e9 / 2**20

_SIZES = {"b": Decimal(1) / _GB} | {
    prefix + ending: Decimal(base) ** power / _GB
    for ending, base in (("b", 1000), ("ib", 1024))
    for power, prefix in enumerate("kmgtp", start=1)
}
_BITS = {
    prefix + "bit": Decimal(1000) ** power / 8 / _GB for power, prefix in enumerate(("", "k", "m", "g", "t"))
}
_RATES = (
    {f"{unit}/s": factor for unit, factor in _SIZES.items()}
    | {f"{unit}/s": factor for unit, factor in _BITS.items()}
    | {f"{unit.removesuffix('bit')}bps": factor for unit, factor in _BITS.items()}
)
_TIMES = {
    "ns": Decimal("1e-9"),
    "us": Decimal("1e-6"),
    "µs": Decimal("1e-6"),
    "μs": Decimal("1e-6"),
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "min": Decimal(60),
    "h": Decimal(3600),
    "d": Decimal(86400),
}


def parse_gb(value: str | float) -> float:
    """A size in GB: `500GB`, `64GiB`, `0.5TB`, or a number of GB. ValueError says what is allowed."""
    return _parse(value, _SIZES, "allowed: a size such as 500GB, 64GiB or 0.5TB, or a number of GB")


def parse_gb_per_s(value: str | float) -> float:
    """A rate in GB/s: `10Gbit/s`, `500MB/s`, or a number of GB/s. ValueError says what is allowed."""
    if isinstance(value, str) and _AMBIGUOUS_RATE.search(value):
        raise ValueError("is it bits or bytes? write Gbit/s for bits, GB/s for bytes")
    return _parse(value, _RATES, "allowed: a rate such as 10Gbit/s, 500MB/s or 2GiB/s, or a number of GB/s")


def parse_seconds(value: str | float) -> float:
    """A time in seconds: `5us`, `300s`, `5min`, or a number of seconds. ValueError says what is allowed."""
    return _parse(
        value, _TIMES, "allowed: a time from 0 on, such as 5us, 300s, 5min or 2h, or a number of seconds"
    )


def seconds_of(where: str, value: str | float) -> float:
    """As `parse_seconds`; the InputError of a value that is not a time names the flag or field `where`."""
    try:
        return parse_seconds(value)
    except ValueError as error:
        raise InputError(Problem(where, str(error), found=value)) from None


def _parse(value: str | float, factors: Mapping[str, Decimal], allowed: str) -> float:
    """Decimal arithmetic, so that `500MB/s` is the float nearest to 0.5 and not its neighbour."""
    if isinstance(value, str) and (match := _NUMBER_AND_UNIT.fullmatch(value)):
        number, unit = Decimal(match[1]), match[2].lower()
        if not unit:
            return float(number)
        if unit in factors:
            return float(number * factors[unit])
    elif isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf:
        return float(value)
    raise ValueError(allowed)
