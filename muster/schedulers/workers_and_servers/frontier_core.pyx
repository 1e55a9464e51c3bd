"""The search for the sizes of `frontier`, compiled."""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy
from libcpp.vector cimport vector

from muster.cluster.arrays cimport Ints, bools, floats, ints, records
from muster.speed.parameter_server.step_core cimport longest_term

import numpy as np

_SIZE = np.dtype([("job", np.int64), ("workers", np.int64), ("servers", np.int64), ("seconds", np.float64)])

# Of a job: the coefficients of its step (`StepTime`), what its tasks need, and the owner's limit.
cdef struct Sizable:
    double* terms
    int64_t term_count
    double per_worker
    double per_server
    bint asynchronous
    double* ring
    int64_t ring_count
    double* worker
    double* server
    double* limit
    int64_t resources

cdef struct Size:
    int64_t job
    int64_t workers
    int64_t servers
    double seconds


cdef double _iteration_seconds(Sizable* job, int64_t workers, int64_t servers) noexcept nogil:
    """Seconds of an iteration, as `StepTime.iteration_seconds` has them."""
    cdef double step = longest_term(job.terms, job.term_count, workers, <double> workers / servers)
    if job.ring_count > 0:
        step += job.ring[min(workers, job.ring_count) - 1]
    step += job.per_worker * workers + job.per_server * servers
    return step / workers if job.asynchronous else step


cdef int64_t _room(Sizable* job, int64_t workers) noexcept nogil:
    """How many servers fit beside so many workers."""
    cdef double left, count = INFINITY
    cdef int64_t resource
    for resource in range(job.resources):
        left = job.limit[resource] - workers * job.worker[resource]
        if job.server[resource] > 0:
            count = min(count, left / job.server[resource])
        elif left < 0:
            return 0
    return <int64_t> count


cdef void _search(Sizable* job, int64_t number, int64_t workers, vector[Size]* found) noexcept nogil:
    """Add the pairs of one job, from so many workers on."""
    cdef int64_t servers, room, most_servers = _room(job, 0)
    cdef double best_here
    cdef Size size
    # The best with fewer workers and no more servers, by servers.
    cdef vector[double] before
    if most_servers > 0:
        before.assign(most_servers + 1, INFINITY)
    size.job = number
    while True:
        room = min(_room(job, workers), most_servers)
        if room < 1:
            return
        best_here = INFINITY
        size.workers = workers
        for servers in range(1, room + 1):
            size.servers, size.seconds = servers, _iteration_seconds(job, workers, servers)
            if size.seconds < best_here and size.seconds < before[servers]:
                found.push_back(size)
            best_here = min(best_here, size.seconds)
            before[servers] = min(before[servers], best_here)
        workers += 1


cdef void _add_held(Sizable* job, Size held, size_t first, vector[Size]* found) noexcept nogil:
    """Put the pair that a job holds among its pairs, which begin there, unless it is one of them."""
    cdef size_t at = first
    while at < found.size() and (
        found[0][at].workers < held.workers
        or (found[0][at].workers == held.workers and found[0][at].servers < held.servers)
    ):
        at += 1
    if at == found.size() or found[0][at].workers != held.workers or found[0][at].servers != held.servers:
        held.seconds = _iteration_seconds(job, held.workers, held.servers)
        found.insert(found.begin() + at, held)


def sizes_on_frontier(step_columns, worker, server, limit, least_workers, held_workers, held_servers):
    """Job, workers, servers and seconds of the pairs of `frontier` and of those held, job by job and worker by worker.

    `step_columns` are those of a `StepTime` of many jobs.
    """
    terms, per_worker, per_server, asynchronous, ring_seconds = step_columns
    cdef Sizable job
    cdef Size held
    cdef size_t first
    cdef vector[Size] found
    cdef double* all_terms = floats(terms).at
    cdef double* all_rings = floats(ring_seconds).at
    cdef double* by_worker = floats(per_worker).at
    cdef double* by_server = floats(per_server).at
    cdef uint8_t* alone = bools(asynchronous).at
    cdef int64_t* least = ints(least_workers).at
    cdef int64_t* workers = ints(held_workers).at
    cdef int64_t* servers = ints(held_servers).at
    cdef int64_t number
    job.worker, job.server, job.limit = floats(worker).at, floats(server).at, floats(limit).at
    job.term_count, job.ring_count, job.resources = terms.shape[1], ring_seconds.shape[1], limit.shape[1]
    for number in range(limit.shape[0]):
        job.terms = all_terms + 3 * job.term_count * number
        job.ring = all_rings + job.ring_count * number
        job.per_worker, job.per_server, job.asynchronous = by_worker[number], by_server[number], alone[number]
        first = found.size()
        _search(&job, number, least[number], &found)
        if workers[number] > 0:
            held.job, held.workers, held.servers = number, workers[number], max(servers[number], <int64_t> 1)
            _add_held(&job, held, first, &found)
        job.worker += job.resources
        job.server += job.resources
        job.limit += job.resources
    sizes = np.empty(found.size(), _SIZE)
    memcpy(records(sizes, sizeof(Size)), found.data(), found.size() * sizeof(Size))
    return tuple(np.ascontiguousarray(sizes[name]) for name in _SIZE.names)


def fastest_of(job, seconds):
    """The first entry with the fewest seconds of each job that has entries; the jobs of the entries ascend."""
    cdef Ints jobs = ints(job)
    cdef double* each = floats(seconds).at
    cdef vector[int64_t] best
    cdef int64_t at
    for at in range(jobs.size):
        if at == 0 or jobs.at[at] != jobs.at[at - 1]:
            best.push_back(at)
        elif each[at] < each[best.back()]:
            best[best.size() - 1] = at
    entries = np.empty(best.size(), np.int64)
    cdef int64_t* result = ints(entries).at
    for at in range(best.size()):
        result[at] = best[at]
    return entries
