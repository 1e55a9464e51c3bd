"""The command line as a test calls it, and a trace small enough to simulate in no time."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from muster.cli.app import run

MUSTER = (sys.executable, "-c", "from muster.cli import main; main()")

TRACE = """\
job_id,submit_seconds,gpus,duration_seconds,tenant
1,0,8,600,a
2,10,4,300,a
3,20,4,900,b
4,30,1,60,b
5,4000,8,100,a
"""

GPUS_ALONE = (
    "no job names a known model or requests CPUs or memory: they cannot change this result, "
    "and no use is reported\n"
)
"""What a run of that trace notes."""


@dataclass(frozen=True)
class Outcome:
    """What a command line answered."""

    status: int
    out: str
    err: str


@pytest.fixture
def muster(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Outcome]]:
    """Runs a command line in this process, and forgets how much it logs."""

    def call(*arguments: str | Path) -> Outcome:
        status = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(status, captured.out, captured.err)

    yield call
    logger = logging.getLogger("muster")
    logger.handlers = []
    logger.setLevel(logging.NOTSET)


def muster_process(*arguments: str | Path, folder: Path | None = None) -> Outcome:
    """Runs a command line in a process and a group of its own, as a terminal does, its output into pipes."""
    done = subprocess.run(
        [*MUSTER, *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        start_new_session=True,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Five jobs; on 8 GPUs some of them wait."""
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    return path
