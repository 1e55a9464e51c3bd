"""EASY and conservative backfill, for compiled code."""

from libc.stdint cimport int64_t, uint8_t
from libcpp.vector cimport vector

from muster.cluster.ledger_core cimport SLOTS, Books
from muster.schedulers.backfill.timetable cimport Share, Timetable
from muster.schedulers.composed_core cimport CompiledScheduler, Ranked, Why, WorldView
from muster.schedulers.placement.node_index cimport NodeIndex

cdef enum:
    # What becomes of a job that is visited.
    _WAITS = 0
    _STARTED = 1
    _STARTED_EARLY = 2  # before its reservation, which others may use now

cdef extern from * nogil:
    """
    #include <cstdint>
    // A waiting job: by key, then by arrival.
    struct MusterWaiter { double key; int64_t job; double limit; };
    static inline bool operator<(const MusterWaiter& one, const MusterWaiter& other) {
        return one.key != other.key ? one.key < other.key : one.job < other.job;
    }
    // The next job of a kind. The later is the lesser: heaps begin with the first.
    struct MusterCandidate { double key; int64_t job; double limit; int64_t kind; };
    static inline bool operator<(const MusterCandidate& one, const MusterCandidate& other) {
        return one.key != other.key ? one.key > other.key : one.job > other.job;
    }
    // When a shortage on a node is over. The later is the lesser: heaps begin with the first.
    struct MusterShortage { double end; int64_t node; };
    static inline bool operator<(const MusterShortage& one, const MusterShortage& other) {
        return one.end != other.end ? one.end > other.end : one.node > other.node;
    }
    """
    cdef cppclass Waiter "MusterWaiter":
        double key
        int64_t job
        double limit
        bint operator<(const Waiter& other)
    cdef cppclass Candidate "MusterCandidate":
        double key
        int64_t job
        double limit
        int64_t kind

    cdef cppclass Shortage "MusterShortage":
        double end
        int64_t node

# How many GPUs of a job a node has room for.
cdef struct Fit:
    int64_t gpus
    int64_t node

# A moment at which a node has room for fewer GPUs than before.
cdef struct Drop:
    double time
    int64_t before
    int64_t after

cdef class _FreeUntil(NodeIndex):
    cdef Timetable timetable
    cdef double now, until
    cdef void bind(self, Timetable timetable) noexcept

cdef class ReservingCore(CompiledScheduler):
    cdef double _reservations, _moving, _depth, _window, _resolution, _interval, _default_limit
    cdef Timetable _timetable
    cdef _FreeUntil _free
    cdef bint _disturbed  # the timetable is to be made again
    # The waiting jobs, by kind, in short blocks; of each block the shortest limit and the first reservation.
    cdef vector[vector[vector[Waiter]]] _queue
    cdef vector[vector[double]] _shortest, _first
    # By job: what it holds or is to hold, from when and until when, its key, its place among the reserved or -1.
    cdef vector[vector[Share]] _shares
    cdef vector[double] _begin, _end, _key_of
    cdef vector[int64_t] _reserved_at
    cdef vector[int64_t] _reserved
    # Nodes on which something has come free, and by job, how many of these there were when it looked for a start last.
    cdef vector[int64_t] _gained, _tried_at
    # Of one decision.
    cdef vector[int64_t] _touched  # jobs whose reason may change
    cdef vector[Candidate] _heap
    cdef vector[double] _fits_for  # by kind: for how long it fits now
    cdef vector[uint8_t] _is_known
    cdef int64_t _free_before
    cdef vector[Fit] _fits
    cdef vector[Drop] _drops
    cdef vector[int64_t] _counts, _free_nodes
    cdef vector[int64_t] _fit_at  # by node: GPUs that fit from a start on, or more
    cdef vector[double] _seen_at  # by node: the start
    cdef vector[Shortage] _shortages
    cdef bint _has_grown  # whether more fits on some node than when enough were looked for

    cdef double _none(self) noexcept nogil
    cdef void _add(self, int64_t job, double key, double limit) noexcept nogil
    cdef void _leave(self, int64_t job) noexcept nogil
    cdef size_t _block_of(self, int64_t kind, Waiter& one) noexcept nogil
    cdef void _summarise(self, int64_t kind, size_t block) noexcept nogil
    cdef double _limit_of(self, WorldView* world, int64_t job) noexcept nogil
    cdef double _end_of(self, double begin, double limit) noexcept nogil
    cdef double _running_end(self, WorldView* world, int64_t job, double now) noexcept nogil
    cdef void _build(self, WorldView* world, double now) noexcept nogil
    cdef void _keep_if_it_holds(self, WorldView* world, int64_t job, double now) noexcept nogil
    cdef void _by_rank(self, vector[Ranked]& reserved) noexcept nogil
    cdef void _advance(self, WorldView* world, double now) noexcept nogil
    cdef void _reserve(self, int64_t job, double begin, double end) noexcept nogil
    cdef void _cancel(self, int64_t job) noexcept nogil
    cdef void _restore(self, int64_t job, vector[Share]& place, double begin, double end) noexcept nogil
    cdef void _note_gains(self, vector[Share]& place) noexcept nogil
    cdef void _forget_gains(self) noexcept nogil
    cdef void _update(self, int64_t job) noexcept nogil
    cdef void _note_place(self, WorldView* world, int64_t job) noexcept nogil
    cdef void _serve_all(self, WorldView* world, double now) noexcept nogil
    cdef bint _may_start(self, WorldView* world, Candidate& one, double now) noexcept nogil
    cdef void _refill(self, WorldView* world, double now, Ranked& after, bint every) noexcept nogil
    cdef void _push_next(
        self, WorldView* world, double now, int64_t kind, Ranked& after, bint every
    ) noexcept nogil
    cdef int64_t _visit(
        self, WorldView* world, Candidate& one, double now, bint may_move, bint may_reserve
    ) noexcept nogil
    cdef bint _may_fit(self, WorldView* world, Candidate& one, double now) noexcept nogil
    cdef bint _start(self, WorldView* world, Candidate& one, double now) noexcept nogil
    cdef void _move(self, WorldView* world, Candidate& one, double now) noexcept nogil
    cdef double _earliest(
        self, WorldView* world, Candidate& one, double now, double before, double latest
    ) noexcept nogil
    cdef void _sink_first(self) noexcept nogil
    cdef bint _may_move(self, WorldView* world, Candidate& one, double earliest) noexcept nogil
    cdef double _fit_from(
        self, WorldView* world, Candidate& one, int64_t node, double start, int64_t* fit
    ) noexcept nogil
    cdef double _fit_again(self, WorldView* world, Candidate& one, int64_t node, double start) noexcept nogil
    cdef void _take_fits(self, WorldView* world, Candidate& one, uint8_t* allowed) noexcept nogil
    cdef int64_t _most_nodes(self, WorldView* world, Candidate& one) noexcept nogil
    cdef double _longest(self, WorldView* world, int64_t kind, double now) noexcept nogil
    cdef double _find_longest(self, WorldView* world, int64_t kind, double now) noexcept nogil
    cdef void _count(self, int64_t fit, int64_t nodes) noexcept nogil
    cdef bint _enough(self, int64_t gpus, int64_t most_nodes) noexcept nogil
    cdef void _explain_reserved(self, WorldView* world, double now) noexcept nogil
    cdef Why _why_waiting(self, WorldView* world, int64_t job, double now) noexcept nogil
    cdef double _next_start(self, double now) noexcept nogil
