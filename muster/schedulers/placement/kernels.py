"""Finding places on the ledger, compiled: one job's place by a rule, and a whole queue served in order.

Needs are amounts per GPU in millionths; `PROPORTIONAL` stands for the share of the node that is tried, and
`PROPORTIONAL - amount` for the share, but at least the amount.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muster.cluster.ledger_arrays import (
    CPU,
    DELAYED,
    GPU,
    MEMORY,
    MICRO,
    NONE,
    STORAGE,
    WHOLE,
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
from muster.cluster.resources import RESOURCE_COUNT
from muster.compiling import njit
from muster.schedulers.contract import Proposal, Snapshot
from muster.schedulers.reasons import BEHIND_HEAD, NO_CPUS, NO_GPUS, NO_PLACE, OUTRANKED, PLACED
from muster.workload.jobs import AskedArray, FactArray

PROPORTIONAL = -1

PACK, FIRST_FIT, CONSOLIDATE, SPREAD, YARN = 0, 1, 2, 3, 4


class JobColumns(NamedTuple):
    """The jobs of a snapshot as kernels take them."""

    spec: AskedArray
    """The specs of all jobs, by number."""
    numbers: Ints
    """By position: the job's number."""
    node_allowed: Bools
    """Constraints x nodes."""


class ReasonColumns(NamedTuple):
    """By position: why a job holds nothing, or PLACED, with the two numbers of the reason."""

    codes: Ints
    a: Floats
    b: Floats


class Scratch(NamedTuple):
    """Arrays in which a place for one gang is worked out."""

    fit: Ints
    """By node: free GPUs that come with what they need."""
    take: Ints
    """By node: GPUs that the gang takes."""
    racks: Ints
    """By rack: the sum of `fit`."""


def job_columns(snapshot: Snapshot) -> JobColumns:
    """The jobs of a snapshot as kernels take them."""
    return JobColumns(snapshot.table.asked, snapshot.jobs.index, snapshot.table.node_allowed)


def reason_columns(proposal: Proposal) -> ReasonColumns:
    """The reasons of a proposal, to be written by kernels."""
    return ReasonColumns(proposal.reasons, proposal.reason_a, proposal.reason_b)


@njit(cache=True)
def scratch_for(books: Books) -> Scratch:
    """Scratch arrays for the nodes of a ledger."""
    nodes = len(books.nodes)
    racks = np.zeros(books.nodes["rack"].max() + 1, np.int64)
    return Scratch(np.zeros(nodes, np.int64), np.zeros(nodes, np.int64), racks)


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
            for resource in range(1, RESOURCE_COUNT):
                fits = fits and (resource == STORAGE or least[at, resource] <= left[resource])
            if the_pinned or fits:
                left -= least[at]
            else:
                chosen[at] = False
                blocked = strict


def proportional_needs(nodes: NodeArray, requested: Ints) -> Ints:
    """The node's share, but at least the request: jobs x 1 x resources, or one line if no request exceeds a share."""
    line = np.full((1, 1, RESOURCE_COUNT), PROPORTIONAL)
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
    for resource in range(1, RESOURCE_COUNT):
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
    for resource in range(1, RESOURCE_COUNT):
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
    """On how few nodes the gang would be if the cluster were empty; one more than there are if on none."""
    nodes = len(books.nodes)
    most = np.zeros(nodes, np.int64)
    for node in range(nodes):
        if allowed[node]:
            most[node] = books.nodes[node]["gpus"]
            for resource in range(1, RESOURCE_COUNT):
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
def count_fitting(books: Books, allowed: Bools, need: Ints, fit: Ints) -> int:
    """Write by node how many free GPUs come with what they need; all of them."""
    total = 0
    for node in range(len(books.nodes)):
        fit[node] = 0
        if allowed[node] and books.nodes[node]["free_gpus"] > 0:
            fit[node] = gpus_that_fit(books, node, need)
            total += fit[node]
    return total


@njit(cache=True)
def _fullest_node(books: Books, allowed: Bools, gpus: int, need: Ints) -> int:
    """The fullest node that holds a whole gang, or -1."""
    best = -1
    for node in range(len(books.nodes)):
        if allowed[node] and holds_gang(books, node, gpus, need) and _fuller(books, node, best):
            best = node
    return best


@njit(cache=True)
def _take_in_order(gpus: int, fit: Ints, take: Ints) -> None:
    """As many GPUs on each node as fit, node by node."""
    for node in range(len(fit)):
        take[node] = min(fit[node], gpus)
        gpus -= take[node]


@njit(cache=True)
def _take_spread(gpus: int, fit: Ints, take: Ints) -> None:
    """One GPU at a time where most are free."""
    for _ in range(gpus):
        most = 0
        for node in range(len(fit)):
            if fit[node] - take[node] > fit[most] - take[most]:
                most = node
        take[most] += 1


