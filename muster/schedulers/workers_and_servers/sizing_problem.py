"""What is asked at an interval: the jobs present, what each size would cost and finish, what there is (SMD)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from muster.cluster import Cluster
from muster.cluster.ledger_arrays import Bools, Floats, Ints
from muster.schedulers.contract import Snapshot
from muster.schedulers.workers_and_servers.frontier import frontier_and_held
from muster.schedulers.workers_and_servers.frontier_core import fastest_of
from muster.schedulers.workers_and_servers.gangs import with_gangs
from muster.schedulers.workers_and_servers.sizes import Demands, utility
from muster.schedulers.workers_and_servers.task_placement import held_sizes
from muster.speed.parameter_server import StepTime
from muster.speed.parameter_server.of_jobs import steps_of
from muster.speed.parameter_server.reported import fitted_remaining
from muster.workload.jobs import JobTable
from muster.workload.sized import RESOURCES

PROGRESS = 1e-3
"""Profit beside the utility of an hour's completion: decides between sizes and jobs whose utility is the same, so
that late and insensitive jobs are served with what is left."""


@dataclass(frozen=True, eq=False)
class Choices:
    """All sizes worth considering, job after job: an entry a pair of workers and servers."""

    job: Ints
    """Position in the question, ascending."""
    workers: Ints
    servers: Ints
    seconds: Floats
    """Of an iteration."""

    def at(self, entries: Ints) -> Choices:
        """Only these entries."""
        return Choices(self.job[entries], self.workers[entries], self.servers[entries], self.seconds[entries])


@dataclass(frozen=True, eq=False)
class SizingProblem:
    """The jobs present, by position, and the cluster."""

    now: float
    index: Ints
    """The jobs' numbers."""
    arrival: Floats
    remaining: Floats
    """Iterations left: as believed, else by the losses so far, else as many as were done and at least an interval's."""
    workers: Ints
    """Held now; 0: the job waits."""
    servers: Ints
    pinned: Bools
    """May not be stopped or resized now."""
    interruption_cost: Floats
    """Seconds that a job loses if it is stopped or resized now."""
    steps: StepTime
    demands: Demands
    """Of workers and servers by RESOURCES, then their numbers themselves, limited by the owner."""
    least_workers: Ints
    is_ring: Bools
    priority: Floats
    urgency: Floats
    """A second."""
    target: Floats
    capacity: Floats
    """Of the nodes that are up, by RESOURCES."""
    reserved: bool
    """Whether a job is charged its owner's limit instead of what it holds."""
    fixed_usage: Floats
    """(jobs, resources `by_set`): charged for others, which may not change now; the capacities are what they leave."""
    fixed_until: Floats
    """Seconds from now until these jobs are expected to end."""
    bound: Bools
    """(sets, jobs): for each set of nodes to which jobs are bound, those that may be on these or a part of them."""
    capacity_there: Floats
    """(sets, RESOURCES): likewise as `capacity`."""

    def __len__(self) -> int:
        """The number of jobs."""
        return len(self.arrival)

    def beside_pinned(self) -> SizingProblem:
        """The same for the jobs that may change, with the capacity that the pinned ones leave."""
        pinned, free = np.flatnonzero(self.pinned), np.flatnonzero(~self.pinned)
        usage = self.usage(pinned, self.workers[pinned], self.servers[pinned])
        usage_there = self.bound[:, pinned] @ usage
        seconds = self.iteration_seconds(self.workers, self.servers)[pinned]
        demands = self.demands
        return replace(
            self,
            **{name: getattr(self, name)[free] for name in _COLUMNS},
            steps=self.steps[free],
            demands=Demands(demands.worker[free], demands.server[free], demands.limit[free]),
            capacity=np.maximum(self.capacity - usage.sum(axis=0), 0.0),
            fixed_usage=self.by_set(pinned, usage),
            fixed_until=self.remaining[pinned] * seconds,
            bound=self.bound[:, free],
            capacity_there=np.maximum(self.capacity_there - usage_there, 0.0),
        )

    @cached_property
    def choices(self) -> Choices:
        """Every size that is faster than all that hold no more, and those held now; for a ring, workers only."""
        job, workers, servers, seconds = frontier_and_held(
            self.steps, self.demands, self.least_workers, self.workers, self.servers
        )
        return Choices(job, workers, np.where(self.is_ring[job], 0, servers), seconds)

    @cached_property
    def fastest(self) -> Ints:
        """The place of each job's fastest choice; a job that has no choice is left out."""
        return fastest_of(self.choices.job, self.choices.seconds)

    @cached_property
    def best_seconds(self) -> Floats:
        """(jobs,) of an iteration with the fastest choice; infinite for a job that has none."""
        seconds = np.full(len(self), np.inf)
        seconds[self.choices.job[self.fastest]] = self.choices.seconds[self.fastest]
        return seconds

    def usage(self, job: Ints, workers: Ints, servers: Ints) -> Floats:
        """(entries, RESOURCES) charged for these sizes under the accounting."""
        if self.reserved:
            limit: Floats = self.demands.limit[job, : len(RESOURCES)]
            return limit
        count = len(RESOURCES)
        held: Floats = (
            workers[:, None] * self.demands.worker[job, :count]
            + servers[:, None] * self.demands.server[job, :count]
        )
        return held

    def by_set(self, job: Ints, usage: Floats) -> Floats:
        """What is charged for these jobs on all nodes, then on each set of nodes to which jobs are bound."""
        return np.hstack([usage, *(usage * bound[job, None] for bound in self.bound)])

    @property
    def capacity_by_set(self) -> Floats:
        """Likewise what there is."""
        return np.concatenate([self.capacity, self.capacity_there.ravel()])

    def shares(self, usage: Floats) -> Floats:
        """(entries,) the dominant share of what is charged."""
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(usage > 0, usage / self.capacity, 0.0)
        dominant: Floats = share.max(axis=1)
        return dominant

    def iteration_seconds(self, workers: Ints, servers: Ints) -> Floats:
        """(jobs,) seconds of an iteration with so many, from 1 on."""
        return self.steps.iteration_seconds(np.maximum(workers, 1), np.maximum(servers, 1))

    def changes(self, job: Ints, workers: Ints, servers: Ints) -> Bools:
        """Which of these sizes would make a running job restart."""
        other = (workers != self.workers[job]) | (servers != self.servers[job])
        changed: Bools = (self.workers[job] > 0) & other
        return changed

    def worth(self, job: Ints, completion: Floats) -> Floats:
        """SMD's utility of these completion times (seconds since arrival); without one, 1 over the hours."""
        rated = utility(completion, self.priority[job], self.urgency[job], self.target[job])
        return np.where(np.isnan(self.priority[job]), 1.0 / (1.0 + completion / 3600.0), rated)

    def profit(
        self, job: Ints, workers: Ints, servers: Ints, seconds: Floats, hysteresis: float = 0.0
    ) -> Floats:
        """What these sizes are worth from now on; a change costs its restart, and `hysteresis` of what is left."""
        left = self.remaining[job] * seconds
        changed = self.changes(job, workers, servers)
        left = np.where(changed, left * (1 + hysteresis) + self.interruption_cost[job], left)
        completion = self.now - self.arrival[job] + left
        profit: Floats = self.worth(job, completion) + PROGRESS / (1 + completion / 3600)
        return profit

    def value(self, workers: Ints, servers: Ints, hysteresis: float = 0.0) -> float:
        """The profit of all jobs that hold something, at these sizes of all jobs."""
        job = np.flatnonzero(workers)
        seconds = self.iteration_seconds(workers, servers)[job]
        return float(self.profit(job, workers[job], servers[job], seconds, hysteresis).sum())


