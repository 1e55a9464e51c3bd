"""Where workers and servers sit: as evenly as possible on the fewest nodes, the emptiest first (Optimus §4.2).

Nodes stand by free CPU, the most first; jobs come by demand, the least first. A job goes to the first k nodes
that hold an even part of its workers and servers each, with the least k that there is. Where no such nodes are, its
workers and its servers look for nodes of their own, each evenly; then anywhere; then with about a quarter fewer, and
so on; then it gets back what it held. A node's network card keeps each server its bandwidth. The workers of a ring,
who all wait for the slowest link between them, first look for such nodes within one rack, before all other jobs, and
the largest ring first.
"""

from __future__ import annotations

import numpy as np

from muster.cluster.ledger_arrays import (
    SERVER,
    Books,
    Bools,
    Ints,
    copy_chain,
    new_row,
    put_chain,
    release_job,
)
from muster.compiling import njit
from muster.schedulers.placement.kernels import pick_gpus
from muster.workload.jobs import AskedArray

_GPU, _CPU, _MEMORY, _NIC = 0, 1, 2, 3


@njit(cache=True)
def seat(
    books: Books,
    asked: AskedArray,
    index: Ints,
    order: Ints,
    workers: Ints,
    servers: Ints,
    least_workers: Ints,
    needs: Ints,
    nic: Ints,
    rack_of: Ints,
    in_ring: Bools,
    node_allowed: Bools,
    settled: Bools,
) -> Bools:
    """Stop the jobs that change their size, then place them in order; which of them were stopped or shrunk in vain.

    `needs[job, role]` are millionths of GPU, CPU, memory and bandwidth of one worker or server, `nic` the bandwidth
    of the nodes likewise, `rack_of` their racks. `settled` jobs keep what they hold.
    """
    nodes = len(books.nodes)
    stopped = np.full(len(index), -1)
    for at in range(len(index)):
        if not settled[at] and books.heads[index[at]] >= 0:
            stopped[at] = books.heads[index[at]]
            release_job(books, index[at])
    free = np.empty((nodes, 4), np.int64)
    for node in range(nodes):
        record = books.nodes[node]
        free[node, _GPU] = record["free_gpus"] * 1_000_000
        free[node, _CPU] = record["free"][1]
        free[node, _MEMORY] = record["free"][2]
        free[node, _NIC] = nic[node]
    for at in range(len(index)):
        _take(books, books.heads[index[at]], needs[at], free, True)
    # How many nodes have so many GPUs free.
    with_gpus = np.bincount(free[:, _GPU] // 1_000_000, np.ones(nodes), 65)
    by_cpu = np.argsort(-free[:, _CPU], kind="mergesort")
    seats = np.zeros((2, nodes), np.int64)
    one_group = np.zeros(nodes, np.int64)
    racks = rack_of.max() + 1
    for at in order:
        if settled[at]:
            continue
        job = index[at]
        allowed = node_allowed[asked[job]["constraint"]]
        least_servers = min(servers[at], 1)
        chain = -1
        w = _room(by_cpu, allowed, needs[at, 0], free, workers[at])
        p = _room(by_cpu, allowed, needs[at, 1], free, servers[at])
        while w >= max(least_workers[at], 1) and p >= least_servers and workers[at] > 0:
            groups, count = (rack_of, racks) if in_ring[at] else (one_group, 1)
            if _find(by_cpu, allowed, w, p, needs[at], free, with_gpus, groups, count, one_group, seats):
                chain = _chain(books, by_cpu, seats, needs[at])
                break
            if w <= least_workers[at] and p <= least_servers:
                break
            w = max(w - max(w // 4, 1), least_workers[at])
            p = max(p - max(p // 4, 1), least_servers)
        if chain < 0 and stopped[at] >= 0 and workers[at] > 0:
            if _has_bandwidth(books, stopped[at], needs[at], free):
                chain = copy_chain(books, stopped[at])
        if chain >= 0 and put_chain(books, job, chain) == 0:
            _charge(books, chain, needs[at], free, with_gpus, by_cpu)
    in_vain = np.zeros(len(index), np.bool_)
    for at in range(len(index)):
        if stopped[at] >= 0:
            in_vain[at] = _was_in_vain(books, stopped[at], books.heads[index[at]], needs[at], free)
    return in_vain


@njit(cache=True)
def _was_in_vain(books: Books, before: int, now: int, needs: Ints, free: Ints) -> bool:
    """Whether a job holds no more than before and all that it held before is free beside the others."""
    for role in range(2):
        if _count_all(books, now, needs, role) > _count_all(books, before, needs, role):
            return False
    _take(books, now, needs, free, False, -1)
    _take(books, before, needs, free, False, 1)
    fits = True
    row = before
    while row >= 0:
        node: int = books.rows[row]["node"]
        fits = fits and bool((free[node] >= 0).all())
        row = books.rows[row]["next"]
    _take(books, before, needs, free, False, -1)
    _take(books, now, needs, free, False, 1)
    return fits


@njit(cache=True)
def _count_all(books: Books, chain: int, needs: Ints, role: int) -> int:
    """Workers (role 0) or servers (1) in a chain."""
    count = 0
    while chain >= 0:
        if books.rows[chain]["role"] == role:
            count += _count(books, chain, needs)
        chain = books.rows[chain]["next"]
    return count


@njit(cache=True)
def _count(books: Books, row: int, needs: Ints) -> int:
    """How many workers or servers a row holds."""
    role = books.rows[row]["role"]
    told_by = _CPU if role == SERVER else _GPU
    count: int = books.rows[row]["amount"][told_by] // needs[role, told_by]
    return count


@njit(cache=True)
def _take(books: Books, chain: int, needs: Ints, free: Ints, only_bandwidth: bool, times: int = 1) -> None:
    """Take what a chain holds from the free, or its bandwidth alone; with -1 `times`, give it back."""
    while chain >= 0:
        row = books.rows[chain]
        count = _count(books, chain, needs)
        for resource in range(_NIC if only_bandwidth else _GPU, _NIC + 1):
            free[row["node"], resource] -= times * count * needs[row["role"], resource]
        chain = row["next"]


@njit(cache=True)
def _charge(books: Books, chain: int, needs: Ints, free: Ints, with_gpus: Ints, by_cpu: Ints) -> None:
    """Take what a new chain holds from the free, and put its nodes back in their order."""
    touched = np.zeros(len(by_cpu), np.bool_)
    row = chain
    while row >= 0:
        node = books.rows[row]["node"]
        if not touched[node]:
            with_gpus[free[node, _GPU] // 1_000_000] -= 1
        touched[node] = True
        row = books.rows[row]["next"]
    _take(books, chain, needs, free, False)
    for at in range(len(by_cpu) - 1, -1, -1):
        node = by_cpu[at]
        if touched[node]:
            with_gpus[free[node, _GPU] // 1_000_000] += 1
            # Behind it all are in order already: the last with more is found by halves.
            to, end = at, len(by_cpu) - 1
            while to < end:
                middle = (to + end + 1) // 2
                if free[by_cpu[middle], _CPU] > free[node, _CPU]:
                    to = middle
                else:
                    end = middle - 1
            for place in range(at, to):
                by_cpu[place] = by_cpu[place + 1]
            by_cpu[to] = node


@njit(cache=True)
def _has_bandwidth(books: Books, chain: int, needs: Ints, free: Ints) -> bool:
    """Whether the network cards still have what a stopped job was kept."""
    while chain >= 0:
        row = books.rows[chain]
        kept = _count(books, chain, needs) * needs[row["role"], _NIC]
        if books.rows[chain]["next"] >= 0 and books.rows[books.rows[chain]["next"]]["node"] == row["node"]:
            # A node's servers come right after its workers.
            other = books.rows[chain]["next"]
            kept += _count(books, other, needs) * needs[books.rows[other]["role"], _NIC]
        if kept > free[row["node"], _NIC]:
            return False
        chain = row["next"]
    return True


@njit(cache=True)
def _fits(free: Ints, node: int, workers: int, servers: int, needs: Ints) -> bool:
    """Whether a node has so many workers and servers free."""
    for resource in range(4):
        if workers * needs[0, resource] + servers * needs[1, resource] > free[node, resource]:
            return False
    return True


@njit(cache=True)
def _find(
    by_cpu: Ints,
    allowed: Bools,
    workers: int,
    servers: int,
    needs: Ints,
    free: Ints,
    with_gpus: Ints,
    groups: Ints,
    count_of_groups: int,
    one_group: Ints,
    seats: Ints,
) -> bool:
    """Fill `seats` (roles x nodes) by this module's rule, at best within one group; whether there is a place."""
    seats[:] = 0
    if _evenly(by_cpu, allowed, workers, servers, needs, free, with_gpus, groups, count_of_groups, seats):
        return True
    if _evenly(by_cpu, allowed, workers, 0, needs, free, with_gpus, one_group, 1, seats):
        if servers == 0 or _evenly(by_cpu, allowed, 0, servers, needs, free, with_gpus, one_group, 1, seats):
            return True
    seats[:] = 0
    return _anywhere(by_cpu, allowed, workers, 0, needs, free, seats) and _anywhere(
        by_cpu, allowed, 0, servers, needs, free, seats
    )


@njit(cache=True)
def _anywhere(
    by_cpu: Ints, allowed: Bools, workers: int, servers: int, needs: Ints, free: Ints, seats: Ints
) -> bool:
    """Add workers or servers (one of the two numbers is 0) node by node; whether all have a seat."""
    role = 0 if servers == 0 else 1
    count = workers + servers
    for node in by_cpu:
        if count == 0:
            break
        if allowed[node]:
            while count > 0 and _fits(free, node, seats[0, node] + (1 - role), seats[1, node] + role, needs):
                seats[role, node] += 1
                count -= 1
    return count == 0


@njit(cache=True)
def _room(by_cpu: Ints, allowed: Bools, needs: Ints, free: Ints, wanted: int) -> int:
    """How many of the wanted workers, or servers, the nodes have room for if nothing else comes."""
    count = 0
    for node in by_cpu:
        if count >= wanted or free[node, _CPU] < needs[_CPU]:
            break
        if allowed[node]:
            here = wanted
            for resource in range(4):
                if needs[resource] > 0:
                    here = min(here, max(free[node, resource], 0) // needs[resource])
            count += here
    return min(count, wanted)


@njit(cache=True)
def _evenly(
    by_cpu: Ints,
    allowed: Bools,
    workers: int,
    servers: int,
    needs: Ints,
    free: Ints,
    with_gpus: Ints,
    groups: Ints,
    count_of_groups: int,
    seats: Ints,
) -> bool:
    """Add even parts on the fewest nodes of one group to the seats; whether there are such nodes."""
    found_in = np.zeros(count_of_groups, np.int64)
    chosen = np.empty(min(max(workers, servers) * count_of_groups, len(by_cpu)), np.int64)
    before_workers = before_servers = -1
    for count in range(1, max(workers, servers) + 1):
        part_workers = -(-workers // count)
        part_servers = -(-servers // count)
        if part_workers == before_workers and part_servers == before_servers:
            continue  # as large parts as before, on more nodes
        before_workers, before_servers = part_workers, part_servers
        gpus = part_workers * needs[0, _GPU] // 1_000_000
        if gpus >= len(with_gpus) or with_gpus[gpus:].sum() < count:
            continue
        cpus = part_workers * needs[0, _CPU] + part_servers * needs[1, _CPU]
        found = 0
        found_in[:] = 0
        for node in by_cpu:
            if free[node, _CPU] < cpus:
                break
            if allowed[node] and _fits(
                free, node, seats[0, node] + part_workers, seats[1, node] + part_servers, needs
            ):
                chosen[found] = node
                found += 1
                found_in[groups[node]] += 1
                if found_in[groups[node]] == count:
                    _share_out(chosen[:found], groups, groups[node], count, workers, servers, seats)
                    return True
    return False


@njit(cache=True)
def _share_out(
    chosen: Ints, groups: Ints, group: int, count: int, workers: int, servers: int, seats: Ints
) -> None:
    """Even parts to the chosen nodes of a group, `count` of them; what is over to the first."""
    at = 0
    for node in chosen:
        if groups[node] == group:
            seats[0, node] += workers // count + (at < workers % count)
            seats[1, node] += servers // count + (at < servers % count)
            at += 1


@njit(cache=True)
def _chain(books: Books, by_cpu: Ints, seats: Ints, needs: Ints) -> int:
    """Rows for the seats: the emptiest node last, its servers after its workers."""
    chain = -1
    for node in by_cpu:
        for role in (1, 0):
            count = seats[role, node]
            if count > 0:
                row = new_row(books)
                record = books.rows[row]
                record["node"] = node
                record["role"] = role
                for resource in range(3):
                    record["amount"][resource] = count * needs[role, resource]
                if role == 0:
                    record["mask"] = pick_gpus(books, node, record["amount"][_GPU] // 1_000_000)
                record["next"] = chain
                chain = row
    return chain
