"""Commands to the engine; they are sent once the changes that they follow from are on disk.

Each turn compares what is wanted of a start with what the engine has carried out. A command counts as carried out only
when the engine says so. One that failed, or that an earlier daemon may not have sent, is sent again; one that is under
way is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from pathlib import Path

from muster.cluster.ledger import NodeAllocation
from muster.service.controller.active_jobs import ActiveJobs
from muster.service.controller.exit_status import pause_seconds
from muster.service.controller.starts import JobStart, cache_gb, launch_of
from muster.service.engines import (
    AdoptJob,
    CloseJob,
    Command,
    EngineCapabilities,
    ForgetStart,
    KillStart,
    Launch,
    Observed,
    ResizeStart,
    SendNotice,
    StartRefused,
)
from muster.service.home import job_folder

_LONGEST_PAUSE = 5.0
"""Seconds between two launches of one start."""


@dataclass(frozen=True)
class _Sent:
    """A command under way."""

    command: Command
    start: JobStart | None
    """None: it is not on record any more."""
    allocations: tuple[NodeAllocation[str], ...] = ()
    """What the start had when the command was made."""


class EngineCommands:
    """Finds the commands that are still to be sent, and notes those that were carried out."""

    def __init__(self, jobs: ActiveJobs, capabilities: EngineCapabilities, home: Path) -> None:
        self._jobs, self._can_resize, self._home = jobs, capabilities.can_resize, home
        self._under_way: dict[tuple[int, int, type[Command]], _Sent] = {}
        """By job, epoch and kind."""

    def outstanding(self, now: float) -> list[Command]:
        """Commands for all starts: stops, then resizes, smaller ones first, then launches."""
        launched = [start for start in self._jobs.starts.values() if start.launched]
        sizes = [start for start in launched if self._can_resize and start.applied != start.allocations]
        shrinking = {here.node: start for start in sizes if _growth(start) < 0 for here in start.allocations}
        commands = [command for start in launched for command in self._stop_or_notice(start)]
        for start in sorted(sizes, key=_growth):
            if _growth(start) <= 0 or not _meets(start, shrinking):
                commands += self._begin(ResizeStart(start.job, start.epoch, start.allocations), start)
        for start in self._jobs.starts.values():
            due = not start.launched and start.notice_at is None and now >= start.launch_from
            if due and not _meets(start, shrinking):
                commands += self._begin(launch_of(self._jobs.rows[start.job], start, self._home), start)
        return commands

    def _stop_or_notice(self, start: JobStart) -> list[Command]:
        if start.grace_over and not start.kill_sent:
            return self._begin(KillStart(start.job, start.epoch), start)
        return self._notice(start) if self._has_news(start) else []

    def killing(self, one: Observed) -> list[Command]:
        """Kill a start that should not be there."""
        return self._begin(KillStart(one.job, one.epoch), None)

    def forgetting(self, one: Observed) -> list[Command]:
        """Forget a start whose end is on record."""
        return self._begin(ForgetStart(one.job, one.epoch), None)

    @property
    def all_ended(self) -> bool:
        """Whether the engine has said of every command what became of it."""
        return not self._under_way

    def about_job(self, command: AdoptJob | CloseJob) -> list[Command]:
        """A command about a job that was submitted to the engine."""
        return self._begin(command, None)

    def is_launching(self, start: JobStart) -> bool:
        """Whether the engine has yet to say what became of its launch."""
        return (start.job, start.epoch, Launch) in self._under_way

    def ended(self, command: Command, now: float, error: Exception | None) -> None:
        """A command was carried out, or failed with this error and may be sent again."""
        sent = self._under_way.pop(_key(command), None)
        if sent is None or sent.start is None:
            return
        start = sent.start
        if error is not None:
            if isinstance(command, Launch):
                self._refused(start, error, now)
            return
        match command:
            case Launch():
                start.launched, start.applied = True, sent.allocations
                start.pending_since = None
                start.notice_sent = (False, sent.allocations)
            case ResizeStart():
                start.applied = sent.allocations
            case SendNotice():
                start.notice_sent = command.stop, sent.allocations
                if command.stop and start.stop_sent is None:
                    start.stop_sent = now
            case KillStart():
                start.kill_sent = True

    def _refused(self, start: JobStart, error: Exception, now: float) -> None:
        """Note why a start could not be launched; take it back where that lasts.

        It is sent again: after a pause where the engine has said of this very start that it does not take it.
        """
        if isinstance(error, StartRefused):
            start.refusals += 1
            start.launch_from = now + min(pause_seconds(start.refusals), _LONGEST_PAUSE)
        words = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
        self._jobs.refused(start, words, now, again=True)
        if start.pending_since is None:
            start.pending_since = now
        waited = now - start.pending_since
        if waited >= self._jobs.pending_limit and not start.taken_back and start.notice_at is None:
            self._jobs.take_back(start, f"refused for {waited:.1f} s: {words}", now)

    def _begin(self, command: Command, start: JobStart | None) -> list[Command]:
        """The command, unless the engine has it already."""
        if _key(command) in self._under_way:
            return []
        self._under_way[_key(command)] = _Sent(command, start, () if start is None else start.allocations)
        return [command]

    def _has_news(self, start: JobStart) -> bool:
        """Whether there is anything that a start should know and was not sent."""
        stop = start.notice_at is not None
        return start.notice_sent != (stop, start.allocations) or (stop and start.stop_sent is None)

    def _notice(self, start: JobStart) -> list[Command]:
        row, stop = self._jobs.rows[start.job], start.notice_at is not None
        if not stop and row.request.unchanged() is not None:  # It does not read notices.
            start.notice_sent = False, start.allocations
            return []
        notice = SendNotice(
            start.job,
            start.epoch,
            job_folder(self._home, row.id) / "run",
            stop=stop,
            cache_gb=cache_gb(row, start.allocations),
            reads_notices=start.joined,
            stop_signal=row.request.stop_signal or "SIGTERM",
        )
        return self._begin(notice, start)


def _key(command: Command) -> tuple[int, int, type[Command]]:
    return command.job, command.epoch, type(command)


def _meets(start: JobStart, others: dict[str, JobStart]) -> bool:
    """Whether another one of these is on a node of the start."""
    return any(others.get(here.node, start) is not start for here in start.allocations)


def _growth(start: JobStart) -> float:
    """CPUs that it is to get more than it has; where that is not known it may have had all."""
    if start.applied is None:
        return -inf
    return sum(here.cpus for here in start.allocations) - sum(here.cpus for here in start.applied)
