"""The folder of a job, for all its starts: closed to others, and never a stranger's of the same number.

JOB/whose     which job it is; the number alone may come again, with another store or one from a backup
JOB/run/      the owner's (docs/how-to/training.md)
JOB/output/   the daemon's; ranks get their files open
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from muster.files import write_aside
from muster.service.engines.interface import Launch
from muster.service.home import WHOSE


def make_job_folder(
    launch: Launch, identity: Mapping[str, Any] | None, *, owner_writes_output: bool = False
) -> None:
    """All that a start needs, with modes of its own whatever the umask; a stranger's folder is moved aside.

    `owner_writes_output`: the ranks open their output themselves, with the rights of the job's owner.
    """
    job = launch.run_dir.parent
    _keep_apart(job, launch)
    # Others go through it to what is theirs, where the daemon is root; only root can list it.
    make_folder(job, 0o711 if os.geteuid() == 0 else 0o700, None)
    if not (job / WHOSE).exists():
        with write_aside(job / WHOSE) as aside:
            aside.write_text(launch.whose)
            aside.chmod(0o600)
    make_folder(launch.output_dir, 0o700, identity if owner_writes_output else None)
    make_folder(launch.run_dir, 0o700, identity)


def _keep_apart(job: Path, launch: Launch) -> None:
    try:
        known = (job / WHOSE).read_text()
    except FileNotFoundError:
        # Made half, or by a Muster that wrote no such file: a job that has run before knows its own.
        if launch.epoch > 1 or not launch.run_dir.exists():
            return
        known = None
    if known != launch.whose:
        asides = (job.with_name(f"{job.name}.old-{number}") for number in count(1))
        job.rename(next(aside for aside in asides if not aside.exists()))


def make_folder(folder: Path, mode: int, identity: Mapping[str, Any] | None) -> None:
    """Make a folder of this mode, and of this account where the daemon is root; no link is followed."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if identity is not None:
            os.fchown(opened, identity["uid"], identity["gid"])
        os.fchmod(opened, mode)
    finally:
        os.close(opened)
