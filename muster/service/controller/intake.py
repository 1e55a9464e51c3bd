"""Takes jobs that were submitted to the engine (sbatch), and what their owners request there (scancel, hold)."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from muster.problems import InputError
from muster.service.controller.active_jobs import ActiveJobs
from muster.service.controller.engine_commands import EngineCommands
from muster.service.engines import (
    AdoptJob,
    CloseJob,
    EngineView,
    OwnerRequest,
    SubmittedJob,
    UntakenJob,
)
from muster.service.store import Store
from muster.service.store.rows import ENDED, JobRow, State, StateRequest, Submission
from muster.service.submission_rules import SubmissionRules

log = structlog.get_logger()

_REACHED = {StateRequest.HOLD: {State.HELD}, StateRequest.RELEASE: {State.QUEUED, State.RUNNING}}
"""States in which a request has nothing left to do."""


class Intake:
    """A job is on record under the engine's own name for it, so it is taken once, whenever a daemon dies."""

    def __init__(
        self, jobs: ActiveJobs, store: Store, commands: EngineCommands, rules: SubmissionRules
    ) -> None:
        self._jobs, self._store, self._commands, self._rules = jobs, store, commands, rules
        self._known: dict[str, int] = {}
        """Number of each job that the engine has reported, by its name there."""

    def take(self, view: EngineView) -> list[UntakenJob]:
        """Submit what is new, close what has ended, and note requests; to be called once a poll.

        Returns what is new and may not be submitted as it is.
        """
        submitted = view.submitted
        self._known = {one.key: self._known[one.key] for one in submitted if one.key in self._known}
        untaken = self._submit([one for one in submitted if not self._is_on_record(one)])
        for one in submitted:
            if (job := self._known.get(one.key)) is None:
                continue
            if one.job != job:
                self._jobs.commands += self._commands.about_job(AdoptJob(one.key, job))
            elif job not in self._jobs.rows and job <= self._jobs.newest:
                self._close(one.key, job)
        for kept in view.kept:
            if kept.job not in self._jobs.rows and kept.job <= self._jobs.newest:
                self._close(kept.whose, kept.job)
        for request in view.requests:
            if request.key in self._known:
                self._request(self._known[request.key], request)
        return untaken

    def _is_on_record(self, one: SubmittedJob) -> bool:
        if one.key not in self._known and (row := self._store.job_of_engine(one.key)) is not None:
            self._known[one.key] = row.id
        return one.key in self._known

    def _submit(self, new: Sequence[SubmittedJob]) -> list[UntakenJob]:
        """Put new jobs on record; all that are allowed together, unless those before count for the next one."""
        untaken: list[UntakenJob] = []
        allowed: list[SubmittedJob] = []
        for one in new:
            if words := self._rules.broken_by(one):
                untaken.append(UntakenJob(one.shown or one.key, one.user, words))
                continue
            allowed.append(one)
            if self._rules.limited:
                self._record(allowed)
                allowed = []
        self._record(allowed)
        return untaken

    def _record(self, allowed: Sequence[SubmittedJob]) -> None:
        ids = self._store.submit([Submission(one.user, one.request, one.key) for one in allowed])
        self._known |= {one.key: job for one, job in zip(allowed, ids, strict=True)}

    def _close(self, key: str, job: int) -> None:
        row = self._store.job(job)
        if row is not None and row.state in ENDED and key in (row.engine_key, row.whose):
            completed = row.state is State.COMPLETED
            self._jobs.commands += self._commands.about_job(CloseJob(key, job, completed))

    def _request(self, job: int, asked: OwnerRequest) -> None:
        row: JobRow | None = self._jobs.rows.get(job)
        if row is None or row.state_request is asked.request or row.state in _REACHED.get(asked.request, ()):
            return
        try:
            self._store.request_state(job, asked.request, by=row.user)
        except InputError as bad:
            log.warning("a request cannot be carried out", job=job, request=asked.request, error=str(bad))
