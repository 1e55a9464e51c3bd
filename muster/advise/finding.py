"""What a judgement of a site says: a finding with its evidence, saving and advice, or why nothing is found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from muster.formatting import counted, markdown_table, three_figures

FOUND, NOTHING, NOT_JUDGED = "found", "nothing found", "not judged"


@dataclass(frozen=True)
class Saving:
    """What a change could save over the time of the log: a range, because a log shows effects of one history only."""

    low: float
    high: float
    unit: str
    """GPU-hours, core-hours, hours of waiting, ..."""

    def __str__(self) -> str:
        """`0 to 12.3 GPU-hours`."""
        return f"{three_figures(self.low)} to {three_figures(self.high)} {self.unit}"


@dataclass(frozen=True)
class Finding:
    """The answer to one question about a site."""

    name: str
    title: str
    """The finding in a sentence; for one that is not judged, what the log lacks."""
    status: str = FOUND
    jobs: int = 0
    """Jobs that the answer rests on."""
    evidence: Sequence[str] = ()
    saving: Saving | None = None
    what_to_do: Sequence[str] = ()
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = field(default_factory=tuple)
    """A table of the largest cases."""

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)

    def markdown(self) -> str:
        """The finding as a page of its own."""
        lines = [f"# {self.title}", "", f"Status: {self.status}. Rests on {counted(self.jobs, 'job')}."]
        if self.evidence:
            lines += ["", "## Evidence", "", *(f"- {one}" for one in self.evidence)]
        if self.rows:
            lines += ["", markdown_table(self.columns, self.rows).rstrip("\n")]
        if self.saving is not None:
            lines += ["", "## Saving", "", f"{self.saving} in the time of the log."]
        if self.what_to_do:
            lines += ["", "## What to do", "", *(f"- {one}" for one in self.what_to_do)]
        return "\n".join(lines) + "\n"


def nothing(name: str, title: str, jobs: int, *evidence: str) -> Finding:
    """A question that the log answers with no."""
    return Finding(name, title, NOTHING, jobs, evidence)


def not_judged(name: str, missing: str, where: str = "in the log") -> Finding:
    """A question that cannot be answered: `missing` completes "not judged: no ...", `where` says where it lacks."""
    return Finding(name, f"not judged: no {missing} {where}", NOT_JUDGED)
