"""Finding places on the ledger, compiled: one job's place by a rule, and a whole queue served in order.

Needs are amounts per GPU in millionths; `PROPORTIONAL` stands for the share of the node that is tried, and
`PROPORTIONAL - amount` for the share, but at least the amount.
"""

from __future__ import annotations

import numpy as np

from muster.cluster.ledger_arrays import (
    DELAYED,
    Books,
    Bools,
    Floats,
    Ints,
    NodeArray,
    copy_chain,
    count_bits,
    new_row,
    put_chain,
    release_job,
)
from muster.compiling import njit
from muster.schedulers.reasons import BEHIND_HEAD, NO_CPUS, NO_GPUS, NO_PLACE, OUTRANKED, PLACED
from muster.workload.jobs import AskedArray, FactArray

PROPORTIONAL = -1

PACK, FIRST_FIT, CONSOLIDATE, SPREAD, YARN = 0, 1, 2, 3, 4


@njit(cache=True)
def fit_walk(free: Ints, least: Ints, pinned: Bools, ranked: Ints, strict: bool, chosen: Bools) -> None:
    """Leave out chosen jobs whose CPUs and memory do not fit beside those of the jobs before them, all nodes pooled.

    `free` is what the ranked jobs may use in all, `least` the least that each of them holds; both by resource, in
    millionths. Pinned jobs come first.
    """
    left = free.copy()
    blocked = False
    for the_pinned in (True, False):
        for at in ranked:
            if not chosen[at] or pinned[at] != the_pinned:
                continue
            fits = not blocked
            for resource in range(1, 3):
                fits = fits and least[at, resource] <= left[resource]
            if the_pinned or fits:
                left -= least[at]
            else:
                chosen[at] = False
                blocked = strict


def proportional_needs(nodes: NodeArray, requested: Ints) -> Ints:
    """The node's share, but at least the request: jobs x 1 x resources, or one line if no request exceeds a share."""
    line = np.full((1, 1, 4), PROPORTIONAL)
    if not requested.any() or (requested.max(axis=0) <= nodes["share"][nodes["gpus"] > 0].min(axis=0)).all():
        return line
    needs: Ints = line - requested[:, None]
    return needs


@njit(cache=True)
def need_on(books: Books, node: int, resource: int, need: Ints) -> int:
    """Millionths of a resource that one GPU needs on this node."""
    amount: int = need[resource]
    if amount < 0:
        share: int = books.nodes[node]["share"][resource]
        amount = max(share, PROPORTIONAL - amount)
    return amount


