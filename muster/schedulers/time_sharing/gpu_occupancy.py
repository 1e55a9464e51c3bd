"""Which jobs hold which GPUs while a decision is made: a copy of the cluster in which a GPU may have many holders.

Gandiva's words (OSDI'18 §4): a server's affinity is the gang size that holds most of it; its load, the GPUs
asked for on it over those it has.
"""

from __future__ import annotations

from math import inf

import numpy as np

from muster.cluster.ledger import DoesNotFit
from muster.cluster.ledger_arrays import ROWS_USED, WHOLE, Bools, Floats, Ints
from muster.schedulers.contract import Snapshot
from muster.schedulers.placement.job_columns import NOT_FREE
from muster.schedulers.placement.serving import pick_from
from muster.schedulers.time_sharing.places import most_holders, read_places

Place = tuple[tuple[int, int], ...]
"""Nodes, ascending, each with a mask of its GPUs."""

_OTHER_AFFINITY, _EMPTY = 2e6, 1e6
"""Ranks of nodes to choose from: those of the job's own size come first. Loads are far below."""


class GpuOccupancy:
    """The scratch that a decision is taken on; positions are those of the view's jobs."""

    def __init__(self, snapshot: Snapshot, guarded: Bools) -> None:
        """`guarded` are the positions whose GPUs no other job may have a turn on."""
        books, jobs = snapshot.ledger.books, snapshot.jobs
        self.gpus = books.nodes["gpus"]
        self.racks = books.nodes["rack"]
        self._islands = np.maximum(books.nodes["island"], 1)
        shape = books.devices.shape
        self._bits = 1 << np.arange(shape[1])
        self.holders = np.zeros(shape, np.int64)
        self.guards = np.zeros(shape, np.bool_)
        self.places: dict[int, Place] = {}
        self.sizes: dict[int, int] = {}
        """GPUs that each job holds."""
        self.stacks: dict[int, dict[Place, list[int]]] = {}
        """Of each gang size the places taken, and the positions of the jobs there."""
        self._by_size: dict[int, Ints] = {}
        rows = int(books.totals[ROWS_USED])
        first, nodes, masks = (
            np.zeros(len(jobs) + 1, np.int64),
            np.zeros(rows, np.int64),
            np.zeros(rows, np.int64),
        )
        read_places(books, jobs.index, first, nodes, masks, self.holders)
        real = np.arange(shape[1])[None, :] < self.gpus[:, None]
        up = books.nodes["up"] == 1
        self.closed = (books.devices["holders"] != self.holders) | ~(real & up[:, None])
        """GPUs that do not exist, are down or still releasing, or are divided into shares."""
        divided = (books.devices["holders"] > 0) & (books.devices["free_milli"] > 0) & up[:, None]
        self.room = np.where(divided, books.devices["free_milli"], 0)
        """Thousandths that are left of GPUs that are divided into shares."""
        begins = first.tolist()
        places = list(zip(nodes.tolist(), masks.tolist(), strict=True))
        self._count(up)
        for at in np.flatnonzero(first[1:] > first[:-1]).tolist():
            self._enter(at, tuple(places[begins[at] : begins[at + 1]]))
            if guarded[at]:
                self.guard(at)

    def _count(self, up: Bools) -> None:
        self.free = ((self.holders == 0) & ~self.closed).sum(axis=1)
        """GPUs by node that no job holds."""
        self.asked = self.holders.sum(axis=1)
        """GPUs by node that its jobs hold, one that n hold n times."""

    # Which job is where

    def put(self, at: int, place: Place) -> None:
        """Put a job that holds nothing there."""
        self._change(place, 1)
        self._enter(at, place)

    def leave(self, at: int) -> Place:
        """Take a job off its place, which is answered."""
        place, size = self.places.pop(at), self.sizes.pop(at)
        members = self.stacks[size][place]
        members.remove(at)
        if not members:
            del self.stacks[size][place]
        for node, mask in place:
            self._by_size[size][node] -= mask.bit_count()
        self._change(place, -1)
        return place

    def guard(self, at: int) -> None:
        """No other job may have a turn on the GPUs of this job."""
        for node, mask in self.places[at]:
            self.guards[node] |= (self._bits & mask) != 0

    def _enter(self, at: int, place: Place) -> None:
        size = gpus_of(place)
        self.places[at], self.sizes[at] = place, size
        self.stacks.setdefault(size, {}).setdefault(place, []).append(at)
        by_size = self._by_size.setdefault(size, np.zeros(len(self.gpus), np.int64))
        for node, mask in place:
            by_size[node] += mask.bit_count()

    def _change(self, place: Place, sign: int) -> None:
        for node, mask in place:
            here = (self._bits & mask) != 0
            self.holders[node] += sign * here
            self.asked[node] += sign * mask.bit_count()
            self.free[node] = np.count_nonzero((self.holders[node] == 0) & ~self.closed[node])

    # What is there

    def height(self, place: Place) -> int:
        """Jobs that take turns on the most crowded of these GPUs."""
        return max(int(most_holders(self.holders, node, mask)) for node, mask in place)

    def lowest(self, place: Place) -> int:
        """Jobs on the least crowded of these GPUs."""
        return min(int(self.holders[node, self._bits & mask != 0].min()) for node, mask in place)

    def spread(self, place: Place) -> tuple[int, int]:
        """Racks and nodes."""
        return len({int(self.racks[node]) for node, _ in place}), len(place)

    def free_place(self, gpus: int, size: int, allowed: Bools, nodes_at_most: float = inf) -> Place | None:
        """GPUs that no job holds: on one node of the affinity, an empty one, any; else spread on few nodes."""
        fits = allowed & (self.free >= gpus)
        if fits.any():
            node = int(np.argmin(np.where(fits, self._rank(size), inf)))
            return ((node, self.pick(node, gpus)),)
        if nodes_at_most < 2 or int(self.free[allowed].sum()) < gpus:
            return None
        place = self._spread(gpus, np.where(allowed, self.free, 0))
        return place if len(place) <= nodes_at_most else None

    def fullest_place(self, gpus: int, allowed: Bools) -> Place | None:
        """On the node that has least left afterwards."""
        fits = allowed & (self.free >= gpus)
        if not fits.any():
            return None
        node = int(np.argmin(np.where(fits, self.free, inf)))
        return ((node, self.pick(node, gpus)),)

    def divide(self, milli: int, allowed: Bools) -> tuple[int, int] | None:
        """Node and GPU for a share: the fullest one that is divided and has room, else one of the fullest node."""
        room = np.where(allowed[:, None] & (self.room >= milli), self.room, inf)
        if room.min(initial=inf) < inf:
            node, gpu = divmod(int(np.argmin(room)), room.shape[1])
        else:
            place = self.fullest_place(1, allowed)
            if place is None:
                return None
            ((node, mask),) = place
            gpu = mask.bit_length() - 1
            self.room[node, gpu] = WHOLE
            self.closed[node, gpu] = True
            self.free[node] -= 1
        self.room[node, gpu] -= milli
        return node, gpu

    def among(self, node: int, mask: int, count: int) -> int:
        """So many of these GPUs of a node, as close together as they can be."""
        picked = int(pick_from(mask, int(self.gpus[node]), int(self._islands[node]), count))
        if picked == NOT_FREE:
            raise DoesNotFit(
                f"node {node}: {mask.bit_count()} GPUs to choose {count} from; a scheduler's defect"
            )
        return picked

    def pick(self, node: int, gpus: int) -> int:
        """So many free GPUs of a node, as close together as they can be."""
        free = int(self._bits[(self.holders[node] == 0) & ~self.closed[node]].sum())
        return self.among(node, free, gpus)

    def _rank(self, size: int) -> Floats:
        """Of nodes to choose from, the smallest first: by affinity, then by load."""
        own = self._by_size.get(size)
        affine = np.zeros(len(self.gpus), np.bool_)
        if own is not None:
            affine = (own > 0) & (own >= np.max([*self._by_size.values()], axis=0))
        load = self.asked / np.maximum(self.gpus, 1)
        rank: Floats = load + np.where(affine, 0.0, np.where(self.asked == 0, _EMPTY, _OTHER_AFFINITY))
        return rank

    def _spread(self, gpus: int, free: Ints) -> Place:
        """In the fullest rack that has room, else over the emptiest ones; on its emptiest nodes."""
        by_rack = np.bincount(self.racks, weights=free)
        enough = by_rack >= gpus
        if enough.any():
            racks = [int(np.argmin(np.where(enough, by_rack, inf)))]
        else:
            racks = np.argsort(-by_rack, kind="stable").tolist()
        taken: dict[int, int] = {}
        for rack in racks:
            inside = np.flatnonzero((self.racks == rack) & (free > 0))
            for node in inside[np.argsort(-free[inside], kind="stable")].tolist():
                left = gpus - sum(taken.values())
                if left:
                    taken[node] = min(left, int(free[node]))
        return tuple((node, self.pick(node, taken[node])) for node in sorted(taken))

    def shared_place(self, gpus: int, allowed: Bools, most_turns: float) -> Place | None:
        """Where it is least crowded: with jobs of its size, unless others' GPUs are two jobs less crowded."""
        crowd = self._crowd(allowed, most_turns)
        best: Place | None = None
        lowest = inf
        for place, members in self.stacks.get(gpus, {}).items():
            if len(members) < lowest and all(
                crowd[node, self._bits & mask != 0].max() < inf for node, mask in place
            ):
                height = self.height(place)
                if height < lowest:
                    best, lowest = place, height
        other = self._least_crowded(gpus, crowd)
        if other is not None and self.height(other) + 1 < lowest:
            return other
        return best

    def _crowd(self, allowed: Bools, most_turns: float) -> Floats:
        """Holders of each GPU; inf where no job may join them."""
        open_ = ~self.closed & ~self.guards & allowed[:, None] & (self.holders < most_turns)
        return np.where(open_, self.holders, inf)

    def _least_crowded(self, gpus: int, crowd: Floats) -> Place | None:
        """The least crowded GPUs of one node, else of one rack, else of all."""
        if gpus <= crowd.shape[1]:
            levels = np.sort(crowd, axis=1)[:, gpus - 1]
            if levels.min(initial=inf) < inf:
                node = int(np.lexsort((self.asked, levels))[0])
                return self._up_to(gpus, crowd, [node])
        by_rack = [np.flatnonzero(self.racks == rack).tolist() for rack in range(self.racks.max() + 1)]
        for units in (by_rack, [list(range(len(self.gpus)))]):
            levels = np.array([np.sort(crowd[nodes], axis=None)[:gpus][-1] for nodes in units])
            enough = np.array([np.count_nonzero(crowd[nodes] < inf) for nodes in units]) >= gpus
            if enough.any():
                unit = units[int(np.argmin(np.where(enough, levels, inf)))]
                return self._up_to(gpus, crowd, unit)
        return None

    def _up_to(self, gpus: int, crowd: Floats, nodes: list[int]) -> Place:
        """The least crowded GPUs of these nodes, on as few of those as have most of them."""
        here = crowd[nodes]
        level = np.sort(here, axis=None)[gpus - 1]
        counts = np.count_nonzero(here <= level, axis=1)
        place = []
        left = gpus
        for at in np.argsort(-counts, kind="stable").tolist():
            if left:
                chosen = np.argsort(here[at], kind="stable")[: min(left, int(counts[at]))]
                place.append((nodes[at], int(self._bits[chosen].sum())))
                left -= len(chosen)
        return tuple(sorted(place))


def gpus_of(place: Place) -> int:
    """How many GPUs a place has."""
    return sum(mask.bit_count() for _, mask in place)
