"""What worlds do with decisions and with time, for compiled code."""

from libc.stdint cimport int64_t

from muster.cluster.arrays cimport Bools, Floats, Ints
from muster.cluster.ledger_core cimport SLOTS, Books, Row
from muster.speed.rates_core cimport ModelSpeed
from muster.workload.jobs_core cimport Asked, Fact

cdef enum:
    # Places in `LifecycleReport.counts`.
    STARTED = 0
    STOPPED = 1
    CHANGED = 2
    HELD_ROWS = 3
    RELEASES = 4
    IN_TURNS = 5
    UNCHANGED = -2  # in the place of a chain of rows: the journal says nothing of the job

cdef struct Held:
    int64_t job
    int64_t node
    int64_t mask
    int64_t milli
    int64_t amount[SLOTS]
    int64_t role
    int64_t group
    double begin
    double end

cdef struct PendingInterval:
    int64_t job
    int64_t code
    double a
    double b
    double begin
    double end

cdef struct RestartModel:
    int64_t resize_restarts
    double whole_round
    double checkpoint_every

# All that a step of a job's life reads and writes.
cdef struct Runtime:
    Books books
    Asked* asked
    Fact* facts
    ModelSpeed* models
    RestartModel* laws
    Held* held
    int64_t* releases
    int64_t* counts

cdef void settle_job(Fact* fact, double now, RestartModel* laws) noexcept nogil
cdef void rate_job(Runtime* world, int64_t job, double now) noexcept nogil
cdef void make_true(Runtime* world, double now, int64_t* before) noexcept nogil
cdef void close_holding(Runtime* world, int64_t job, double now) noexcept nogil
cdef void finish_job(Runtime* world, int64_t job) noexcept nogil
cdef void interrupt_at_node(Runtime* world, int64_t* active, int64_t count, int64_t node, double now) noexcept nogil
