"""What finding changes in Python and in compiled code has in common."""

from __future__ import annotations

from dataclasses import dataclass

OPPOSITES = {
    one: other
    for pair in (
        ("min", "max"),
        ("minimum", "maximum"),
        ("argmin", "argmax"),
        ("any", "all"),
        ("floor", "ceil"),
    )
    for one, other in (pair, pair[::-1])
}
_ROUNDING = 1e-5
"""Numbers below it are tolerances for rounding, right within an order of magnitude."""


@dataclass(frozen=True)
class Edit:
    """Bytes `start` to `end` of a line, in which `old` becomes `new`; an empty `old` stands for all of them."""

    line: int
    start: int
    end: int
    old: str
    new: str
    kind: str
    function: str


def other_numbers(value: int | float) -> list[tuple[str, str]]:
    """Returns what a number becomes, with the kind of each change."""
    if isinstance(value, int):
        return [(str(number), "off by one") for number in (value + 1, value - 1) if number >= 0]
    if 0 < value < _ROUNDING:
        return []
    return [(repr(2 * value if value else 1.0), "constant")]
