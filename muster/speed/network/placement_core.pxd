"""What the network sees of placements, for compiled code: the layout of `placement`."""

from libc.stdint cimport int64_t

cpdef enum:
    EVEN_ISLANDS = 1
    EVEN_MACHINES = 2
    EVEN_RACKS = 4

cdef struct Shape:
    int64_t gpus
    int64_t islands
    int64_t machines
    int64_t racks
    int64_t even
    double machine_gb_per_s
    double rack_gb_per_s
