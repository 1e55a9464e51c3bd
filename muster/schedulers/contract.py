"""What every scheduler sees and what it answers: `decide(snapshot, state) -> (decision, state)`.

A scheduler is pure. It reads a `Snapshot`, tries changes in a transaction, and answers with a `Decision` and its next
state; the runtime does the rest. The ledger is as it was before, and the same snapshot and state give the same answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any, Protocol, runtime_checkable

import numpy as np

from muster.cluster import Cluster
from muster.cluster.ledger import DoesNotFit, Ledger, Transaction
from muster.cluster.ledger_arrays import WHOLE, Bools, Floats, Ints, Rows
from muster.cluster.resources import RESOURCE_COUNT
from muster.schedulers.decision import Decision, Proposal, Trigger
from muster.schedulers.interruption import WORK_PER_INTERRUPTION
from muster.schedulers.user_code import method_problem
from muster.speed.demands import ResourceProfiles
from muster.speed.network.forms import PlacementShapes
from muster.workload.jobs import RUNNING, WAITING, JobTable
from muster.workload.jobs_core import left_now, protected_until, service_now, work_now
from muster.workload.sized import RIGID

State = Any
"""What a scheduler has learned: any serialisable value, replaced and never changed in place."""


__all__ = [
    "Bools",
    "Decision",
    "Floats",
    "HasClocks",
    "Ints",
    "Jobs",
    "Proposal",
    "Rows",
    "Scheduler",
    "SizeSpeeds",
    "Snapshot",
    "State",
    "Trigger",
    "asked_for_decision",
    "checked_answer",
]


class Jobs:
    """The jobs in the system, as columns, in arrival order.

    `index` are their numbers; every other column goes along with it. Quantities are those of the snapshot's moment:
    the runtime settles a job only when its rate changes, so they do not depend on how often a scheduler asks.
    """

    __slots__ = ("_now", "_table", "index", "leased")

    def __init__(self, table: JobTable, index: Ints, now: float, leased: bool = False) -> None:
        self._table = table
        self.index = index
        self.leased = leased
        """Whether a lease that has not ended protects a running job."""
        self._now = now

    def __len__(self) -> int:
        """Number of jobs."""
        return len(self.index)

    def at(self, mask: Bools | Ints) -> Jobs:
        """Only the jobs of a mask, or at these positions."""
        return Jobs(self._table, self.index[mask], self._now, self.leased)

    def under_lease(self) -> Jobs:
        """The same jobs, protected until their leases end."""
        return Jobs(self._table, self.index, self._now, leased=True)

    @property
    def ids(self) -> list[str]:
        """The trace's names of the jobs."""
        ids: list[str] = self._table.ids.gather(self.index).to_list()
        return ids

    @property
    def arrival(self) -> Floats:
        """Seconds."""
        return self._table.asked["submit"][self.index]

    @property
    def gpus(self) -> Ints:
        """GPUs asked for."""
        return self._table.asked["gpus"][self.index]

    @property
    def gpu_milli(self) -> Ints:
        """Thousandths of each GPU asked for."""
        return self._table.asked["milli"][self.index]

    @property
    def requested_gpus(self) -> Floats:
        """GPUs asked for, a share of one below 1."""
        return self.gpus * (self.gpu_milli / WHOLE)

    @property
    def min_gpus(self) -> Ints:
        """Fewest GPUs the job can run on."""
        return self._table.asked["min_gpus"][self.index]

    @property
    def max_gpus(self) -> Ints:
        """Most GPUs the job can use."""
        return self._table.asked["max_gpus"][self.index]

    @property
    def elastic(self) -> Bools:
        """Whether the job may have another number of whole GPUs than it asks for."""
        elastic: Bools = self.min_gpus < self.max_gpus
        if elastic.any():
            elastic &= (self.gpu_milli == WHOLE) & (self.gpus > 0)
        return elastic

    @property
    def requested(self) -> Ints:
        """What the owner asks for beside GPUs in all, by resource in millionths; -1 where nothing is stated."""
        requested: Ints = self._table.asked["requested"][self.index]
        return requested

    @property
    def requested_per_gpu(self) -> Ints:
        """What the owner asks for beside each GPU, by resource in millionths; 0 where nothing is stated.

        No allocation may be smaller. A request that GPUs do not divide is rounded down by less than a millionth each.
        For a job without GPUs it is all that the job asks for.
        """
        if not self._table.some_request:
            return np.zeros((len(self.index), RESOURCE_COUNT), np.int64)
        gpu_milli = np.where(self.gpus > 0, self.gpus * self.gpu_milli, WHOLE)
        requested: Ints = np.maximum(self.requested, 0) * WHOLE // gpu_milli[:, None]
        return requested

    @property
    def most_doublings(self) -> Ints:
        """How often the owner lets the total batch double; 0: it is fixed."""
        return self._table.asked["most_doublings"][self.index]

    @property
    def noise(self) -> Floats:
        """Gradient noise scale of a job whose batch may double, in initial batches, as it measures it now."""
        return self._table.facts["noise"][self.index]

    @property
    def constraint(self) -> Ints:
        """Number of the constraint on nodes; 0: any node will do."""
        return self._table.asked["constraint"][self.index]

    @property
    def nodes(self) -> Ints:
        """Nodes that the owner requests; 0: not stated."""
        return self._table.asked["nodes"][self.index]

    @property
    def exact_nodes(self) -> Ints:
        """Nodes that the job has to be on, as its script needs as many processes; 0: any number."""
        return self._table.asked["exact_nodes"][self.index]

    @property
    def partition(self) -> Ints:
        """Number of the partition."""
        return self._table.asked["partition"][self.index]

    @property
    def qos(self) -> Ints:
        """Number of the quality of service."""
        return self._table.asked["qos"][self.index]

    @property
    def model(self) -> Ints:
        """Number of the model."""
        return self._table.asked["model"][self.index]

    @property
    def tenant(self) -> Ints:
        """Number of the tenant."""
        return self._table.asked["tenant"][self.index]

    @property
    def user(self) -> Ints:
        """Number of the user."""
        return self._table.asked["user"][self.index]

    @property
    def priority(self) -> Floats:
        """The owner's; larger is more urgent."""
        return self._table.asked["priority"][self.index]

    @property
    def preemptible(self) -> Bools:
        """Whether the owner lets a running job be stopped."""
        allowed: Bools = self._table.asked["preemptible"][self.index] != 0
        return allowed

    @property
    def min_runtime(self) -> Floats:
        """Seconds a start is left alone."""
        return self._table.asked["min_runtime"][self.index]

    @property
    def deadline(self) -> Floats:
        """Seconds on the trace's clock; inf where there is none."""
        return self._table.asked["deadline"][self.index]

    @property
    def time_limit(self) -> Floats:
        """Seconds with an allocation after which the job is ended; inf where there is none."""
        return self._table.asked["time_limit"][self.index]

    @property
    def running(self) -> Bools:
        """Whether the job holds an allocation."""
        running: Bools = self._table.facts["state"][self.index] == RUNNING
        return running

    @property
    def waiting(self) -> Bools:
        """Whether the job holds nothing."""
        waiting: Bools = self._table.facts["state"][self.index] == WAITING
        return waiting

    @property
    def held_gpus(self) -> Floats:
        """GPUs held now."""
        return self._table.facts["held"][self.index]

    @property
    def attained_service(self) -> Floats:
        """GPU-seconds so far, to the millionth."""
        return service_now(self._table.facts, self.index, self._now)

    @property
    def run_seconds(self) -> Floats:
        """Seconds with an allocation so far."""
        facts = self._table.facts
        since = np.where(self.running, self._now - facts["settled"][self.index], 0.0)
        run: Floats = facts["run"][self.index] + since
        return run

    @property
    def work_done(self) -> Floats:
        """Iterations so far, to the millionth."""
        return work_now(self._table.facts, self.index, self._now)

    @property
    def interruption_cost(self) -> Floats:
        """Expected seconds lost if the job is interrupted now: stop, start-up, and work that is not saved.

        For a waiting job: what the next interruption after its start will cost.
        """
        facts = self._table.facts
        since = facts["unsaved_since"][self.index]
        unsaved = np.where(self.running & ~np.isnan(since), self._now - since, 0.0)
        cost: Floats = facts["restart_cost"][self.index] + unsaved
        return cost

    @property
    def interruptions(self) -> Ints:
        """How often the job was stopped, moved or resized so far."""
        facts = self._table.facts
        count: Ints = facts["preemptions"][self.index] + facts["moves"][self.index]
        return count

    @property
    def some_protected(self) -> bool:
        """Whether there may be running jobs that may not be interrupted."""
        return self.leased or self._table.some_pinned

    @property
    def protected_until(self) -> Floats:
        """When each running job may be interrupted; inf where its owner forbids it, -inf where it may be any time."""
        return self.protected_for(WORK_PER_INTERRUPTION)

    def protected_for(self, work: float) -> Floats:
        """The same, if a job must have worked so many times as long as an interruption costs it."""
        until = np.full(len(self.index), -inf)
        if self._table.some_pinned:
            until = protected_until(self._table.asked, self._table.facts, self.index, work)
        if self.leased:
            until = np.maximum(until, np.where(self.running & (self.lease_end < inf), self.lease_end, -inf))
        return until

    @property
    def pinned(self) -> Bools:
        """Running jobs that may not be interrupted now: not stopped, not moved, not resized by a restart."""
        if not self.some_protected:
            return np.zeros(len(self.index), np.bool_)
        pinned: Bools = self.protected_until > self._now
        return pinned

    @property
    def last_start(self) -> Floats:
        """Seconds; NaN for a job that never ran."""
        return self._table.facts["last_start"][self.index]

    @property
    def last_stop(self) -> Floats:
        """When it last lost its GPUs; its arrival if it never ran."""
        return self._table.facts["last_stop"][self.index]

    @property
    def lease_end(self) -> Floats:
        """Seconds; inf without a lease."""
        return self._table.facts["lease_end"][self.index]

    @property
    def estimated_total(self) -> Floats:
        """Belief: seconds of all the work at the reference; NaN where nothing is known."""
        asked = self._table.asked
        seconds: Floats = asked["ideal"][self.index] / asked["iterations"][self.index]
        total: Floats = asked["believed"][self.index] * seconds
        return total

    @property
    def estimated_remaining(self) -> Floats:
        """Belief: seconds of the work left at the reference; NaN where nothing is known."""
        return left_now(self._table.asked, self._table.facts, self.index, self._now)

    @property
    def durations_known(self) -> bool:
        """Whether there is a belief about every job's work."""
        return not np.isnan(self._table.asked["believed"][self.index]).any()