_COLUMNS = (
    "index",
    "arrival",
    "remaining",
    "workers",
    "servers",
    "pinned",
    "interruption_cost",
    "least_workers",
    "is_ring",
    "priority",
    "urgency",
    "target",
)


def sizing_problem(
    snapshot: Snapshot, layers_known: bool, reserved: bool, least_seconds: float
) -> SizingProblem:
    """The question of a moment; `least_seconds` of work are left where nothing is known of it."""
    jobs, table = snapshot.jobs, with_gangs(snapshot)
    up = snapshot.ledger.books.nodes["up"] != 0
    capacity = capacity_of(snapshot.cluster, up)
    bound, capacity_there = _bound(snapshot, up)
    demands = demands_of(table, jobs.index)
    # A limit is cut to what there is: else a large one could never be reserved.
    of_resources = demands.limit[:, : len(RESOURCES)]
    np.minimum(of_resources, capacity, out=of_resources)
    for own, there in zip(bound, capacity_there, strict=True):
        of_resources[own] = np.minimum(of_resources[own], there)
    steps = steps_of(table, jobs.index, layers_known=layers_known)
    workers, servers = held_sizes(snapshot.ledger.books, table.asked, jobs.index)
    sized = table.sized[jobs.index]
    done = jobs.work_done
    believed: Floats = table.asked["believed"][jobs.index] - done
    if np.isnan(believed).any():
        slowest = steps.iteration_seconds(np.ones(len(jobs)), np.ones(len(jobs)))
        fitted = fitted_remaining(sized, jobs.index, done)
        unknown = np.where(np.isnan(fitted), np.maximum(done, least_seconds / slowest), fitted)
        believed = np.where(np.isnan(believed), unknown, believed)
    return SizingProblem(
        now=snapshot.now,
        index=jobs.index,
        arrival=jobs.arrival,
        remaining=np.maximum(believed, 0.0),
        workers=workers,
        servers=servers,
        pinned=jobs.pinned,
        interruption_cost=jobs.interruption_cost,
        steps=steps,
        demands=demands,
        least_workers=np.ascontiguousarray(sized["min_workers"]),
        is_ring=sized["servers"] == 0,
        priority=np.ascontiguousarray(sized["priority"]),
        urgency=np.ascontiguousarray(sized["urgency"]),
        target=np.ascontiguousarray(sized["target"]),
        capacity=capacity,
        reserved=reserved,
        fixed_usage=np.zeros((0, capacity.size + capacity_there.size)),
        fixed_until=np.zeros(0),
        bound=bound,
        capacity_there=capacity_there,
    )


