"""Ctrl-C and SIGTERM: status 130, one line, and nothing half written, at whatever moment they come.

The signal is sent from within the run, so it always comes midway; to the whole group, as a terminal does.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from .conftest import MUSTER, TRACE, muster_process

INTERRUPTING = """\
import os
import signal

from muster.schedulers.parts import Order

class Interrupting(Order):
    name = "interrupting"

    def key(self, jobs):
        os.killpg(os.getpgrp(), signal.SIGINT)
        signal.pause()
"""


@pytest.mark.parametrize("command", ["simulate", "compare"])
def test_an_interrupt_leaves_nothing(tmp_path: Path, command: str) -> None:
    (tmp_path / "trace.csv").write_text(TRACE)
    (tmp_path / "mine.py").write_text(INTERRUPTING)
    flags = ("--cluster", "1x8gpu", "--scheduler", "mine.py:Interrupting", "--out", "deep/out")
    stopped = muster_process(command, "trace.csv", *flags, folder=tmp_path)
    assert (stopped.status, stopped.out) == (130, "")
    assert stopped.err.splitlines()[-1] == "interrupted; nothing was written"
    assert sorted(path.name for path in tmp_path.iterdir()) in (
        ["mine.py", "trace.csv"],
        ["__pycache__", "mine.py", "trace.csv"],
    )


TERMINATING = """\
import os
import shutil
import signal

from muster.schedulers.parts import Order

remove = shutil.rmtree

def terminated_again(*folder, **how):
    os.kill(os.getpid(), signal.SIGTERM)
    remove(*folder, **how)

shutil.rmtree = terminated_again

class Terminating(Order):
    name = "terminating"

    def key(self, jobs):
        os.kill({pid}, signal.SIGTERM)
        signal.pause()
"""


@pytest.mark.parametrize(
    ("command", "pid"),
    [("simulate", "os.getpid()"), ("compare", "os.getppid()"), ("sweep", "os.getppid()")],
)
def test_sigterm_leaves_nothing(tmp_path: Path, command: str, pid: str) -> None:
    """It comes again while the command clears up, as from `timeout`; to the command alone, which ends its processes."""
    (tmp_path / "trace.csv").write_text(TRACE)
    (tmp_path / "mine.py").write_text(TERMINATING.format(pid=pid))
    (tmp_path / "sweep.toml").write_text(
        'schedulers = ["mine.py:Terminating"]\nclusters = ["1x8gpu"]\ntraces = "trace.csv"\n'
    )
    files = {path.name for path in tmp_path.iterdir()}
    flags = ("--cluster", "1x8gpu", "--scheduler", "mine.py:Terminating")
    run = ("sweep.toml",) if command == "sweep" else ("trace.csv", *flags)
    stopped = muster_process(command, *run, "--out", "deep/out", folder=tmp_path)
    assert (stopped.status, stopped.out) == (130, "")
    assert stopped.err.splitlines()[-1].startswith("interrupted; ")
    left = [path for path in tmp_path.rglob("*") if path.name.startswith(".muster-")]
    assert left == []
    if command != "sweep":
        assert {path.name for path in tmp_path.iterdir()} - {"__pycache__"} == files


SITE = """\
import builtins
import os
import signal
import sys

imported = builtins.__import__
in_worker = any("spawn_main" in word or "multiprocessing-fork" in word for word in sys.orig_argv)

def interrupting(name, *rest, **named):
    if name == {module!r} and in_worker == {worker}:
        builtins.__import__ = imported
        {send}
    return imported(name, *rest, **named)

