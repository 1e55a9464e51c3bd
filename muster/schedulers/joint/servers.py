"""Jobs with parameter servers, and rings, under joint: how many workers and servers each has, beside all other jobs.

One knapsack holds every size of these jobs that is worth paying for, and all other jobs with the one that they have.
The sizes are those of `workers_and_servers`, which also places them; joint then plans the other jobs around them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from muster.cluster.ledger import DoesNotFit
from muster.cluster.ledger_arrays import MICRO, WHOLE, Bools, Floats, Ints
from muster.schedulers.admission.knapsack import NOTHING
from muster.schedulers.allocation.fair_share import least_fair_demand
from muster.schedulers.allocation.placement_draft import held_by, put_back
from muster.schedulers.contract import Proposal, Snapshot, State, Trigger
from muster.schedulers.interruption import HORIZON_SECONDS
from muster.schedulers.joint.assured import worth_of_assured
from muster.schedulers.joint.within_limits import goes_on, within_limits
from muster.schedulers.reasons import PLACED
from muster.schedulers.workers_and_servers.best_sizes import best_sizes
from muster.schedulers.workers_and_servers.interval import WAKES, SizingSolution
from muster.schedulers.workers_and_servers.sizes import Demands
from muster.schedulers.workers_and_servers.sizing_problem import Choices, SizingProblem, sizing_problem
from muster.schedulers.workers_and_servers.smd import EXACT, Smd
from muster.schedulers.workers_and_servers.task_placement import held_sizes
from muster.workload.sized import RESOURCES, RIGID

_INTERVAL_SECONDS = 600.0
"""Sizes by utility change so often at most, as in Optimus, unless a job ends, capacity changes or a job that comes
before all others waits.

