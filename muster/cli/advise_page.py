"""The page of `muster advise` with all findings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from muster.advise import Finding
from muster.extras import CHARTS, missing_extra
from muster.formatting import counted
from muster.problems import InputError


def write_advice_page(
    folder: Path, title: str, findings: Sequence[Finding], command: str
) -> InputError | None:
    """Write `report.html` with all findings; what is missing where it cannot be drawn."""
    if missing := missing_extra(CHARTS):
        return missing
    from muster.sweep.page import Section, Table, write_sections

    sections = [
        Section(
            f"{finding.name}: {finding.title}",
            [
                f"Status: {finding.status}. Rests on {counted(finding.jobs, 'job')}.",
                *finding.evidence,
                *(() if finding.saving is None else (f"Saving: {finding.saving} in the time of the log.",)),
                *finding.what_to_do,
            ],
            [Table("", finding.columns, finding.rows)] if finding.rows else [],
        )
        for finding in findings
    ]
    write_sections(folder, title, [counted(len(findings), "question")], sections, command, formats=("html",))
    return None
