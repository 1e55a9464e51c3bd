"""The frame of a paper's experiments: what is claimed, what to run, what came out, and whether that is enough."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from muster.report.drawing import Chart
from muster.sweep.page import Table
from muster.sweep.pieces import Piece

Result = Mapping[str, Any]


class Verdict(StrEnum):
    """What a measured figure says about a claim."""

    REACHED = "reached"
    NOT_REACHED = "not reached"
    OTHER_SETTING = "other setting"
    """The claim does not state its setting, or it is real hardware: the figure is beside it, not against it."""
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Effort:
    """How much may be done, and with what."""

    quick: bool
    reference: Path | None
    """The folder of published inputs and results; None: not on this machine."""


@dataclass(frozen=True)
class Row:
    """One line of the table; figures as they are shown."""

    what: str
    reported: str
    """By the paper."""
    published: str
    """Given by the authors' program."""
    muster: str
    verdict: Verdict
    remark: str = ""


@dataclass(frozen=True)
class Findings:
    """What an experiment showed."""

    rows: Sequence[Row]
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()


@dataclass(frozen=True)
class Experiment:
    """One experiment of a paper."""

    name: str
    title: str
    claim: str
    """What the paper says and in which setting, in a sentence or two."""
    pieces: Callable[[Effort], Sequence[Piece]]
    """What to run; nothing where it cannot be run here."""
    read: Callable[[Effort, Sequence[Result]], Findings]
    """The findings from the results, in the order of the pieces."""


@dataclass(frozen=True)
class Paper:
    """A paper and its experiments."""

    name: str
    title: str
    source: str
    experiments: Sequence[Experiment]
    notes: Sequence[str] = ()
    """What holds for all experiments."""


def at_least(measured: float, claimed: float) -> Verdict:
    """Whether a measured ratio is the claimed one or more."""
    return Verdict.REACHED if measured >= claimed else Verdict.NOT_REACHED


def best_so_far(measured: float, claimed: float, effort: Effort) -> Verdict:
    """As `at_least`; but a quick run that falls short was in another setting: a short one."""
    if effort.quick and measured < claimed:
        return Verdict.OTHER_SETTING
    return at_least(measured, claimed)


def within(measured: float, expected: float, tolerance: float) -> Verdict:
    """Whether a measured figure differs by no more than a part of the expected one."""
    return Verdict.REACHED if abs(measured - expected) <= tolerance * abs(expected) else Verdict.NOT_REACHED
