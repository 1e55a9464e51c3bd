"""Whether every running job has all that can make it faster where it is, compiled: then a plan has nothing to add."""

from libc.stdint cimport int64_t

from muster.cluster.arrays cimport floats, ints
from muster.cluster.ledger_core cimport GPU, MICRO, SLOTS, Books, Row, books_of
from muster.schedulers.allocation.gangs_core cimport Gangs, best_speed_on, choice_of, gangs_of, model_on
from muster.speed.input_core cimport ModelSpeed, speed_without_waiting
from muster.speed.points_core cimport speed_at

cdef double _EPSILON = 1e-9


def nothing_to_gain(books, index, gangs, bint may_move):
    """Return whether no job that holds GPUs would be faster with more beside them.

    Jobs that may move would also not be faster elsewhere.
    """
    cdef Books here = books_of(books)
    cdef Gangs jobs = gangs_of(gangs)
    cdef int64_t* numbers = ints(index).at
    cdef double* fastest = floats(gangs.demands.fastest).at
    cdef int64_t at
    cdef double least
    for at in range(jobs.jobs):
        least = fastest[jobs.classes[at]] if may_move else 0.0
        if not _is_fastest(&here, &jobs, here.heads[numbers[at]], at, least):
            return False
    return True


cdef bint _is_fastest(Books* books, Gangs* gangs, int64_t head, int64_t at, double least) noexcept nogil:
    """Whether a job is as fast on each of its nodes as it can be there, and nowhere slower than `least`."""
    cdef int64_t row = head, resource, kind
    cdef int64_t per_gpu[SLOTS]
    cdef Row* held
    cdef double speed
    cdef bint alone
    while row >= 0:
        held = &books.rows[row]
        for resource in range(1, books.resources):
            per_gpu[resource] = held.amount[resource] * MICRO // held.amount[GPU]
        kind = gangs.kind_of_node[held.node]
        speed = speed_at(model_on(gangs, at, kind), per_gpu)
        alone = row == head and held.next < 0
        if speed < max(least, _most_here(gangs, at, kind, alone)) * (1 - _EPSILON):
            return False
        if model_on(gangs, at, kind).n_cpus == 0 and not _has_share(gangs, at, kind, per_gpu):
            return False
        row = held.next
    return True


cdef double _most_here(Gangs* gangs, int64_t at, int64_t kind, bint alone) noexcept nogil:
    """The most that a job reaches on a kind of node: with all of one, or on several with no waiting for input."""
    cdef ModelSpeed* model = model_on(gangs, at, kind)
    return best_speed_on(gangs, at, kind) if alone or model.n_cpus == 0 else speed_without_waiting(model)


cdef bint _has_share(Gangs* gangs, int64_t at, int64_t kind, int64_t* per_gpu) noexcept nogil:
    """Whether a job of which nothing is known has its share on a kind of node."""
    cdef int64_t pair = gangs.classes[at] * gangs.kind_count + kind, resource
    cdef int64_t* share = choice_of(gangs, gangs.demands.first_choice[pair])
    for resource in range(1, gangs.resources):
        if per_gpu[resource] < share[resource]:
            return False
    return True
