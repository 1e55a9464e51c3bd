"""Delay scheduling, compiled: places by level of the tree, which are NVLink island, machine, rack and anywhere.

Every job of the queue is tried on what the ones before it left. What an island or a machine holds is taken
at any time; a wider place only once the job has waited for the narrower ones as long as its timers say.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muster.cluster.ledger_arrays import GPU, WHOLE, Books, Bools, Floats, Ints, count_bits, put_chain
from muster.cluster.resources import RESOURCE_COUNT
from muster.compiling import njit
from muster.schedulers.placement.kernels import (
    PACK,
    JobColumns,
    ReasonColumns,
    Scratch,
    chain_of,
    count_fitting,
    find_nodes,
    holds_gang,
    need_on,
    note_lack,
    pick_gpus,
    place_job,
    put_back,
    put_share,
    scratch_for,
    thousandths_of,
)
from muster.schedulers.placement.published_order import in_rack_order, places_in_order
from muster.schedulers.reasons import BEHIND_HEAD, DELAY_TIMER, NO_GPUS, NO_PLACE, PLACED, RACK_TIMER

NOWHERE, ISLAND, MACHINE, RACK, NETWORK = -1, 0, 1, 2, 3
"""Levels of a placement, best first."""
SPLIT = 1 << 20
"""More free GPUs than an island has: the gang fits in none."""

_NO_MACHINE_FROM, _NO_RACK_FROM, _LARGEST_MACHINE, _LARGEST_RACK = 0, 1, 2, 3
"""What is known of gangs with the same needs: the smallest sizes that found no machine and no rack, and how many GPUs
of such a gang the largest machine and the largest rack hold when they are empty; -1: not known."""
_ANY_SIZE = 1 << 40


class Competitors(NamedTuple):
    """By position: what each job that competes for free GPUs takes, and since when it has waited."""

    since: Floats
    """When the wait began."""
    machine_seconds: Floats
    """How long one machine is waited for."""
    rack_seconds: Floats
    """How long one rack is waited for, from the same moment."""
    urgent: Bools
    """Jobs that take any place, and that no other job passes."""
    released: Ints
    """The chain that a job gave back just now, or -1."""
    content: Bools
    """Whether no other place would be worth the job's interruption."""


class LeaseTerms(NamedTuple):
    """What holds for all that compete."""

    now: float
    lease_seconds: float
    pause_seconds: float
    """The walk pauses behind a job that waited at least so long and got a machine or a rack: timers may learn from
    it."""
    published: bool
    """Whether places are tried in the order of the published program."""


class Offer(NamedTuple):
    """The best place that a job takes now: where it is, or for which timer the job waits."""

    level: int
    where: int
    """A node up to MACHINE, a rack at RACK."""
    mask: int
    """The GPUs on that node."""
    timer: int
    """DELAY_TIMER or RACK_TIMER where the job waits for a narrower place, else PLACED."""


@njit(cache=True)
def level_of(books: Books, chain: int) -> int:
    """How far apart the GPUs of a chain of rows are."""
    if chain < 0:
        return NOWHERE
    first = books.rows[chain]
    node = first["node"]
    of_node: int = books.nodes[node]["island"]
    island = max(of_node, 1)
    level = NETWORK
    for gpu in range(0, books.nodes[node]["gpus"], island):
        if first["mask"] & ~(((1 << island) - 1) << gpu) == 0:
            level = ISLAND
    if level != ISLAND:
        level = MACHINE
    row = first["next"]
    while row >= 0:
        other = books.rows[row]["node"]
        if books.nodes[other]["rack"] != books.nodes[node]["rack"]:
            return NETWORK
        if other != node:
            level = RACK
        row = books.rows[row]["next"]
    return level


@njit(cache=True)
def smallest_island(books: Books, node: int, gpus: int) -> int:
    """Free GPUs of the fullest island of a node that holds the gang; `SPLIT` if none does."""
    free = books.nodes[node]["free_mask"]
    of_node: int = books.nodes[node]["island"]
    island = max(of_node, 1)
    smallest = SPLIT
    for first in range(0, books.nodes[node]["gpus"], island):
        here = count_bits(free >> first & ((1 << island) - 1))
        if gpus <= here < smallest:
            smallest = here
    return smallest


