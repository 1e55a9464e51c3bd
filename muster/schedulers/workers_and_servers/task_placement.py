"""Where workers and servers go: as evenly as possible on the fewest nodes, the emptiest first (Optimus §4.2).

Nodes stand by free CPU, the most first; jobs come by demand, the least first. A job goes to the first k nodes
that hold an even part of its workers and servers each, with the least k that there is. Where no such nodes are, its
workers and its servers look for nodes of their own, each evenly; then anywhere; then with about a quarter fewer, and
so on; then it gets back what it held. A node's network card keeps each server its bandwidth. The workers of a ring,
which all wait for the slowest link between them, first look for such nodes within one rack, before all other jobs, and
the largest ring first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muster.cluster.ledger_arrays import (
    MICRO,
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
from muster.schedulers.placement.kernels import JobColumns, pick_gpus

_GPU, _CPU, _MEMORY, _NIC = 0, 1, 2, 3


class Tasks(NamedTuple):
    """By position: how many workers and servers each job should have, and what one of them needs."""

    workers: Ints
    servers: Ints
    least_workers: Ints
    needs: Ints
    """(jobs, roles, 4) millionths of GPU, CPU, memory and network bandwidth of one worker or server."""
    in_ring: Bools
    settled: Bools
    """Jobs that keep what they hold."""


class NetworkCards(NamedTuple):
    """By node."""

    bandwidth: Ints
    """Of its network card, in millionths of a GB/s."""
    rack: Ints


class Room(NamedTuple):
    """What the nodes have free while jobs are placed."""

    free: Ints
    """(nodes, 4) as `Tasks.needs`."""
    with_gpus: Ints
    """How many nodes have so many GPUs free."""
    by_cpu: Ints
    """The nodes, the one with the most free CPU first."""


class Groups(NamedTuple):
    """Groups of nodes, within one of which a job's tasks should be."""

    of_node: Ints
    number: int
    """How many there are."""


@njit(cache=True)
def place_tasks(books: Books, jobs: JobColumns, order: Ints, tasks: Tasks, cards: NetworkCards) -> Bools:
    """Stop the jobs that change their size, then place them in order; which of them were stopped or shrunk in vain."""
    count = len(jobs.numbers)
    stopped = np.full(count, -1)
    for at in range(count):
        if not tasks.settled[at] and books.heads[jobs.numbers[at]] >= 0:
            stopped[at] = books.heads[jobs.numbers[at]]
            release_job(books, jobs.numbers[at])
    room = _room_of(books, jobs.numbers, tasks.needs, cards.bandwidth)
    placed = np.zeros((2, len(books.nodes)), np.int64)
    everywhere = Groups(np.zeros(len(books.nodes), np.int64), 1)
    racks = Groups(cards.rack, int(cards.rack.max()) + 1)
    for at in order:
        if tasks.settled[at]:
            continue
        groups = racks if tasks.in_ring[at] else everywhere
        chain = _chain_for(books, jobs, at, tasks, room, (groups, everywhere), placed)
        if chain < 0 and stopped[at] >= 0 and tasks.workers[at] > 0:
            if _has_bandwidth(books, stopped[at], tasks.needs[at], room.free):
                chain = copy_chain(books, stopped[at])
        if chain >= 0 and put_chain(books, jobs.numbers[at], chain) == 0:
            _charge(books, chain, tasks.needs[at], room)
    in_vain = np.zeros(count, np.bool_)
    for at in range(count):
        if stopped[at] >= 0:
            held = books.heads[jobs.numbers[at]]
            in_vain[at] = _was_in_vain(books, stopped[at], held, tasks.needs[at], room.free)
    return in_vain