Where nothing is known of a job's work, so much of it is left at least.
"""
_ASSURED = 2
"""Column of the GPUs that jobs have before all others."""


def jobs_of_one_size(snapshot: Snapshot) -> Bools:
    """Which jobs have neither servers nor a ring whose workers a scheduler counts."""
    rigid: Bools = snapshot.table.asked["sync"][snapshot.jobs.index] == RIGID
    return rigid


def gpus_of_workers(snapshot: Snapshot, at: Ints) -> Floats:
    """Return the GPUs that the workers of the jobs at these positions have now."""
    index, asked = snapshot.jobs.index[at], snapshot.table.asked
    workers, _ = held_sizes(snapshot.ledger.books, asked, index)
    gpus: Floats = workers * asked["worker_gpus"][index] / MICRO
    return gpus


def place_sized(snapshot: Snapshot, proposal: Proposal, ranked: Ints, weight: Floats) -> Ints:
    """Choose workers and servers and place them, with a reason for each such job.

    Where the owner of some such job states a utility, SMD's knapsack decides; elsewhere the speed of each job counts
    its weight, by position, relative to its best with no more workers than it asks for. Other running jobs that the
    knapsack does not choose make room, and come back where they were if nothing took it; under an order that stops no
    job none does. Returns the waiting jobs of one size for which running ones made room.
    """
    jobs, sized = snapshot.jobs, ~jobs_of_one_size(snapshot)
    at, answer, frame = _sizes(snapshot, proposal, ranked, weight)
    left = at[~sized[at] & jobs.running[at] & (answer.workers == 0)]
    held = held_by(snapshot, left)
    for job in held:
        proposal.transaction.release(job)
    others_come = at[~sized[at] & jobs.waiting[at] & (answer.workers > 0)]
    frame = replace(frame, makes_room=len(others_come) > 0)
    places, of_sized, mark = _only(answer, sized[at]), at[sized[at]], proposal.transaction.mark()
    unplaced = _place(snapshot, proposal, frame, places, of_sized)
    if unplaced and not snapshot.resize_restarts:
        proposal.transaction.undo(mark)
        _cut_to_least(snapshot, proposal)
        if _place(snapshot, proposal, frame, places, of_sized) >= unplaced:
            proposal.transaction.undo(mark)
            _place(snapshot, proposal, frame, places, of_sized)
    put_back(proposal.transaction, held)
    return others_come


def _sizes(
    snapshot: Snapshot, proposal: Proposal, ranked: Ints, weight: Floats
) -> tuple[Ints, SizingSolution, _BesideOthers]:
    """Return the jobs of whole GPUs that run or may be served, their sizes, and the frame that chose them."""
    jobs = snapshot.jobs
    ranked, limits = within_limits(jobs, ranked, proposal.limits, goes_on(snapshot))
    sized, served = ~jobs_of_one_size(snapshot), np.zeros(len(jobs), np.bool_)
    served[ranked] = True
    at = np.flatnonzero((served | jobs.running) & (jobs.gpu_milli == WHOLE) & (jobs.gpus > 0))
    asked = replace(snapshot, jobs=jobs.at(at))
    question = sizing_problem(asked, layers_known=True, reserved=False, least_seconds=_INTERVAL_SECONDS)
    keeps = jobs.running[at] & (not proposal.stops_jobs)
    question = replace(question, pinned=question.pinned | ~served[at] | keeps)
    for limit in limits:
        most = limit.most_gpus(ranked[sized[ranked]], jobs.max_gpus)[at]
        question = _with_most_gpus(question, np.where(sized[at], most, np.inf))
    frame: _BesideOthers
    if np.isnan(question.priority[sized[at]]).all():
        frame = _ByWeight()
    else:
        frame = _BesideOthers()
        changed = jobs.last_start[at[sized[at] & jobs.running[at]]].max(initial=-np.inf)
        first_waits = (jobs.waiting & (proposal.assured > 0)).any()
        too_soon = snapshot.now - changed < _INTERVAL_SECONDS and not first_waits
        if too_soon and not snapshot.triggers & (WAKES & ~Trigger.ARRIVAL):
            question = replace(question, pinned=jobs.running[at])
    by_job = np.zeros((len(snapshot.table), 3))
    by_job[jobs.index] = np.column_stack([weight, jobs.gpus, proposal.assured])
    return at, frame.beside_pinned(question, by_job), frame


def _cut_to_least(snapshot: Snapshot, proposal: Proposal) -> None:
    """Leave gangs on whole GPUs the least that was measured of their models, or their requests, of what they hold.

    What jobs with servers do not take of the rest, they have back when they are placed. Where what is freed could not
    be used at once, as while GPUs are released, a gang keeps all.
    """
    jobs, ledger = snapshot.jobs, snapshot.ledger
    least = least_fair_demand(snapshot, snapshot.resource_profiles.below_share) / MICRO
    gangs = jobs_of_one_size(snapshot) & (jobs.gpu_milli == WHOLE) & goes_on(snapshot)
    for at in np.flatnonzero(gangs).tolist():
        number = int(jobs.index[at])
        cut = []
        for share in ledger.shares(int(ledger.books.heads[number])):
            amounts = np.minimum(share.amounts, least[at] * len(share.gpu_ids)).tolist()
            _, cpus, memory_gb, storage, *_ = amounts
            cut.append(replace(share, cpus=cpus, memory_gb=memory_gb, storage_gb_per_s=storage))
        with suppress(DoesNotFit):
            proposal.transaction.put(number, cut)


def _with_most_gpus(question: SizingProblem, most: Floats) -> SizingProblem:
    """Return the problem in which each job may have so many GPUs and no more."""
    demands, limit = question.demands, question.demands.limit.copy()
    workers = np.floor(most / np.maximum(demands.worker[:, 0], 1))
    limit[:, len(RESOURCES)] = np.minimum(limit[:, len(RESOURCES)], workers)
    return replace(question, demands=Demands(demands.worker, demands.server, limit))


def _place(snapshot: Snapshot, proposal: Proposal, frame: Smd, answer: SizingSolution, at: Ints) -> int:
    """Place the jobs at these positions with their sizes, and write their reasons; how many find no place."""
    here = replace(snapshot, jobs=snapshot.jobs.at(at))
    question = sizing_problem(here, layers_known=True, reserved=False, least_seconds=_INTERVAL_SECONDS)
    part = replace(
        proposal,
        reasons=proposal.reasons[at],
        reason_a=proposal.reason_a[at],
        reason_b=proposal.reason_b[at],
    )
    frame.place(here, part, question, answer, np.zeros(0, np.int64))
    proposal.reasons[at], proposal.reason_a[at], proposal.reason_b[at] = (
        part.reasons,
        part.reason_a,
        part.reason_b,
    )
    return int(np.count_nonzero((answer.workers > 0) & (part.reasons != PLACED)))


def _only(answer: SizingSolution, kept: Bools) -> SizingSolution:
    """The sizes of some jobs."""
    last = None if answer.last is None else answer.last[kept]
    return SizingSolution(answer.workers[kept], answer.servers[kept], last=last)


@dataclass(frozen=True)
class _BesideOthers(Smd):
    """The sizes of SMD beside jobs of one size.

    Their memory has by the number of each job its weight, the GPUs it asks for and those that it has before all others.
    """

    makes_room: bool = False
    """Whether jobs of one size take what is freed: then nothing is freed in vain."""

    def profits(self, question: SizingProblem, pairs: Choices, memory: State) -> tuple[Floats, Floats]:
        """As SMD's; what a job has before all others counts by its speed, and more than any utility."""
        profit, usage = super().profits(question, pairs, memory)
        job, assured = pairs.job, memory[question.index, _ASSURED]
        speed = question.best_seconds[job] / pairs.seconds
        most = profit.max(initial=0.0)
        first = np.where(assured[job] > 0, profit + most * speed, profit)
        return worth_of_assured(first, job, usage[:, 0], assured), usage

    def _in_vain(
        self, snapshot: Snapshot, question: SizingProblem, answer: SizingSolution, order: Ints, kept: Bools
    ) -> Bools:
        """Place all jobs; which of them were stopped or shrunk in vain."""
        in_vain: Bools = super()._in_vain(snapshot, question, answer, order, kept) & (not self.makes_room)
        return in_vain