@njit(cache=True)
def find_machine(books: Books, allowed: Bools, gpus: int, need: Ints) -> int:
    """The node for a whole gang, in one island if any has room; best fit; or -1."""
    best = -1
    best_score = 1 << 62
    for node in range(len(books.nodes)):
        if allowed[node] and holds_gang(books, node, gpus, need):
            island = smallest_island(books, node, gpus)
            score = island * SPLIT + books.nodes[node]["free_gpus"]
            if score < best_score:
                best, best_score = node, score
    return best


@njit(cache=True)
def first_published_place(books: Books, allowed: Bools, gpus: int, need: Ints) -> tuple[int, int]:
    """The node and mask of the first place in published order that holds a whole gang, islands first."""
    for by_island in (True, False):
        nodes, firsts = places_in_order(books, allowed, by_island)
        for at in range(len(nodes)):
            record = books.nodes[nodes[at]]
            island: int = record["island"]
            size = min(max(island, 1), 62) if by_island else 62
            free = record["free_mask"] >> firsts[at] << firsts[at]
            if by_island:
                free &= ((1 << size) - 1) << firsts[at]
            if count_bits(free) >= gpus and holds_gang(books, nodes[at], gpus, need):
                return nodes[at], _lowest(free, gpus)
    return -1, 0


@njit(cache=True)
def fit_by_rack(books: Books, allowed: Bools, need: Ints, fit: Ints, racks: Ints) -> None:
    """Free GPUs that come with what they need, by node and by rack."""
    count_fitting(books, allowed, need, fit)
    racks[:] = 0
    for node in range(len(fit)):
        racks[books.nodes[node]["rack"]] += fit[node]


@njit(cache=True)
def find_rack(books: Books, fit: Ints, racks: Ints, gpus: int, published: bool) -> int:
    """The rack in which a gang takes the fewest machines, of equals the fullest; or the first one; or -1."""
    best = -1
    choices = 0
    for rack in range(len(racks)):
        if racks[rack] >= gpus:
            best = rack
            choices += 1
            if published:
                return best
    if choices < 2:
        return best
    fewest = 1 << 40
    left = np.full(len(racks), gpus)
    machines = np.zeros(len(racks), np.int64)
    for node in np.argsort(-fit, kind="mergesort"):
        rack = books.nodes[node]["rack"]
        if racks[rack] >= gpus and left[rack] > 0:
            machines[rack] += 1
            left[rack] -= fit[node]
    for rack in range(len(racks)):
        score = machines[rack] * SPLIT + racks[rack]
        if racks[rack] >= gpus and score < fewest:
            best, fewest = rack, score
    return best


@njit(cache=True)
def place_in_racks(books: Books, job: int, gpus: int, allowed: Bools, need: Ints, scratch: Scratch) -> bool:
    """Put a gang on as few racks as possible, on as few machines of each."""
    chain = -1
    left = gpus
    racks = scratch.racks
    inside = np.zeros(len(books.nodes), np.bool_)
    room = np.zeros(len(books.nodes), np.int64)
    fit_by_rack(books, allowed, need, room, racks)
    while left > 0:
        rack = find_rack(books, room, racks, left, False)
        if rack < 0:
            rack = int(np.argmax(racks))
        here = min(left, racks[rack])
        for node in range(len(books.nodes)):
            inside[node] = allowed[node] and books.nodes[node]["rack"] == rack
        if here == 0 or not find_nodes(books, inside, here, need, PACK, scratch):
            return False
        chain = chain_of(books, scratch.take, need, chain)
        racks[rack] = 0
        left -= here
    return put_chain(books, job, chain) == 0


@njit(cache=True)
def place_in_order(books: Books, job: int, gpus: int, allowed: Bools, need: Ints, scratch: Scratch) -> bool:
    """Put a gang on the first GPUs by rack and machine; `scratch.fit` are those that come with what they need."""
    take = scratch.take
    left = gpus
    nodes = in_rack_order(books)
    for node in nodes:
        take[node] = min(left, scratch.fit[node]) if allowed[node] else 0
        left -= take[node]
    if left > 0:
        return False
    chain = -1
    for node in nodes[::-1]:
        if take[node] > 0:
            mask = _lowest(books.nodes[node]["free_mask"], take[node])
            chain = put_share(books, chain, node, mask, WHOLE, need)
    return put_chain(books, job, chain) == 0


@njit(cache=True)
def _lowest(mask: int, count: int) -> int:
    """The lowest bits of a mask."""
    kept = 0
    for _ in range(count):
        kept |= mask & -mask
        mask &= mask - 1
    return kept


