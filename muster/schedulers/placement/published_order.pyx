"""The order in which the program of Dally's authors tries islands and machines, compiled.

That program lists the places with a free GPU in a hash table of chained buckets and takes the first that holds the
gang, so the order depends on which places have free GPUs (Apache Commons Collections 4, MultiKeyMap).
"""

from libcpp.algorithm cimport stable_sort

from muster.cluster.arrays cimport Ints, ints
from muster.cluster.ledger_core cimport Node

import numpy as np

cdef int64_t _BUCKETS = 16  # of an empty table; it doubles whenever three quarters as many places are in it
cdef int64_t _32_BITS = (<int64_t> 1 << 32) - 1


cdef struct InRack:
    int64_t rack
    int64_t node


cdef bint _before(const InRack& one, const InRack& other) noexcept nogil:
    return one.rack < other.rack


cdef int64_t _mixed(int64_t key) noexcept nogil:
    """The table's hash of a key, in unsigned 32 bits."""
    cdef int64_t h = key & _32_BITS
    h = (h + (~(h << 9) & _32_BITS)) & _32_BITS
    h ^= h >> 14
    h = (h + (h << 4)) & _32_BITS
    h ^= h >> 10
    return h


cdef void _double(vector[int64_t]& buckets, vector[int64_t]& hashes, vector[int64_t]& following) noexcept nogil:
    """Twice as many buckets: every place goes to the front of its new one, from the highest bucket to the lowest."""
    cdef vector[int64_t] doubled
    cdef int64_t bucket, place, after, new, count = 2 * <int64_t> buckets.size()
    doubled.resize(count, -1)
    for bucket in range(<int64_t> buckets.size() - 1, -1, -1):
        place = buckets[bucket]
        while place >= 0:
            after = following[place]
            new = hashes[place] % count
            following[place] = doubled[new]
            doubled[new] = place
            place = after
    buckets.swap(doubled)


cdef void _list_by_hash(int64_t* keys, int64_t count, int64_t* order) noexcept nogil:
    """Positions of keys, put in one after the other, in the order in which they are tried."""
    cdef vector[int64_t] hashes, following, buckets
    cdef int64_t place, bucket, at = 0
    hashes.resize(count)
    following.resize(count, -1)
    buckets.resize(_BUCKETS, -1)
    for place in range(count):
        hashes[place] = _mixed(keys[place])
        bucket = hashes[place] % <int64_t> buckets.size()
        following[place] = buckets[bucket]
        buckets[bucket] = place
        if 4 * (place + 1) >= 3 * <int64_t> buckets.size():
            _double(buckets, hashes, following)
    for bucket in range(<int64_t> buckets.size() - 1, -1, -1):
        place = buckets[bucket]
        while place >= 0:
            order[at] = place
            at += 1
            place = following[place]


cdef void list_nodes_by_rack(Books* books, vector[int64_t]& nodes) noexcept nogil:
    """All nodes, rack after rack."""
    cdef vector[InRack] by_rack
    cdef InRack one
    cdef int64_t node
    for node in range(books.node_count):
        one.rack, one.node = books.nodes[node].rack, node
        by_rack.push_back(one)
    stable_sort(by_rack.begin(), by_rack.end(), _before)
    nodes.clear()
    for node in range(books.node_count):
        nodes.push_back(by_rack[node].node)


cdef void list_places(Books* books, uint8_t* allowed, bint by_island, vector[Place]& ordered) noexcept nogil:
    """Places with a free GPU, islands or machines, in the order in which they are tried."""
    cdef vector[int64_t] nodes, keys, order
    cdef vector[Place] places
    cdef Place place
    cdef Node* record
    cdef int64_t machine = 0, rack = -1, size, mask, part
    cdef size_t at
    list_nodes_by_rack(books, nodes)
    for at in range(nodes.size()):
        place.node = nodes[at]
        record = &books.nodes[place.node]
        machine = machine + 1 if record.rack == rack else 0
        rack = record.rack
        size = max(record.island, <int64_t> 1) if by_island else 64
        mask = (<int64_t> 1 << size) - 1 if size < 63 else -1
        place.first = 0
        while place.first < record.gpus:
            if allowed[place.node] and record.free_mask >> place.first & mask:
                part = place.first // size if by_island else 0
                places.push_back(place)
                keys.push_back(rack ^ machine ^ part)
            place.first += size
    order.resize(places.size())
    _list_by_hash(keys.data(), keys.size(), order.data())
    ordered.clear()
    for at in range(order.size()):
        ordered.push_back(places[order[at]])


def hash_order(keys):
    """Positions of keys, put in one after the other, in the order in which they are tried."""
    cdef Ints put_in = ints(keys)
    order = np.empty(put_in.size, np.int64)
    _list_by_hash(put_in.at, put_in.size, ints(order).at)
    return order
