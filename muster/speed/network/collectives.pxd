"""All-reduce algorithms and how they stack on a hierarchy of links, for compiled code."""

from libc.stdint cimport int64_t

from muster.speed.network.overlap cimport MOST_DIMENSIONS, Costs

cpdef enum:
    # Places in ALGORITHMS.
    RING = 0
    HALVING_DOUBLING = 1
    DIRECT = 2
    DOUBLE_BINARY_TREE = 3
    # Places in HIERARCHIES.
    BASELINE = 0
    BANDWIDTH_AWARE = 1

# The links of a placement by dimension, innermost first.
cdef struct Links:
    int64_t dimensions
    int64_t within_machine  # of the dimensions
    int64_t sizes[MOST_DIMENSIONS]
    double hop_seconds[MOST_DIMENSIONS]
    double gb_per_s[MOST_DIMENSIONS]

cdef Costs stacked(int64_t algorithm, int64_t hierarchy, Links* links) noexcept nogil
