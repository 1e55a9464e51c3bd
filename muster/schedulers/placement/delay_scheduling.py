"""Offers by level of the tree, compiled: NVLink island, machine, rack, anywhere; and a queue of jobs that bids.

Every job of the queue is tried on what the ones before it left. What an island or a machine holds is taken
at any time; a wider place only once the job has waited for the narrower ones as long as its timers say.
"""

from __future__ import annotations

import numpy as np

from muster.cluster.ledger_arrays import GPU, Books, Bools, Floats, Ints, count_bits, put_chain
from muster.compiling import njit
from muster.schedulers.placement.kernels import (
    PACK,
    find_nodes,
    gpus_that_fit,
    holds_gang,
    need_on,
    pick_gpus,
    place_job,
    put_back,
    put_share,
)
from muster.schedulers.placement.published_order import in_rack_order, places_in_order
from muster.schedulers.reasons import BEHIND_HEAD, DELAY_TIMER, NO_GPUS, NO_PLACE, PLACED, RACK_TIMER
from muster.workload.jobs import AskedArray

NOWHERE, ISLAND, MACHINE, RACK, NETWORK = -1, 0, 1, 2, 3
"""Levels of a placement, best first."""
SPLIT = 1 << 20
"""More free GPUs than an island has: the gang fits in none."""


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
    racks[:] = 0
    for node in range(len(books.nodes)):
        fit[node] = 0
        if allowed[node] and books.nodes[node]["free_gpus"] > 0:
            fit[node] = gpus_that_fit(books, node, need)
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
def place_in_racks(
    books: Books,
    job: int,
    gpus: int,
    allowed: Bools,
    need: Ints,
    racks: Ints,
    fit: Ints,
    take: Ints,
) -> bool:
    """Put a gang on as few racks as possible, on as few machines of each."""
    chain = -1
    left = gpus
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
        if here == 0 or not find_nodes(books, inside, here, need, PACK, fit, take):
            return False
        for node in range(len(books.nodes) - 1, -1, -1):
            if take[node] > 0:
                chain = put_share(books, chain, node, pick_gpus(books, node, take[node]), 1000, need)
        racks[rack] = 0
        left -= here
    return put_chain(books, job, chain) == 0