@njit(cache=True)
def _room_of(books: Books, numbers: Ints, needs: Ints, bandwidth: Ints) -> Room:
    """What the nodes have free; the ledger knows nothing of the bandwidth that jobs use."""
    nodes = len(books.nodes)
    free = np.empty((nodes, 4), np.int64)
    for node in range(nodes):
        record = books.nodes[node]
        free[node, _GPU] = record["free_gpus"] * MICRO
        free[node, _CPU] = record["free"][1]
        free[node, _MEMORY] = record["free"][2]
        free[node, _NIC] = bandwidth[node]
    for at in range(len(numbers)):
        _take(books, books.heads[numbers[at]], needs[at], free, True)
    with_gpus = np.bincount(free[:, _GPU] // MICRO, np.ones(nodes), 65)
    return Room(free, with_gpus, np.argsort(-free[:, _CPU], kind="mergesort"))


@njit(cache=True)
def _chain_for(
    books: Books,
    jobs: JobColumns,
    at: int,
    tasks: Tasks,
    room: Room,
    groups: tuple[Groups, Groups],
    placed: Ints,
) -> int:
    """Rows for a job's tasks, for fewer and fewer where there is no place for all; -1: there is none."""
    if tasks.workers[at] == 0:
        return -1
    needs = tasks.needs[at]
    allowed = jobs.node_allowed[jobs.spec[jobs.numbers[at]]["constraint"]]
    least_workers, least_servers = tasks.least_workers[at], min(tasks.servers[at], 1)
    w = _most_tasks(room, allowed, needs[0], tasks.workers[at])
    p = _most_tasks(room, allowed, needs[1], tasks.servers[at])
    while w >= max(least_workers, 1) and p >= least_servers:
        if _find(room, allowed, (w, p), needs, groups, placed):
            return _chain(books, room.by_cpu, placed, needs)
        if w <= least_workers and p <= least_servers:
            break
        w = max(w - max(w // 4, 1), least_workers)
        p = max(p - max(p // 4, 1), least_servers)
    return -1


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
    resource = _CPU if role == SERVER else _GPU
    count: int = books.rows[row]["amount"][resource] // needs[role, resource]
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
def _charge(books: Books, chain: int, needs: Ints, room: Room) -> None:
    """Take what a new chain holds from the free, and put its nodes back in their order."""
    free, with_gpus, by_cpu = room
    touched = np.zeros(len(by_cpu), np.bool_)
    row = chain
    while row >= 0:
        node = books.rows[row]["node"]
        if not touched[node]:
            with_gpus[free[node, _GPU] // MICRO] -= 1
        touched[node] = True
        row = books.rows[row]["next"]
    _take(books, chain, needs, free, False)
    for at in range(len(by_cpu) - 1, -1, -1):
        node = by_cpu[at]
        if touched[node]:
            with_gpus[free[node, _GPU] // MICRO] += 1
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
    room: Room,
    allowed: Bools,
    counts: tuple[int, int],
    needs: Ints,
    groups: tuple[Groups, Groups],
    placed: Ints,
) -> bool:
    """Fill `placed` (roles x nodes) by this module's rule; whether there is a place for so many workers and servers.

    The first of the `groups` are those within which the tasks should be, the second is all nodes.
    """
    workers, servers = counts
    inside, everywhere = groups
    placed[:] = 0
    if _evenly(room, allowed, (workers, servers), needs, inside, placed):
        return True
    if _evenly(room, allowed, (workers, 0), needs, everywhere, placed):
        if servers == 0 or _evenly(room, allowed, (0, servers), needs, everywhere, placed):
            return True
    placed[:] = 0
    return _anywhere(room, allowed, 0, workers, needs, placed) and _anywhere(
        room, allowed, 1, servers, needs, placed
    )


@njit(cache=True)
def _anywhere(room: Room, allowed: Bools, role: int, count: int, needs: Ints, placed: Ints) -> bool:
    """Add so many workers (role 0) or servers (1) node by node; whether all have a place."""
    for node in room.by_cpu:
        if count == 0:
            break
        if allowed[node]:
            while count > 0 and _fits(
                room.free, node, placed[0, node] + (1 - role), placed[1, node] + role, needs
            ):
                placed[role, node] += 1
                count -= 1
    return count == 0


@njit(cache=True)
def _most_tasks(room: Room, allowed: Bools, needs: Ints, wanted: int) -> int:
    """How many of the wanted workers, or servers, the nodes have room for if nothing else comes."""
    free = room.free
    count = 0
    for node in room.by_cpu:
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
    room: Room, allowed: Bools, counts: tuple[int, int], needs: Ints, groups: Groups, placed: Ints
) -> bool:
    """Add even parts on the fewest nodes of one group to those placed; whether there are such nodes."""
    workers, servers = counts
    free, with_gpus = room.free, room.with_gpus
    found_in = np.zeros(groups.number, np.int64)
    chosen = np.empty(min(max(workers, servers) * groups.number, len(room.by_cpu)), np.int64)
    before_workers = before_servers = -1
    for count in range(1, max(workers, servers) + 1):
        part_workers = -(-workers // count)
        part_servers = -(-servers // count)
        if part_workers == before_workers and part_servers == before_servers:
            continue  # as large parts as before, on more nodes
        before_workers, before_servers = part_workers, part_servers
        gpus = part_workers * needs[0, _GPU] // MICRO
        if gpus >= len(with_gpus) or with_gpus[gpus:].sum() < count:
            continue
        cpus = part_workers * needs[0, _CPU] + part_servers * needs[1, _CPU]
        found = 0
        found_in[:] = 0
        for node in room.by_cpu:
            if free[node, _CPU] < cpus:
                break
            if allowed[node] and _fits(
                free, node, placed[0, node] + part_workers, placed[1, node] + part_servers, needs
            ):
                group = groups.of_node[node]
                chosen[found] = node
                found += 1
                found_in[group] += 1
                if found_in[group] == count:
                    _share_out(chosen[:found], groups.of_node, group, count, counts, placed)
                    return True
    return False


@njit(cache=True)
def _share_out(
    chosen: Ints, group_of: Ints, group: int, count: int, tasks: tuple[int, int], placed: Ints
) -> None:
    """Even parts to the chosen nodes of a group, `count` of them; what is over to the first."""
    workers, servers = tasks
    at = 0
    for node in chosen:
        if group_of[node] == group:
            placed[0, node] += workers // count + (at < workers % count)
            placed[1, node] += servers // count + (at < servers % count)
            at += 1


@njit(cache=True)
def _chain(books: Books, by_cpu: Ints, placed: Ints, needs: Ints) -> int:
    """Rows for the placed tasks: the emptiest node last, its servers after its workers."""
    chain = -1
    for node in by_cpu:
        for role in (1, 0):
            count = placed[role, node]
            if count > 0:
                row = new_row(books)
                record = books.rows[row]
                record["node"] = node
                record["role"] = role
                for resource in range(3):
                    record["amount"][resource] = count * needs[role, resource]
                if role == 0:
                    record["mask"] = pick_gpus(books, node, record["amount"][_GPU] // MICRO)
                record["next"] = chain
                chain = row
    return chain
