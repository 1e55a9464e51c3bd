"""The order in which the program of Dally's authors tries islands and machines, compiled.

That program lists the places with a free GPU in a hash table of chained buckets and takes the first that holds the
gang, so the order depends on which places have free GPUs (Apache Commons Collections 4, MultiKeyMap).
"""

from __future__ import annotations

import numpy as np

from muster.cluster.ledger_arrays import Books, Bools, Ints
from muster.compiling import njit

_BUCKETS = 16
"""Of an empty table; it doubles whenever three quarters as many places are in it."""
_32_BITS = (1 << 32) - 1


@njit(cache=True)
def hash_order(keys: Ints) -> Ints:
    """Positions of keys, put in one after the other, in the order in which they are tried."""
    count = len(keys)
    hashes = np.empty(count, np.int64)
    following = np.full(count, -1)
    buckets = np.full(_BUCKETS, -1)
    for place in range(count):
        hashes[place] = _mixed(keys[place])
        bucket = hashes[place] % len(buckets)
        following[place] = buckets[bucket]
        buckets[bucket] = place
        if 4 * (place + 1) >= 3 * len(buckets):
            buckets = _doubled(buckets, hashes, following)
    order = np.empty(count, np.int64)
    at = 0
    for bucket in range(len(buckets) - 1, -1, -1):
        place = buckets[bucket]
        while place >= 0:
            order[at] = place
            at += 1
            place = following[place]
    return order


@njit(cache=True)
def _doubled(buckets: Ints, hashes: Ints, following: Ints) -> Ints:
    """Twice as many buckets: every place goes to the front of its new one, from the highest bucket to the lowest."""
    doubled = np.full(2 * len(buckets), -1)
    for bucket in range(len(buckets) - 1, -1, -1):
        place = buckets[bucket]
        while place >= 0:
            after = following[place]
            new = hashes[place] % len(doubled)
            following[place] = doubled[new]
            doubled[new] = place
            place = after
    return doubled


@njit(cache=True)
def _mixed(key: int) -> int:
    """The table's hash of a key, in unsigned 32 bits."""
    h = key & _32_BITS
    h = (h + (~(h << 9) & _32_BITS)) & _32_BITS
    h ^= h >> 14
    h = (h + (h << 4)) & _32_BITS
    h ^= h >> 10
    return h


@njit(cache=True)
def places_in_order(books: Books, allowed: Bools, by_island: bool) -> tuple[Ints, Ints]:
    """Nodes, and the first GPU of each place, in the order in which they are tried; places with a free GPU only."""
    racks = np.zeros(books.nodes["rack"].max() + 1, np.int64)
    nodes = np.empty(len(books.nodes) * 64, np.int64)
    firsts = np.empty(len(nodes), np.int64)
    keys = np.empty(len(nodes), np.int64)
    count = 0
    for node in in_rack_order(books):
        record = books.nodes[node]
        machine = racks[record["rack"]]
        racks[record["rack"]] += 1
        island: int = record["island"]
        size = max(island, 1) if by_island else 64
        for first in range(0, record["gpus"], size):
            if allowed[node] and record["free_mask"] >> first & ((1 << size) - 1 if size < 63 else -1):
                nodes[count], firsts[count] = node, first
                keys[count] = record["rack"] ^ machine ^ (first // size if by_island else 0)
                count += 1
    order = hash_order(keys[:count])
    return nodes[order], firsts[order]


@njit(cache=True)
def in_rack_order(books: Books) -> Ints:
    """All nodes, rack after rack."""
    return np.argsort(books.nodes["rack"], kind="mergesort")
