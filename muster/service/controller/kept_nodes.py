"""Jobs that go on only on as many nodes as before: a decision that gives one another number of them is made again.

Most schedulers keep to the number (`Jobs.exact_nodes`). Where one does not, the job is allowed only the nodes that it
has or had; and where that does not do, it is left alone: it stays as it is until a later decision.
"""

from __future__ import annotations

from collections.abc import Iterator

from muster.cluster.ledger import Changes
from muster.schedulers.contract import Ints
from muster.service.controller.active_jobs import ActiveJobs


class KeptNodes:
    """What such jobs are allowed in one decision."""

    def __init__(self, jobs: ActiveJobs, index: Ints) -> None:
        """`index`: the jobs that the decision is about."""
        self._jobs, self._columns = jobs, jobs.columns
        needed = jobs.columns.spec["exact_nodes"][index]
        self._needed = dict(zip(index[needed > 0].tolist(), needed[needed > 0].tolist(), strict=True))
        """Nodes that each such job has to be on."""
        self._had: set[int] = set()
        """Jobs that are allowed only the nodes that they have or had."""
        self._left_alone: dict[int, int] = {}
        """Jobs that may not be given anything else than they have; whether they could be stopped before."""
        for job in self._needed:
            self._allow(job, None)

    def refuse(self, changes: Changes) -> bool:
        """Return whether the decision is to be made again, as it gives some job another number of nodes.

        ValueError if that job was to be left alone.
        """
        refused = [job for job, nodes in self._counted(changes) if nodes != self._needed[job]]
        for job in refused:
            if job in self._left_alone:
                raise ValueError(f"job {job} would have another number of nodes than {self._needed[job]}")
            if job not in self._had:
                self._had.add(job)
                self._allow(job, self._jobs.rows[job].fixed_nodes)
            else:
                self._left_alone[job] = int(self._columns.spec[job]["preemptible"])
                self._leave_alone(job)
        return bool(refused)

    def end(self) -> None:
        """The jobs that were left alone may be stopped again, if they could be before."""
        for job, before in self._left_alone.items():
            self._columns.spec[job]["preemptible"] = before

    def _counted(self, changes: Changes) -> Iterator[tuple[int, int]]:
        """The jobs to be placed of those that keep their number of nodes, with how many they would have."""
        for at, job in enumerate(changes.jobs.tolist() if self._needed else ()):
            nodes = int(changes.first[at + 1] - changes.first[at])
            if nodes and job in self._needed:
                yield job, nodes

    def _leave_alone(self, job: int) -> None:
        if job in self._columns.plan:
            self._columns.spec[job]["preemptible"] = False
        else:
            self._allow(job, ())

    def _allow(self, job: int, only: tuple[str, ...] | None) -> None:
        self._columns.allow_nodes(job, self._jobs.rows[job].request.constraint, only)