@njit(cache=True)
def tighter(free: Ints, node: int, other: int, home: int) -> bool:
    """Best fit: whether a node has less free than another, column before column; of equals home."""
    for column in range(free.shape[1]):
        if free[node, column] != free[other, column]:
            return bool(free[node, column] < free[other, column])
    return node == home


@njit(cache=True)
def take_fewest_nodes(free: Ints, home: int, gpus: int, at_most: int, fit: Ints, take: Ints) -> bool:
    """The emptiest nodes and the tightest that takes the rest; whether so many nodes are enough.

    `fit` is how many GPUs each node could give, at least `gpus` in all; `free` and `home` are those of `tighter`.
    """
    for _ in range(at_most):
        if gpus == 0:
            break
        most, tightest = -1, -1
        for node in range(len(fit)):
            if take[node] == 0 and fit[node] > 0:
                if most < 0 or fit[node] > fit[most]:
                    most = node
                if fit[node] >= gpus and (tightest < 0 or tighter(free, node, tightest, home)):
                    tightest = node
        chosen = tightest if tightest >= 0 else most
        take[chosen] = min(fit[chosen], gpus)
        gpus -= take[chosen]
    return gpus == 0


@njit(cache=True)
def find_nodes(books: Books, allowed: Bools, gpus: int, need: Ints, rule: int, scratch: Scratch) -> bool:
    """Choose nodes for a gang by a rule; `scratch.take` gets the GPUs on each. Whether there is a place.

    Pack: the fullest node that holds the gang, else the emptiest nodes and the fullest that takes the rest.
    First fit: nodes in order. Consolidate: as pack, but only on the fewest nodes that could
    ever hold the gang. Spread: one GPU at a time where most are free. Yarn: the first node that holds the gang;
    if it is larger than any, the first nodes that are all free and the first that takes the rest.
    """
    fit, take = scratch.fit, scratch.take
    take[:] = 0
    if rule == YARN:
        return _first_whole_nodes(books, allowed, gpus, need, take)
    if rule in (PACK, CONSOLIDATE):
        best = _fullest_node(books, allowed, gpus, need)
        if best >= 0:
            take[best] = gpus
            return True
    if count_fitting(books, allowed, need, fit) < gpus:
        return False
    if rule == FIRST_FIT:
        _take_in_order(gpus, fit, take)
        return True
    if rule == SPREAD:
        _take_spread(gpus, fit, take)
        return True
    at_most = fewest_nodes(books, allowed, gpus, need) if rule == CONSOLIDATE else len(books.nodes)
    free = np.empty((len(books.nodes), 2), np.int64)
    free[:, 0], free[:, 1] = books.nodes["free_gpus"], books.nodes["free"][:, CPU]
    return take_fewest_nodes(free, NONE, gpus, at_most, fit, take)


@njit(cache=True)
def find_device(books: Books, allowed: Bools, milli: int, need: Ints, rule: int) -> tuple[int, int]:
    """A node and GPU for a share of a GPU: the fullest shared GPU that has room, else one of the fullest node."""
    best_node, best_gpu, best_free = -1, -1, 1 << 30
    for node in range(len(books.nodes)):
        if not allowed[node] or not books.nodes[node]["up"]:
            continue
        short = False
        for resource in range(1, RESOURCE_COUNT):
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
    for resource in range(1, RESOURCE_COUNT):
        books.rows[row]["amount"][resource] = need_on(books, node, resource, need) * gpus * milli // 1000
    books.rows[row]["next"] = chain
    return row


@njit(cache=True)
def chain_of(books: Books, take: Ints, need: Ints, chain: int = -1) -> int:
    """Rows for so many GPUs on each node, in front of a chain; the new chain."""
    for node in range(len(take) - 1, -1, -1):
        if take[node] > 0:
            chain = put_share(books, chain, node, pick_gpus(books, node, take[node]), WHOLE, need)
    return chain


@njit(cache=True)
def find_node_without_gpus(books: Books, allowed: Bools, need: Ints) -> int:
    """A node for a job without GPUs: with the fewest free GPUs, of equals with the fewest free CPUs; -1: none."""
    best = -1
    for node in range(len(books.nodes)):
        record = books.nodes[node]
        fits = allowed[node] and record["up"] != 0
        for resource in range(1, RESOURCE_COUNT):
            fits = fits and need[resource] <= record["free"][resource]
        if fits and _fuller(books, node, best):
            best = node
    return best


