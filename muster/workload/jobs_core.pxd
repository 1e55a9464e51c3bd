"""Jobs as compiled code sees them: the layouts of `jobs`, and what follows of a job at a moment."""

from libc.math cimport INFINITY, isnan, rint
from libc.stdint cimport int64_t

from muster.cluster.ledger_core cimport SLOTS

cdef enum:
    MOST_TERMS = 8
    RIGID = 0
    PS = 1
    RING = 2
    FUTURE = 0
    WAITING = 1
    RUNNING = 2
    COMPLETED = 3
    REFUSED = 4
    TIMED_OUT = 5

cdef struct Asked:
    double submit
    int64_t gpus
    int64_t milli
    int64_t min_gpus
    int64_t max_gpus
    int64_t requested[SLOTS]
    int64_t model
    int64_t tenant
    int64_t user
    int64_t constraint
    int64_t nodes
    int64_t partition
    int64_t qos
    double priority
    int64_t preemptible
    double min_runtime
    double deadline
    double time_limit
    double iterations
    double believed
    double ideal
    int64_t sync
    int64_t worker_gpus
    int64_t server_cpu
    double terms[MOST_TERMS][3]
    int64_t most_doublings
    int64_t exact_nodes

cdef struct Fact:
    int64_t state
    double held
    double done
    double rate
    double exposed
    int64_t doublings
    double extra_progress
    double noise
    double settled
    double resumes
    double finish
    double attained
    double run
    double restart
    double restart_cost
    double unsaved_since
    double input
    double compute
    double communication
    double input_share
    double communication_share
    double first_start
    double last_start
    double last_stop
    double lease_end
    double sensitivity
    double saved
    int64_t preemptions
    int64_t moves
    int64_t reason
    double reason_a
    double reason_b
    double reason_since

cdef inline double to_millionth(double value) noexcept nogil:
    return rint(value * 1e6) / 1e6

cdef inline double service_of(Fact* fact, double now) noexcept nogil:
    """GPU-seconds that a job has attained by now, to the millionth."""
    cdef double service = fact.attained
    if fact.state == RUNNING:
        service += fact.held * (now - fact.settled)
    return to_millionth(service)

cdef inline double work_of(Fact* fact, double now) noexcept nogil:
    """Iterations that a job has done by now, to the millionth."""
    cdef double work = fact.done
    if fact.state == RUNNING:
        work += fact.rate * max(now - max(fact.settled, fact.resumes), 0.0)
    return to_millionth(work)

cdef inline double left_of(Asked* asked, Fact* fact, double now) noexcept nogil:
    """Seconds of work that a job is believed to have left at the reference; NaN where nothing is known."""
    if isnan(asked.believed):
        return asked.believed
    return max(asked.believed - work_of(fact, now), 0.0) * (asked.ideal / asked.iterations)

cdef inline double protection_end(Asked* asked, Fact* fact, double multiple) noexcept nogil:
    """When a job may be interrupted; see `protected_until`."""
    cdef double until = -INFINITY
    if fact.state != RUNNING:
        return until
    if asked.preemptible == 0:
        return INFINITY
    if asked.min_runtime > 0:
        until = fact.last_start + asked.min_runtime
    if fact.restart_cost > 0:
        until = max(until, fact.resumes + multiple * fact.restart_cost)
    return until
