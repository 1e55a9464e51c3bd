"""Figures in human words: `21.9 h`, `84 %`, `0.62x`; the same in the terminal, the page and the charts."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
UNKNOWN = "–"
_DECIMALS = 4
"""In Markdown."""
_CONTROLS = {*range(0x20), *range(0x7F, 0xA0)} - set(map(ord, "\n\t"))
_DIRECTIONS = {0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_ESCAPED = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _CONTROLS | _DIRECTIONS}


def duration(seconds: float | None) -> str:
    """Three figures in the largest unit that gives at least 1, days from two days on: `48 s`, `21.9 h`.

    Milliseconds are the finest: `0.015 s`.
    """
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    for unit, name, least in ((DAY, "d", 2.0), (HOUR, "h", 1.0), (MINUTE, "min", 1.0)):
        if abs(seconds) >= unit * least:
            return f"{three_figures(seconds / unit)} {name}"
    return f"{in_unit(seconds, TIME_UNITS[-1])} s"


def unbroken(text: str) -> str:
    """The text, no line of which may end between a figure and its unit."""
    return re.sub(r"(?<=\d) (?=(?:d|h|min|s|%)(?!\w))", "\u00a0", text)


@dataclass(frozen=True)
class TimeUnit:
    """A unit of time."""

    seconds: float
    name: str
    """As it stands behind a figure: `h`."""


TIME_UNITS = (TimeUnit(DAY, "d"), TimeUnit(HOUR, "h"), TimeUnit(MINUTE, "min"), TimeUnit(1.0, "s"))
_MOST_FIGURE, _LEAST_FIGURE = 10_000, 0.02
"""Of a length of time that stands beside others of one unit."""


def common_unit(seconds: Iterable[float | None]) -> TimeUnit:
    """The unit for lengths of time that are compared: the largest one reads well in it, and none looks like 0.

    The smallest decides only as long as the largest has no more than four digits.
    """
    lengths = [abs(one) for one in seconds if one is not None and math.isfinite(one) and one != 0]
    most = max(lengths, default=0.0)
    at = next((at for at, unit in enumerate(TIME_UNITS) if most >= 3 * unit.seconds), len(TIME_UNITS) - 1)
    for unit, finer in pairwise(TIME_UNITS[at:]):
        if min(lengths) >= _LEAST_FIGURE * unit.seconds or most >= _MOST_FIGURE * finer.seconds:
            return unit
    return TIME_UNITS[-1]


def in_unit(seconds: float | None, unit: TimeUnit) -> str:
    """A length of time without its unit: three figures, at most three of them decimals."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    value = seconds / unit.seconds
    if 0 < value < 0.0005:
        return "<0.001"
    return f"{value:.3f}" if 0 < value < 0.1 else three_figures(value)


def three_figures(value: float) -> str:
    """The number with three figures, grouped from a thousand on: `0.620`, `21.9`, `1,234`."""
    if value == 0:
        return "0"
    decimals = 2 - math.floor(math.log10(abs(value)))
    return f"{value:,.{min(max(decimals, 0), 4)}f}"


def percent(share: float | None) -> str:
    """A share of 1 in percent: `84.3 %`."""
    return UNKNOWN if share is None or not math.isfinite(share) else f"{100 * share:.1f} %"


def ratio(value: float | None, first: float | None) -> str:
    """How many times the first scheduler's figure: `0.62×`; nothing to say where that is 0 or unknown."""
    if value is None or not first:
        return UNKNOWN
    return f"{value / first:.2f}×"


def change(value: float, before: float) -> str:
    """What changed since before, in percent of it: `−79 %`, `+5 %`; nothing to say where that was 0."""
    return f"{100 * (value / before - 1):+.0f} %".replace("-", "−") if before else UNKNOWN


def number(value: float | None) -> str:
    """A plain figure: `1.34`, `12,000`."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    return f"{value:,.0f}" if float(value).is_integer() else three_figures(value)


def counted(count: float, thing: str) -> str:
    """So many of a thing whose plural ends in s: `1 job`, `12,000 jobs`."""
    return f"{number(count)} {thing}{'' if count == 1 else 's'}"


def enumerated(parts: Sequence[str]) -> str:
    """At least one part in a sentence: `a`, `a and b`, `a, b and c`."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def is_or_are(count: float) -> str:
    """The verb behind a count: `1 is`, `0.5 is`, `0 are`, `2 are`."""
    return "is" if 0 < count <= 1 else "are"


def thousandths(value: float) -> str:
    """To the thousandth, without zeros at its end: `0.5`, `12,000`."""
    return f"{value:,.3f}".rstrip("0").rstrip(".")


def amount_of(resource: str, amount: float) -> str:
    """So much of a resource: GPUs to the thousandth, as they have so many parts, of all else three figures."""
    return thousandths(amount) if resource == "gpus" else number(amount)


def cores(count: float) -> str:
    """So many CPU cores: `1 core`, `0.5 cores`, `12 cores`."""
    return f"{thousandths(count)} core{'' if count == 1 else 's'}"


def gpus(count: float) -> str:
    """So many GPUs, which have a thousand parts each: `1 GPU`, `12,000 GPUs`, `0.5 of a GPU`, `7.5 GPUs`."""
    if 0 < count < 1:
        return f"{thousandths(count)} of a GPU"
    return f"{thousandths(count)} GPU{'' if count == 1 else 's'}"


def natural_order(name: str) -> tuple[list[str | int], str]:
    """A key to sort names by as people count: `vc2` before `vc10`."""
    pieces = re.split(r"(\d+)", name)
    return [int(piece) if at % 2 else piece for at, piece in enumerate(pieces)], name


def short_names(names: Sequence[str]) -> tuple[list[str], str]:
    """Scheduler names without the last parts that all share, and those: `fifo`, `las`; `+proportional+pack`.

    A single name, and names that would no longer differ or be empty, stay whole.
    """
    parts = [name.split("+") for name in names]
    common = 0
    while len(names) > 1 and min(map(len, parts)) > common + 1 and len({p[-1 - common] for p in parts}) == 1:
        common += 1
    short = ["+".join(p[: len(p) - common]) for p in parts]
    if common == 0 or len(set(short)) < len(names):
        return list(names), ""
    return short, "".join(f"+{part}" for part in parts[0][-common:])


def typed(value: Any) -> str:
    """A value as it is typed on the command line: `300`, `true`, `1,2`, `a:1,b:2`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, Mapping):
        return ",".join(f"{name}:{typed(inner)}" for name, inner in value.items())
    if isinstance(value, list | tuple):
        return ",".join(map(typed, value))
    return str(value)


def command_lines(verb: str, argument: str, flags: Iterable[tuple[str, str]]) -> str:
    """A command of Muster as it is typed, a flag a line; the value of a flag that stands alone is empty."""
    lines = [shlex.join(["muster", verb, argument])]
    lines += [shlex.join([flag, value] if value else [flag]) for flag, value in flags]
    return " \\\n  ".join(lines)


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown, a line each, the last one ended too."""
    lines = (header, ["---"] * len(header), *rows)
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |\n" for cells in lines)


def markdown_cell(value: object) -> str:
    """A value in a table of Markdown: numbers to four decimals, nothing for None."""
    if isinstance(value, float):
        text = f"{value:.{_DECIMALS}f}"
        return text.rstrip("0").rstrip(".")
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def printable(text: str) -> str:
    """The text with escapes in place of what would steer a terminal or turn the order of its characters."""
    return text.translate(_ESCAPED)


def as_json_text(value: object) -> str:
    """JSON as it is printed and written."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
