"""What can be asked of an engine and of a job, as acts to be done later, and again if the daemon dies meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from muster.service.conductor.living import LivingJobs
from muster.service.conductor.starts import Start, cache_gb, launch_of
from muster.service.engines import Engine, Observed
from muster.service.store.rows import JobRow
from muster.training.run_folder import give_notice


class Orders:
    """Each method gives an act."""

    def __init__(self, jobs: LivingJobs, engine: Engine, home: Path) -> None:
        self._jobs, self._engine, self._home = jobs, engine, home

    def launching(self, start: Start) -> Callable[[], None]:
        """Begin a start."""
        row = self._jobs.rows[start.job]
        return lambda: self._engine.launch(launch_of(row, start, self._home))

    def notifying(self, start: Start, row: JobRow) -> Callable[[], None]:
        """Ask a start to save and end."""

        def notify() -> None:
            run_dir = launch_of(row, start, self._home).run_dir
            if run_dir.is_dir():
                give_notice(run_dir, start.epoch, stop=True)
            if not start.joined:
                self._engine.signal(start.job, start.epoch, row.request.stop_signal or "SIGTERM")

        return notify

    def resizing(self, start: Start) -> Callable[[], None]:
        """Give a start what its seats say now."""
        row, seats = self._jobs.rows[start.job], start.seats

        def resize() -> None:
            self._engine.resize(start.job, start.epoch, seats)
            if start.joined:
                run_dir = launch_of(row, start, self._home).run_dir
                give_notice(run_dir, start.epoch, cache_gb=cache_gb(row, seats))

        return resize

    def killing(self, one: Start | Observed) -> Callable[[], None]:
        """End it at once."""
        return lambda: self._engine.kill(one.job, one.epoch)

    def forgetting(self, one: Observed) -> Callable[[], None]:
        """Its end is on record."""
        return lambda: self._engine.forget(one.job, one.epoch)
