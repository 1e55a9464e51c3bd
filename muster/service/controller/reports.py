"""What a job reports of itself. A report may be missing, invalid or slow to read; none of this stops the daemon."""

from __future__ import annotations

from math import floor
from pathlib import Path
from typing import Any

import regex

from muster.problems import InputError, Problem
from muster.service.controller.starts import JobStart, Report
from muster.service.home import job_folder
from muster.service.store.rows import JobRow
from muster.training.run_folder import read_progress
from muster.training.unchanged import UnchangedJob

_SEARCH_SECONDS = 0.05
"""Of an owner's expression on one line of output, and about what all new ones may take at a look."""
_MOST_STEPS = 1e15
"""As many as a request may ask for."""
_MOST_STEPS_PER_SECOND, _LEAST_STEPS_PER_SECOND = 1e12, 1e-9


def read_report(row: JobRow, start: JobStart, home: Path) -> Report | None:
    """What a start reports, if that is new; InputError if it is invalid."""
    folder = job_folder(home, row.id)
    unchanged = row.request.unchanged()
    if unchanged is not None:
        report = _in_output(unchanged, _output(folder), start)
    else:
        report = _in_run_folder(folder / "run", start)
    if report is None or report == start.last_report:
        return None
    start.last_report = report
    return report


def output_so_far(row: JobRow, home: Path) -> int:
    """Bytes that earlier starts have written; they hold no progress of a new one."""
    if row.request.progress is None or row.epoch == 0:
        return 0
    try:
        return _output(job_folder(home, row.id)).stat().st_size
    except OSError:
        return 0


def _output(folder: Path) -> Path:
    return folder / "output" / "0.log"


def _in_run_folder(run_dir: Path, start: JobStart) -> Report | None:
    progress = read_progress(run_dir, start.epoch)
    if progress is None or progress.get("epoch") != start.epoch:
        return None
    start.joined = True
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


def _in_output(unchanged: UnchangedJob, output: Path, start: JobStart) -> Report | None:
    search = _BoundedSearch()
    try:
        step, start.output_read = unchanged.read_progress(output, start.output_read, search, _SEARCH_SECONDS)
    except FileNotFoundError:
        return None
    if step is None and search.gave_up:
        what = f"takes longer than {_SEARCH_SECONDS:g} s on a line of output; such lines are passed over"
        raise InputError(Problem("--progress", what, found=unchanged.progress))
    return None if step is None else Report(float(step))


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
