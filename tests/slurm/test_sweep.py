"""`muster sweep --on slurm`: the same files as on one machine, whatever tasks of the job array the runs were."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from muster.problems import InputError, Problem, Unable
from muster.sweep import on_slurm
from muster.sweep.pieces import Piece, PieceBatch
from tests.slurm.cluster import SlurmCluster, wait_for
from tests.sweeps import files_of, sweep, sweep_line

pytestmark = pytest.mark.needs_slurm

ON_SLURM = ("--on", "slurm", "--partition", "train")


def queued(slurm: SlurmCluster) -> list[str]:
    return slurm.run("squeue", "--noheader", "--format=%j %T").split()


def test_a_sweep_on_slurm_writes_the_same_bytes(slurm: SlurmCluster, tmp_path: Path) -> None:
    assert sweep(tmp_path, "here", environment=os.environ).returncode == 0
    done = sweep(tmp_path, "there", *ON_SLURM, "--workers", "2", environment=slurm.environment)
    assert done.returncode == 0, done.stderr
    assert len(files_of(tmp_path / "there")) == 6
    assert files_of(tmp_path / "there") == files_of(tmp_path / "here")
    assert sorted(path.name for path in (tmp_path / "there").iterdir()) == sorted(
        path.name for path in (tmp_path / "here").iterdir()
    )


def test_an_interrupted_sweep_leaves_no_task(slurm: SlurmCluster, tmp_path: Path) -> None:
    """Its tasks wait, as their nodes are drained; then it goes on where it was."""
    slurm.run("scontrol", "update", "nodename=node1,node2", "state=drain", "reason=test")
    try:
        line = sweep_line(tmp_path, "out", *ON_SLURM)
        with subprocess.Popen(line, cwd=tmp_path, env=slurm.environment, stderr=subprocess.PIPE) as process:
            wait_for(lambda: "PENDING" in queued(slurm), lambda: str(queued(slurm)))
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
        assert process.returncode == 130, said
        assert b"interrupted; 0 of 4 runs are done" in said
        wait_for(lambda: not queued(slurm), lambda: str(queued(slurm)))
        assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["cells"]
    finally:
        slurm.run("scontrol", "update", "nodename=node1,node2", "state=resume")


class Dying:
    """A piece whose process is killed."""

    def inputs(self) -> Mapping[str, Any]:
        return {}

    def run(self) -> Mapping[str, Any]:
        print("about to end", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        return {}


class Refusing(Dying):
    """A piece that finds something wrong with its inputs."""

    def run(self) -> Mapping[str, Any]:
        raise InputError(Problem("trace.csv", "there is no such file"))


@pytest.mark.parametrize(
    ("piece", "error", "message"),
    [
        (
            Dying(),
            Unable,
            "task 0 .* ended in Slurm without its results: FAILED; last line of its output: about to end",
        ),
        (Refusing(), InputError, "trace.csv: there is no such file"),
    ],
)
def test_a_task_that_fails_is_named(
    slurm: SlurmCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    piece: Piece,
    error: type[Exception],
    message: str,
) -> None:
    for name in ("PATH", "SLURM_CONF"):
        monkeypatch.setenv(name, slurm.environment[name])
    monkeypatch.setattr(on_slurm, "_QUEUE_SECONDS", 0.5)
    (tmp_path / "cells").mkdir()
    with closing(on_slurm.SlurmTasks("train")) as tasks, pytest.raises(error, match=message):
        tasks.run({"0": PieceBatch([("one", piece)], tmp_path / "cells")}, 1, lambda *_: None)
    assert list(tmp_path.iterdir()) == [tmp_path / "cells"]


def test_a_partition_that_is_not_there_is_refused(slurm: SlurmCluster, tmp_path: Path) -> None:
    options = ("--on", "slurm", "--partition", "trains")
    done = sweep(tmp_path, "there", *options, environment=slurm.environment)
    assert done.returncode == 2
    assert "--partition: found 'trains'; allowed: train. Hint: did you mean train?" in done.stderr
    assert not (tmp_path / "there").exists()
