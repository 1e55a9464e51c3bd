"""Has nodes of an engine try the folder of the jobs before the daemon serves; what they try is `muster.launcher`'s."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias
from uuid import uuid4

from muster.launcher.folder_trial import begin_trial, sees
from muster.problems import InputError, Problem

NODES_AT_MOST = 2
"""Two show whether a disk is shared."""

AskNodes: TypeAlias = Callable[[Path, str], Mapping[str, str]]
"""Has some nodes try a folder, with this token, at the same time (`muster.launcher.folder_trial.try_folder`).

Returns, by the name of the node, what is wrong there; "" where it is well. OSError if no node can be asked now.
"""


def check_shared_folder(jobs: Path, ask: AskNodes) -> str:
    """Why the jobs' folder was not tried, as a sentence without full stop; "" if nodes have found it well.

    InputError if a node has found something wrong.
    """
    token = uuid4().hex
    try:
        with tempfile.TemporaryDirectory(
            prefix=".muster-trial-", dir=jobs, ignore_cleanup_errors=True
        ) as inside:
            folder = Path(inside)
            if os.geteuid() == 0:  # on a node root may be an account that owns nothing
                folder.chmod(0o1777)
            begin_trial(folder, token)
            try:
                problems = dict(ask(folder, token))
            except OSError as error:
                return f"{jobs} was not tried from a node: {error.strerror or error}"
            good = [name for name, problem in problems.items() if not problem]
            if good and not sees(folder, [str(number) for number in range(len(problems))], token):
                problems[" and ".join(good)] = "has published something there that the daemon does not see"
    except OSError as error:
        what = f"cannot hold the jobs' folders: {error.strerror or error}"
        raise InputError(Problem("--jobs", what, found=str(jobs))) from None
    found = [_problem(jobs, name, problem) for name, problem in problems.items() if problem]
    if found:
        raise InputError(*found)
    return ""


def _problem(jobs: Path, node: str, problem: str) -> Problem:
    what = f"node {node} {problem}; allowed: a folder that the daemon and all nodes share under one path"
    return Problem("--jobs", what, found=str(jobs))
