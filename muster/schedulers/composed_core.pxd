"""The compiled form of a composed scheduler: order, share of the node or request, and a rule of placement."""

from libc.stdint cimport int64_t, uint8_t
from libcpp.vector cimport vector

from muster.cluster.ledger_core cimport Books
from muster.schedulers.placement.node_index cimport NodeIndex
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

cdef extern from * nogil:
    """
    #include <cstdint>
    // A job in a queue: by key, then by arrival.
    struct MusterRanked { double key; int64_t job; };
    static inline bool operator<(const MusterRanked& one, const MusterRanked& other) {
        return one.key != other.key ? one.key < other.key : one.job < other.job;
    }
    """
    cdef cppclass Ranked "MusterRanked":
        double key
        int64_t job
        bint operator<(const Ranked& other)

# Why a job holds nothing, with the two numbers of the reason.
cdef struct Why:
    int64_t code
    double a
    double b

# What became of the waiting jobs of one kind in a decision.
cdef struct KindState:
    int64_t demand  # millionths of a GPU
    size_t head  # of its queue: those before it have started
    size_t chosen  # jobs before this place count as chosen
    size_t would_run  # jobs before this place would run if no running job were protected
    size_t placed  # jobs before this place have started
    size_t zone  # jobs before this place may have another reason than the rest
    size_t cursor
    int64_t failed  # _NO_GPUS or _NO_PLACE from `placed` on; 0: all have a place
    int64_t tail  # the reason of the jobs beyond the zone at the last decision; -1: several

# How the key of a running job changes with time while it holds the same: all that a decision reads of it, side by side.
cdef struct Pace:
    double reached  # GPU-seconds or iterations, or its key if that does not change
    double rate  # of that, from `since` on
    double since
    double believed  # iterations in all; NaN where the key is the service attained
    double scale  # seconds an iteration at the reference
    double gpus
    double cost  # by which its key is better, because an interruption costs it so much
    int64_t demand  # millionths of a GPU

# What a decision asks of a running job again and again.
cdef struct Held:
    int64_t demand  # millionths of a GPU
    double until  # when it may be interrupted

# GPUs left, in millionths, after a job was served.
cdef struct Left:
    int64_t turn
    double key
    int64_t job
    int64_t free