@njit(cache=True)
def amounts_on(books: Books, node: int, need: Ints) -> int:
    """A row for a job without GPUs on a node."""
    row = new_row(books)
    books.rows[row]["node"] = node
    for resource in range(1, RESOURCE_COUNT):
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
    scratch: Scratch,
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
        if not find_nodes(books, allowed, gpus, need, rule, scratch):
            return False
        chain = chain_of(books, scratch.take, need)
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
    """Choose the jobs to serve, by GPU count alone: in order, each that fits in what is left (Synergy, "Rounds").

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
def gpus_releasing(books: Books) -> bool:
    """Whether GPUs that were given back are not free yet."""
    if books.totals[DELAYED]:
        for node in range(len(books.nodes)):
            if books.nodes[node]["releasing"][GPU] > 0:
                return True
    return False


@njit(cache=True)
def serve(
    books: Books,
    jobs: JobColumns,
    ranked: Ints,
    chosen: Bools,
    resource_options: Ints,
    rules: Ints,
    strict: bool,
    reasons: ReasonColumns,
) -> None:
    """Stop the running jobs that are not chosen, then place the chosen ones in order, then the others that still fit.

    A running job keeps its place. A chosen job that finds no place leaves its GPUs to later ones; a job stopped
    for it in vain gets its place back. `resource_options[position or 0]` are the needs to try, best first, and
    `rules[position or 0]` the rule of placement. What comes out are the reasons.
    """
    stopped = _stop_others(books, jobs.numbers, ranked, chosen, reasons.codes)
    scratch = scratch_for(books)
    hopeless = np.zeros(64, np.bool_)  # gang sizes that found no place since the last release
    blocked = False
    # What is still releasing was promised to a chosen job: others may not take the rest of its GPUs meanwhile.
    releasing = gpus_releasing(books)
    for the_chosen in (True, False):
        promised = releasing and not the_chosen
        for at in ranked:
            job = jobs.numbers[at]
            if books.heads[job] >= 0 or chosen[at] != the_chosen:
                continue
            if not promised and stopped[at] >= 0 and put_back(books, job, stopped[at]):
                reasons.codes[at] = PLACED
            elif blocked:
                reasons.codes[at] = BEHIND_HEAD
            elif promised or thousandths_of(jobs, at) * 1000 > books.totals[GPU]:
                code = OUTRANKED if promised or stopped[at] >= 0 else NO_GPUS
                note_lack(books, jobs, at, code, reasons)
                blocked = strict
            elif _place_with_first_option(books, jobs, at, resource_options, rules, hopeless, scratch):
                reasons.codes[at] = PLACED
            else:
                note_no_place(books, jobs, at, reasons)
                blocked = strict


@njit(cache=True)
def _stop_others(books: Books, index: Ints, ranked: Ints, chosen: Bools, codes: Ints) -> Ints:
    """Stop the running jobs that are not chosen; by position the chain that each of them held, or -1."""
    stopped = np.full(len(index), -1)
    for at in ranked:
        if books.heads[index[at]] >= 0:
            codes[at] = PLACED
            if not chosen[at]:
                stopped[at] = books.heads[index[at]]
                release_job(books, index[at])
    return stopped


@njit(cache=True)
def _place_with_first_option(
    books: Books,
    jobs: JobColumns,
    at: int,
    resource_options: Ints,
    rules: Ints,
    hopeless: Bools,
    scratch: Scratch,
) -> bool:
    """Place a job with the first of its resource options for which there is a place."""
    spec = jobs.spec[jobs.numbers[at]]
    gpus, milli, constraint = spec["gpus"], spec["milli"], spec["constraint"]
    shared = len(resource_options) == 1
    alike = shared and len(rules) == 1 and constraint == 0 and milli == WHOLE and gpus < len(hopeless)
    if alike and hopeless[gpus]:
        return False
    options = resource_options[0 if shared else at]
    rule = rules[0 if len(rules) == 1 else at]
    for option in range(len(options)):
        allowed = jobs.node_allowed[constraint]
        if place_job(books, jobs.numbers[at], gpus, milli, allowed, options[option], rule, scratch):
            return True
    if alike:
        hopeless[gpus] = True
    return False


@njit(cache=True)
def thousandths_of(jobs: JobColumns, at: int) -> int:
    """Thousandths of a GPU that a job asks for."""
    spec = jobs.spec[jobs.numbers[at]]
    thousandths: int = spec["gpus"] * spec["milli"]
    return thousandths


@njit(cache=True)
def note_lack(books: Books, jobs: JobColumns, at: int, code: int, reasons: ReasonColumns) -> None:
    """Note that a job waits for GPUs or for a place: what it needs, and how many GPUs are free."""
    reasons.codes[at] = code
    reasons.a[at] = thousandths_of(jobs, at) / WHOLE
    reasons.b[at] = books.totals[GPU] / MICRO


@njit(cache=True)
def note_no_place(books: Books, jobs: JobColumns, at: int, reasons: ReasonColumns) -> None:
    """Note that there is no place for a job, or no CPUs and memory for one without GPUs."""
    note_lack(books, jobs, at, NO_PLACE, reasons)
    spec = jobs.spec[jobs.numbers[at]]
    if spec["gpus"] == 0:
        reasons.codes[at] = NO_CPUS
        reasons.a[at] = spec["requested"][CPU] / MICRO
        reasons.b[at] = max(int(spec["requested"][MEMORY]), 0) / MICRO


@njit(cache=True)
def put_back(books: Books, job: int, chain: int) -> bool:
    """Give a stopped job the rows it had, if all of it is still free."""
    return put_chain(books, job, copy_chain(books, chain)) == 0