builtins.__import__ = interrupting
"""


TO_THE_GROUP = "os.killpg(os.getpgrp(), signal.SIGINT)"
TO_ITSELF = "os.kill(os.getpid(), signal.SIGINT)"


def with_site(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A command in a group of its own, with the `sitecustomize` of a folder."""
    path = os.pathsep.join([str(folder / "site"), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [*MUSTER, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        start_new_session=True,
    )


@pytest.mark.parametrize(
    ("module", "worker"),
    [
        ("typer", False),
        ("muster.cli.app", False),
        ("muster.problems", False),
        ("polars", False),
        ("numpy", False),
        ("muster.cli.compare", True),
        ("numpy", True),
        ("muster.parallel", True),
    ],
)
def test_an_interrupt_during_imports_is_one_line(tmp_path: Path, module: str, worker: bool) -> None:
    (tmp_path / "trace.csv").write_text(TRACE)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(
        SITE.format(module=module, worker=worker, send=TO_THE_GROUP)
    )
    command = ("compare", "trace.csv", "--cluster", "1x8gpu", "--scheduler", "fifo", "--out", "out")
    stopped = with_site(tmp_path, *command)
    assert (stopped.returncode, stopped.stdout) == (130, "")
    assert stopped.stderr.splitlines()[-1] == "interrupted; nothing was written"
    assert not (tmp_path / "out").exists()


def test_a_worker_leaves_an_interrupt_to_the_parent(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(TRACE)
    (tmp_path / "site").mkdir()
    site = SITE.format(module="muster.cli.compare", worker=True, send=TO_ITSELF)
    (tmp_path / "site" / "sitecustomize.py").write_text(site)
    command = ("compare", "trace.csv", "--cluster", "1x8gpu", "--scheduler", "fifo", "--out", "out")
    done = with_site(tmp_path, *command)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


WORKER_STARTS = """\
import os
import signal
import sys

if any("spawn_main" in word for word in sys.orig_argv):
    {first}
"""


def with_failing_workers(folder: Path, first: str) -> subprocess.CompletedProcess[str]:
    """A comparison whose work fits into no pipe, of workers that do this first of all."""
    jobs = "".join(f"{job},{job},1,60\n" for job in range(4000))
    (folder / "trace.csv").write_text(f"job_id,submit_seconds,gpus,duration_seconds\n{jobs}")
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(WORKER_STARTS.format(first=first))
    return with_site(folder, "compare", "trace.csv", "--cluster", "1x8gpu", "--out", "out")


def test_a_worker_that_is_killed_as_it_starts_is_named(tmp_path: Path) -> None:
    failed = with_failing_workers(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "slurm-like ended with status -9, without a word" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["site", "trace.csv"]


@pytest.mark.parametrize("sent", ["SIGINT", "SIGTERM"])
def test_an_interrupt_before_workers_read_is_one_line(tmp_path: Path, sent: str) -> None:
    """The worker takes nothing of its work, and ends once the command ends it."""
    first = f"os.kill(os.getppid(), signal.{sent}); signal.sigwait([signal.SIGTERM]); os._exit(1)"
    stopped = with_failing_workers(tmp_path, first)
    assert (stopped.returncode, stopped.stdout) == (130, "")
    assert stopped.stderr.splitlines()[-1] == "interrupted; nothing was written"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["site", "trace.csv"]


IN_A_FINALIZER = """\
import os
import signal
import time

from muster.schedulers.parts import Order

class Interrupting:
    def __del__(self):
        os.killpg(os.getpgrp(), signal.SIGINT)
        signal.pause()

class Mine(Order):
    name = "mine"

    def key(self, jobs):
        Interrupting()
        while True:
            time.sleep(0.1)
"""


def test_an_interrupt_in_a_finalizer_is_not_lost(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(TRACE)
    (tmp_path / "mine.py").write_text(IN_A_FINALIZER)
    flags = ("--cluster", "1x8gpu", "--scheduler", "mine.py:Mine", "--out", "out")
    stopped = muster_process("simulate", "trace.csv", *flags, folder=tmp_path)
    assert (stopped.status, stopped.out) == (130, "")
    assert stopped.err.splitlines()[-1] == "interrupted; nothing was written"
