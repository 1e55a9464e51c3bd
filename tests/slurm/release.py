"""Runs a command with another release of Slurm, from a Debian in a folder, in place of the one of this machine.

    debootstrap --variant=minbase --include=slurmctld,slurmd,slurm-client trixie /srv/trixie
    python -m tests.slurm.release /srv/trixie pytest tests/slurm

Only this command and its children see it: in a mount namespace of their own each program of Slurm is replaced by a
script that runs the other one with its own libraries. Jobs see this machine as it is. Needs root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_INSIDE = "--inside"
_LIBRARIES = Path("usr/lib/x86_64-linux-gnu")
_PLUGINS = _LIBRARIES / "slurm-wlm"
_PROGRAMS = (
    "slurmctld",
    "slurmd",
    "slurmstepd",
    "sacct",
    "sbatch",
    "scancel",
    "scontrol",
    "sinfo",
    "squeue",
    "srun",
)
_PATH = "/usr/sbin:/usr/bin"


def replace_programs(root: Path, scripts: Path) -> None:
    """Mount a script over each program of Slurm, and the other release's plugins over this one's."""
    for name in _PROGRAMS:
        here = shutil.which(name, path=_PATH)
        assert here is not None, f"{name} is not installed here"
        there = Path(os.path.realpath(here)).relative_to("/")
        libraries = f"{root / _LIBRARIES}:{root / _PLUGINS}"
        loader = f"{root}/lib64/ld-linux-x86-64.so.2 --argv0 {here} --library-path {libraries}"
        script = scripts / name
        script.write_text(f'#!/bin/sh\nexec {loader} {root / there} "$@"\n')
        script.chmod(0o755)
        _mount(script, Path(here))
    _mount(root / _PLUGINS, Path("/") / _PLUGINS)


def _mount(source: Path, target: Path) -> None:
    subprocess.run(["mount", "--bind", str(source), str(target)], check=True)


def main(words: list[str]) -> int:
    if words[:1] != [_INSIDE]:
        own = [sys.executable, "-m", "tests.slurm.release", _INSIDE, *words]
        return subprocess.run(
            ["unshare", "--mount", "--propagation", "private", *own], check=False
        ).returncode
    root, command = Path(words[1]).resolve(), words[2:]
    with tempfile.TemporaryDirectory(prefix="muster-release-") as scripts:
        Path(scripts).chmod(0o755)
        replace_programs(root, Path(scripts))
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