@njit(cache=True)
def largest_units(books: Books, allowed: Bools, need: Ints, racks: Ints) -> tuple[int, int]:
    """How many GPUs of a gang the largest machine and the largest rack could hold if they were empty."""
    racks[:] = 0
    machine = 0
    for node in range(len(books.nodes)):
        if allowed[node]:
            most: int = books.nodes[node]["gpus"]
            for resource in range(1, RESOURCE_COUNT):
                amount = need_on(books, node, resource, need)
                if amount > 0:
                    fitting: int = books.nodes[node]["capacity"][resource] // amount
                    most = min(most, fitting)
            machine = max(machine, most)
            racks[books.nodes[node]["rack"]] += most
    return machine, int(racks.max())


@njit(cache=True)
def runs_out_at(since: float, seconds: float) -> float:
    """The moment from which on the difference to `since` is at least so many seconds, as floats are subtracted.

    The rounded sum alone can be a moment at which the difference is still below `seconds`.
    """
    moment = since + seconds
    while moment - since < seconds:
        moment = np.nextafter(moment, np.inf)
    return moment


@njit(cache=True)
def allocate_by_locality(
    books: Books,
    jobs: JobColumns,
    ranked: Ints,
    begin: int,
    competitors: Competitors,
    resource_options: Ints,
    terms: LeaseTerms,
    reasons: ReasonColumns,
) -> tuple[int, int, float]:
    """Serve the queue from `begin` on; how far it got, at which level the last one is, when the next timer runs out.

    What comes out besides are the reasons.
    """
    scratch = scratch_for(books)
    known = np.empty((len(resource_options[0]), RESOURCE_COUNT), np.int64)
    for option in range(len(known)):
        _forget(known[option])
    wake = np.inf
    blocked = False
    level = NOWHERE
    for turn in range(begin, len(ranked)):
        at = ranked[turn]
        level = NOWHERE
        if blocked:
            reasons.codes[at] = BEHIND_HEAD
            continue
        if thousandths_of(jobs, at) * 1000 > books.totals[GPU]:
            note_lack(books, jobs, at, NO_GPUS, reasons)
            blocked = competitors.urgent[at]
            continue
        level, timer = _serve_one(books, jobs, at, competitors, resource_options, terms, known, scratch)
        waited = terms.now - competitors.since[at]
        until = _waits_until(competitors, at, timer)
        if level != NOWHERE:
            reasons.codes[at] = PLACED
            if level <= RACK and waited >= terms.pause_seconds:
                return turn + 1, level, wake
        elif until < np.inf:
            reasons.codes[at] = timer
            reasons.a[at] = waited / terms.lease_seconds
            reasons.b[at] = (until - competitors.since[at]) / terms.lease_seconds
            wake = min(wake, until)
        else:
            note_lack(books, jobs, at, NO_PLACE, reasons)
            blocked = competitors.urgent[at]
    return len(ranked), level, wake


@njit(cache=True)
def _forget(known: Ints) -> None:
    """Nothing is known of gangs with some needs."""
    known[_NO_MACHINE_FROM] = known[_NO_RACK_FROM] = _ANY_SIZE
    known[_LARGEST_MACHINE] = known[_LARGEST_RACK] = -1


@njit(cache=True)
def _waits_until(competitors: Competitors, at: int, timer: int) -> float:
    """When a job's timer for a machine or for a rack runs out; inf if it waits for neither."""
    if timer == PLACED:
        return np.inf
    seconds = competitors.rack_seconds[at]
    if timer == DELAY_TIMER:
        seconds = min(competitors.machine_seconds[at], seconds)
    until: float = runs_out_at(competitors.since[at], seconds)
    return until


