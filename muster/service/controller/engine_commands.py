"""Commands to the engine and notices to jobs; they run once the changes that they follow from are on disk.

Each turn compares what is wanted of a start with what was sent. A command is noted as sent only when it succeeded, so
one that failed, or that an earlier daemon may not have sent, is sent again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from pathlib import Path

from muster.service.controller.active_jobs import ActiveJobs
from muster.service.controller.starts import JobStart, cache_gb, launch_of
from muster.service.engines import Engine, Observed
from muster.service.home import job_folder
from muster.service.store.rows import JobRow
from muster.training.run_folder import give_notice

Act = Callable[[], None]


class EngineCommands:
    """Finds the commands that are still to be sent."""

    def __init__(self, jobs: ActiveJobs, engine: Engine, home: Path) -> None:
        self._jobs, self._engine, self._home = jobs, engine, home
        self._other_sizes: dict[int, JobStart] = {}
        """Starts whose allocations the engine has not applied yet."""

    def outstanding(self, now: float) -> list[Act]:
        """Commands for all starts: stops, then resizes, smaller ones first, then launches."""
        stops: list[Act] = []
        launches: list[Act] = []
        self._other_sizes = {}
        for start in self._jobs.starts.values():
            if not start.launched:
                if start.notice_at is None:
                    launches.append(partial(self._launch, start))
                continue
            if start.grace_over and not start.kill_sent:
                stops.append(partial(self._kill, start))
            elif self._has_news(start):
                stops.append(partial(self._send, start, now))
            if self._engine.capabilities.can_resize and start.applied != start.allocations:
                self._other_sizes[start.job] = start
        sizes = [partial(self._resize, start) for start in sorted(self._other_sizes.values(), key=_growth)]
        return [*stops, *sizes, *launches]

    def killing(self, one: Observed) -> Act:
        """Kill a start that should not be there."""
        return lambda: self._engine.kill(one.job, one.epoch)

    def forgetting(self, one: Observed) -> Act:
        """Forget a start whose end is on record."""
        return lambda: self._engine.forget(one.job, one.epoch)

    def _launch(self, start: JobStart) -> None:
        if self._is_room_for(start):
            self._engine.launch(launch_of(self._jobs.rows[start.job], start, self._home))
            start.launched, start.applied, start.notice_sent = (
                True,
                start.allocations,
                (False, start.allocations),
            )

    def _has_news(self, start: JobStart) -> bool:
        """Whether there is anything that a start should know and was not sent."""
        stop = start.notice_at is not None
        return start.notice_sent != (stop, start.allocations) or (stop and start.stop_sent is None)

    def _send(self, start: JobStart, now: float) -> None:
        """A job that has joined reads its notice; any other, and one that cannot be written to, gets a signal."""
        row, stop = self._jobs.rows[start.job], start.notice_at is not None
        written = self._note(row, start, stop=stop)
        if written:
            start.notice_sent = stop, start.allocations
        if stop and start.stop_sent is None:
            if not (written and start.joined):
                self._engine.signal(start.job, start.epoch, row.request.stop_signal or "SIGTERM")
            start.stop_sent = now

    def _note(self, row: JobRow, start: JobStart, *, stop: bool) -> bool:
        """Write the notice, which says all that is wanted; False where its run folder does not let us."""
        run_dir = job_folder(self._home, row.id) / "run"
        if not stop and row.request.unchanged() is not None:
            return True  # The job does not read notices.
        try:
            if run_dir.is_dir():
                give_notice(run_dir, start.epoch, stop=stop, cache_gb=cache_gb(row, start.allocations))
        except OSError:
            return False
        return True

    def _resize(self, start: JobStart) -> None:
        if _growth(start) <= 0 or self._is_room_for(start):
            self._engine.resize(start.job, start.epoch, start.allocations)
            start.applied = start.allocations
            self._other_sizes.pop(start.job, None)

    def _is_room_for(self, start: JobStart) -> bool:
        """Not while another start on these nodes has not yet been resized to less."""
        nodes = {here.node for here in start.allocations}
        return not any(
            _growth(other) < 0 and any(here.node in nodes for here in other.allocations)
            for other in self._other_sizes.values()
        )

    def _kill(self, start: JobStart) -> None:
        self._engine.kill(start.job, start.epoch)
        start.kill_sent = True


def _growth(start: JobStart) -> float:
    """CPUs that it is to get more than it has; where that is not known it may have had all."""
    if start.applied is None:
        return -inf
    return sum(here.cpus for here in start.allocations) - sum(here.cpus for here in start.applied)