@dataclass(frozen=True)
class _ByWeight(_BesideOthers):
    """The sizes with the most weighted speed, less what changes of running jobs lose."""

    def answer(self, question: SizingProblem, memory: State) -> SizingSolution:
        """The knapsack's choice."""
        weight, gpus, assured = memory[question.index].T
        pairs = question.choices
        job = pairs.job
        if not len(job):
            return SizingSolution.nothing(len(question))
        relative = _seconds_as_asked(question, gpus)[job] / pairs.seconds
        lost = np.minimum(question.interruption_cost / HORIZON_SECONDS, 1.0)[job]
        changed = question.changes(job, pairs.workers, pairs.servers)
        kept = (question.workers[job] > 0) & ~changed
        profit = weight[job] * relative * (1 - lost * changed + lost * kept)
        usage = question.usage(job, pairs.workers, pairs.servers)
        profit = worth_of_assured(profit, job, usage[:, 0], assured)
        taken = best_sizes(question, job, profit, usage, EXACT).chosen
        some = taken != NOTHING
        return SizingSolution(
            np.where(some, pairs.workers[taken], 0), np.where(some, pairs.servers[taken], 0)
        )


def _seconds_as_asked(question: SizingProblem, gpus: Floats) -> Floats:
    """Of an iteration with the fastest choice that has no more GPUs than the job asks for, by position."""
    pairs = question.choices
    few = pairs.workers * question.demands.worker[pairs.job, 0] <= gpus[pairs.job]
    seconds = np.full(len(question), np.inf)
    np.minimum.at(seconds, pairs.job[few], pairs.seconds[few])
    return np.where(np.isfinite(seconds), seconds, question.best_seconds)
