"""A scheduler composed of parts: rank, select, choose by GPU count, then place; the shape of most policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf, isfinite
from typing import Any, ClassVar

import numpy as np

from muster.cluster import Cluster
from muster.cluster.ledger_arrays import DELAYED, MICRO, WHOLE
from muster.schedulers.ageing import among, next_overdue, overdue, promoted_first, turn_ends
from muster.schedulers.contract import Bools, Decision, Floats, Ints, Proposal, Snapshot, State, Trigger
from muster.schedulers.honours import CPUS_AND_MEMORY, honoured, honoured_by_all
from muster.schedulers.parts import (
    DURATIONS,
    GPU_SECONDS,
    TIMES_ADMITTED,
    AdmissionFilter,
    Allocation,
    GangAllocator,
    Order,
    Part,
    Placement,
    Ranking,
    checked_keys,
    checked_margin,
    checked_moment,
    checked_quantum,
    checked_unit,
    counted_in_vain,
    described,
    keys_of,
    named,
    next_tick_of,
    options_of,
    ranking_of,
)
from muster.schedulers.phases import log_phase
from muster.schedulers.placement.job_columns import job_columns, reason_columns
from muster.schedulers.placement.migration import migrate
from muster.schedulers.placement.serving import choose_in_order, gpus_on_nodes_of, serve
from muster.schedulers.reasons import (
    BEHIND_HEAD,
    NO_CPUS,
    NO_GPUS,
    NO_PLACE,
    NOT_SELECTED,
    OUTRANKED,
    PLACED,
    PROTECTED,
    REASONS,
)

_INSTANT = 1e-6
"""Seconds by which a promise of stability is cut short, so that rounding cannot undo it."""
_IN_VAIN = np.isin(np.arange(len(REASONS)), (NO_PLACE, NO_CPUS, NOT_SELECTED))
"""By reason: whether a job waits beside GPUs that were free for it."""


@dataclass(frozen=True)
class IndependentAllocator(GangAllocator):
    """Allocation and placement apart: the first rung of a job's ladder for which the placement rule has a place."""

    allocation: Allocation
    placement: Placement
    strict: bool
    honours: ClassVar[frozenset[str]] = CPUS_AND_MEMORY
    changes_amounts: ClassVar[bool] = False

    def allocate(self, snapshot: Snapshot, proposal: Proposal, ranked: Ints, chosen: Bools) -> None:
        """Running jobs keep their place, or are stopped if they are not chosen; then the others in order."""
        jobs = snapshot.jobs
        resource_options = options_of(self.allocation, snapshot, jobs)
        if snapshot.table.some_request and (without_gpus := jobs.gpus == 0).any():
            resource_options = (
                np.repeat(resource_options, len(jobs), axis=0)
                if len(resource_options) == 1
                else resource_options.copy()
            )
            resource_options[without_gpus] = jobs.requested_per_gpu[without_gpus][:, None]
        serve(
            proposal.transaction.ledger.reserve_decision(len(jobs)),
            job_columns(snapshot),
            ranked,
            chosen,
            resource_options,
            self.placement.rules(snapshot),
            self.strict,
            reason_columns(proposal),
        )


