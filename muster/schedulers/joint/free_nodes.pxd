"""Nodes by what a draft leaves free on them, for compiled code."""

from libc.stdint cimport int64_t, uint64_t
from libcpp.pair cimport pair
from libcpp.set cimport set as ordered_set
from libcpp.vector cimport vector

from muster.schedulers.allocation.draft_core cimport Draft
from muster.schedulers.allocation.gangs_core cimport Gangs

ctypedef pair[pair[int64_t, int64_t], int64_t] Amounts  # free CPUs, free memory, number

# The nodes of one draft; every list is by the number of free GPUs.
cdef struct FreeNodes:
    vector[ordered_set[Amounts]] by_amounts
    vector[vector[uint64_t]] by_number  # a bit a node
    vector[int64_t] counts
    vector[int64_t] gpus  # of each node, as it is in the lists; -1: in none yet
    vector[Amounts] amounts  # of each node, as they are in the lists
    int64_t free_gpus  # of all nodes

# The nodes that a gang takes, ascending, and how many GPUs of each, by node; only those on which it may be so fast.
cdef struct Chosen:
    vector[int64_t] nodes
    vector[int64_t] gpus
    double at_least

cdef void list_nodes(FreeNodes* free, Draft* draft) except *
cdef void update_node(FreeNodes* free, Draft* draft, int64_t node) noexcept nogil
cdef int64_t tightest_node(
    FreeNodes* free, Draft* draft, Gangs* gangs, int64_t at, int64_t gpus, int64_t* need, Chosen* chosen
) noexcept nogil
cdef int64_t fewest_nodes(
    FreeNodes* free, Draft* draft, Gangs* gangs, int64_t at, int64_t* need, Chosen* chosen
) noexcept nogil
