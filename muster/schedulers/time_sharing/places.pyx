"""From the ledger to places and back: which whole GPUs each job holds, and back into a transaction."""

from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from muster.cluster.arrays cimport Bools, Ints, bools, ints
from muster.cluster.ledger_core cimport (
    MICRO,
    PACKED,
    WHOLE,
    Books,
    Row,
    books_of,
    count_bits,
    drop_rows,
    new_row,
    put_chain,
    release_job,
    same_chain,
)

# By job, from `first` on, the nodes and masks of its GPUs; and how many jobs hold each GPU, by node.
cdef struct Places:
    int64_t* first
    int64_t* nodes
    int64_t* masks
    int64_t* holders
    int64_t device_count


cdef int64_t _most_holders(int64_t* holders, int64_t gpus, int64_t mask) noexcept nogil:
    """On the most crowded of these GPUs of one node."""
    cdef int64_t gpu, most = 0
    for gpu in range(gpus):
        if mask >> gpu & 1:
            most = max(most, holders[gpu])
    return most


cdef int64_t _chain_at(Books* books, Places* places, int64_t at, bint packed) noexcept nogil:
    """Rows for the GPUs of a position, with their share of the rest, which the jobs that hold a GPU together divide."""
    cdef int64_t place, node, resource, gpus, most, number, chain = -1
    cdef Row* row
    for place in range(places.first[at + 1] - 1, places.first[at] - 1, -1):
        node = places.nodes[place]
        most = _most_holders(places.holders + node * places.device_count, places.device_count, places.masks[place])
        gpus = count_bits(places.masks[place])
        number = new_row(books)
        row = &books.rows[number]
        row.node, row.mask, row.next = node, places.masks[place], chain
        row.amount[0] = gpus * MICRO
        for resource in range(1, books.resources):
            row.amount[resource] = gpus * books.nodes[node].share[resource] // max(most, <int64_t> 1)
        if most > 1:
            row.group = node + PACKED if packed else node
        chain = number
    return chain


def read_places(books, jobs, first, nodes, masks, holders):
    """Rows of whole GPUs, those of position i from `first[i]` on, and how many of the jobs hold each GPU."""
    cdef Books ledger = books_of(books)
    cdef Ints numbers = ints(jobs)
    cdef int64_t* begins = ints(first).at
    cdef int64_t* at_node = ints(nodes).at
    cdef int64_t* mask = ints(masks).at
    cdef int64_t* crowd = ints(holders).at
    cdef int64_t at, chain, gpu, rows = 0
    cdef Row* row
    for at in range(numbers.size):
        begins[at] = rows
        chain = ledger.heads[numbers.at[at]]
        while chain >= 0:
            row = &ledger.rows[chain]
            if row.milli == WHOLE and row.mask:
                at_node[rows], mask[rows] = row.node, row.mask
                rows += 1
                for gpu in range(ledger.nodes[row.node].gpus):
                    if row.mask >> gpu & 1:
                        crowd[row.node * ledger.device_count + gpu] += 1
            chain = row.next
    begins[numbers.size] = rows


def most_holders(holders, int64_t node, int64_t mask):
    """On the most crowded of these GPUs."""
    cdef int64_t gpus = holders.shape[1]
    return _most_holders(ints(holders).at + node * gpus, gpus, mask)


def write_places(books, jobs, first, nodes, masks, holders, packed):
    """Draft that these jobs hold these GPUs and no others; the first position that cannot be put, or -1.

    Each gets its GPUs' share of CPU, memory and storage, which the jobs that hold a GPU together divide.
    """
    cdef Books ledger = books_of(books)
    cdef Ints numbers = ints(jobs)
    cdef Bools together = bools(packed)
    cdef Places places
    cdef vector[int64_t] chains
    cdef int64_t at, job, chain
    places.first, places.nodes, places.masks = ints(first).at, ints(nodes).at, ints(masks).at
    places.holders, places.device_count = ints(holders).at, holders.shape[1]
    for at in range(numbers.size):
        job = numbers.at[at]
        chain = _chain_at(&ledger, &places, at, together.at[at])
        if same_chain(&ledger, ledger.heads[job], chain):
            drop_rows(&ledger, chain)
            chain = -1
        else:
            release_job(&ledger, job)
        chains.push_back(chain)
    for at in range(numbers.size):
        if chains[at] >= 0 and put_chain(&ledger, numbers.at[at], chains[at]) != 0:
            return at
    return -1
