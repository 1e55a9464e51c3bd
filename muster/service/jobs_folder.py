"""Where the jobs' folders are: in the home, or on a disk that all nodes share.

Store and locks stay in the home. Run folders rely on three things, which are tried when the daemon starts: what was
flushed and renamed appears whole, at once, to every process.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from muster.files import write_aside
from muster.problems import InputError, Problem
from muster.service.home import JOBS, jobs_folder, newest_job_folder

_OPTION = "--jobs"


def use_folder(home: Path, named: Path | None) -> None:
    """Keep the jobs' folders in the named folder from now on; None: where they are. The caller holds the home's lock.

    The home has a link to it. InputError if the folder does not behave as run folders need it, or if there are jobs'
    folders elsewhere.
    """
    jobs, link = jobs_folder(home), home / JOBS
    if named is None:
        if link.is_symlink():
            check_run_folders(jobs)
        return
    folder = Path(os.path.realpath(named))
    try:
        if not folder.is_dir():
            folder.mkdir()
            folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
        check_run_folders(folder)
        if os.path.realpath(link) == str(folder):
            return
        if newest_job_folder(home):
            what = (
                f"the jobs of this home have their folders in {jobs}; move them there first, or leave it out"
            )
            raise InputError(Problem(_OPTION, what, found=str(named)))
        if link.is_symlink():
            link.unlink()
        else:
            link.rmdir()
        link.symlink_to(folder)
    except OSError as error:
        what = f"cannot be used for the jobs' folders: {error.strerror}; allowed: a folder on a disk of all nodes"
        raise InputError(Problem(_OPTION, what, found=str(named))) from None


def check_run_folders(folder: Path) -> None:
    """InputError if files are not flushed, renamed and seen by other processes there as run folders need it."""
    first, second = "first\n", "second\n"
    try:
        with tempfile.TemporaryDirectory(prefix=".muster-check-", dir=folder) as inside:
            _publish(Path(inside), first)
            seen = [_seen_by_another_process(inside)]
            _publish(Path(inside), second)
            seen.append(_seen_by_another_process(inside))
            there = (Path(inside) / "answer").read_text(encoding="utf-8")
    except OSError as error:
        what = f"cannot hold the jobs' folders: {error.strerror}"
        raise InputError(Problem(_OPTION, what, found=str(folder))) from None
    if seen != [first, second] or there != second:
        what = "another process does not see files as they were renamed last; allowed: a disk that all nodes share"
        raise InputError(Problem(_OPTION, what, found=str(folder)))


def _publish(folder: Path, content: str) -> None:
    with write_aside(folder / "published") as aside:
        aside.write_text(content, encoding="utf-8")


_ANSWER = """import os, sys
folder = sys.argv[1]
with open(folder + "/published") as file:
    content = file.read()
with open(folder + "/aside", "w") as file:
    file.write(content)
    file.flush()
    os.fsync(file.fileno())
os.replace(folder + "/aside", folder + "/answer")
print(content, end="")
"""


def _seen_by_another_process(folder: str) -> str:
    """What another process reads there, which publishes it in its turn; empty if it cannot."""
    command = [sys.executable, "-I", "-S", "-c", _ANSWER, folder]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
