"""Optimus' marginal gains, compiled: one more worker or server, again and again, where it saves most."""

from libc.stdint cimport int64_t, uint8_t
from libcpp.algorithm cimport pop_heap, push_heap
from libcpp.vector cimport vector

from muster.cluster.arrays cimport bools, floats, ints
from muster.speed.parameter_server.step_core cimport longest_term

cdef double _ROUNDING = 1 + 1e-9
cdef double _SMALLEST_SHARE = 1e-12

# One more worker (role 0) or server (1) of a job.
cdef struct Offer:
    double gain
    int64_t job
    int64_t role

# `SizingColumns`, and how many workers and servers each job has by now.
cdef struct Sizing:
    double* terms
    int64_t term_count
    double* ring
    int64_t ring_count
    double* each[2]  # seconds that every worker, every server adds to a step
    uint8_t* is_ring
    double* remaining
    double* needs[2]
    int64_t columns
    double* limit
    double* reserved  # NULL: a job is charged what it holds
    int64_t* least_workers
    double* capacity
    int64_t resources
    int64_t* sizes[2]


cdef bint _later(const Offer& one, const Offer& other) noexcept nogil:
    """Whether an offer comes after another: by falling gain, then by job and role."""
    if one.gain != other.gain:
        return one.gain < other.gain
    if one.job != other.job:
        return one.job > other.job
    return one.role > other.role


cdef double _seconds(Sizing* sizing, int64_t job, int64_t workers, int64_t servers, double* compute) noexcept nogil:
    """Seconds of a step that compute does not hide, and in `compute` those of compute; a ring's by its table."""
    cdef double* terms = sizing.terms + 3 * sizing.term_count * job
    cdef double exposed
    compute[0] = terms[0] / workers + terms[1]
    exposed = longest_term(terms, sizing.term_count, workers, <double> workers / max(servers, <int64_t> 1)) - compute[0]
    if sizing.ring_count > 0:
        exposed += sizing.ring[sizing.ring_count * job + min(workers, sizing.ring_count) - 1]
    return exposed + (sizing.each[0][job] * workers + sizing.each[1][job] * servers)


cdef double _gain(Sizing* sizing, int64_t job, int64_t role) noexcept nogil:
    """Seconds cut by one more worker (0) or server (1) over its dominant share; 0 for a ring's server."""
    cdef double* need = sizing.needs[role] + sizing.columns * job
    cdef double compute, exposed, compute_then, exposed_then, share = 0.0
    cdef int64_t resource, workers = sizing.sizes[0][job], servers = sizing.sizes[1][job]
    if role == 1 and sizing.is_ring[job]:
        return 0.0
    for resource in range(sizing.resources):
        if need[resource] > 0:
            share = max(share, need[resource] / sizing.capacity[resource])
    exposed = _seconds(sizing, job, workers, servers, &compute)
    exposed_then = _seconds(sizing, job, workers + (1 - role), servers + role, &compute_then)
    return (compute + exposed - compute_then - exposed_then) * sizing.remaining[job] / max(share, _SMALLEST_SHARE)


cdef void _offer(Sizing* sizing, int64_t job, vector[Offer]* offers) noexcept nogil:
    """Offer one more worker and one more server of a job, each where it gains anything."""
    cdef Offer offer
    cdef int64_t role
    for role in range(2):
        offer.gain, offer.job, offer.role = _gain(sizing, job, role), job, role
        if offer.gain > 0:
            offers.push_back(offer)
            push_heap(offers.begin(), offers.end(), _later)


cdef bint _within_limit(Sizing* sizing, int64_t job, int64_t role) noexcept nogil:
    """Whether the owner allows one more of this role."""
    cdef int64_t column, at, workers = sizing.sizes[0][job], servers = sizing.sizes[1][job]
    for column in range(sizing.columns):
        at = sizing.columns * job + column
        if workers * sizing.needs[0][at] + servers * sizing.needs[1][at] + sizing.needs[role][at] > sizing.limit[at]:
            return False
    return True


cdef bint _take(vector[double]* left, double* amounts) noexcept nogil:
    """Take amounts from what is left of each resource, if all of them are there; whether they are."""
    cdef size_t resource
    for resource in range(left.size()):
        if amounts[resource] > left[0][resource]:
            return False
    for resource in range(left.size()):
        left[0][resource] -= amounts[resource]
    return True


cdef void _give_first(Sizing* sizing, int64_t job, vector[double]* left, vector[Offer]* offers) noexcept nogil:
    """Give a job its least workers and a server, if they fit."""
    cdef vector[double] charge
    cdef int64_t resource, at, servers = 0 if sizing.is_ring[job] else 1
    for resource in range(sizing.resources):
        at = sizing.columns * job + resource
        if sizing.reserved != NULL:
            charge.push_back(sizing.reserved[sizing.resources * job + resource])
        else:
            charge.push_back(sizing.least_workers[job] * sizing.needs[0][at] + servers * sizing.needs[1][at])
    if _take(left, charge.data()):
        sizing.sizes[0][job], sizing.sizes[1][job] = sizing.least_workers[job], servers
        _offer(sizing, job, offers)


cdef void _give(Sizing* sizing, int64_t jobs) noexcept nogil:
    """Give all jobs their first workers and servers, then further ones by falling gain while they fit."""
    cdef vector[double] left
    cdef vector[Offer] offers
    cdef Offer offer
    cdef int64_t job, resource
    for resource in range(sizing.resources):
        left.push_back(sizing.capacity[resource] * _ROUNDING)
    for job in range(jobs):
        _give_first(sizing, job, &left, &offers)
    while not offers.empty():
        offer = offers.front()
        pop_heap(offers.begin(), offers.end(), _later)
        offers.pop_back()
        # The gain of an offer changes when the other role grows: there is then a newer offer.
        if offer.gain != _gain(sizing, offer.job, offer.role) or not _within_limit(sizing, offer.job, offer.role):
            continue
        if sizing.reserved != NULL or _take(&left, sizing.needs[offer.role] + sizing.columns * offer.job):
            sizing.sizes[offer.role][offer.job] += 1
            _offer(sizing, offer.job, &offers)


def marginal_gains(jobs, workers, servers):
    """Write how many workers and servers each job gets; `jobs` are `SizingColumns`.

    The gain of one more is the cut of the completion time (seconds) over its dominant share of the capacity.
    """
    cdef Sizing sizing
    sizing.terms, sizing.term_count = floats(jobs.terms).at, jobs.terms.shape[1]
    sizing.ring, sizing.ring_count = floats(jobs.ring_seconds).at, jobs.ring_seconds.shape[1]
    sizing.each[0], sizing.each[1] = floats(jobs.per_worker_seconds).at, floats(jobs.per_server_seconds).at
    sizing.is_ring, sizing.remaining = bools(jobs.is_ring).at, floats(jobs.remaining).at
    sizing.needs[0], sizing.needs[1] = floats(jobs.worker).at, floats(jobs.server).at
    sizing.columns, sizing.limit = jobs.limit.shape[1], floats(jobs.limit).at
    sizing.reserved = floats(jobs.reserved).at if jobs.reserved.shape[1] else NULL
    sizing.least_workers = ints(jobs.least_workers).at
    sizing.capacity, sizing.resources = floats(jobs.capacity).at, len(jobs.capacity)
    sizing.sizes[0], sizing.sizes[1] = ints(workers).at, ints(servers).at
    _give(&sizing, len(workers))
