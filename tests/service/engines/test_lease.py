"""A start with a lease ends by itself when it is not renewed, and lives on without its engine while it is renewed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.launcher.lease import Lease, now, write_lease
from muster.processes import look_at
from muster.service.engines import Exit
from muster.service.engines.local.engine import LocalEngine
from tests.service.engines.bench import Bench, python, until

SAVES = """
import signal, sys, time
def stop(*_):
    print("saved", flush=True)
    sys.exit(75)
signal.signal(signal.SIGTERM, stop)
print("up", flush=True)
time.sleep(600)
"""
IGNORES = SAVES.replace("sys.exit(75)", "")


class LeasedBench(Bench):
    """A local engine whose starts need a lease."""

    def reopen(self) -> LocalEngine:
        self.engine = LocalEngine(self.folder / "engine", self.machine, self.lease)
        return self.engine

    @property
    def lease(self) -> Path:
        return self.folder / "lease"

    def renew(self, ending: float, over: float) -> None:
        """Put both moments so many seconds off."""
        write_lease(self.lease, now() + ending, now() + over)


@pytest.fixture
def leased(tmp_path: Path) -> Iterator[LeasedBench]:
    bench = LeasedBench(tmp_path)
    bench.reopen()
    bench.renew(600, 600)
    yield bench
    bench.clear()


def test_a_start_saves_before_its_lease_is_over(leased: LeasedBench) -> None:
    leased.launch(1, 1, python(SAVES))
    leased.says("up", 1)
    leased.renew(0, 600)
    end = leased.end(1, 1)
    assert (end.ended, end.status) == (Exit.LOST, 75)
    assert leased.output(1) == "up\nsaved\n"


def test_the_end_of_a_lease_comes_by_the_jobs_own_signal(leased: LeasedBench) -> None:
    leased.launch(1, 1, python(SAVES.replace("SIGTERM", "SIGUSR1")), stop_signal="SIGUSR1")
    leased.says("up", 1)
    leased.renew(0, 600)
    assert (leased.end(1, 1).status, leased.output(1)) == (75, "up\nsaved\n")


@pytest.mark.parametrize("status", [0, 1, 143])
def test_an_end_after_the_lease_is_not_the_jobs(leased: LeasedBench, status: int) -> None:
    """Many scripts save on a signal and end with 0; they are not done."""
    leased.launch(1, 1, python(SAVES.replace("75", str(status))))
    leased.says("up", 1)
    leased.renew(0, 600)
    end = leased.end(1, 1)
    assert (end.ended, end.message) == (Exit.LOST, "its node was cut off, so it was asked to stop")


def test_a_death_before_the_end_of_the_lease_counts(leased: LeasedBench) -> None:
    """The other rank is asked to stop as well, and does not."""
    words = 'trap "echo asked" TERM; [ $RANK = 0 ] || { sleep 1; exit 9; }; while :; do sleep 0.1; done'
    leased.launch(1, 1, ["sh", "-c", words], ranks=2)
    leased.says("asked", 1)
    leased.renew(0, 600)
    end = leased.end(1, 1)
    assert (end.ended, end.status) == (Exit.FAILED, 9)


def test_no_process_outlives_its_lease(leased: LeasedBench) -> None:
    leased.launch(1, 1, python(IGNORES))
    leased.says("up", 1)
    leased.renew(0, 0)
    assert leased.end(1, 1).ended is Exit.LOST
    until(lambda: leased.left(1, 1) == [], "the end of the supervisor")


def test_a_lease_that_is_renewed_is_kept(leased: LeasedBench) -> None:
    """Its end is put off by the time that is in the file last."""
    leased.launch(1, 1, python(SAVES))
    leased.says("up", 1)
    leased.renew(600, 600)
    leased.engine.signal(1, 1, "SIGUSR1")
    assert leased.end(1, 1).status == -10
    assert leased.output(1) == "up\n"


def test_without_a_lease_nothing_begins(leased: LeasedBench) -> None:
    leased.lease.unlink()
    leased.launch(1, 1, python(SAVES))
    assert (leased.end(1, 1).ended, leased.output(1)) == (Exit.LOST, "")


def test_a_leased_supervisor_is_no_child_of_the_engine(leased: LeasedBench) -> None:
    leased.launch(1, 1, python(SAVES))
    found = look_at(leased.supervisor(1, 1))
    assert found is not None
    assert found.parent != os.getpid()


def test_a_file_that_is_away_leaves_the_lease_as_known(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    lease = Lease(str(path))
    assert lease.is_over
    write_lease(path, now() + 300, now() + 600)
    assert not lease.is_ending
    path.unlink()
    assert not lease.is_ending
    write_lease(path, now(), now() + 600)
    assert (lease.is_ending, lease.is_over) == (True, False)


def test_a_start_without_a_lease_needs_none() -> None:
    lease = Lease(None)
    assert (lease.is_ending, lease.is_over) == (False, False)
