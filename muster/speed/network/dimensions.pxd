"""From the shape of a placement to the links over which its all-reduce runs, for compiled code."""

from libc.stdint cimport int64_t

from muster.speed.network.collectives cimport Links
from muster.speed.network.placement_core cimport Shape

cpdef enum:
    # Places in FLAVOURS.
    PHYSICAL = 0
    ASTRA = 1
    # Levels of the tree.
    ISLAND = 0
    NODE = 1
    RACK = 2
    CLUSTER = 3

cdef Links links_of(int64_t flavour, Shape* shape, double* level_gb_per_s, double* hop_seconds) noexcept nogil