@njit(cache=True)
def place_in_order(
    books: Books, job: int, gpus: int, allowed: Bools, need: Ints, fit: Ints, take: Ints
) -> bool:
    """Put a gang on the first GPUs by rack and machine; `fit` are those that come with what they need."""
    left = gpus
    nodes = in_rack_order(books)
    for node in nodes:
        take[node] = min(left, fit[node]) if allowed[node] else 0
        left -= take[node]
    if left > 0:
        return False
    chain = -1
    for node in nodes[::-1]:
        if take[node] > 0:
            mask = _lowest(books.nodes[node]["free_mask"], take[node])
            chain = put_share(books, chain, node, mask, 1000, need)
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
            for resource in range(1, 4):
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
def bid(
    books: Books,
    asked: AskedArray,
    jobs: Ints,
    node_allowed: Bools,
    ranked: Ints,
    begin: int,
    released: Ints,
    content: Bools,
    urgent: Bools,
    since: Floats,
    machine_seconds: Floats,
    rack_seconds: Floats,
    now: float,
    resource_options: Ints,
    published: bool,
    pause: Floats,
    lease: float,
    levels: Ints,
    codes: Ints,
    a: Floats,
    b: Floats,
) -> tuple[int, float]:
    """Serve the queue from `begin` on; how far it got, and when the next timer runs out.

    By position in the view: `released` the chain that a job gave back just now, or -1, `content` whether no other
    place would be worth its interruption; `urgent` jobs take
    anything and let nobody pass; `since` is when the wait began, `machine_seconds` and `rack_seconds` how
    long narrower places are waited for. It pauses behind a job that waited at least `pause` seconds for a
    machine or a rack and got it, because timers may be learned from that. `levels` gets what was accepted.
    """
    nodes = len(books.nodes)
    fit = np.zeros(nodes, np.int64)
    take = np.zeros(nodes, np.int64)
    racks = np.zeros(books.nodes["rack"].max() + 1, np.int64)
    shared_ladder = len(resource_options) == 1
    no_machine = 1 << 40  # the smallest gangs of common needs that found no machine, no rack
    no_rack = 1 << 40
    largest = (-1, -1)  # units of common needs, when first asked for
    wake = np.inf
    blocked = False
    for turn in range(begin, len(ranked)):
        at = ranked[turn]
        job = jobs[at]
        gpus: int = asked[job]["gpus"]
        milli = asked[job]["milli"]
        constraint = asked[job]["constraint"]
        if blocked:
            codes[at] = BEHIND_HEAD
            continue
        if gpus * milli * 1000 > books.totals[GPU]:
            codes[at] = NO_GPUS
            a[at] = gpus * milli / 1000
            b[at] = books.totals[GPU] / 1e6
            blocked = urgent[at]
            continue
        allowed = node_allowed[constraint]
        common = shared_ladder and constraint == 0 and milli == 1000
        waited = now - since[at]
        # Only the published program lets a machine timer outlast the rack timer.
        machine_timer = machine_seconds[at] if published else min(machine_seconds[at], rack_seconds[at])
        rack_passed, any_passed = waited >= machine_timer, waited >= rack_seconds[at]
        level = NOWHERE
        waits_until = np.inf
        waits_for = DELAY_TIMER
        for rung in range(len(resource_options[0])):
            need = resource_options[0 if shared_ladder else at, rung]
            machine, mask = -1, 0
            if milli < 1000:
                if place_job(books, job, 1, milli, allowed, need, PACK, fit, take):
                    level = ISLAND
                    break
                continue
            if not (common and gpus >= no_machine):
                machine = find_machine(books, allowed, gpus, need)
                if machine < 0 and common:
                    no_machine = gpus
            if machine >= 0:
                if published:
                    machine, mask = first_published_place(books, allowed, gpus, need)
                else:
                    mask = pick_gpus(books, machine, gpus)
                level = ISLAND if smallest_island(books, machine, gpus) < SPLIT else MACHINE
                if not _kept(books, job, released[at], level, content[at]):
                    put_chain(books, job, put_share(books, -1, machine, mask, 1000, need))
                break
            if common and largest[0] < 0:
                largest = largest_units(books, allowed, need, racks)
            biggest = largest if common else largest_units(books, allowed, need, racks)
            takes_rack = urgent[at] or rack_passed or gpus > biggest[0]
            takes_any = urgent[at] or any_passed or gpus > biggest[1]
            if not takes_rack and not takes_any:
                waits_until = runs_out_at(since[at], min(machine_seconds[at], rack_seconds[at]))
                waits_for = DELAY_TIMER
                continue
            fit_by_rack(books, allowed, need, fit, racks)
            rack = -1
            if takes_rack and not (common and gpus >= no_rack):
                rack = find_rack(books, fit, racks, gpus, published)
                if rack < 0 and common:
                    no_rack = min(no_rack, gpus)
            if rack >= 0:
                level = RACK
                if not _kept(books, job, released[at], level, content[at]):
                    there = allowed & (books.nodes["rack"] == rack)
                    if published:
                        place_in_order(books, job, gpus, there, need, fit, take)
                    else:
                        place_job(books, job, gpus, 1000, there, need, PACK, fit, take)
                break
            if not takes_any:
                waits_until = runs_out_at(since[at], rack_seconds[at])
                waits_for = RACK_TIMER
                continue
            if racks.sum() >= gpus:
                level = NETWORK
                if _kept(books, job, released[at], level, content[at]):
                    break
                if published:
                    place_in_order(books, job, gpus, allowed, need, fit, take)
                else:
                    place_in_racks(books, job, gpus, allowed, need, racks, fit, take)
                break
        if level != NOWHERE:
            levels[at] = level
            codes[at] = PLACED
            if level <= RACK and waited >= pause[at]:
                return turn + 1, wake
        elif waits_until < np.inf:
            codes[at] = waits_for
            a[at] = waited / lease
            b[at] = (waits_until - since[at]) / lease
            wake = min(wake, waits_until)
        else:
            codes[at] = NO_PLACE
            a[at] = gpus * milli / 1000
            b[at] = books.totals[GPU] / 1e6
            blocked = urgent[at]
    return len(ranked), wake


@njit(cache=True)
def _kept(books: Books, job: int, chain: int, level: int, content: bool) -> bool:
    """Let a job that is offered nothing worth more than what it just gave back have that again, if it is free."""
    return chain >= 0 and (content or level >= level_of(books, chain)) and put_back(books, job, chain)
