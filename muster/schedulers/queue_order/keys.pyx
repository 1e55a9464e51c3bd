"""The parts of queue orders that are loops over jobs or classes, compiled."""

from libc.math cimport INFINITY, rint
from libc.stdint cimport int64_t
from libcpp.algorithm cimport lower_bound, upper_bound

from muster.cluster.arrays cimport Floats, Ints, floats, ints, records
from muster.cluster.ledger_core cimport WHOLE, Books, books_of
from muster.speed.input_core cimport ModelSpeed
from muster.speed.points_core cimport held_speed
from muster.workload.jobs_core cimport RUNNING, Asked, Fact, work_of

import numpy as np

cdef double _DIGITS = 1e9  # of the sensitivity, so that jobs that lost nothing are equal and not ordered by rounding


def best_rates(edges, chances, kinds, ages, start_up):
    """The Gittins index of each job: the largest chance to end per GPU-second, over all moments to look.

    Class i begins at edge i - 1, and the last is as long as all before. A job is at the start of the class of its age.
    """
    cdef Floats edge = floats(edges), ends_of = floats(chances), before = floats(start_up), best
    cdef Ints classes_of = ints(ages), kind_of = ints(kinds)
    cdef int64_t at, last, row, classes = chances.shape[1]
    cdef double start, begin, end, left, soon, spent, ends_here
    result = np.zeros(classes_of.size)
    best = floats(result)
    for at in range(classes_of.size):
        row = kind_of.at[at] * classes
        start = end = edge.at[classes_of.at[at] - 1] if classes_of.at[at] else 0.0
        left, soon, spent = 1.0, 0.0, 0.0
        for last in range(classes_of.at[at], classes):
            begin = end
            end = edge.at[last] if last < classes - 1 else 2.0 * begin
            ends_here = left * ends_of.at[row + last]
            left -= ends_here
            soon += ends_here
            spent += ends_here * ((begin + end) / 2 - start)
            best.at[at] = max(best.at[at], soon / (spent + left * (end - start) + before.at[at]))
    return result


def seconds_to_level(levels, bint falls, asked, facts, index, attained, running):
    """How soon one of the running jobs reaches the next level; a level it is at counts, unless it falls there."""
    cdef Floats level = floats(levels), service = floats(attained)
    cdef Asked* all_asked = <Asked*> records(asked, sizeof(Asked))
    cdef Fact* all_facts = <Fact*> records(facts, sizeof(Fact))
    cdef Ints numbers = ints(index), positions = ints(running)
    cdef double* end = level.at + level.size
    cdef double* following
    cdef double gpus, now, soonest = INFINITY
    cdef int64_t at, job
    for at in range(positions.size):
        now = service.at[positions.at[at]]
        following = upper_bound(level.at, end, now) if falls else lower_bound(level.at, end, now)
        if following == end:
            continue
        job = numbers.at[positions.at[at]]
        gpus = all_facts[job].held
        if gpus <= 0:
            gpus = all_asked[job].gpus * (all_asked[job].milli / <double> WHOLE)
        if gpus > 0:
            soonest = min(soonest, (following[0] - now) / gpus)
    return soonest


def network_sensitivity(asked, facts, index, double now):
    """Nw_sens of each job, and since when it is without GPUs: now for those that hold some."""
    cdef Asked* all_asked = <Asked*> records(asked, sizeof(Asked))
    cdef Fact* all_facts = <Fact*> records(facts, sizeof(Fact))
    cdef Ints numbers = ints(index)
    cdef Floats sensitivity, since
    cdef int64_t at
    cdef double ran, ideal
    cdef Asked* ask
    cdef Fact* fact
    result = np.zeros(numbers.size), np.full(numbers.size, now)
    sensitivity, since = floats(result[0]), floats(result[1])
    for at in range(numbers.size):
        ask, fact = &all_asked[numbers.at[at]], &all_facts[numbers.at[at]]
        ran = fact.run
        if fact.state == RUNNING:
            ran += now - fact.settled
        else:
            since.at[at] = fact.last_stop
        if ran > 0:
            ideal = work_of(fact, now) * (ask.ideal / ask.iterations)
            sensitivity.at[at] = rint(ideal / ran * _DIGITS) / _DIGITS
    return result


def seconds_an_iteration(books, index, gpus, model, models, best):
    """Seconds an iteration on the GPUs asked for, by position: as it runs, else at its best speed.

    A job without GPUs has one speed.
    """
    cdef Books ledger = books_of(books)
    cdef ModelSpeed* all_models = <ModelSpeed*> records(models, sizeof(ModelSpeed))
    cdef Ints numbers = ints(index), count = ints(gpus), model_of = ints(model)
    cdef Floats fastest = floats(best), seconds
    cdef int64_t at, head
    cdef double speed
    result = np.empty(numbers.size)
    seconds = floats(result)
    for at in range(numbers.size):
        head = ledger.heads[numbers.at[at]]
        speed = fastest.at[at]
        if head >= 0 and count.at[at] > 0:
            speed = held_speed(&ledger, head, all_models, model_of.at[at])
        seconds.at[at] = all_models[model_of.at[at]].reference_seconds / speed if speed > 0 else INFINITY
    return result
