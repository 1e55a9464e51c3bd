"""Gandiva as Tiresias' simulator has it: sets of nodes by gang size, whose jobs take turns; for parity, not for use.

What it does was read from its program (SymbioticLab/Tiresias, Apache-2.0). A step is taken whenever a job comes
and 10 s after the last one. Turns change at steps whose time is a whole number of minutes, and at no others: once
the jobs that come have shifted the steps off the minute, running jobs stay. A set's use counts all jobs that were
ever put there, until its jobs are assigned again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil, inf
from typing import Any, ClassVar

from muster.cluster import Cluster
from muster.cluster.ledger import DoesNotFit, NodeAllocation
from muster.cluster.ledger_arrays import CPU, GPU, MEMORY, MICRO, STORAGE, WHOLE
from muster.problems import InputError, Problem
from muster.schedulers.contract import Decision, Proposal, Snapshot, State, Trigger
from muster.schedulers.phases import log_phase
from muster.schedulers.reasons import NO_PLACE, PLACED, WAITS_ITS_TURN

STEP_SECONDS, TURN_SECONDS = 10.0, 60.0
_FRUITLESS_AT_MOST = 1000
"""Turns in a row in which no job gets further, comes or goes, before a run is given up."""


@dataclass
class NodeSet:
    """Nodes whose jobs all ask for the same number of GPUs; the first of them run."""

    nodes: tuple[int, ...]
    jobs: list[int]
    used: int = 0


@dataclass(frozen=True)
class GandivaSim:
    """Gandiva as Tiresias' simulator does it: node sets by gang size, in turns of a minute, no packing."""

    name: ClassVar[str] = "gandiva-sim"
    slots: ClassVar[tuple[str, ...]] = ("whole scheduler",)
    needs: ClassVar[tuple[str, ...]] = ()
    honours: ClassVar[frozenset[str]] = frozenset()

    def describe(self) -> dict[str, Any]:
        """Name, for the record."""
        parts = {"queue_order": "arrival", "allocation": "proportional", "placement": "node sets, in turns"}
        return {"name": self.name, "parts": parts, "settings": {}, "needs": []}

    def initial(self, cluster: Cluster) -> State:
        """All nodes free."""
        nothing = {"fruitless": 0, "furthest": {}}
        return {"free": tuple(range(len(cluster.nodes))), "sets": {}, "pending": (), **nothing}

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        """One step, and which jobs run until the next."""
        _refuse(snapshot)
        sets, turns = _Sets(snapshot, state), snapshot.now % TURN_SECONDS == 0
        progress = _progress(snapshot, state) if turns else _progress_of(state)
        sets.take_turns(turns)
        sets.admit()
        sets.adjust()  # They do so at the next step, before they look at which ran since this one.
        with snapshot.transaction() as transaction:
            plan = Proposal.blank(transaction, len(snapshot.jobs))
            sets.write(plan)
            log_phase(snapshot, "placed", lambda: plan.reasons == PLACED)
            plan.wake_on = Trigger.ARRIVAL
            plan.next_wake = plan.stable_until = snapshot.now + STEP_SECONDS if len(snapshot.jobs) else inf
            return plan.decision(), sets.state() | progress