class SizeSpeeds(Protocol):
    """What is believed of how fast jobs go on other numbers of GPUs than they request or hold."""

    def seconds_per_iteration(self, jobs: Ints, gpus: Ints, nodes: Ints, gpu_type: str) -> Floats:
        """Seconds of an iteration of each job on so many GPUs of so many nodes; inf where it is not to run so.

        NaN where nothing is known beside its model.
        """


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a scheduler may know at one moment; it reads it, and writes in a transaction only."""

    now: float
    triggers: int
    """Sum of the `Trigger`s that led to this question."""
    jobs: Jobs
    table: JobTable
    ledger: Ledger
    resource_profiles: ResourceProfiles
    """What jobs are believed to want of CPU, memory and storage, and the models behind it."""
    forms: PlacementShapes | None = None
    """How fast gangs go on the forms that their places can have; None: not known, all are alike."""
    resize_restarts: bool = False
    """Whether a change of CPU, memory or storage alone restarts a job."""
    size_speeds: SizeSpeeds | None = None
    """How fast jobs go on other sizes; None: not known."""
    keeps_amounts: bool = False
    """Whether running jobs keep the CPU, memory and storage that they hold as long as they keep their GPUs."""
    sizes_chosen: bool = False
    """Whether the scheduler chooses how many GPUs elastic jobs have."""

    @property
    def cluster(self) -> Cluster:
        """The machines."""
        return self.ledger.cluster

    @property
    def counted_gpus(self) -> Floats:
        """By position: the GPUs that a running job holds and that a waiting one asks for.

        Where the scheduler chooses sizes, the fewest on which the job runs. A running job counts fewer than it holds
        only if these come from `min_gpus` and it may be resized beside others.
        """
        jobs = self.jobs
        running = jobs.running
        counted = np.where(running, jobs.held_gpus, jobs.requested_gpus)
        if self.sizes_chosen:
            fewest = self.resizable | (jobs.elastic & ~running)
            counted[fewest] = jobs.min_gpus[fewest]
        return counted

    @property
    def resizable(self) -> Bools:
        """By position: the running jobs to which the scheduler may give other sizes in each decision.

        Not those whose owners forbid it. Workers and servers are sized at intervals.
        """
        jobs = self.jobs
        elastic = jobs.elastic
        if not self.sizes_chosen or self.keeps_amounts or not elastic.any():
            return np.zeros(len(jobs), np.bool_)
        of_one_size = self.table.asked["sync"][jobs.index] == RIGID
        resizable: Bools = elastic & jobs.running & jobs.preemptible & of_one_size
        return resizable

    def check_placed(self, positions: Ints) -> None:
        """Raise DoesNotFit if one of these jobs, which a plan places, holds nothing: the plan is wrong."""
        unplaced = positions[self.ledger.books.heads[self.jobs.index[positions]] < 0]
        if len(unplaced):
            job = self.table.ids[int(self.jobs.index[unplaced[0]])]
            raise DoesNotFit(
                f"job {job} does not fit where the plan places it; this is a defect of the scheduler"
            )

    def transaction(self) -> Transaction:
        """Where a decision is tried out: a block that starts from what is held now, and undoes all at its end."""
        return Transaction(self.ledger)


class Scheduler(Protocol):
    """Decides when each job runs, how much it gets, where it runs."""

    @property
    def name(self) -> str:
        """As on the command line."""
        ...

    def describe(self) -> dict[str, Any]:
        """Parts, settings and rules, for the record."""
        ...

    def initial(self, cluster: Cluster) -> State:
        """The state before the first decision."""
        ...

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        """The decision from now on; the view's ledger is left as it is."""
        ...


@runtime_checkable
class HasClocks(Protocol):
    """A scheduler that does something at moments of its own, whatever happens."""

    def due(self, state: State, now: float) -> State:
        """The state in which all of it is due now."""
        ...


def asked_for_decision(scheduler: Scheduler, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
    """Return what the scheduler decides; an error if it writes into the snapshot other than in a transaction."""
    arrays: tuple[Any, ...] = snapshot.table.asked, snapshot.table.facts, snapshot.jobs.index
    for array in arrays:
        array.flags.writeable = False
    try:
        with snapshot.ledger.read_only():
            return checked_answer(scheduler, scheduler.decide(snapshot, state))
    finally:
        for array in arrays:
            array.flags.writeable = True


def checked_answer(scheduler: Scheduler, answer: Any) -> tuple[Decision, State]:
    """The answer of a scheduler if it is a decision and a state; anything else is refused."""
    if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], Decision):
        return answer
    found = type(answer).__name__
    if isinstance(answer, tuple) and not isinstance(answer, Decision):
        found = f"({', '.join(type(one).__name__ for one in answer)})"
    raise method_problem(scheduler, "decide", "allowed: a Decision and the next state", found)
