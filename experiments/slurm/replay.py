"""The rules held against a log: one cycle at a time from the logged state, and in a run with the logged cycles."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from experiments.slurm.log import (
    GPUS,
    KILL_WAIT_SECONDS,
    NODES,
    RESOLUTION_SECONDS,
    WINDOW_SECONDS,
    Cycle,
    SlurmLog,
)
from muster.cluster.ledger_arrays import Bools, Floats, Ints
from muster.schedulers.backfill.slurm_rules import NOT_PLANNED, STARTED, SlurmCycle

_OUTCOMES = {NOT_PLANNED: "none", STARTED: "started"}


@dataclass(frozen=True)
class CycleState:
    """The cluster at a cycle: GPUs that count as free, nodes that complete a job, which jobs run and wait."""

    free: Ints
    completing: Bools
    running: Sequence[int]
    pending: Sequence[int]
    """In the order of their priority."""


@dataclass
class StepResult:
    """How many starts and plans of a log the rules give, one cycle at a time."""

    starts: int = 0
    plans: int = 0
    wrong_starts: list[str] = field(default_factory=list)
    wrong_plans: list[str] = field(default_factory=list)


def state_at(log: SlurmLog, cycle: Cycle, now: float) -> CycleState:
    """The logged state: held from allocation to completion, pending from acceptance to allocation."""
    held = np.flatnonzero((log.allocated < now) & (now < log.completed))
    completing = np.flatnonzero((log.completed <= now) & (now < log.released))
    free = np.full((NODES, 1), GPUS, np.int64)
    is_completing = np.zeros(NODES, np.bool_)
    for job in held.tolist():
        free[log.places[job], 0] -= log.gpus[job]
    for job in completing.tolist():
        is_completing[log.places[job]] = True
        if not cycle.is_backfill:
            free[log.places[job], 0] -= log.gpus[job]
    pending = np.flatnonzero((log.accepted <= now) & (now <= log.allocated)).tolist()
    pending.sort(key=lambda job: (-log.priority(job, now), job))
    return CycleState(free, is_completing, held.tolist(), pending)


def run_cycle(
    log: SlurmLog, cycle: Cycle, state: CycleState, start_second: Ints, places: Sequence[Ints]
) -> list[tuple[int, int, int, Ints | None]]:
    """What the rules make of each pending job: its number, outcome, start and nodes."""
    order = np.array(state.pending, np.int64)
    rules = SlurmCycle(state.free, state.completing, KILL_WAIT_SECONDS)
    running = np.array(state.running, np.int64)
    rows = [places[job] for job in state.running]
    counts = np.array([len(row) for row in rows], np.int64)
    rules.add_running(
        start_second[running] + log.limit[running],
        running,
        np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)]),
        np.concatenate([np.zeros(0, np.int64), *rows]),
        np.repeat(log.gpus[running], counts)[:, None],
    )
    wanted, needs = log.wanted[order], log.gpus[order][:, None]
    allowed = np.ones((len(order), NODES), np.bool_)
    if not cycle.is_backfill:
        started = rules.main(wanted, needs, allowed)
        return [
            (job, STARTED, cycle.second, nodes) for job, nodes in zip(order.tolist(), started, strict=False)
        ]
    rules.begin_backfill(cycle.second, WINDOW_SECONDS)
    outcomes, starts, chosen = rules.backfill(
        order, wanted, needs, log.limit[order], allowed, RESOLUTION_SECONDS
    )
    return list(zip(order.tolist(), outcomes.tolist(), starts.tolist(), chosen, strict=True))


def one_step(log: SlurmLog) -> StepResult:
    """Each logged cycle from the logged state: its starts and plans beside those of the rules."""
    result = StepResult()
    for cycle in log.cycles:
        state = state_at(log, cycle, cycle.time)
        answers = run_cycle(log, cycle, state, log.start_second, log.places)
        mine = {
            job: tuple(nodes.tolist())
            for job, outcome, _, nodes in answers
            if outcome == STARTED and nodes is not None
        }
        theirs = log.started_by(cycle)
        result.starts += sum(mine.get(job) == nodes for job, nodes in theirs.items())
        result.wrong_starts += [
            f"{cycle.time} {log.ids[job]}: logged {theirs.get(job)}, by the rules {mine.get(job)}"
            for job in sorted(mine.keys() | theirs.keys())
            if mine.get(job) != theirs.get(job)
        ]
        by_rules = {log.ids[job]: (outcome, start, nodes) for job, outcome, start, nodes in answers}
        for plan in cycle.plans:
            if plan.outcome == "started":
                continue
            outcome, start, nodes = by_rules.get(plan.job, (NOT_PLANNED, 0, None))
            found = _OUTCOMES.get(outcome, "planned"), None if nodes is None else start
            there = () if nodes is None else tuple(nodes.tolist())
            if (*found, there) == (plan.outcome, plan.start, plan.nodes):
                result.plans += 1
            else:
                result.wrong_plans.append(f"{cycle.time} {plan}: by the rules {found} {there}")
    return result


def free_run(log: SlurmLog, priority: Callable[[SlurmLog, float, Ints], Sequence[int]]) -> Floats:
    """When each job starts with the logged cycles, acceptances and durations; `priority` orders pending jobs.

    The rules place jobs by their own starts and ends from the first cycle on. NaN: the job never starts.
    """
    starts, places = np.full(len(log.ids), np.nan), [np.zeros(0, np.int64)] * len(log.ids)
    seconds = np.zeros(len(log.ids), np.int64)
    completes: list[tuple[float, int]] = []
    for cycle in log.cycles:
        state = _own_state(log, cycle, starts, places, completes, priority)
        for job, outcome, _, nodes in run_cycle(log, cycle, state, seconds, places):
            if outcome == STARTED and nodes is not None:
                starts[job], seconds[job], places[job] = cycle.time, cycle.second, nodes
                heapq.heappush(completes, (cycle.time + float(log.duration[job]), job))
    return starts


def _own_state(
    log: SlurmLog,
    cycle: Cycle,
    starts: Floats,
    places: Sequence[Ints],
    completes: list[tuple[float, int]],
    priority: Callable[[SlurmLog, float, Ints], Sequence[int]],
) -> CycleState:
    """The cluster at a cycle as the rules have left it."""
    now = cycle.time
    free, is_completing = np.full((NODES, 1), GPUS, np.int64), np.zeros(NODES, np.bool_)
    running = []
    while completes and completes[0][0] + float((log.released - log.completed)[completes[0][1]]) <= now:
        heapq.heappop(completes)
    for end, job in completes:
        completing = end <= now
        if completing:
            is_completing[places[job]] = True
        else:
            running.append(job)
        if not (completing and cycle.is_backfill):
            free[places[job], 0] -= log.gpus[job]
    pending = np.flatnonzero((log.accepted <= now) & np.isnan(starts))
    return CycleState(free, is_completing, sorted(running), priority(log, now, pending))


def by_logged_priority(log: SlurmLog, now: float, pending: Ints) -> Sequence[int]:
    """Pending jobs by what the log says that their priority was."""
    return sorted(pending.tolist(), key=lambda job: (-log.priority(job, now), job))