@njit(cache=True)
def gpus_that_fit(books: Books, node: int, need: Ints) -> int:
    """How many whole GPUs, each with what it needs, the node has free."""
    fit: int = books.nodes[node]["free_gpus"]
    for resource in range(1, 4):
        amount = need_on(books, node, resource, need)
        if amount > 0:
            fit = min(fit, books.nodes[node]["free"][resource] // amount)
    return fit


@njit(cache=True)
def holds_gang(books: Books, node: int, gpus: int, need: Ints) -> bool:
    """Whether a node has so many whole GPUs free, each with what it needs."""
    record = books.nodes[node]
    if record["free_gpus"] < gpus:
        return False
    for resource in range(1, 4):
        amount = need[resource]
        if amount < 0:
            amount = max(record["share"][resource], PROPORTIONAL - amount)
        if amount * gpus > record["free"][resource]:
            return False
    return True


NOT_FREE = -1
"""A mask in place of GPUs that are not free: the ledger refuses it on every node, as it has more GPUs than any."""


@njit(cache=True)
def pick_from(free: int, gpus: int, island: int, count: int) -> int:
    """Of a node's free GPUs (a mask): inside one NVLink island if possible (the fullest that does), else the
    emptiest first. `island` is the size of one, at least 1. NOT_FREE if fewer are free than `count`."""
    if count_bits(free) < count:
        return NOT_FREE
    best = -1
    best_free = 1 << 30
    for first in range(0, gpus, island):
        here = count_bits(free >> first & ((1 << island) - 1))
        if count <= here < best_free:
            best, best_free = first, here
    chosen = 0
    while count > 0:
        if best < 0:
            best_free = -1
            for first in range(0, gpus, island):
                here = count_bits((free & ~chosen) >> first & ((1 << island) - 1))
                if here > best_free:
                    best, best_free = first, here
        for gpu in range(best, min(best + island, gpus)):
            if count > 0 and (free & ~chosen) >> gpu & 1:
                chosen |= 1 << gpu
                count -= 1
        best = -1
    return chosen


@njit(cache=True)
def pick_gpus(books: Books, node: int, count: int) -> int:
    """A mask of so many GPUs that no job holds, as close together as they can be; NOT_FREE if there are fewer."""
    record = books.nodes[node]
    island: int = record["island"]
    chosen: int = pick_from(record["free_mask"], record["gpus"], max(island, 1), count)
    return chosen


@njit(cache=True)
def _fuller(books: Books, node: int, other: int) -> bool:
    """Best fit: fewer free GPUs, then fewer free CPUs, then the lower number."""
    if other < 0:
        return True
    one, two = books.nodes[node], books.nodes[other]
    fewer: bool = one["free_gpus"] < two["free_gpus"]
    if one["free_gpus"] == two["free_gpus"]:
        fewer = one["free"][1] < two["free"][1]
    return fewer


@njit(cache=True)
def fewest_nodes(books: Books, allowed: Bools, gpus: int, need: Ints) -> int:
    """On how few nodes the gang would sit if the cluster were empty; one more than there are if on none."""
    nodes = len(books.nodes)
    most = np.zeros(nodes, np.int64)
    for node in range(nodes):
        if allowed[node]:
            most[node] = books.nodes[node]["gpus"]
            for resource in range(1, 4):
                amount = need_on(books, node, resource, need)
                if amount > 0:
                    most[node] = min(most[node], books.nodes[node]["capacity"][resource] // amount)
    most = np.sort(most)
    fewest = 0
    while gpus > 0 and fewest < nodes:
        fewest += 1
        gpus -= most[nodes - fewest]
    return fewest if gpus <= 0 else nodes + 1


@njit(cache=True)
def _first_whole_nodes(books: Books, allowed: Bools, gpus: int, need: Ints, take: Ints) -> bool:
    """As YARN does it in Tiresias' simulator: no node is shared but one, and none where one could hold the gang."""
    nodes = len(books.nodes)
    largest = 0
    for node in range(nodes):
        if allowed[node]:
            size: int = books.nodes[node]["gpus"]
            largest = max(largest, size)
    if gpus > largest:
        for node in range(nodes):
            size = books.nodes[node]["gpus"]
            if allowed[node] and 0 < size <= gpus and holds_gang(books, node, size, need):
                take[node] = size
                gpus -= size
        if gpus > largest:
            return False
    if gpus == 0:
        return True
    for node in range(nodes):
        if allowed[node] and take[node] == 0 and holds_gang(books, node, gpus, need):
            take[node] = gpus
            return True
    return False


@njit(cache=True)
def find_nodes(books: Books, allowed: Bools, gpus: int, need: Ints, rule: int, fit: Ints, take: Ints) -> bool:
    """Choose nodes for a gang by a rule; `take` gets the GPUs on each. Whether there is a place.

    `fit` is scratch. Pack: the fullest node that holds the gang, else the emptiest nodes and the fullest that
    takes the rest. First fit: nodes in order. Consolidate: as pack, but only on the fewest nodes that could
    ever hold the gang. Spread: one GPU at a time where most are free. Yarn: the first node that holds the gang;
    if it is larger than any, the first nodes that are all free and the first that takes the rest.
    """
    nodes = len(books.nodes)
    take[:] = 0
    if rule == YARN:
        return _first_whole_nodes(books, allowed, gpus, need, take)
    if rule in (PACK, CONSOLIDATE):
        best = -1
        for node in range(nodes):
            if allowed[node] and holds_gang(books, node, gpus, need) and _fuller(books, node, best):
                best = node
        if best >= 0:
            take[best] = gpus
            return True
    total = 0
    for node in range(nodes):
        fit[node] = 0
        if allowed[node]:
            if books.nodes[node]["free_gpus"] > 0:
                fit[node] = gpus_that_fit(books, node, need)
                total += fit[node]
    if total < gpus:
        return False
    if rule == FIRST_FIT:
        for node in range(nodes):
            take[node] = min(fit[node], gpus)
            gpus -= take[node]
        return True
    if rule == SPREAD:
        while gpus > 0:
            most = 0
            for node in range(nodes):
                if fit[node] - take[node] > fit[most] - take[most]:
                    most = node
            take[most] += 1
            gpus -= 1
        return True
    fewest = fewest_nodes(books, allowed, gpus, need) if rule == CONSOLIDATE else nodes
    used = 0
    while gpus > 0:
        if used == fewest:
            return False
        most = -1
        best = -1
        for node in range(nodes):
            if take[node] == 0 and fit[node] > 0:
                if most < 0 or fit[node] > fit[most]:
                    most = node
                if fit[node] >= gpus and _fuller(books, node, best):
                    best = node
        chosen = best if best >= 0 else most
        take[chosen] = min(fit[chosen], gpus)
        gpus -= take[chosen]
        used += 1
    return True


@njit(cache=True)
def find_device(books: Books, allowed: Bools, milli: int, need: Ints, rule: int) -> tuple[int, int]:
    """A node and GPU for a share of a GPU: the fullest shared GPU that has room, else one of the fullest node."""
    best_node, best_gpu, best_free = -1, -1, 1 << 30
    for node in range(len(books.nodes)):
        if not allowed[node] or not books.nodes[node]["up"]:
            continue
        short = False
        for resource in range(1, 4):
            amount = need_on(books, node, resource, need) * milli // 1000
            short = short or amount > books.nodes[node]["free"][resource]
        if short:
            continue
        for gpu in range(books.nodes[node]["gpus"]):
            device = books.devices[node, gpu]
            room = device["free_milli"]
            if device["group"] >= 0 or room < milli:
                continue
            if device["holders"] == 0:
                emptiness = 1000 + books.nodes[node]["free_gpus"]
                if rule == SPREAD:
                    emptiness = -emptiness
            else:
                emptiness = room
            if emptiness < best_free:
                best_node, best_gpu, best_free = node, gpu, emptiness
    return best_node, best_gpu


@njit(cache=True)
def put_share(books: Books, chain: int, node: int, mask: int, milli: int, need: Ints) -> int:
    """A row for these GPUs with what they need, in front of a chain; the new chain."""
    row = new_row(books)
    gpus = count_bits(mask)
    books.rows[row]["node"] = node
    books.rows[row]["mask"] = mask
    books.rows[row]["milli"] = milli
    books.rows[row]["amount"][0] = gpus * milli * 1000
    for resource in range(1, 4):
        books.rows[row]["amount"][resource] = need_on(books, node, resource, need) * gpus * milli // 1000
    books.rows[row]["next"] = chain
    return row


@njit(cache=True)
def find_node_without_gpus(books: Books, allowed: Bools, need: Ints) -> int:
    """A node for a job without GPUs: with the fewest free GPUs, of equals with the fewest free CPUs; -1: none."""
    best = -1
    for node in range(len(books.nodes)):
        record = books.nodes[node]
        fits = allowed[node] and record["up"] != 0
        for resource in range(1, 4):
            fits = fits and need[resource] <= record["free"][resource]
        if fits and _fuller(books, node, best):
            best = node
    return best


@njit(cache=True)
def amounts_on(books: Books, node: int, need: Ints) -> int:
    """A row for a job without GPUs on a node."""
    row = new_row(books)
    books.rows[row]["node"] = node
    for resource in range(1, 4):
        books.rows[row]["amount"][resource] = need[resource]
    return row


@njit(cache=True)
def place_job(
    books: Books,
    job: int,
    gpus: int,
    milli: int,
    allowed: Bools,
    need: Ints,
    rule: int,
    fit: Ints,
    take: Ints,
) -> bool:
    """Give a job that holds nothing its GPUs, if there is a place by the rule."""
    chain = -1
    if gpus == 0:
        node = find_node_without_gpus(books, allowed, need)
        if node < 0:
            return False
        chain = amounts_on(books, node, need)
    elif milli < 1000:
        node, gpu = find_device(books, allowed, milli, need, rule)
        if node < 0:
            return False
        chain = put_share(books, chain, node, 1 << gpu, milli, need)
    else:
        if not find_nodes(books, allowed, gpus, need, rule, fit, take):
            return False
        for node in range(len(books.nodes) - 1, -1, -1):
            if take[node] > 0:
                chain = put_share(books, chain, node, pick_gpus(books, node, take[node]), 1000, need)
    return put_chain(books, job, chain) == 0


@njit(cache=True)
def count_walk(
    asked: AskedArray,
    facts: FactArray,
    jobs: Ints,
    pinned: Bools,
    ranked: Ints,
    free: int,
    strict: bool,
    chosen: Bools,
) -> None:
    """Who is served, by GPU count alone: in order, taking whoever fits in what is left (Synergy, "Rounds").

    Running jobs among the ranked compete with the others, unless they are pinned: those are chosen first. `free`
    is what is free now, in millionths of a GPU.
    """
    budget = free
    for at in ranked:
        chosen[at] = False
        held = round(facts[jobs[at]]["held"] * 1e6)
        if pinned[at] and (held > 0 or asked[jobs[at]]["gpus"] == 0):
            chosen[at] = True
        else:
            budget += held
    for at in ranked:
        if chosen[at]:
            continue
        demand = round(facts[jobs[at]]["held"] * 1e6)
        if demand == 0:
            demand = asked[jobs[at]]["gpus"] * asked[jobs[at]]["milli"] * 1000
        if demand <= budget:
            chosen[at] = True
            budget -= demand
        elif strict:
            break


@njit(cache=True)
def serve(
    books: Books,
    asked: AskedArray,
    jobs: Ints,
    node_allowed: Bools,
    ranked: Ints,
    chosen: Bools,
    resource_options: Ints,
    rules: Ints,
    strict: bool,
    codes: Ints,
    a: Floats,
    b: Floats,
) -> None:
    """Stop the running jobs that are not chosen, then place the chosen ones in order, then whoever still fits.

    A running job keeps its place. A chosen job that finds no place leaves its GPUs to later ones; a job stopped
    for it in vain gets its place back. `ladder[position or 0]` are the needs to try, best first, and
    `rules[position or 0]` the rule of placement. What comes out are reason codes and their numbers, by position.
    """
    nodes = len(books.nodes)
    fit = np.zeros(nodes, np.int64)
    take = np.zeros(nodes, np.int64)
    stopped_at = np.full(len(jobs), -1)
    shared_ladder = len(resource_options) == 1
    for at in ranked:
        if books.heads[jobs[at]] >= 0:
            codes[at] = PLACED
            if not chosen[at]:
                stopped_at[at] = books.heads[jobs[at]]
                release_job(books, jobs[at])
    hopeless = np.zeros(64, np.bool_)  # gang sizes that found no place since the last release
    blocked = False
    # What is still releasing was promised to a chosen job: others may not take the rest of its GPUs meanwhile.
    releasing = False
    if books.totals[DELAYED]:
        for node in range(nodes):
            releasing = releasing or books.nodes[node]["releasing"][0] > 0
    for the_chosen in (True, False):
        for at in ranked:
            job = jobs[at]
            if books.heads[job] >= 0 or chosen[at] != the_chosen:
                continue
            gpus = asked[job]["gpus"]
            milli = asked[job]["milli"]
            constraint = asked[job]["constraint"]
            needs_milli = gpus * milli
            promised = releasing and not the_chosen
            if not promised and stopped_at[at] >= 0 and put_back(books, job, stopped_at[at]):
                codes[at] = PLACED
                continue
            if blocked:
                codes[at] = BEHIND_HEAD
                continue
            if promised or needs_milli * 1000 > books.totals[0]:
                codes[at] = OUTRANKED if promised or stopped_at[at] >= 0 else NO_GPUS
                a[at] = needs_milli / 1000
                b[at] = books.totals[0] / 1e6
                blocked = strict
                continue
            alike = shared_ladder and len(rules) == 1 and constraint == 0 and milli == 1000 and gpus < 64
            placed = False
            if not (alike and hopeless[gpus]):
                allowed = node_allowed[constraint]
                rungs = resource_options[0 if shared_ladder else at]
                rule = rules[0 if len(rules) == 1 else at]
                for rung in range(len(rungs)):
                    if place_job(books, job, gpus, milli, allowed, rungs[rung], rule, fit, take):
                        placed = True
                        break
            if placed:
                codes[at] = PLACED
            else:
                if alike:
                    hopeless[gpus] = True
                codes[at] = NO_PLACE
                a[at] = needs_milli / 1000
                b[at] = books.totals[0] / 1e6
                if gpus == 0:
                    codes[at] = NO_CPUS
                    a[at] = asked[job]["cpu"] / 1e6
                    memory: int = asked[job]["memory"]
                    b[at] = max(memory, 0) / 1e6
                blocked = strict


@njit(cache=True)
def put_back(books: Books, job: int, chain: int) -> bool:
    """Give a stopped job the rows it had, if all of it is still free."""
    return put_chain(books, job, copy_chain(books, chain)) == 0
