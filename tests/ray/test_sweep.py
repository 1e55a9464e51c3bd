"""`muster sweep --on ray`: the same files as on one machine, whatever nodes the runs were on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ray.cluster import ADDRESS, RayCluster
from tests.sweeps import files_of, sweep

pytestmark = pytest.mark.needs_ray

LOUD = """
import sys
from pathlib import Path
from muster.sweep.on_ray import RayTasks
from muster.sweep.pieces import PieceBatch

class Loud:
    def inputs(self):
        return {}
    def run(self):
        print("printed on a node", flush=True)
        return {"done": True}

tasks = RayTasks(sys.argv[1])
for name in "first", "second":
    tasks.run({name: PieceBatch(((name, Loud()),), Path(sys.argv[2]))}, 1, lambda _, piece: print(piece))
tasks.close()
"""


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}


def test_a_sweep_on_ray_writes_the_same_bytes(cluster: RayCluster, tmp_path: Path) -> None:
    assert sweep(tmp_path, "here", environment=environment()).returncode == 0
    done = sweep(tmp_path, "there", "--on", "ray", "--address", ADDRESS, environment=environment())
    assert done.returncode == 0, done.stderr
    assert len(files_of(tmp_path / "there")) == 6
    assert files_of(tmp_path / "there") == files_of(tmp_path / "here")


def test_what_a_run_prints_on_a_node_stays_there(cluster: RayCluster, tmp_path: Path) -> None:
    """It would stand between the lines of the progress here."""
    command = [sys.executable, "-c", LOUD, ADDRESS, str(tmp_path)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["first", "second"]
    assert "printed on a node" not in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--on", "ray"], "--address: allowed: host and port of the head of a Ray cluster"),
        (["--on", "ray", "--address", "127.0.0.1:1"], "no head of a Ray cluster listens at 127.0.0.1:1"),
    ],
)
def test_a_wrong_place_for_a_sweep_is_refused(tmp_path: Path, options: list[str], message: str) -> None:
    done = sweep(tmp_path, "there", *options, environment=environment())
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr
