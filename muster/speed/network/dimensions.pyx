"""From the shape of a placement to the dimensions over which its all-reduce runs, innermost first.

Two flavours. `physical`: every level that is spread evenly is a dimension whose uplink its GPUs share;
where it is not, one flat ring passes each uplink once. `astra`: the published constants as the ASTRA-sim
backend of Dally reads them (papers' file "Network model"), with a link of its own for every GPU, for parity.
"""

import numpy as np

from muster.cluster.arrays cimport floats, records
from muster.speed.network.overlap cimport MOST_DIMENSIONS
from muster.speed.network.placement_core cimport EVEN_ISLANDS, EVEN_MACHINES, EVEN_RACKS

FLAVOURS = ("physical", "astra")

cdef double _HOPS_OVER_SWITCH = 2.0  # racks meet in a switch; all other neighbours are one hop apart
cdef double _ASTRA_GB_PER_S = 1.073741824  # ASTRA-sim reads 1 GB/s as 2^30 bytes a second; in units of 10^9
ASTRA_GB_PER_S = _ASTRA_GB_PER_S


# Sizes and levels of the dimensions, innermost first.
cdef struct Levels:
    int64_t count
    int64_t sizes[MOST_DIMENSIONS]
    int64_t levels[MOST_DIMENSIONS]


cdef Levels _innermost_first(Levels outermost_first, int64_t left) noexcept nogil:
    """The same in the other order; `left` GPUs of an island are the innermost dimension, if that is more than one."""
    cdef Levels found
    cdef int64_t d
    found.count = 0
    if left > 1:
        found.sizes[0], found.levels[0], found.count = left, ISLAND, 1
    for d in range(outermost_first.count - 1, -1, -1):
        found.sizes[found.count] = outermost_first.sizes[d]
        found.levels[found.count] = outermost_first.levels[d]
        found.count += 1
    return found


cdef Levels _even_sizes(Shape* shape) noexcept nogil:
    """Sizes and levels, innermost first; the first uneven level from above takes all GPUs below it."""
    cdef int64_t[3] units = [shape.racks, shape.machines, shape.islands]
    cdef int64_t[3] even = [EVEN_RACKS, EVEN_MACHINES, EVEN_ISLANDS]
    cdef int64_t left = shape.gpus, above = 1, size, at
    cdef Levels found
    found.count = 0
    for at in range(3):
        if left > 1 and units[at] > above:
            size = units[at] // above if shape.even & even[at] else left
            found.sizes[found.count], found.levels[found.count] = size, CLUSTER - at
            found.count += 1
            left //= size
        above = units[at]
    return _innermost_first(found, left)


cdef Levels _astra_sizes(Shape* shape) noexcept nogil:
    """The published rule: it looks at totals only, so an uneven placement may pass for an even one."""
    cdef int64_t[3] units = [shape.racks, shape.machines, shape.islands]
    cdef int64_t left = shape.gpus, size, at
    cdef bint flat
    cdef Levels found
    found.count = 0
    for at in range(3):
        if left > 1 and units[at] > 1:
            flat = left % units[at] != 0 or (left == units[at] and at > 0)
            size = left if flat else units[at]
            found.sizes[found.count], found.levels[found.count] = size, CLUSTER - at
            found.count += 1
            left //= size
    return _innermost_first(found, left)


cdef void _share_rates(Shape* shape, Levels* found, double* level_gb_per_s, double* rates) noexcept nogil:
    """GB/s a GPU: the GPUs of one unit share its uplink; a flat ring crosses each uplink only once."""
    cdef int64_t d, machines, sharing = 1
    cdef double uplink
    for d in range(found.count):
        uplink = level_gb_per_s[found.levels[d]]
        if found.levels[d] == RACK:
            uplink = shape.machine_gb_per_s
        elif found.levels[d] == CLUSTER:
            machines = shape.machines // shape.racks if sharing > 1 else 1
            uplink = min(machines * min(uplink, shape.machine_gb_per_s), shape.rack_gb_per_s)
        rates[d] = uplink / sharing
        sharing *= found.sizes[d]


cdef int64_t _astra_links(int64_t level, int64_t size) noexcept nogil:
    """How many links of the dimension the backend adds up for one GPU."""
    if level == CLUSTER:
        return size
    if size == 2:
        return 2 if level == ISLAND else 4
    return 1 if level == ISLAND else size + size % 2


cdef Links links_of(int64_t flavour, Shape* shape, double* level_gb_per_s, double* hop_seconds) noexcept nogil:
    """Size, seconds to the neighbour and GB/s a GPU of every dimension, innermost first."""
    cdef Levels found = _astra_sizes(shape) if flavour == ASTRA else _even_sizes(shape)
    cdef Links links
    cdef int64_t d, level
    links.dimensions, links.within_machine = found.count, 0
    if flavour != ASTRA:
        _share_rates(shape, &found, level_gb_per_s, links.gb_per_s)
    for d in range(found.count):
        level = found.levels[d]
        links.sizes[d] = found.sizes[d]
        links.within_machine += level < RACK
        links.hop_seconds[d] = hop_seconds[level] * (_HOPS_OVER_SWITCH if level == CLUSTER else 1.0)
        if flavour == ASTRA:
            links.gb_per_s[d] = level_gb_per_s[level] * _ASTRA_GB_PER_S * _astra_links(level, found.sizes[d])
    return links


def dimensions(int64_t flavour, shape, level_gb_per_s, hop_seconds):
    """Size, seconds to the neighbour and GB/s a GPU of every dimension of a shape, innermost first."""
    record = np.asarray(shape)
    cdef Links links = links_of(
        flavour, <Shape*> records(record, sizeof(Shape)), floats(level_gb_per_s).at, floats(hop_seconds).at
    )
    cdef int64_t d
    return (
        np.array([links.sizes[d] for d in range(links.dimensions)], np.int64),
        np.array([links.hop_seconds[d] for d in range(links.dimensions)], np.float64),
        np.array([links.gb_per_s[d] for d in range(links.dimensions)], np.float64),
    )


def astra_sizes(shape):
    """Sizes and levels of the dimensions of a shape by the published rule, innermost first."""
    record = np.asarray(shape)
    cdef Levels found = _astra_sizes(<Shape*> records(record, sizeof(Shape)))
    cdef int64_t d
    return (
        np.array([found.sizes[d] for d in range(found.count)], np.int64),
        np.array([found.levels[d] for d in range(found.count)], np.int64),
    )


def astra_links(int64_t level, int64_t size):
    """How many links of the dimension the backend adds up for one GPU."""
    return _astra_links(level, size)
