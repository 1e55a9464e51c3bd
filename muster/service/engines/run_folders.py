"""What jobs report of themselves and what they print, where this machine sees the jobs' folders.

A report may be missing, invalid or slow to read; none of this stops the daemon.
"""

from __future__ import annotations

from math import floor
from pathlib import Path
from typing import Any

import regex
import structlog

from muster.problems import InputError, Problem
from muster.service.engines.interface import OutputPiece, OutputRequest, Report, ReportFound, ReportRequest
from muster.service.engines.output_files import read_output_file
from muster.training.run_folder import read_progress
from muster.training.unchanged import UnchangedJob

_SEARCH_SECONDS = 0.05
"""Of an owner's expression on one line of output, and about what all new ones may take at a look."""
_MOST_STEPS = 1e15
"""As many as a request may ask for."""
_MOST_STEPS_PER_SECOND, _LEAST_STEPS_PER_SECOND = 1e12, 1e-9

log = structlog.get_logger()


class ReadsRunFolders:
    """An engine whose jobs' folders are seen by the daemon."""

    def read_report(self, request: ReportRequest) -> ReportFound:
        """How far a start is; an invalid report costs its own job only."""
        try:
            if request.unchanged is None:
                return _in_run_folder(request)
            output = request.output_dir / "0.log"
            if request.begins:
                return ReportFound(output_read=_size(output) if request.unchanged.progress else 0)
            return _in_output(request.unchanged, output, request.output_read)
        except InputError as bad:
            words = str(bad)
        except Exception as error:
            words = f"{type(error).__name__}: {error}"
            log.error("a report cannot be read", job=request.job, exc_info=True)
        return ReportFound(output_read=request.output_read, wrong=words)

    def read_output(self, request: OutputRequest) -> OutputPiece:
        """A piece of a file, which grows while the job writes."""
        return read_output_file(request)


def _size(output: Path) -> int:
    try:
        return output.stat().st_size
    except OSError:
        return 0


def _in_run_folder(request: ReportRequest) -> ReportFound:
    progress = read_progress(request.run_dir, request.epoch)
    if progress is None or progress.get("epoch") != request.epoch:
        return ReportFound()
    try:
        return ReportFound(_report(progress), uses_run_folder=True)
    except InputError as bad:
        return ReportFound(uses_run_folder=True, wrong=str(bad))


def _report(progress: dict[str, Any]) -> Report:
    step = floor(_number(progress, "step", _MOST_STEPS))
    keeps_ranks = progress.get("elastic") is False
    if "steps_per_second" not in progress:
        return Report(step, keeps_ranks=keeps_ranks)
    rate = _number(progress, "steps_per_second", _MOST_STEPS_PER_SECOND)
    return Report(step, rate if rate >= _LEAST_STEPS_PER_SECOND else 0.0, keeps_ranks)


def _number(progress: dict[str, Any], name: str, most: float) -> float:
    """Read a number; NaN is in no range, and an integer is compared before it becomes a float, which may overflow."""
    value = progress.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        what = f"allowed: a number from 0 to {most:g}"
        found = value if isinstance(value, float) else type(value).__name__
        raise InputError(Problem("progress.json", what, column=name, found=found))
    return float(value)


def _in_output(unchanged: UnchangedJob, output: Path, offset: int) -> ReportFound:
    search = _BoundedSearch()
    try:
        step, read = unchanged.read_progress(output, offset, search, _SEARCH_SECONDS)
    except FileNotFoundError:
        return ReportFound(output_read=offset)
    if step is None and search.gave_up:
        what = f"takes longer than {_SEARCH_SECONDS:g} s on a line of output; such lines are passed over"
        problem = Problem("--progress", what, found=unchanged.progress)
        return ReportFound(output_read=read, wrong=str(InputError(problem)))
    return ReportFound(None if step is None else Report(float(step)), output_read=read)


class _BoundedSearch:
    """A search with a time limit: an owner's expression may never end."""

    def __init__(self) -> None:
        self.gave_up = False

    def __call__(self, expression: str, line: str) -> regex.Match[str] | None:
        try:
            return regex.search(expression, line, timeout=_SEARCH_SECONDS)
        except TimeoutError:
            self.gave_up = True
            return None
