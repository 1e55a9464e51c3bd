"""Daemon and supervisors killed at every point: a start is never lost, never brought up twice, its end is reported."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from muster import processes
from muster.service.engines import Exit
from muster.service.engines.local import engine as engine_module
from muster.service.engines.local import launch_context
from muster.training.run_folder import begin_start
from tests.service.engines.bench import Bench, shell, until

ONCE = shell("echo $MUSTER_EPOCH >> ran")
"""Notes in the folder that it ran."""


class CrashingProcess:
    """Daemons and supervisors that die at a line."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.service.engines.crashing_engine"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        )

    def __call__(self, who: str, bench: Bench, **order: object) -> bool:
        """Whether it died: there was such a line, or it was not done in that time."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = json.dumps({"who": who, "folder": str(bench.folder), **order})
        print(line, file=self._process.stdin, flush=True)
        died = json.loads(self._process.stdout.readline())
        assert isinstance(died, bool)
        return died

    def end(self) -> None:
        self._process.communicate()
        assert self._process.returncode == 0


@pytest.fixture(scope="module")
def crashing() -> Iterator[CrashingProcess]:
    crashing = CrashingProcess()
    yield crashing
    crashing.end()


def ran(bench: Bench) -> list[str]:
    path = bench.folder / "ran"
    return path.read_text().split() if path.exists() else []


def points(widest_step: int, seed: int) -> Iterator[tuple[int, int]]:
    """Epochs, and lines to die at: from the first on, some left out."""
    chance = random.Random(seed)
    line = 0
    for epoch in count(1):
        line += chance.randint(1, widest_step)
        yield epoch, line


def test_a_daemon_that_dies_anywhere_in_launch(bench: Bench, crashing: CrashingProcess) -> None:
    """What was on its way is either unknown, and can be launched again, or comes to its end by itself; once."""
    states = set()
    for epoch, line in points(30, 1):
        died = crashing("daemon", bench, line=line, epoch=epoch, command=ONCE)
        bench.reopen()
        states.add((died, bench.observed(1, epoch) is not None))
        bench.launch(1, epoch, ONCE)
        assert bench.end(1, epoch).ended is Exit.COMPLETED
        assert ran(bench) == [str(each) for each in range(1, epoch + 1)], f"line {line}"
        bench.engine.forget(1, epoch)
        if not died:
            break
    assert states == {(True, False), (True, True), (False, True)}


def test_a_supervisor_that_dies_anywhere(bench: Bench, crashing: CrashingProcess) -> None:
    """Its start is brought up by another one, if it had not begun; else it is reported lost (or
    killed, if something of it was still there), once all is gone."""
    ends = set()
    for epoch, line in points(40, 2):
        before = len(ran(bench))
        died = crashing("supervisor", bench, line=line, epoch=epoch, command=ONCE)
        bench.reopen()
        end = bench.end(1, epoch)
        times = len(ran(bench)) - before
        bench.until_nothing_is_left(1, epoch)
        ends.add((died, end.ended, times))
        bench.reopen()
        assert bench.observed(1, epoch) == end
        bench.engine.forget(1, epoch)
        if not died:
            break
    assert ends <= {
        (True, Exit.COMPLETED, 1),
        *((True, ended, times) for ended in (Exit.KILLED, Exit.LOST) for times in (0, 1)),
        (False, Exit.COMPLETED, 1),
    }
    assert len(ends) >= 3


def test_daemons_killed_at_random_moments(bench: Bench, crashing: CrashingProcess) -> None:
    """No start lost, none run twice, each end reported once; with two dozen of them on their way."""
    command = [*shell("echo $1 >> began; sleep 0.1; echo $1 >> ended"), "sh"]
    chance = random.Random(3)
    for _ in range(20):
        crashing("controller", bench, seconds=chance.uniform(0.002, 0.12), jobs=24, command=command)
    assert not crashing("controller", bench, seconds=None, jobs=24, command=command)
    expected = list(range(1, 25))
    for name in ("began", "ended", "reported"):
        assert sorted(map(int, (bench.folder / name).read_text().split())) == expected, name


def test_only_one_of_many_supervisors_brings_a_start_up(bench: Bench) -> None:
    with pytest.MonkeyPatch.context() as patch:
        spawn = launch_context.spawn_supervisor
        patch.setattr(engine_module, "spawn_supervisor", lambda folder: min(spawn(folder) for _ in range(6)))
        bench.launch(1, 1, ONCE)
    assert bench.end(1, 1).ended is Exit.COMPLETED
    until(lambda: bench.left(1, 1) == [], "the end of the late ones")
    assert ran(bench) == ["1"]
    for _ in range(4):  # those that no test waits for
        os.wait()


def test_supervisors_that_never_come_up_are_given_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "SUPERVISOR_SECONDS", 0.0)
    monkeypatch.setattr(launch_context, "RUN_SUPERVISOR", "raise SystemExit('no supervisors here')")
    bench.launch(1, 1, ONCE)
    end = bench.end(1, 1)
    assert end.ended is Exit.LOST
    assert end.message.startswith("its supervisor did not come up")
    monkeypatch.undo()
    assert bench.reopen().observe() == [end]
    assert ran(bench) == []


def test_an_older_start_than_the_newest_never_runs(bench: Bench) -> None:
    bench.launch(1, 5, ONCE)
    bench.end(1, 5)
    bench.launch(1, 4, ONCE)
    end = bench.end(1, 4)
    assert end.ended is Exit.LOST
    assert "start 5 has begun" in end.message
    assert ran(bench) == ["5"]


def test_a_late_supervisor_of_a_stale_start_ends_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(engine_module, "spawn_supervisor", lambda _: os.posix_spawn("/bin/true", ["true"], {}))
        bench.launch(1, 1, ONCE)
    begin_start(bench.folder / "1" / "run", 2)
    bench.reopen()
    end = bench.end(1, 1)
    assert end.ended is Exit.LOST
    assert "start 2 has begun" in end.message
    assert ran(bench) == []


def test_a_killed_supervisor_takes_all_with_it(way: str, bench: Bench) -> None:
    """Its ranks at once; what ran away from them, when the engine looks."""
    away = "setsid sh -c 'echo away; exec sleep 600' & echo up; exec sleep 600"
    bench.launch(1, 1, shell(away), ranks=2)
    supervisor = bench.supervisor(1, 1)
    ranks = bench.records(1, 1)[1]["ranks"]
    assert isinstance(ranks, list)
    for rank in (0, 1):
        bench.says("away", 1, rank)
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: not any(map(processes.look_at, ranks)), "the end of the ranks")
    assert len(bench.left(1, 1)) == 2
    end = bench.end(1, 1)
    assert bench.left(1, 1) == []
    assert (end.ended, end.status, end.message) == (Exit.KILLED, None, "its supervisor died")
    assert bench.reopen().observe() == [end]


def test_a_supervisor_minds_no_signal_but_kill(bench: Bench) -> None:
    bench.launch(1, 1, shell("while [ ! -e go ]; do :; done"))
    supervisor = bench.supervisor(1, 1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(supervisor, number)
    bench.engine.resize(1, 1, [bench.allocation()])
    (bench.folder / "go").touch()
    assert bench.end(1, 1).ended is Exit.COMPLETED


def test_a_rank_killed_by_somebody_else(bench: Bench) -> None:
    bench.launch(1, 1, ["sleep", "600"], ranks=2)
    bench.supervisor(1, 1)
    ranks = bench.records(1, 1)[1]["ranks"]
    assert isinstance(ranks, list)
    os.kill(ranks[1], signal.SIGKILL)
    end = bench.end(1, 1)
    assert (end.ended, end.status, end.failed_rank) == (Exit.KILLED, -9, 1)
    assert end.message == "rank 1 was ended by SIGKILL"