@njit(cache=True)
def _serve_one(
    books: Books,
    jobs: JobColumns,
    at: int,
    competitors: Competitors,
    resource_options: Ints,
    terms: LeaseTerms,
    known: Ints,
    scratch: Scratch,
) -> tuple[int, int]:
    """Give a job the best place that it takes, or its own back; its level, or NOWHERE and the timer it waits for."""
    job = jobs.numbers[at]
    spec = jobs.spec[job]
    gpus, milli, constraint = spec["gpus"], spec["milli"], spec["constraint"]
    allowed = jobs.node_allowed[constraint]
    shared = len(resource_options) == 1
    options = resource_options[0 if shared else at]
    waited = terms.now - competitors.since[at]
    machine_seconds, rack_seconds = competitors.machine_seconds[at], competitors.rack_seconds[at]
    if not terms.published:  # Only the published program lets a machine timer outlast the rack timer.
        machine_seconds = min(machine_seconds, rack_seconds)
    takes_rack = competitors.urgent[at] or waited >= machine_seconds
    takes_any = competitors.urgent[at] or waited >= rack_seconds
    timer = PLACED
    for option in range(len(options)):
        need = options[option]
        if milli < WHOLE:
            if place_job(books, job, 1, milli, allowed, need, PACK, scratch):
                return ISLAND, timer
            continue
        if not (shared and constraint == 0):
            _forget(known[option])
        takes = takes_rack, takes_any, terms.published
        offer = _best_offer(books, allowed, gpus, need, takes, known[option], scratch)
        if offer.level != NOWHERE:
            old = competitors.released[at]
            stays = old >= 0 and (competitors.content[at] or offer.level >= level_of(books, old))
            if not (stays and put_back(books, job, old)):
                _accept(books, job, gpus, allowed, need, offer, terms.published, scratch)
            return offer.level, timer
        if offer.timer != PLACED:
            timer = offer.timer
    return NOWHERE, timer


@njit(cache=True)
def _best_offer(
    books: Books,
    allowed: Bools,
    gpus: int,
    need: Ints,
    takes: tuple[bool, bool, bool],
    known: Ints,
    scratch: Scratch,
) -> Offer:
    """The narrowest place that holds a gang and that it takes."""
    takes_rack, takes_any, published = takes
    if gpus < known[_NO_MACHINE_FROM]:
        offer = _machine_offer(books, allowed, gpus, need, published)
        if offer.level != NOWHERE:
            return offer
        known[_NO_MACHINE_FROM] = gpus
    if known[_LARGEST_MACHINE] < 0:
        known[_LARGEST_MACHINE], known[_LARGEST_RACK] = largest_units(books, allowed, need, scratch.racks)
    takes_rack = takes_rack or gpus > known[_LARGEST_MACHINE]
    takes_any = takes_any or gpus > known[_LARGEST_RACK]
    if not takes_rack and not takes_any:
        return Offer(NOWHERE, -1, 0, DELAY_TIMER)
    fit_by_rack(books, allowed, need, scratch.fit, scratch.racks)
    rack = -1
    if takes_rack and gpus < known[_NO_RACK_FROM]:
        rack = find_rack(books, scratch.fit, scratch.racks, gpus, published)
        if rack < 0:
            known[_NO_RACK_FROM] = gpus
    if rack >= 0:
        return Offer(RACK, rack, 0, PLACED)
    if not takes_any:
        return Offer(NOWHERE, -1, 0, RACK_TIMER)
    return Offer(NETWORK if scratch.racks.sum() >= gpus else NOWHERE, -1, 0, PLACED)


@njit(cache=True)
def _machine_offer(books: Books, allowed: Bools, gpus: int, need: Ints, published: bool) -> Offer:
    """The machine for a whole gang, and its GPUs there, in one island if any has room."""
    machine = find_machine(books, allowed, gpus, need)
    if machine < 0:
        return Offer(NOWHERE, -1, 0, PLACED)
    if published:
        machine, mask = first_published_place(books, allowed, gpus, need)
    else:
        mask = pick_gpus(books, machine, gpus)
    level = ISLAND if smallest_island(books, machine, gpus) < SPLIT else MACHINE
    return Offer(level, machine, mask, PLACED)


@njit(cache=True)
def _accept(
    books: Books,
    job: int,
    gpus: int,
    allowed: Bools,
    need: Ints,
    offer: Offer,
    published: bool,
    scratch: Scratch,
) -> None:
    """Put a gang on the place that it takes."""
    if offer.level <= MACHINE:
        put_chain(books, job, put_share(books, -1, offer.where, offer.mask, WHOLE, need))
        return
    there = allowed
    if offer.level == RACK:
        there = allowed & (books.nodes["rack"] == offer.where)
    if published:
        place_in_order(books, job, gpus, there, need, scratch)
    elif offer.level == RACK:
        place_job(books, job, gpus, WHOLE, there, need, PACK, scratch)
    else:
        place_in_racks(books, job, gpus, allowed, need, scratch)