class _Sets:
    """The sets of a step."""

    def __init__(self, snapshot: Snapshot, state: State) -> None:
        self._view = snapshot
        self._here = int(snapshot.cluster.nodes[0].gpus)
        """GPUs of a node."""
        self._gpus: Mapping[int, int] = dict(
            zip(snapshot.jobs.index.tolist(), snapshot.jobs.gpus.tolist(), strict=True)
        )
        self._free: list[int] = list(state["free"])
        self._sets: dict[int, list[NodeSet]] = {
            gpus: [NodeSet(tuple(nodes), list(jobs), used) for nodes, jobs, used in sets]
            for gpus, sets in sorted(state["sets"].items())
        }
        self._pending: list[int] = list(state["pending"])
        known = {job for sets in self._sets.values() for here in sets for job in here.jobs} | set(
            self._pending
        )
        self._new = [job for job in self._gpus if job not in known]
        self._released = False

    def state(self) -> State:
        """What the next step needs to know."""
        sets = {
            gpus: tuple((here.nodes, tuple(here.jobs), here.used) for here in sets)
            for gpus, sets in self._sets.items()
        }
        return {"free": tuple(self._free), "sets": sets, "pending": tuple(self._pending)}

    def adjust(self) -> None:
        """More or fewer sets for each gang size, by its share of all the GPUs asked for."""
        asked = {gpus: gpus * sum(len(here.jobs) for here in sets) for gpus, sets in self._sets.items()}
        total = self._here * len(self._view.cluster.nodes)
        for gpus, sets in self._sets.items():
            if asked[gpus] == 0:
                continue
            target = min(total * asked[gpus] // sum(asked.values()), asked[gpus])
            lacking = target - self._here * sum(len(here.nodes) for here in sets)
            if lacking > 0:
                self._expand(gpus, sets, ceil(lacking / gpus))
            elif lacking < 0:
                self._shrink(sets, min(ceil(-lacking / gpus), len(sets) - 1))

    def _expand(self, gpus: int, sets: list[NodeSet], count: int) -> None:
        nodes = ceil(gpus / self._here)
        room = len(self._free) >= count * nodes
        for _ in range(min(count, len(self._free) // nodes)):
            sets.append(self._fresh(nodes))
        # As their loop counts: with a node a set, jobs are assigned again only if nodes ran out.
        if nodes > 1 or not room:
            jobs = [job for here in sets for job in here.jobs]
            for here in sets:
                here.jobs, here.used = [], 0
            self._assign(jobs, sets)

    def _shrink(self, sets: list[NodeSet], count: int) -> None:
        gone, sets[:] = sets[:count], sets[count:]
        for here in gone:
            self._free += here.nodes
        self._assign([job for here in gone for job in here.jobs], sets)

    def _assign(self, jobs: Iterable[int], sets: list[NodeSet]) -> None:
        """Each to the set that was used least."""
        for job in jobs:
            _join(sets[0], job)
            sets.sort(key=lambda here: here.used)

    def _fresh(self, nodes: int) -> NodeSet:
        taken, self._free = self._free[:nodes], self._free[nodes:]
        return NodeSet(tuple(taken), [])

    def take_turns(self, switch: bool) -> None:
        """Those that ran go behind the others; those that are done leave, and sets without jobs with them."""
        for gpus, sets in self._sets.items():
            for here in sets:
                slots = self._slots(gpus, here)
                if switch and len(here.jobs) > slots:
                    here.jobs = here.jobs[slots:] + here.jobs[:slots]
                here.jobs = [job for job in here.jobs if job in self._gpus]
                if not here.jobs:
                    self._free += here.nodes
                    self._released = True
            sets[:] = [here for here in sets if here.jobs]

    def _slots(self, gpus: int, here: NodeSet) -> int:
        """Gangs that run at once."""
        return len(here.nodes) * self._here // gpus

    def admit(self) -> None:
        """Those that came, and if nodes became free those that wait, of which they skip one after each that starts."""
        self._pending += [job for job in self._new if not self._place(job)]
        at = 0
        while self._released and at < len(self._pending):
            if self._place(self._pending[at]):
                del self._pending[at]
            at += 1

    def _place(self, job: int) -> bool:
        """In the set that was used least if it has a slot to spare, in a new one, or in turns in the next one."""
        gpus = self._gpus[job]
        sets = self._sets.setdefault(gpus, [])
        if sets:
            first = sets.pop(0)
            sets.append(first)
            if first.used + 1 < self._slots(gpus, first):
                _join(first, job)
                sets.sort(key=lambda here: here.used)
                return True
        nodes = ceil(gpus / self._here)
        if nodes <= len(self._free):
            sets.append(self._fresh(nodes))
            _join(sets[-1], job)
        elif sets:
            sets.append(sets.pop(0))
            _join(sets[-1], job)
        else:
            return False
        sets.sort(key=lambda here: here.used)
        return True

    def write(self, plan: Proposal) -> None:
        """The first jobs of each set hold its slots; one that held one before keeps it."""
        snapshot, transaction, index = self._view, plan.transaction, self._view.jobs.index
        runs = self._allocations()
        for job in index[snapshot.jobs.running].tolist():
            if runs.get(job) != snapshot.ledger.holding(job):
                transaction.release(job)
        pending = set(self._pending)
        plan.reason_a[:], plan.reason_b[:] = snapshot.jobs.requested_gpus, snapshot.ledger.free()[GPU]
        for at, job in enumerate(index.tolist()):
            plan.reasons[at] = NO_PLACE if job in pending else WAITS_ITS_TURN
            if job in runs:
                try:
                    if not snapshot.ledger.holds(job):
                        transaction.put(job, runs[job])
                    plan.reasons[at] = PLACED
                except DoesNotFit:  # A node is down, or its GPUs are still releasing.
                    continue

    def _allocations(self) -> dict[int, list[NodeAllocation]]:
        """What each job that runs until the next step holds."""
        ledger = self._view.ledger
        runs: dict[int, list[NodeAllocation]] = {}
        for gpus, sets in self._sets.items():
            for here in sets:
                slots = self._slots_of(gpus, here)
                running = here.jobs[: len(slots)]
                held = {job: ledger.holding(job) for job in running}
                for job in running:
                    if held[job] in slots:
                        slots.remove(held[job])
                        runs[job] = held[job]
                for job in running:
                    if job not in runs:
                        runs[job] = slots.pop(0)
        return runs

    def _slots_of(self, gpus: int, here: NodeSet) -> list[list[NodeAllocation]]:
        """What a gang holds in each slot."""
        if len(here.nodes) == 1:
            firsts = range(0, self._here - gpus + 1, gpus)
            return [[self._share(here.nodes[0], first, gpus)] for first in firsts]
        sizes = [min(self._here, gpus - self._here * at) for at in range(len(here.nodes))]
        return [[self._share(node, 0, size) for node, size in zip(here.nodes, sizes, strict=True)]]

    def _share(self, node: int, first: int, gpus: int) -> NodeAllocation:
        amounts = self._view.ledger.books.nodes[node]["share"] * gpus / MICRO
        return NodeAllocation(
            node,
            tuple(range(first, first + gpus)),
            float(amounts[CPU]),
            float(amounts[MEMORY]),
            float(amounts[STORAGE]),
        )


def _join(here: NodeSet, job: int) -> None:
    here.jobs.append(job)
    here.used += 1


def _progress_of(state: State) -> State:
    return {name: state[name] for name in ("fruitless", "furthest")}


def _progress(snapshot: Snapshot, state: State) -> State:
    """How far each job has been, and turns in a row without progress. InputError if they are too many."""
    jobs, before = snapshot.jobs, state["furthest"]
    now = dict(zip(jobs.index.tolist(), jobs.work_done.tolist(), strict=True))
    furthest = {job: max(work, before.get(job, 0.0)) for job, work in now.items()}
    fruitless = 0 if furthest != before else state["fruitless"] + 1
    if fruitless > _FRUITLESS_AT_MOST:
        what = (
            f"gandiva-sim: no job has got further in {_FRUITLESS_AT_MOST} turns of {TURN_SECONDS:g} s, as each of them "
            f"costs a job that long or longer. Hint: --restart-cost below {TURN_SECONDS:g}, and jobs that save"
        )
        raise InputError(Problem("--scheduler", what))
    return {"fruitless": fruitless, "furthest": furthest}


def _refuse(snapshot: Snapshot) -> None:
    """What their program does not know: nodes of several sizes, shares of a GPU, owners' requests."""
    problems = []
    if len({node.gpus for node in snapshot.cluster.nodes}) > 1:
        problems.append(
            Problem("--scheduler", "gandiva-sim needs nodes of one size", found=snapshot.cluster.name)
        )
    jobs = snapshot.jobs
    strange = (jobs.gpu_milli < WHOLE) | (jobs.constraint > 0) | ~jobs.preemptible | (jobs.min_runtime > 0)
    for job in jobs.index[strange].tolist()[:20]:
        what = "gandiva-sim knows whole GPUs of any node, and stops a job at any time"
        problems.append(Problem("--scheduler", what, column="job", found=snapshot.table.ids[job]))
    if problems:
        raise InputError(*problems)
