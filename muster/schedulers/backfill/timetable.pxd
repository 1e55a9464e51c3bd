"""What is free on each node from now on, for compiled code."""

from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from muster.cluster.ledger_core cimport SLOTS, Books

# What a job holds or will hold on one node, in millionths.
cdef struct Share:
    int64_t node
    int64_t amount[SLOTS]

# What is free on a node from a moment on, until its next step.
cdef struct Step:
    double time
    int64_t free[SLOTS]

# GPUs, in millionths, that come free or are taken away in all at a moment.
cdef struct Mark:
    double time
    int64_t gpus
    int64_t job

cdef class Timetable:
    cdef int64_t _resources
    cdef vector[vector[Step]] _steps  # by node, ascending
    cdef vector[vector[double]] _times  # of the steps, close together for a search
    cdef vector[int64_t] _asked, _ended  # by node, the step of the last question, the one after the last answer
    cdef vector[int64_t] reservations  # by node
    # The marks, ascending, in short blocks; of each block the sum and the extremes of its partial sums.
    cdef vector[vector[Mark]] marks
    cdef vector[int64_t] _sums, _least, _most
    cdef int64_t _total  # free GPUs in all before the first mark
    # Blocks of marks that are over at a moment, and the sum of their GPUs; inf: not known.
    cdef size_t _passed
    cdef int64_t _passed_sum
    cdef double _passed_until
    # The last answer of `next_level`, or inf if it does not hold any more: what was asked, and where its search ended.
    cdef double _level_start, _level_limit, _level_before
    cdef int64_t _level_gpus, _level_total
    cdef size_t _level_block, _level_mark

    cdef void clear(self, Books* books) noexcept nogil
    cdef void _add_total(self, int64_t gpus) noexcept nogil
    cdef void give(self, Share* share) noexcept nogil
    cdef void run(self, int64_t job, vector[Share]& place, double now, double end) noexcept nogil
    cdef void end(self, int64_t job, vector[Share]& place, double now, double end) noexcept nogil
    cdef void reserve(self, int64_t job, vector[Share]& place, double begin, double end) noexcept nogil
    cdef void cancel(self, int64_t job, vector[Share]& place, double begin, double end) noexcept nogil
    cdef bint holds(self, vector[Share]& place, double begin, double end) noexcept nogil
    cdef void least(self, int64_t node, double begin, double end, int64_t* free) noexcept nogil
    cdef Step* steps_from(self, int64_t node, double begin, int64_t* count) noexcept nogil
    cdef int64_t steps_until(self, int64_t node, int64_t count, double moment) noexcept nogil
    cdef void _pass(self, double after) noexcept nogil
    cdef bint _is_passed_over(
        self, size_t block, int64_t total, int64_t gpus, double start, bint begun, double limit
    ) noexcept nogil
    cdef bint _goes_on(
        self, int64_t gpus, double after, bint at_once, double limit, double before
    ) noexcept nogil
    cdef void _note_level(self, double start, size_t block, size_t mark, int64_t total) noexcept nogil
    cdef double next_level(
        self, int64_t gpus, double after, bint at_once, double limit, double before
    ) noexcept nogil
    cdef void _change(
        self, Share* share, double begin, double end, int64_t sign, double now
    ) noexcept nogil
    cdef size_t _split(self, int64_t node, double moment) noexcept nogil
    cdef void _merge(self, int64_t node, size_t at) noexcept nogil
    cdef void _add_mark(self, double time, int64_t gpus, int64_t job) noexcept nogil
    cdef void _drop_mark(self, double time, int64_t gpus, int64_t job) noexcept nogil
    cdef size_t _block_of(self, Mark& mark) noexcept nogil
    cdef void _sum_up(self, size_t block) noexcept nogil
