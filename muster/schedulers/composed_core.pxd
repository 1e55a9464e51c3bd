"""The compiled form of a composed scheduler: order, share of the node or request, and a rule of placement."""

from libc.stdint cimport int64_t, uint8_t
from libcpp.vector cimport vector

from muster.cluster.ledger_core cimport Books
from muster.schedulers.placement.rules_core cimport Scratch
from muster.workload.jobs_core cimport Asked, Fact

cdef enum:
    # Orders.
    ARRIVAL = 0
    DURATION = 1
    GPUS = 2
    PRIORITY = 3
    DEADLINE = 4
    REMAINING_SECONDS = 5
    REMAINING_SERVICE = 6
    ATTAINED = 7
    ATTAINED_QUEUES = 8
    # Triggers.
    ON_ROUND = 1
    ON_ARRIVAL = 2
    ON_COMPLETION = 4
    ON_LEASE_END = 8
    ON_TIMER = 16
    ON_CAPACITY = 32
    ON_ALL = 63

# What a scheduler reads, and the ledger that it writes.
cdef struct WorldView:
    Books* books
    Asked* asked
    Fact* facts

cdef struct Ranked:
    double key
    int64_t job

# Why a job holds nothing, with the two numbers of the reason.
cdef struct Why:
    int64_t code
    double a
    double b

cdef class CompiledScheduler:
    cdef object _kept  # arrays whose memory is used here
    cdef int64_t order, rule
    cdef bint preemptive, strict, static_priority, takes_turns, durations_known, some_protected, resize_restarts
    cdef double quantum, work_per_interruption
    cdef vector[double] queues
    cdef int64_t* needs
    cdef int64_t needs_lines
    cdef uint8_t* node_allowed
    cdef vector[Ranked] waiting  # sorted
    cdef vector[Ranked] running  # sorted at a decision, else in any order
    cdef vector[Ranked] ranked
    cdef vector[uint8_t] chosen  # by job
    cdef vector[int64_t] stopped  # by job: the chain that it held, or -1
    cdef vector[double] until  # by job: when it may be interrupted
    cdef vector[Why] why  # by job
    cdef vector[int64_t] fit, take
    cdef double stable_until, next_wake
    cdef int64_t wake_on

    cdef void add_waiting(self, WorldView* world, int64_t job, double now) noexcept nogil
    cdef void add_running(self, int64_t job) noexcept nogil
    cdef void decide(self, WorldView* world, double now) noexcept nogil
    cdef double _key(self, WorldView* world, int64_t job, double now) noexcept nogil
    cdef void _rank(self, WorldView* world, double now) noexcept nogil
    cdef void _protect(self, WorldView* world, double now) noexcept nogil
    cdef void _count_walk(self, WorldView* world, double pinned_after, int64_t free) noexcept nogil
    cdef void _serve(self, WorldView* world) noexcept nogil
    cdef bint _place(self, WorldView* world, int64_t job, uint8_t* hopeless, Scratch scratch) noexcept nogil
    cdef void _note_lack(self, WorldView* world, int64_t job, int64_t code) noexcept nogil
    cdef void _name_protection(self, WorldView* world, double now) noexcept nogil
    cdef void _promise(self, WorldView* world, double now) noexcept nogil
    cdef double _seconds_to_overtake(self, WorldView* world, double now) noexcept nogil
    cdef double _seconds_to_level(self, WorldView* world, double now) noexcept nogil
    cdef void take_over(self, WorldView* world, double now) noexcept nogil
    cdef void forget_stopped(self, WorldView* world, double now) noexcept nogil
