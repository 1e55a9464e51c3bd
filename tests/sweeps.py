"""A small sweep that runs in a process of its own, here or on a cluster."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

SWEEP = """
schedulers = ["fifo", "gittins+tune-plus"]
clusters = ["2x8gpu,24cpu,500gb"]
seeds = 2
[[synergy]]
jobs = 40
loads = [1]
"""


def sweep_line(folder: Path, out: str, *options: str) -> Sequence[str]:
    """Its command line, for a process in this folder."""
    (folder / "sweep.toml").write_text(SWEEP)
    muster = [sys.executable, "-c", "from muster.cli import main; main()"]
    return [*muster, "sweep", "sweep.toml", "--out", out, *options]


def sweep(
    folder: Path, out: str, *options: str, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    line = sweep_line(folder, out, *options)
    return subprocess.run(
        line, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def files_of(folder: Path) -> dict[str, bytes]:
    """All that a sweep has written but its page, which names its own folder."""
    found = [*(folder / "cells").iterdir(), folder / "means.csv", folder / "cells.csv"]
    return {path.name: path.read_bytes() for path in sorted(found)}
