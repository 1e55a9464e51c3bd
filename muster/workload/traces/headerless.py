"""Trace files without a header: what their columns are, and how such a file is known."""

from __future__ import annotations

import re
from collections.abc import Sequence

SWF_COLUMNS = (
    *("job number", "submit time", "wait time", "run time", "allocated processors", "average CPU time"),
    *("used memory", "requested processors", "requested time", "requested memory", "status", "user", "group"),
    *("executable", "queue", "partition", "preceding job", "think time"),
)
"""The Standard Workload Format numbers its 18 columns; these are their names."""

PAI_COLUMNS = (
    *("job_name", "task_name", "inst_num", "status", "start_time", "end_time"),
    *("plan_cpu", "plan_mem", "plan_gpu", "gpu_type"),
)
"""Of `pai_task_table`, which comes without its header."""
PAI_STATES = ("Terminated", "Failed", "Running", "Waiting")

_NUMBER = r"-?\d[\d.]*"
_AFTER_COMMENTS = re.compile(rf"\s*;[^\n]*\n(?:[ \t]*(?:;[^\n]*)?\n)*[ \t]*{_NUMBER}[ \t]+{_NUMBER}[ \t]")
_AT_ONCE = re.compile(rf"\s*{_NUMBER}(?:[ \t]+{_NUMBER}){{17}}[ \t]*(?:\n|$)")


def is_swf(text: str) -> bool:
    """Whether a file begins with comments after a semicolon and then numbers, or with a line of 18 numbers."""
    return bool(_AFTER_COMMENTS.match(text) or _AT_ONCE.match(text))


def known_header(first: Sequence[str]) -> Sequence[str]:
    """The columns of a file whose first line is a row of a known table; none where that line is a header."""
    cells = [cell.strip() for cell in first]
    if len(cells) != len(PAI_COLUMNS) or cells[3] not in PAI_STATES:
        return ()
    numbers = (cells[2], *cells[4:9])
    return PAI_COLUMNS if all(not cell or re.fullmatch(_NUMBER, cell) for cell in numbers) else ()