def _bound(snapshot: Snapshot, up: Bools) -> tuple[Bools, Floats]:
    """For each set of nodes to which jobs are bound: which are bound to them or a part, and what these nodes have.

    A set that has all nodes of the cluster that are up counts for nothing.
    """
    present, of_job = np.unique(snapshot.jobs.constraint, return_inverse=True)
    own = snapshot.table.node_allowed[present] & up
    sets = np.unique(own[~own[:, up].all(axis=1)], axis=0)
    inside = np.zeros((len(sets), len(present)), np.bool_)
    for at, nodes in enumerate(sets):
        inside[at] = (nodes | ~own).all(axis=1)
    there = [capacity_of(snapshot.cluster, nodes) for nodes in sets]
    return inside[:, of_job], np.array(there).reshape(len(sets), len(RESOURCES))


def capacity_of(cluster: Cluster, up: Bools) -> Floats:
    """What the nodes that are up have, by RESOURCES."""
    has = np.column_stack([cluster.amounts[:, : len(RESOURCES) - 1], cluster.nic_gb_per_s])
    total: Floats = has[up].sum(axis=0)
    return total


def demands_of(table: JobTable, index: Ints) -> Demands:
    """What workers and servers of these jobs need, and what the owners allow, by RESOURCES and number."""
    sized = table.sized[index]
    count = len(RESOURCES)
    worker, server = np.zeros((len(sized), count + 2)), np.zeros((len(sized), count + 2))
    worker[:, :count], worker[:, count] = sized["worker"], 1.0
    server[:, :count], server[:, count + 1] = sized["server"], 1.0
    # A ring's one server is nothing: it keeps the number of servers out of the search.
    most_servers = np.maximum(sized["servers"], 1)
    limit = sized["max_workers"][:, None] * worker + most_servers[:, None] * server
    limit[:, :count] = np.minimum(sized["limit"], limit[:, :count])
    return Demands(worker, server, limit)
