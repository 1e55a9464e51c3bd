"""Nodes by what they have free, for compiled code."""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libcpp.pair cimport pair
from libcpp.vector cimport vector

from muster.cluster.ledger_core cimport Books, StaleNodes

ctypedef pair[int64_t, int64_t] Slack  # free CPUs, number
ctypedef pair[int64_t, Slack] Fullness  # with free GPUs before

# What a gang takes of one node.
cdef struct Part:
    int64_t node
    int64_t gpus

cdef class NodeIndex:
    cdef vector[vector[Slack]] _by_fullness  # by free GPUs, from one on: the fullest last
    cdef vector[Fullness] _known  # of each node, as it is in the index
    cdef vector[vector[uint64_t]] _by_free  # by free GPUs: a bit a node
    cdef vector[int64_t] _counts  # by free GPUs: nodes
    cdef vector[int64_t] _stale_list
    cdef vector[uint8_t] _stale_flags
    cdef vector[Part] parts  # of the gang that was placed last
    cdef vector[uint8_t] _is_taken  # by node: whether it has a part
    cdef StaleNodes stale

    cdef void attach(self, Books* books) noexcept nogil
    cdef void _update(self, Books* books) noexcept nogil
    cdef int64_t fullest(self, Books* books, uint8_t* allowed, int64_t gpus, int64_t* need) noexcept nogil
    cdef int64_t _emptiest(self, Books* books, uint8_t* allowed, int64_t* need, int64_t* fit) noexcept nogil
    cdef void list_free(self, Books* books, vector[int64_t]& nodes) noexcept nogil
    cdef int64_t _fits(self, Books* books, int64_t node, int64_t* need) noexcept nogil
    cdef bint _holds(self, Books* books, int64_t node, int64_t gpus, int64_t* need) noexcept nogil
    cdef void _take(self, int64_t node, int64_t gpus) noexcept nogil
    cdef bint find(
        self, Books* books, uint8_t* allowed, int64_t gpus, int64_t* need, int64_t at_most
    ) noexcept nogil
    cdef int64_t chain(self, Books* books, int64_t* need) noexcept nogil
