"""A scheduler that leases: GPUs are held for a lease, then given back and bid for again (Dally, "Offers").

Whenever GPUs may be free, waiting jobs and those whose lease has just ended bid in the order's order. What
each accepts is the timers' matter. A lease that has not ended is not broken.

While no job waits, a job whose GPUs could not be closer together would get its own place back at each lease end: it is
lent its GPUs without an end. When jobs wait again, its lease ends where it would have ended: leases follow one
another since its start.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Any, NamedTuple

import numpy as np

from muster.cluster import Cluster
from muster.cluster.ledger_arrays import DELAYED, GPU
from muster.schedulers.contract import Bools, Decision, Floats, Ints, Proposal, Snapshot, State, Trigger
from muster.schedulers.honours import (
    EVEN_GANGS,
    FEWER_GPUS,
    FURTHER_RESOURCES,
    REQUESTS,
    SIZES,
    WITHOUT_GPUS,
    honoured_by_all,
)
from muster.schedulers.leased_core import (
    end_leases,
    find_bidders,
    go_on_if_unused,
    lower_to,
    mark_content,
    new_lease_ends,
)
from muster.schedulers.parts import (
    TIMES_ADMITTED,
    AdmissionFilter,
    Allocation,
    GangAllocator,
    Order,
    Part,
    counted_in_vain,
    described,
    keys_of,
    named,
    options_of,
    ranking_of,
)
from muster.schedulers.phases import log_phase
from muster.schedulers.placement.delay_scheduling import (
    NOWHERE,
    Competitors,
    LeaseTerms,
    allocate_by_locality,
)
from muster.schedulers.placement.delay_timers import Timers
from muster.schedulers.placement.job_columns import job_columns, reason_columns
from muster.schedulers.placement.migration import migrate
from muster.schedulers.reasons import DELAY_TIMER, NO_GPUS, PLACED, RACK_TIMER
from muster.speed.network.forms import PlacementShapes


class _Bids(NamedTuple):
    """What is known of the jobs that bid, by position."""

    since: Floats
    """When each began to wait, or its lease."""
    urgent: Bools
    """Whether a job takes any place, and none is served before it."""
    released: Ints
    """The place that a job gave back at the end of its lease, as the chain of its rows; -1: none."""
    content: Bools
    """Whether that place is so good that none is worth the interruption."""


@dataclass(frozen=True)
class Leased:
    """`ORDER+ALLOCATION+TIMERS` with any selection parts in front."""

    order: Order
    allocation: Allocation
    timers: Timers
    parts: tuple[Part, ...]
    """All of its parts as they are named."""
    selections: tuple[AdmissionFilter, ...] = ()
    resizing: GangAllocator | None = None
    """Decides what jobs have beside their GPUs; without one, the allocation does. While jobs compete, each holds the
    allocation's share, so that every one of them finds its share."""
    promote_after_seconds: float = inf
    """Against starvation: a job that has waited so long takes any place, and no job is served before it."""
    migrate: bool = False
    """Whether running jobs move to better places within their leases."""
    preset: str = field(default="", compare=False)
    """The name under which its parts were asked for, if that is a preset's."""

    @property
    def name(self) -> str:
        """As on the command line: a preset by its own name, else every part spelled out."""
        return self.preset or named(self.parts)

    @property
    def honours(self) -> frozenset[str]:
        """What its parts honour; it has no place for jobs without GPUs."""
        return (honoured_by_all(self.parts) | {REQUESTS, FURTHER_RESOURCES}) - {
            WITHOUT_GPUS,
            SIZES,
            FEWER_GPUS,
            EVEN_GANGS,
        }

    @property
    def changes_amounts(self) -> bool:
        """Whether a job that keeps its GPUs may get other CPUs or memory while it runs."""
        return self.resizing is not None

    def describe(self) -> dict[str, Any]:
        """Parts, settings and rules, for the record."""
        promote = self.promote_after_seconds
        common = {"promote_after_seconds": promote if isfinite(promote) else None, "migrate": self.migrate}
        return described(self.name, self.parts, common)

    def initial(self, cluster: Cluster) -> State:
        """What its order and its timers remember, and that no job is lent its GPUs without an end."""
        timers = self.timers.nothing_learned()
        return {"order": self.order.initial(cluster), "timers": timers, "open_ended": False}

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        """End leases, rank the bidders, let them bid."""
        with snapshot.transaction() as transaction:
            plan = Proposal.blank(transaction, len(snapshot.jobs))
            plan.stable_until = inf
            state = self._propose(snapshot, state, plan)
            open_ended = self._may_be_open_ended(snapshot, state, plan)
            if open_ended or state["open_ended"]:
                self._lend(snapshot, plan, open_ended)
                state = {**state, "open_ended": open_ended}
            return plan.decision(), state

    def _propose(self, snapshot: Snapshot, state: State, plan: Proposal) -> State:
        """Write the proposal; the state after it."""
        jobs, now, lease = snapshot.jobs, snapshot.now, self.timers.lease_seconds
        count = len(jobs)
        bidders, ended, since = find_bidders(snapshot.table.facts, jobs.index, now, lease)
        if snapshot.table.some_pinned:
            pinned = ended & jobs.pinned
            plan.lease_ends = dict.fromkeys(jobs.index[pinned].tolist(), now + lease)
            ended &= ~pinned
            bidders = bidders[~pinned[bidders]]
        if not len(bidders) and self.resizing is None and not self.migrate:
            return state
        if len(bidders) and not self._offered(snapshot, bidders, ended):
            plan.reasons[bidders] = NO_GPUS
            plan.reason_a[bidders] = jobs.at(bidders).requested_gpus
            plan.reason_b[bidders] = snapshot.ledger.books.totals[GPU] / 1e6
            return state
        overdue_from = since + self.promote_after_seconds
        urgent = ~ended & (overdue_from <= now)
        ranked, memory = bidders, state["order"]
        if len(bidders) > 1 or memory is not None:
            keys, memory = keys_of(self.order, snapshot, memory)
            longest = np.where(urgent, since, inf)
            ranked = bidders[np.lexsort((keys[bidders], longest[bidders], ~urgent[bidders]))]
        log_phase(snapshot, "lease ended", lambda: ended)
        log_phase(snapshot, "ranked", lambda: ranked)
        # More than other decisions: before it, all jobs may get other amounts, a row a GPU, by a stop and a place each.
        books = snapshot.ledger.reserve(3 * snapshot.cluster.total_gpus + count, 6 * count)
        if self.resizing is not None:
            lower_to(books, jobs.index, options_of(self.allocation, snapshot, jobs))
        released = np.full(count, -1)
        end_leases(books, jobs.index, bidders, ended, released)
        content = _content(snapshot, bidders, ended, released, lease)
        bids = _Bids(since, urgent, released, content)
        ranked, known = self._serve_admitted(snapshot, plan, ranked, bids, state["timers"])
        stopped = ranked[ended[ranked] & (plan.reasons[ranked] != PLACED)]
        stopped = stopped[jobs.at(stopped).interruption_cost > 0]
        go_on_if_unused(books, jobs.index, stopped, released, plan.reasons)
        held = ranked[plan.reasons[ranked] == PLACED]
        log_phase(snapshot, "placed", lambda: held)
        plan.lease_ends |= dict.fromkeys(jobs.index[held].tolist(), now + lease)
        if self.migrate:
            self._migrate(snapshot, plan, ended)
        if isfinite(self.promote_after_seconds):
            later = overdue_from[overdue_from > now].min(initial=inf)
            plan.next_wake = min(plan.next_wake, float(later))
        if self.resizing is not None:
            no_job = np.zeros(0, np.int64)
            self.resizing.allocate(snapshot, plan, no_job, plan.reasons == PLACED)
        plan.stable_until = plan.next_wake
        return {**state, "order": memory, "timers": known}

    def _serve_admitted(
        self, snapshot: Snapshot, plan: Proposal, ranked: Ints, bids: _Bids, timers: State
    ) -> tuple[Ints, State]:
        """Admit and serve; the jobs that were admitted, and what the timers know then.

        Jobs that were admitted, found no place and keep others from being admitted in their place are left out then.
        """
        mark, wake, waits = plan.transaction.mark(), plan.next_wake, ranked
        for turn in range(TIMES_ADMITTED):
            admitted, rankings = waits, []
            for selection in self.selections:
                ranking = ranking_of(selection, snapshot, admitted, snapshot.jobs.pinned)
                rankings.append(ranking)
                admitted = ranking.ranked
                plan.reasons[ranking.excluded] = ranking.code
                plan.reason_a[ranking.excluded], plan.reason_b[ranking.excluded] = ranking.a, ranking.b
            known = self._serve(snapshot, plan, admitted, bids, timers)
            if not rankings or turn + 1 == TIMES_ADMITTED or snapshot.ledger.books.totals[DELAYED]:
                break
            # A job that waits for a better place keeps others out by its timer alone.
            placed = np.isin(plan.reasons, (PLACED, DELAY_TIMER, RACK_TIMER))
            in_vain = counted_in_vain(self.selections, rankings, snapshot, placed)
            if not len(in_vain) or (bids.urgent & ~placed)[admitted].any():
                break
            plan.transaction.undo(mark)
            waits = waits[~np.isin(waits, in_vain)]
            plan.next_wake = wake
            plan.reasons[waits], plan.reason_a[waits], plan.reason_b[waits] = PLACED, 0.0, 0.0
        return admitted, known

    def _may_be_open_ended(self, snapshot: Snapshot, state: State, plan: Proposal) -> bool:
        """Whether no job waits, and nothing else than a lease's end has an effect on the jobs that run."""
        return bool(
            self.timers.bids == "always"
            and self.resizing is None
            and not (self.migrate or self.selections or snapshot.triggers & Trigger.ROUND)
            and state["order"] is None
            and not snapshot.ledger.books.totals[DELAYED]
            and not plan.reasons.any()
        )

    def _lend(self, snapshot: Snapshot, plan: Proposal, open_ended: bool) -> None:
        """Say when leases end that begin, or that end at another time than before."""
        table, index, lease = snapshot.table, snapshot.jobs.index, self.timers.lease_seconds
        given, ends = new_lease_ends(
            snapshot.ledger.books, table.asked, table.facts, index, snapshot.now, lease, open_ended
        )
        plan.lease_ends = dict(zip(given.tolist(), ends.tolist(), strict=True))

    def _migrate(self, snapshot: Snapshot, plan: Proposal, ended: Bools) -> None:
        """Move jobs within their leases where that repays; if any moves, jobs that wait may find a place at once."""
        runs_on = np.flatnonzero(snapshot.jobs.running & ~ended)
        needs = options_of(self.allocation, snapshot, snapshot.jobs)
        moved, next_movable = migrate(snapshot, runs_on, needs)
        if moved and (plan.reasons != PLACED).any():
            next_movable = snapshot.now
        plan.next_wake = min(plan.next_wake, next_movable)

    def _offered(self, snapshot: Snapshot, bidders: Ints, ended: Bools) -> bool:
        """Whether there is something to bid for now."""
        if ended.any():
            return True
        return bool(snapshot.ledger.books.totals[GPU] >= snapshot.jobs.at(bidders).gpu_milli.min() * 1000)

    def _serve(
        self,
        snapshot: Snapshot,
        plan: Proposal,
        ranked: Ints,
        bids: _Bids,
        known: State,
    ) -> State:
        """Walk down the queue, and learn from the waits that were worth it before going on."""
        jobs, lease, timers = snapshot.jobs, self.timers.lease_seconds, self.timers
        resource_options = options_of(self.allocation, snapshot, jobs)
        pause = lease if timers.learns else inf
        terms = LeaseTerms(snapshot.now, lease, pause, timers.fit == "published")
        columns = job_columns(snapshot)
        reasons = reason_columns(plan)
        for_machine, for_rack = np.zeros((2, len(jobs)))
        done = 0
        while done < len(ranked):
            left, first = ranked[done:], done
            for_machine[left], for_rack[left] = timers.limits_for(snapshot, left, known)
            competitors = Competitors(
                bids.since, for_machine * lease, for_rack * lease, bids.urgent, bids.released, bids.content
            )
            books = snapshot.ledger.books
            done, level, wake = allocate_by_locality(
                books, columns, ranked, done, competitors, resource_options, terms, reasons
            )
            served = ranked[first:done]
            snapshot.check_placed(served[plan.reasons[served] == PLACED])
            if timers.bids == "always":
                plan.next_wake = min(plan.next_wake, wake)
            if timers.learns and level != NOWHERE:
                at = ranked[done - 1]
                waited = (snapshot.now - bids.since[at]) / lease
                gpus = int(snapshot.table.asked["gpus"][jobs.index[at]])
                known = timers.learned(known, gpus, level, snapshot.now, waited)
        return known


def _content(snapshot: Snapshot, bidders: Ints, ended: Bools, released: Ints, lease: float) -> Bools:
    """By position, whether the place that a job gives back is so good that none is worth the interruption."""
    content = np.zeros(len(ended), np.bool_)
    costs = snapshot.jobs.interruption_cost
    again = bidders[ended[bidders] & (costs[bidders] > 0)]
    if len(again):
        jobs = snapshot.jobs.at(again)
        book = snapshot.forms or PlacementShapes(None, snapshot.cluster)
        line, forms = book.of(jobs.model, jobs.gpus)
        mark_content(
            snapshot.ledger.books,
            again,
            released,
            forms.kinds[line],
            forms.speeds[line],
            costs,
            lease,
            content,
        )
    return content
