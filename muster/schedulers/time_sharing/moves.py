"""One decision of Gandiva on its way: jobs that wait are placed, then all that can gain by it move (OSDI'18 §4).

A move is taken only if it makes something strictly smaller and nothing before it in this list larger: how many
jobs share a GPU, how many racks and nodes a gang is spread over, how many nodes are in use, how many GPUs are
idle. So it ends, and what it ends at is left alone until something happens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import inf

import numpy as np

from muster.cluster.ledger import NodeAllocation
from muster.cluster.ledger_arrays import CPU, DELAYED, MEMORY, MICRO, STORAGE, WHOLE, Bools
from muster.schedulers.ageing import overdue
from muster.schedulers.contract import Proposal, Snapshot
from muster.schedulers.interruption import repays
from muster.schedulers.reasons import NO_GPUS, NO_PLACE, PLACED
from muster.schedulers.time_sharing.gpu_occupancy import GpuOccupancy, Place, gpus_of
from muster.schedulers.time_sharing.places import write_places
from muster.speed.network.forms import ANYWHERE, EVENLY, IN_ISLAND, IN_MACHINE, IN_RACK, PlacementShapes
from muster.workload.sized import RIGID

_INSTANT = 1e-6
"""Seconds by which a timer is late, so that rounding cannot undo it."""
_NEVER = 1 << 40
"""More GPUs than any gang asks for."""


class Moves:
    """What a decision has come to so far; positions are those of the view's jobs."""

    def __init__(
        self, snapshot: Snapshot, most_turns: float, defragment_from: float, promote_after_seconds: float
    ) -> None:
        jobs = snapshot.jobs
        self._view, self._most_turns, self._defragment_from = snapshot, most_turns, defragment_from
        self._hands_over = not snapshot.ledger.books.totals[DELAYED]
        """Whether a GPU can change hands at once; where it cannot, no job takes turns, moves or grows."""
        self._sharing = jobs.preemptible & (jobs.min_runtime <= 0)
        """Jobs that may start by taking turns: those that may be stopped at any time."""
        self._gpus: list[int] = jobs.gpus.tolist()
        self._milli: list[int] = jobs.gpu_milli.tolist()
        self._constraint: list[int] = jobs.constraint.tolist()
        most = np.where(snapshot.table.asked["sync"][jobs.index] == RIGID, jobs.max_gpus, jobs.gpus)
        self._most: list[int] = most.tolist()
        self._elastic: list[int] = np.flatnonzero(most > jobs.gpus)[::-1].tolist()
        """Who can use more GPUs than it asked for, the latest first."""
        self._service: list[float] = jobs.attained_service.tolist()
        late = overdue(snapshot.table.facts, jobs.index, snapshot.now, promote_after_seconds)
        urgent = np.flatnonzero(np.isin(jobs.index, late))
        self._urgent: list[int] = urgent[np.argsort(jobs.last_stop[urgent], kind="stable")].tolist()
        """Jobs that have waited too long, the longest first: they go before all others and share with any number."""
        others = np.flatnonzero(jobs.waiting & ~np.isin(jobs.index, late)).tolist()
        self._waiting: list[int] = [*self._urgent, *others]
        self._cost: list[float] = np.where(jobs.running, jobs.interruption_cost, 0.0).tolist()
        """Seconds that a move costs each job; a job that does not run yet moves for nothing."""
        self._shares: dict[int, tuple[int, int]] = {}
        """Node and GPU of those that start on a share of one."""
        pinned = jobs.pinned
        self._fixed: set[int] = set(np.flatnonzero(pinned).tolist())
        """Jobs that may not be stopped, and on whose GPUs no other job has a turn."""
        self.floor = GpuOccupancy(snapshot, pinned)

    # Who waits

    def serve(self) -> bool:
        """Place the jobs that wait, by arrival, passing those without a place; whether any got one."""
        still: list[int] = []
        hopeless: dict[tuple[int, bool], int] = {}
        for at in self._waiting:
            if self._reserved(still):
                still.append(at)
                continue
            kind = self._constraint[at], bool(self._sharing[at])
            if self._milli[at] < WHOLE:
                placed = self._divide(at)
            else:
                placed = self._gpus[at] < hopeless.get(kind, _NEVER) and self._place(at)
                if not placed and at not in self._urgent:
                    hopeless[kind] = min(self._gpus[at], hopeless.get(kind, _NEVER))
            if not placed:
                still.append(at)
        changed = len(still) < len(self._waiting)
        self._waiting = still
        return changed

    def _reserved(self, still: list[int]) -> bool:
        """Whether what is free is left to a job that has waited too long."""
        return bool(still) and still[0] in self._urgent

    def _place(self, at: int) -> bool:
        """On free GPUs, on what grown jobs give back, or in turns with others."""
        floor, gpus, allowed = self.floor, self._gpus[at], self._allowed(at)
        place = floor.free_place(gpus, gpus, allowed)
        for grown in self._grown() if place is None else ():
            floor.put(grown, self._shrunk(grown, floor.leave(grown)))
            place = floor.free_place(gpus, gpus, allowed)
            if place is not None:
                break
        if place is None and self._sharing[at] and self._hands_over:
            place = floor.shared_place(gpus, allowed, inf if at in self._urgent else self._most_turns)
        if place is None:
            return False
        floor.put(at, place)
        if not self._sharing[at]:
            floor.guard(at)
            self._fixed.add(at)
        return True

    def _divide(self, at: int) -> bool:
        """A share of a GPU for a job that asks for no more."""
        found = self.floor.divide(self._milli[at], self._allowed(at))
        if found is not None:
            self._shares[at] = found
        return found is not None

    def _grown(self) -> list[int]:
        """Those that hold more than they asked for, the latest first."""
        sizes = self.floor.sizes
        return [at for at in self._elastic if sizes.get(at, 0) > self._gpus[at] and self._may_move(at)]

    def _shrunk(self, at: int, place: Place) -> Place:
        """So much of a place on one node as the job asked for."""
        ((node, mask),) = place
        return ((node, self.floor.among(node, mask, self._gpus[at])),)

    # Who runs

    def improve(self) -> bool:
        """Let jobs move to what is free, or grow into it; whether anything changed."""
        if not self._hands_over or self._reserved(self._waiting):
            return False
        changed = False
        if self.floor.free.any():
            changed = self._unstack() | self._gather() | self._empty_nodes()
        changed |= self._level()
        if not changed and not self._waiting and not self._in_turns():
            changed = self._grow()
        return changed

    def _unstack(self) -> bool:
        """Free GPUs go to the jobs that share with most others, least served first, as near as they are now."""
        floor, changed = self.floor, False
        hopeless: dict[tuple[int, int], int] = {}
        heights = {at: floor.height(floor.places[at]) for at in self._in_turns()}
        for at in sorted(heights, key=lambda at: (-heights[at], self._service[at], at)):
            place = floor.places[at]
            gpus, kind = floor.sizes[at], (self._constraint[at], len(place))
            owns_nothing = floor.lowest(place) > 1  # nothing that would become free by its going
            height = floor.height(place)
            if height < 2 or (owns_nothing and gpus >= hopeless.get(kind, _NEVER)):
                continue
            if not self._pays(at, 1.0 - 1.0 / height):
                continue
            if self._move(at, self._as_close):
                changed = True
            elif owns_nothing:
                hopeless[kind] = gpus
        return changed

    def _as_close(self, at: int, old: Place) -> Place | None:
        gpus = gpus_of(old)
        return self.floor.free_place(gpus, gpus, self._allowed(at), len(old))

    def _gather(self) -> bool:
        """Gangs that are spread go where they are in fewer racks, or on fewer nodes of as many."""
        spread = [at for at, place in self.floor.places.items() if len(place) > 1 and self._may_move(at)]
        moved = [self._move(at, self._closer) for at in sorted(spread)]
        return any(moved)

    def _closer(self, at: int, old: Place) -> Place | None:
        gpus = gpus_of(old)
        new = self.floor.free_place(gpus, gpus, self._allowed(at))
        if new is None or self.floor.spread(new) >= self.floor.spread(old):
            return None
        return new if self._pays(at, self._speed(at, new) - self._speed(at, old)) else None

    def _empty_nodes(self) -> bool:
        """Where no node is empty, those that are mostly free are emptied onto others in use that have less free."""
        floor, changed = self.floor, False
        if (floor.free == floor.gpus).any():
            return False
        mostly_free = (floor.asked > 0) & (floor.free >= self._defragment_from * floor.gpus)
        nodes = np.flatnonzero(mostly_free)
        for node in nodes[np.lexsort((-nodes, -floor.free[nodes]))].tolist():
            changed |= self._empty(node)
        return changed

    def _empty(self, node: int) -> bool:
        """Move all jobs of a node away, or none."""
        floor = self.floor
        free = int(floor.free[node])
        less_free = (floor.free < free) | ((floor.free == free) & (np.arange(len(floor.free)) < node))
        here = [at for at, place in floor.places.items() if any(node == other for other, _ in place)]
        alone = all(len(floor.places[at]) == 1 and floor.height(floor.places[at]) == 1 for at in here)
        if any(self._cost[at] > 0 for at in here):
            return False  # A node that may be needed later repays no interruption.
        if not alone or not all(map(self._may_move, here)) or floor.closed[node, : floor.gpus[node]].any():
            return False

        def away(at: int, old: Place) -> Place | None:
            return floor.fullest_place(gpus_of(old), self._allowed(at) & less_free & (floor.asked > 0))

        before = {at: floor.places[at] for at in here}
        for at in sorted(here, key=lambda at: (-floor.sizes[at], at)):
            if not self._move(at, away):
                for moved in here:
                    floor.leave(moved)
                for moved in here:
                    floor.put(moved, before[moved])
                return False
        return bool(here)

    def _level(self) -> bool:
        """A job leaves the most crowded place of each gang size for one where fewer share."""
        changed = False
        for size in sorted(self.floor.stacks):
            while self._leave_tallest(size):
                changed = True
        return changed

    def _leave_tallest(self, size: int) -> bool:
        floor = self.floor
        stacks = floor.stacks.get(size, {})
        height, place = max(((floor.height(place), place) for place in stacks), default=(0, ()))
        if height < 2:
            return False

        def lower(at: int, _: Place) -> Place | None:
            new = floor.shared_place(size, self._allowed(at), self._most_turns)
            if new is None or floor.height(new) + 1 >= height:
                return None
            return new if self._pays(at, 1.0 / (floor.height(new) + 1) - 1.0 / height) else None

        tried: set[int] = set()
        for at in sorted(stacks[place], key=lambda at: (self._service[at], at)):
            if self._may_move(at) and self._constraint[at] not in tried:
                tried.add(self._constraint[at])
                if self._move(at, lower):
                    return True
        return False

    def _grow(self) -> bool:
        """Jobs that can use more GPUs than they asked for get the free ones of their node, by arrival."""
        floor, changed = self.floor, False
        for at in reversed(self._elastic):
            place = floor.places.get(at, ())
            if len(place) != 1 or not self._may_move(at):
                continue
            ((node, mask),) = place
            more = min(self._most[at] - floor.sizes[at], int(floor.free[node]))
            if more > 0 and self._pays(at, more / floor.sizes[at]):
                grown = mask | floor.pick(node, more)
                floor.leave(at)
                floor.put(at, ((node, grown),))
                changed = True
        return changed

    def _move(self, at: int, find: Callable[[int, Place], Place | None]) -> bool:
        """Take a job off its place and put it where `find` says, or back."""
        old = self.floor.leave(at)
        new = find(at, old)
        self.floor.put(at, old if new is None else new)
        return new is not None

    def _pays(self, at: int, gain_per_second: float) -> bool:
        """Whether a change repays the interruption of its job."""
        return self._cost[at] <= 0 or repays(gain_per_second, self._cost[at])

    def _speed(self, at: int, place: Place) -> float:
        """The part of its best speed that a job has on a place, by the network model."""
        snapshot = self._view
        book = snapshot.forms or PlacementShapes(None, snapshot.cluster)
        model = snapshot.jobs.at(np.array([at])).model
        (line,), forms = book.of(model, np.array([gpus_of(place)]))
        nodes = [snapshot.cluster.nodes[node] for node, _ in place]
        masks = [mask for _, mask in place]
        in_racks = Counter(node.rack for node in nodes)
        island = max(nodes[0].gpus_per_island, 1)
        lowest = (masks[0] & -masks[0]).bit_length() - 1
        one_island = len(place) == 1 and (masks[0].bit_length() - 1) // island == lowest // island
        even = len({mask.bit_count() for mask in masks}) == 1 and len(set(in_racks.values())) == 1
        has = {
            IN_ISLAND: one_island,
            IN_MACHINE: len(place) == 1,
            IN_RACK: len(in_racks) == 1,
            ANYWHERE: True,
            -1: True,
        }
        for (kind, machines, racks), speed in zip(
            forms.kinds[line].tolist(), forms.speeds[line].tolist(), strict=True
        ):
            evenly = kind == EVENLY and even and (machines, racks) == (len(place), len(in_racks))
            if evenly or has.get(kind, False):
                return float(speed / forms.speeds[line][0])
        return 1.0

    def _in_turns(self) -> list[int]:
        """Those that share GPUs and may move."""
        return [
            at
            for places in self.floor.stacks.values()
            for place, members in places.items()
            if self.floor.height(place) > 1
            for at in members
            if self._may_move(at)
        ]

    def _may_move(self, at: int) -> bool:
        return at not in self._fixed

    def _allowed(self, at: int) -> Bools:
        allowed: Bools = self._view.table.node_allowed[self._constraint[at]]
        return allowed

    # What comes of it

    def write(self, plan: Proposal, packed: set[int]) -> None:
        """The changes, and the reasons of the jobs that hold nothing."""
        snapshot, floor, jobs = self._view, self.floor, self._view.jobs
        placed = np.array(sorted(floor.places), np.int64)
        places = [floor.places[at] for at in placed.tolist()]
        first = np.cumsum([0, *map(len, places)])
        # The places are known, a row each, and several jobs may hold a GPU; each job is stopped and placed once.
        parts = np.array([part for place in places for part in place], np.int64).reshape(-1, 2)
        refused = write_places(
            snapshot.ledger.reserve(len(parts), 2 * len(placed)),
            jobs.index[placed],
            first,
            parts[:, 0].copy(),
            parts[:, 1].copy(),
            floor.holders,
            np.isin(placed, list(packed)),
        )
        assert refused < 0, f"job {jobs.index[placed[refused]]} does not fit where it was seen to fit"
        for at, (node, gpu) in self._shares.items():
            amounts = snapshot.ledger.books.nodes[node]["share"] * self._milli[at] // WHOLE / MICRO
            share = NodeAllocation(
                node, (gpu,), amounts[CPU], amounts[MEMORY], amounts[STORAGE], self._milli[at]
            )
            plan.transaction.put(int(jobs.index[at]), [share])
        free = int(floor.free.sum())
        plan.reasons[:] = PLACED
        for at in self._waiting:
            needs = self._gpus[at] * self._milli[at] / WHOLE
            plan.reasons[at] = NO_GPUS if needs > free else NO_PLACE
            plan.reason_a[at], plan.reason_b[at] = needs, free

    def next_release(self) -> float:
        """When the next job that was left alone for its first seconds may be stopped."""
        snapshot, jobs = self._view, self._view.jobs
        if not snapshot.table.some_pinned:
            return inf
        started = np.where(jobs.running, jobs.last_start, snapshot.now)
        due = (started + jobs.min_runtime)[jobs.preemptible & (jobs.min_runtime > 0)] + _INSTANT
        return float(due[due > snapshot.now].min(initial=inf))
