"""What worlds do with decisions and with time, for compiled code."""

from libc.stdint cimport int16_t, int32_t, int64_t

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
    int64_t mask
    double begin
    double end
    int32_t job
    int32_t node
    int32_t group
    int16_t milli
    int16_t role
    int64_t amount[SLOTS]  # a record has as many as there are resources

cdef struct PendingInterval:
    double a
    double b
    double begin
    double end
    int32_t job
    int32_t code

cdef struct RestartModel:
    int64_t resize_restarts
    double whole_round
    double checkpoint_every
    int64_t end_at_limit

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

cdef inline size_t held_size(int64_t resources) noexcept nogil:
    """Bytes of a record."""
    return sizeof(Held) - (SLOTS - resources) * sizeof(int64_t)

cdef inline Held* held_at(Held* records, int64_t number, int64_t resources) noexcept nogil:
    return <Held*> (<char*> records + number * held_size(resources))

cdef void settle_job(Fact* fact, double now, RestartModel* laws) noexcept nogil
cdef void rate_job(Runtime* world, int64_t job, double now) noexcept nogil
cdef void make_true(Runtime* world, double now, int64_t* before) noexcept nogil
cdef void close_holding(Runtime* world, int64_t job, double now) noexcept nogil
cdef void finish_job(Runtime* world, int64_t job) noexcept nogil
cdef void interrupt_at_node(Runtime* world, int64_t* active, int64_t count, int64_t node, double now) noexcept nogil
