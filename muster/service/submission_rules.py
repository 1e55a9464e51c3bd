"""What holds for a job that was submitted to the engine (sbatch) as for one that was submitted to Muster."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from muster.problems import Problem
from muster.schedulers.contract import Scheduler
from muster.service.accounts import name_of, operators
from muster.service.engines import SubmittedJob
from muster.service.honoured import without_effect
from muster.service.limits import Limits, exceeded
from muster.service.store import Store

_OPTIONS = frozenset({"priority", "min_gpus", "max_gpus"})
"""What an owner states to Muster alone; amounts are for the engine too."""


class SubmissionRules:
    """The limits of users and tenants, and what the scheduler ignores."""

    def __init__(self, store: Store, policy: Scheduler, limits: Callable[[], Limits]) -> None:
        self._store, self._policy, self._limits = store, policy, limits
        self._operators = frozenset(map(name_of, operators()))

    @property
    def limited(self) -> bool:
        """Whether the jobs that an owner has count for what the owner may submit."""
        return self._limits() != Limits()

    def broken_by(self, job: SubmittedJob) -> str:
        """Why a job may not be submitted as it is, for its owner; "": it may."""
        return "; ".join(map(_words, self._problems(job)))

    def _problems(self, job: SubmittedJob) -> Iterator[Problem]:
        ignored = without_effect(job.request, self._policy)
        yield from (problem for problem in ignored if problem.column in _OPTIONS)
        if self.limited and job.user not in self._operators:
            yield from exceeded(self._limits(), job.user, [job.request], self._store)


def _words(problem: Problem) -> str:
    """The problem without the place, which is the job itself."""
    column = "" if problem.column is None else f"{problem.column}: "
    found = "" if problem.column is None or problem.found is None else f"found {problem.found}; "
    return column + found + problem.what