cdef class CompiledScheduler:
    cdef object _kept  # arrays whose memory is used here
    cdef int64_t order, rule
    cdef bint preemptive, strict, static_priority, takes_turns, durations_known, some_protected, resize_restarts
    cdef double quantum, work_per_interruption
    cdef double most_gpus  # that a job demands
    cdef vector[double] queues
    cdef int64_t* needs
    cdef int64_t* kind_of
    cdef uint8_t* node_allowed
    # The waiting jobs, by kind, sorted; jobs of a kind have the same demand, needs and constraint.
    cdef vector[vector[Ranked]] waiting
    cdef vector[KindState] kinds
    cdef vector[int64_t] waiting_kinds
    cdef vector[uint8_t] is_waiting_kind
    cdef readonly int64_t waiting_count, waiting_demand
    cdef vector[Ranked] running  # nearly sorted; some have ended
    cdef readonly int64_t running_count, running_demand
    cdef size_t first_stopped  # place in `running` of the first victim
    cdef vector[uint8_t] chosen  # by job, of running ones
    cdef vector[int64_t] stopped  # by job: the chain that it held, or -1
    cdef vector[double] until  # by job: when it may be interrupted
    cdef vector[Pace] paces  # by job, of running ones
    cdef vector[Why] why  # by job
    cdef vector[int64_t] fit, take
    cdef NodeIndex index
    cdef vector[int64_t] fewest  # by kind: on how few nodes it would be on an empty cluster; 0: not known yet
    # Of one decision.
    cdef vector[Ranked] served, victims, fresh
    cdef vector[Held] held  # by place in `running`
    cdef int64_t protected_demand, pinned_demand  # of running jobs that may not be interrupted yet; or never
    cdef size_t last_protected  # place in `running` of the last that may be interrupted later
    cdef double soonest_end  # of protection; -inf where this decision did not need it
    cdef vector[Left] trace
    cdef vector[int64_t] heap, changed
    cdef vector[double] levels
    cdef double next_level  # the least key of a waiting job that is not below those asked about
    cdef size_t next_victim
    cdef int64_t free_at_start[2]
    cdef int64_t free_before  # before anything is stopped or started, without what running jobs hold
    cdef bint blocked, promised, in_vain
    cdef bint in_turn  # no job is chosen before its turn because it may not be interrupted yet
    cdef Ranked blocker
    cdef Why of_blocker
    cdef double protection_ends
    cdef double stable_until, next_wake
    cdef int64_t wake_on

    cdef void add_waiting(self, WorldView* world, int64_t job, double now) noexcept nogil
    cdef void add_running(self, int64_t job) noexcept nogil
    cdef void _note_pace(self, WorldView* world, int64_t job) noexcept nogil
    cdef void decide(self, WorldView* world, double now) noexcept nogil
    cdef void attach(self, Books* books) noexcept nogil
    cdef void nodes_changed(self) noexcept nogil
    cdef void end_running(self, WorldView* world, int64_t job, double now) noexcept nogil
    cdef void take_over(self, WorldView* world, double now) noexcept nogil
    cdef void forget_stopped(self, WorldView* world, size_t first, double now) noexcept nogil
    cdef bint some_waiting_in(self, uint8_t* jobs) noexcept nogil
    cdef void list_waiting(self, vector[int64_t]& jobs) noexcept nogil
    cdef double _key(self, WorldView* world, int64_t job, double now) noexcept nogil
    cdef int64_t _releasing(self, WorldView* world) noexcept nogil
    cdef void _rank_running(self, double now) noexcept nogil
    cdef void _read_running(self, double now) noexcept nogil
    cdef void _push(self, int64_t kind) noexcept nogil
    cdef Ranked _first_of(self, size_t at) noexcept nogil
    cdef int64_t _pop(self) noexcept nogil
    cdef bint _kind_comes_first(self, vector[Ranked]& others, size_t other) noexcept nogil
    cdef void _walk(self, double pinned_after, int64_t free) noexcept nogil
    cdef size_t _choose_running(
        self, size_t at, size_t upto, double pinned_after, int64_t* free, size_t* first_left
    ) noexcept nogil
    cdef void _stop_others(self, WorldView* world) noexcept nogil
    cdef void _serve(self, WorldView* world, int64_t turn) noexcept nogil
    cdef size_t _end(self, int64_t kind, int64_t turn) noexcept nogil
    cdef void _serve_one(self, WorldView* world, int64_t turn, int64_t kind) noexcept nogil
    cdef void _serve_victim(self, WorldView* world, Ranked one) noexcept nogil
    cdef void _block(self, WorldView* world, Ranked one, int64_t lacks) noexcept nogil
    cdef bint _place(self, WorldView* world, int64_t job, int64_t kind) noexcept nogil
    cdef void _trace(self, WorldView* world, int64_t turn, Ranked one) noexcept nogil
    cdef Why _lack(self, WorldView* world, int64_t job, int64_t code, int64_t free) noexcept nogil
    cdef int64_t _left_at(self, int64_t turn, Ranked one) noexcept nogil
    cdef Why _why(self, WorldView* world, int64_t kind, size_t place) noexcept nogil
    cdef Why _protected(self, WorldView* world, int64_t job, Why why) noexcept nogil
    cdef void _name_protection(self, WorldView* world, double now) noexcept nogil
    cdef void _explain(self, WorldView* world) noexcept nogil
    cdef void _explain_kind(self, WorldView* world, int64_t kind) noexcept nogil
    cdef void _note(self, WorldView* world, int64_t job, Why why) noexcept nogil
    cdef void _promise(self, WorldView* world, double now) noexcept nogil
    cdef double _seconds_to_level(self, WorldView* world, double now) noexcept nogil
    cdef double _soonest_below(self, WorldView* world, double now) noexcept nogil
    cdef void _begin_levels(self, WorldView* world) noexcept nogil
    cdef double _seconds_of(self, WorldView* world, Ranked one, double now) noexcept nogil
    cdef void _advance_levels(self, WorldView* world, double attained) noexcept nogil