@dataclass(frozen=True)
class Composed:
    """`ORDER+ALLOCATION+PLACEMENT` with any selection parts in front."""

    order: Order
    parts: tuple[Part, ...]
    """All of its parts as they are named, the order included."""
    allocator: GangAllocator
    selections: tuple[AdmissionFilter, ...] = ()
    preemptive: bool = True
    """Whether running jobs compete with waiting ones for their GPUs."""
    strict: bool = False
    """Whether no job passes one that does not fit."""
    promote_after_seconds: float = inf
    """Against starvation: a job that has waited so long since it last ran goes first until it has had a turn."""
    promote_for_good: bool = False
    """Whether a promoted job goes first until it is done, in the order's order and only where it has a place: as
    Synergy's authors do."""
    lease_seconds: float = inf
    """A running job competes for its GPUs only when its lease has ended; inf: at every decision."""
    migrate: bool = False
    """Whether running jobs move to better places; only where placement is apart from allocation."""
    preset: str = field(default="", compare=False)
    """The name under which its parts were asked for, if that is a preset's."""

    @property
    def name(self) -> str:
        """As on the command line: a preset by its own name, else every part spelled out."""
        return self.preset or named(self.parts)

    @property
    def honours(self) -> frozenset[str]:
        """What its parts honour; CPUs and memory are the allotment's to honour."""
        others = honoured_by_all(self.parts) - CPUS_AND_MEMORY
        return others | (honoured(self.allocator) & CPUS_AND_MEMORY)

    @property
    def changes_amounts(self) -> bool:
        """Whether a job that keeps its GPUs may get other CPUs or memory while it runs."""
        return self.allocator.changes_amounts

    def describe(self) -> dict[str, Any]:
        """Parts, settings and rules, for the record."""
        promote = self.promote_after_seconds
        common = {
            "preemptive": self.preemptive,
            "strict": self.strict,
            "promote_after_seconds": promote if isfinite(promote) else None,
            "promote_for_good": self.promote_for_good,
            "lease_seconds": self.lease_seconds if isfinite(self.lease_seconds) else None,
            "migrate": self.migrate,
        }
        return described(self.name, self.parts, common)

    def initial(self, cluster: Cluster) -> State:
        """What its order remembers, no job promoted, and nothing allocated yet."""
        return {"order": self.order.initial(cluster), "promoted": (), "plans": None}

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        """Rank, select, choose, place; with no job waiting everything stays where that is best."""
        if self.allocator.chooses_sizes:
            snapshot = replace(snapshot, sizes_chosen=True)
        if isfinite(self.lease_seconds):
            snapshot = replace(snapshot, jobs=snapshot.jobs.under_lease())
        with snapshot.transaction() as transaction:
            plan = Proposal.blank(transaction, len(snapshot.jobs))
            plan.stable_until, plan.wake_on = inf, Trigger.ALL & ~Trigger.COMPLETION
            plan.stops_jobs = self.preemptive
            if not self._is_settled(snapshot, state, plan):
                state = self._propose(snapshot, state, plan)
            if snapshot.jobs.leased:
                self._lend(snapshot, plan)
            if len(snapshot.jobs):
                tick = next_tick_of(self.order, snapshot, state["order"])
                plan.next_wake, plan.stable_until = min(plan.next_wake, tick), min(plan.stable_until, tick)
            return plan.decision(), state

    def _is_settled(self, snapshot: Snapshot, state: State, plan: Proposal) -> bool:
        """Whether what is best needs no look at the order; it is in the proposal then."""
        if type(self.order).next_tick is not Order.next_tick:
            return False
        if self._stable_when_queue_empty:
            return not snapshot.jobs.waiting.any()
        if self.migrate or self.selections or state["order"] or isfinite(self.promote_after_seconds):
            return False
        plan.wake_on = Trigger.ALL
        return self.allocator.settle(snapshot, plan)

    @property
    def _stable_when_queue_empty(self) -> bool:
        """Whether nothing is to be gained while no job waits."""
        return self.allocator.stable_when_queue_empty and not self.migrate

    def _lend(self, snapshot: Snapshot, plan: Proposal) -> None:
        """Begin a lease for each job that holds something and has none, or whose own has ended."""
        jobs, ends = snapshot.jobs, self._lease_ends(snapshot)
        begins = (plan.reasons == PLACED) & (ends != jobs.lease_end)
        plan.lease_ends = dict(zip(jobs.index[begins].tolist(), ends[begins].tolist(), strict=True))

    def _lease_ends(self, snapshot: Snapshot) -> Floats:
        """When the lease of each job ends that holds something from now on."""
        jobs, now = snapshot.jobs, snapshot.now
        lent = jobs.running & (jobs.lease_end > now) & (jobs.lease_end < inf)
        return np.where(lent, jobs.lease_end, now + self.lease_seconds)

    def _propose(self, snapshot: Snapshot, state: State, plan: Proposal) -> State:
        """Write the proposal; the state after it."""
        count, codes = len(snapshot.jobs), plan.reasons
        resizable = snapshot.resizable
        candidates = None if self.preemptive else np.flatnonzero(snapshot.jobs.waiting | resizable)
        keys, memory = self._keys(snapshot, state["order"], candidates)
        promoted, newly = self._promoted(snapshot, state["promoted"])
        ranked = np.argsort(keys, kind="stable")
        if candidates is not None:
            ranked = candidates[ranked]
        urgent = np.zeros(count, np.bool_)
        if len(promoted) > len(newly):
            first = among(snapshot.jobs.index, np.array(sorted(set(promoted).difference(newly))))
            if self.promote_for_good:
                ranked = np.concatenate([ranked[first[ranked]], ranked[~first[ranked]]])
            else:
                urgent, ranked = first, promoted_first(ranked, first, snapshot.jobs.last_stop)
                plan.assured[urgent] = snapshot.counted_gpus[urgent]
        changes = self.allocator.may_change_from(snapshot)
        plan.pinned = changes > snapshot.now
        # What elastic jobs leave others may have as soon as they change; a job that only moves leaves nothing.
        until = np.where(snapshot.jobs.elastic, changes, snapshot.jobs.protected_until)
        until = self._after_own_turn(snapshot, until)
        plan.remembered = state.get("plans")  # a daemon's memory of before has none
        self._serve(snapshot, plan, ranked, until, urgent)
        moved, next_movable = self._migrate(snapshot, plan) if self.migrate else (False, inf)
        (still_waiting,) = codes.nonzero()
        if len(still_waiting) or (count > 0 and not self._stable_when_queue_empty):
            plan.wake_on = Trigger.ALL
            keys = np.asarray(keys, np.float64)
            self._promise(snapshot, plan, keys, memory, still_waiting, until)
        if promoted and not self.promote_for_good:
            turn_over = float(turn_ends(snapshot.table.facts, np.array(promoted)).min())
            plan.next_wake = min(plan.next_wake, turn_over)
            plan.stable_until = min(plan.stable_until, turn_over)
        plan.next_wake, plan.stable_until = (
            min(plan.next_wake, next_movable),
            min(plan.stable_until, next_movable),
        )
        begins = bool(promoted) and (codes[urgent & snapshot.jobs.waiting] == PLACED).any()
        if newly or begins or (moved and len(still_waiting)) or self._head_begins(snapshot, plan):
            # They go first, and others are served beside those that begin or move, from the next decision on.
            plan.stable_until, plan.next_wake = -inf, snapshot.now
        return {"order": memory, "promoted": promoted, "plans": plan.remembered}

    def _migrate(self, snapshot: Snapshot, plan: Proposal) -> tuple[bool, float]:
        """Move running jobs where that repays their interruptions; whether any moves, and when the next one may."""
        assert isinstance(self.allocator, IndependentAllocator)
        jobs = snapshot.jobs
        runs_on = np.flatnonzero(jobs.running & (plan.reasons == PLACED))
        needs = options_of(self.allocator.allocation, snapshot, jobs)
        return migrate(snapshot, runs_on, needs)

    def _keys(
        self, snapshot: Snapshot, memory: State, candidates: Ints | None
    ) -> tuple[Floats | Ints, State]:
        """The key of each candidate and what the order remembers; a running job's is better by its interruption.

        Under some allocators it is better by the order's margin as well.
        """
        if candidates is not None and type(self.order).keys is Order.keys:
            # A key goes by the job's own columns: those of other running jobs are of no use here.
            some = snapshot.jobs.at(candidates)
            return checked_keys(self.order, self.order.key(some), some), memory
        keys, memory = keys_of(self.order, snapshot, memory)
        if candidates is not None:
            return keys[candidates], memory
        margin = checked_margin(self.order, keys) if self.allocator.spares_running else 1.0
        if (unit := checked_unit(self.order)) and snapshot.table.some_pinned:
            cost = np.where(snapshot.jobs.running, snapshot.jobs.interruption_cost, 0.0)
            keys = keys - cost * (snapshot.jobs.held_gpus if unit == GPU_SECONDS else 1.0)
        if margin > 1:
            keys = np.where(snapshot.jobs.running, keys, keys * margin)
        return keys, memory

    def _promoted(self, snapshot: Snapshot, before: tuple[int, ...]) -> tuple[tuple[int, ...], set[int]]:
        """The jobs that go first until each has had its turn, and those of them that join at the next decision."""
        if not isfinite(self.promote_after_seconds):
            return before, set()
        facts, kept = snapshot.table.facts, np.array(before, np.int64)
        if not self.promote_for_good:
            kept = kept[among(kept, np.sort(snapshot.jobs.index))]
            kept = kept[turn_ends(facts, kept) > snapshot.now]
        late = overdue(facts, snapshot.jobs.index, snapshot.now, self.promote_after_seconds)
        newly = set(late.tolist()).difference(kept.tolist())
        if self.promote_for_good:
            if not newly:
                return before, newly
            kept = kept[among(kept, np.sort(snapshot.jobs.index))]
        return tuple(sorted(newly.union(kept.tolist()))), newly

    def _after_own_turn(self, snapshot: Snapshot, until: Floats) -> Floats:
        """When each running job may be interrupted; where jobs take turns, not before its own turn is over."""
        jobs = snapshot.jobs
        if not (snapshot.table.some_pinned and self._takes_turns(snapshot)):
            return until
        own_turn = snapshot.table.facts["resumes"][jobs.index] + checked_quantum(self.order)
        return np.maximum(until, np.where(jobs.running & (jobs.interruption_cost > 0), own_turn, -inf))

    def _takes_turns(self, snapshot: Snapshot) -> bool:
        """Whether running jobs make room for others in turns, and not only for jobs that come."""
        turns = self.order.time_slices or (
            DURATIONS in self.order.needs and not snapshot.jobs.durations_known
        )
        return turns and isfinite(checked_quantum(self.order))

    def _serve(self, snapshot: Snapshot, plan: Proposal, ranked: Ints, until: Floats, urgent: Bools) -> None:
        """Write the changes and the reasons; `until` is when each running job may be interrupted.

        Jobs that were admitted, found no place and keep others from being admitted in their place are left out then.
        """
        mark, remembered, assured = plan.transaction.mark(), plan.remembered, plan.assured
        passed = np.zeros(len(snapshot.jobs), np.bool_)
        rankings = self._serve_admitted(snapshot, plan, ranked, until, urgent)
        order = plan.ranked
        for _ in range(TIMES_ADMITTED - 1):
            in_vain = self._counted_in_vain(snapshot, plan, rankings, urgent)
            if not len(in_vain):
                break
            passed[in_vain] = True
            plan.transaction.undo(mark)
            plan.remembered, plan.assured = remembered, assured
            plan.limits, plan.shares, plan.notes = (), (), ()
            plan.reasons[~passed], plan.reason_a[~passed], plan.reason_b[~passed] = PLACED, 0.0, 0.0
            rankings = self._serve_admitted(snapshot, plan, ranked[~passed[ranked]], until, urgent)
        plan.ranked = order

    def _counted_in_vain(
        self, snapshot: Snapshot, plan: Proposal, rankings: Sequence[Ranking], urgent: Bools
    ) -> Ints:
        """The jobs without a place that keep others from being admitted which fit beside all that have one.

        Not while GPUs are released for some job, no job passes another, or what becomes free is left to a promoted one.
        """
        totals, placed = snapshot.ledger.books.totals, plan.reasons == PLACED
        if not rankings or self.strict or totals[DELAYED] or (urgent & ~placed)[rankings[-1].ranked].any():
            return np.zeros(0, np.int64)
        return counted_in_vain(self.selections, rankings, snapshot, placed)

    def _serve_admitted(
        self, snapshot: Snapshot, plan: Proposal, ranked: Ints, until: Floats, urgent: Bools
    ) -> Sequence[Ranking]:
        """Admit, choose and place; what the filters said."""
        jobs, codes, rankings = snapshot.jobs, plan.reasons, []
        pinned = until > snapshot.now
        if not self.preemptive:
            pinned |= snapshot.resizable
        for selection in self.selections:
            ranking = ranking_of(selection, snapshot, ranked, pinned)
            rankings.append(ranking)
            ranked = ranking.ranked
            _take_over(plan, ranking)
            log_phase(snapshot, f"excluded by {selection.name}", ranking.excluded)
            for job in jobs.index[ranking.excluded].tolist():
                plan.transaction.release(job)
        chosen = np.ones(len(jobs), np.bool_)
        plan.ranked = ranked
        log_phase(snapshot, "ranked", lambda: ranked)
        least = None
        if self.preemptive or not self.allocator.stable_when_queue_empty:
            least = self._least(snapshot)
            self._choose(snapshot, ranked, pinned, chosen, least)
        log_phase(snapshot, "served while GPUs last", lambda: ranked[chosen[ranked]])
        mark = plan.transaction.mark()
        unprotected = self._unprotected(snapshot, ranked, until, least)
        self._allocate(snapshot, plan, mark, ranked, chosen)
        log_phase(snapshot, "placed", lambda: codes == PLACED)
        unplaced = urgent.any() and (urgent[ranked] & (codes[ranked] != PLACED)).any()
        if unplaced and not snapshot.ledger.books.totals[DELAYED]:
            self._make_room(snapshot, plan, mark, ranked, chosen, pinned, urgent)
        else:
            waits = unprotected & ((codes == NO_GPUS) | (codes == OUTRANKED))
            codes[waits] = PROTECTED
            plan.reason_b[waits] = max(float(until[pinned].min(initial=inf)) - snapshot.now, 0.0)
        return rankings

    def _allocate(self, snapshot: Snapshot, plan: Proposal, mark: int, ranked: Ints, chosen: Bools) -> None:
        """Allocate; where no job passes another, again without those that wait behind the first one without a place."""
        codes, waiting, remembered = plan.reasons, snapshot.jobs.waiting, plan.remembered
        self.allocator.allocate(snapshot, plan, ranked, chosen)
        if not self.strict or isinstance(self.allocator, IndependentAllocator):
            return
        kept, behind = ranked, ranked[:0]
        while (without_place := np.flatnonzero(codes[kept] != PLACED)).size:
            later = kept[without_place[0] + 1 :]
            passes = waiting[later]
            behind = np.concatenate([later[passes], behind])
            if not (codes[later[passes]] == PLACED).any():
                break
            kept = np.concatenate([kept[: without_place[0] + 1], later[~passes]])
            plan.transaction.undo(mark)
            plan.remembered, plan.notes = remembered, ()
            codes[ranked], plan.reason_a[ranked], plan.reason_b[ranked] = PLACED, 0.0, 0.0
            self.allocator.allocate(snapshot, plan, kept, chosen)
        codes[behind], plan.reason_a[behind], plan.reason_b[behind] = BEHIND_HEAD, 0.0, 0.0

    def _head_begins(self, snapshot: Snapshot, plan: Proposal) -> bool:
        """Whether jobs wait behind one that begins now, where no job passes another."""
        behind, begin = plan.reasons == BEHIND_HEAD, snapshot.jobs.waiting & (plan.reasons == PLACED)
        heads = plan.ranked[~behind[plan.ranked]]
        return bool(behind.any() and begin.any() and (plan.reasons[heads] == PLACED).all())

    def _make_room(
        self,
        snapshot: Snapshot,
        plan: Proposal,
        mark: int,
        ranked: Ints,
        chosen: Bools,
        pinned: Bools,
        urgent: Bools,
    ) -> None:
        """Serve the first promoted job that has no place before all others that wait.

        More and more of the last running jobs on its nodes make room for it, if they may be interrupted. If even that
        does not do, they go on, and what becomes free is left to it.
        """
        codes, jobs = plan.reasons, snapshot.jobs
        place = int(np.flatnonzero(urgent[ranked] & (codes[ranked] != PLACED))[0])
        first, waits = ranked[place], jobs.waiting[ranked]
        behind = waits & (np.arange(len(ranked)) > place)
        kept, running = ranked[~behind], ranked[~waits]
        victims = running[~pinned[running] & ~urgent[running]][::-1].copy()
        plan.transaction.undo(mark)
        held = np.zeros_like(victims)
        free = gpus_on_nodes_of(snapshot.ledger.books, job_columns(snapshot), int(first), victims, held)
        victims, room = victims[held >= 0], np.cumsum(held[held >= 0]) + free
        fewest = int(np.searchsorted(room, round(snapshot.counted_gpus[first] * MICRO))) + 1
        counts = [0]
        while fewest <= len(victims):
            counts.append(fewest)
            fewest = min(2 * fewest, len(victims)) if fewest < len(victims) else fewest + 1
        for count in [*counts, 0]:
            plan.transaction.undo(mark)
            plan.remembered = None
            codes[ranked], plan.reason_a[ranked], plan.reason_b[ranked] = PLACED, 0.0, 0.0
            served = chosen.copy()
            served[running] = True
            served[victims[:count]] = False
            served[first] = served[first] or count > 0
            plan.notes = ()
            self.allocator.allocate(snapshot, plan, kept, served)
            if codes[first] == PLACED:
                break
        codes[ranked[behind]] = BEHIND_HEAD

    def _unprotected(self, snapshot: Snapshot, ranked: Ints, until: Floats, least: Ints | None) -> Bools:
        """The jobs that would be chosen if all running jobs could be interrupted now that can be later."""
        served = np.zeros(len(snapshot.jobs), np.bool_)
        if self.preemptive and ((until > snapshot.now) & (until < inf)).any():
            self._choose(snapshot, ranked, until == inf, served, least)
        return served

    def _choose(
        self, snapshot: Snapshot, ranked: Ints, pinned: Bools, chosen: Bools, least: Ints | None
    ) -> None:
        """Choose the jobs that fit in what is left by those before them in the order; pinned ones first.

        Where running jobs change size and go on, what they have above their fewest GPUs counts as free.
        """
        jobs, more = snapshot.jobs, 0
        if not self.preemptive:
            resizable = snapshot.resizable
            more = int(((jobs.held_gpus - jobs.min_gpus)[resizable] * MICRO).sum())
        chosen[ranked] = pinned[ranked]
        moves, columns = self.allocator.moves_for_others, job_columns(snapshot)
        choose_in_order(snapshot.ledger.books, columns, least, ranked, more, moves, self.strict, chosen)

    def _least(self, snapshot: Snapshot) -> Ints | None:
        """What each job has to hold beside its GPUs; None where the GPUs alone decide.

        That is where no job requests more than its share, and others hold nothing.
        """
        if not snapshot.table.some_request:
            return None
        jobs, nodes = snapshot.jobs, snapshot.ledger.books.nodes
        requested = jobs.requested_per_gpu
        share = nodes["share"][nodes["gpus"] > 0].min(axis=0)
        without_gpus = jobs.gpus == 0
        if not ((requested > share).any() or without_gpus.any() or snapshot.ledger.some_held_back):
            return None
        least: Ints = self.allocator.least_per_gpu(snapshot) * jobs.gpus[:, None] * jobs.gpu_milli[:, None]
        least //= WHOLE
        least[without_gpus] = requested[without_gpus]
        return least

    def _promise(
        self,
        snapshot: Snapshot,
        plan: Proposal,
        keys: Floats,
        memory: State,
        waiting: Ints,
        until: Floats,
    ) -> None:
        """How long the plan holds if nothing happens while these jobs wait, and when to ask again."""
        jobs, now = snapshot.jobs, snapshot.now
        timers = inf
        if isfinite(self.promote_after_seconds):
            timers = next_overdue(snapshot.table.facts, jobs.index[waiting], now, self.promote_after_seconds)
        # What protected jobs hold beside their GPUs can be given to others later.
        if snapshot.resize_restarts:
            timers = min(timers, float(until[(until > now) & (until < inf)].min(initial=inf)))
        next_quantum = overtaken = inf
        if self.preemptive:
            running = np.flatnonzero(plan.reasons == PLACED)
            quantum = checked_quantum(self.order)
            moment = self.order.next_rank_change(snapshot, keys, running, waiting, memory)
            overtaken = checked_moment(self.order, "next_rank_change", moment) - _INSTANT
            if _IN_VAIN[plan.reasons].any() or (self.allocator.by_order and not self.order.static_priority):
                overtaken = -inf
            if jobs.leased:
                # No job that runs on can be overtaken before the first lease ends.
                until = np.maximum(until, self._lease_ends(snapshot))
                overtaken = max(overtaken, float(until[running].min(initial=inf)))
            if jobs.some_protected:
                may_stop = until[running]
                free_to_stop = float(may_stop[may_stop > now].min(initial=inf))
                # Jobs in turns keep theirs: one that may be stopped in the middle of its turn is asked at its end.
                overtaken = min(overtaken, free_to_stop)
                timers = timers if self._takes_turns(snapshot) else min(timers, free_to_stop)
            if isfinite(quantum) and overtaken < inf:
                next_quantum = now + quantum * max(1, ceil((max(overtaken, now) - now) / quantum))
        elif (resizable := snapshot.resizable).any():
            timers = min(timers, float(until[resizable & (until > now)].min(initial=inf)))
        if snapshot.size_speeds is not None:  # They are learned while jobs run.
            overtaken = -inf
        plan.stable_until = min(overtaken, timers)
        plan.next_wake = min(next_quantum, timers)


def _take_over(plan: Proposal, ranking: Ranking) -> None:
    """Write why a filter's excluded jobs wait, and what it says of the GPUs of the others."""
    out = ranking.excluded
    plan.reasons[out], plan.reason_a[out], plan.reason_b[out] = ranking.code, ranking.a, ranking.b
    if ranking.limits is not None:
        plan.limits = (*plan.limits, ranking.limits)
    if ranking.shares is not None:
        plan.shares = (*plan.shares, ranking.shares)
    if ranking.assured is not None:
        plan.assured = np.maximum(plan.assured, ranking.assured)
