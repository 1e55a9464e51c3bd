"""`muster sweep --on ray`: the same files as on one machine, whatever nodes the runs were on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ray.cluster import ADDRESS, RayCluster

pytestmark = pytest.mark.needs_ray

SWEEP = """
schedulers = ["fifo", "gittins+tune-plus"]
clusters = ["2x8gpu,24cpu,500gb"]
seeds = 3
[[synergy]]
jobs = 40
loads = [1]
"""


def sweep(folder: Path, out: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "sweep.toml").write_text(SWEEP)
    words = ["sweep", "sweep.toml", "--out", out, *options]
    command = [sys.executable, "-c", "from muster.cli import main; main()", *words]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "cells").iterdir())}


def test_a_sweep_on_ray_writes_the_same_bytes(cluster: RayCluster, tmp_path: Path) -> None:
    assert sweep(tmp_path, "here").returncode == 0
    done = sweep(tmp_path, "there", "--on", "ray", "--address", ADDRESS)
    assert done.returncode == 0, done.stderr
    assert len(files_of(tmp_path / "there")) == 6
    assert files_of(tmp_path / "there") == files_of(tmp_path / "here")
    assert (tmp_path / "there" / "means.csv").read_bytes() == (tmp_path / "here" / "means.csv").read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--on", "ray"], "--address: allowed: host and port of the head of a Ray cluster"),
        (["--on", "slurms"], "--on: found 'slurms'; allowed: ray"),
        (["--address", ADDRESS], "--on: allowed: ray"),
        (["--on", "ray", "--address", "127.0.0.1:1"], "no head of a Ray cluster listens at 127.0.0.1:1"),
    ],
)
def test_a_wrong_place_for_a_sweep_is_refused(tmp_path: Path, options: list[str], message: str) -> None:
    done = sweep(tmp_path, "there", *options)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr
