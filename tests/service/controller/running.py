"""A controller in a process of its own, and waiting for its jobs."""

from __future__ import annotations

import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from muster.service.store import Store
from muster.service.store.rows import ENDED

GIVE_UP_SECONDS = 600.0


@contextmanager
def controller_process(
    home: Path,
    scheduler: str,
    where: int | str,
    turn: float = 1.0,
    restart_cost: float = 60.0,
    environment: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """A controller that is ready, of this machine or what `where` names (`run_controller`); killed at the end."""
    module = "tests.service.controller.run_controller"
    command = [sys.executable, "-m", module, str(home), scheduler, str(where), str(turn), str(restart_cost)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    try:
        assert select.select([process.stdout], [], [], GIVE_UP_SECONDS)[0], "it is never ready"
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def wait_until_ended(store: Store, jobs: Sequence[int], process: subprocess.Popen[str]) -> None:
    """Until no job is left."""
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while sum(store.counts()[state] for state in ENDED) < len(jobs):
        assert process.poll() is None, "the controller ended"
        assert time.monotonic() < deadline, [store.job(job) for job in jobs]
        select.select([], [], [], 0.1)
