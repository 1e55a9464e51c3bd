"""The parts of queue orders that are loops over jobs or classes, compiled."""

from libc.math cimport INFINITY, rint
from libc.stdint cimport int64_t
from libcpp.algorithm cimport lower_bound, upper_bound
from libcpp.vector cimport vector

from muster.cluster.arrays cimport Floats, Ints, floats, ints, records
from muster.cluster.ledger_core cimport WHOLE, Books, books_of
from muster.speed.input_core cimport ModelSpeed
from muster.speed.points_core cimport held_speed
from muster.workload.jobs_core cimport RUNNING, Asked, Fact, work_of

import numpy as np

cdef double _DIGITS = 1e9  # of the sensitivity, so that jobs that lost nothing are equal and not ordered by rounding


def prospects(edges, ended, survivors):
    """For a job at the start of class i: chance to end by the end of class j, and expected service until then.

    Class i begins at edge i - 1, and the last is as long as all before. Lengths follow the product-limit estimate: the
    chance to end in a class is the ended jobs there over all that came as far, jobs still in the system counted where
    they have passed the class.
    """
    cdef Floats edge = floats(edges), ends = floats(ended), passed = floats(survivors)
    cdef int64_t first, last, classes = ends.size
    cdef double start, begin, end, left, chance, seconds, ends_here, ended_later = 0.0
    cdef Floats soon, spent
    cdef vector[double] at_risk
    result = np.zeros((classes, classes)), np.zeros((classes, classes))
    soon, spent = floats(result[0]), floats(result[1])
    at_risk.resize(classes)
    for first in range(classes - 1, -1, -1):
        ended_later += ends.at[first]
        at_risk[first] = ended_later + passed.at[first]
    for first in range(classes):
        start = edge.at[first - 1] if first else 0.0
        left, chance, seconds = 1.0, 0.0, 0.0
        for last in range(first, classes):
            begin = edge.at[last - 1] if last else 0.0
            end = edge.at[last] if last < classes - 1 else 2.0 * begin
            ends_here = left * ends.at[last] / at_risk[last] if at_risk[last] > 0 else 0.0
            left -= ends_here
            chance += ends_here
            seconds += ends_here * ((begin + end) / 2 - start)
            soon.at[first * classes + last] = chance
            spent.at[first * classes + last] = seconds + left * (end - start)
    return result


def best_rates(soon, spent, ages, start_up):
    """The Gittins index of each job: the largest chance per GPU-second over all moments to look."""
    cdef Floats chances = floats(soon), seconds = floats(spent), before = floats(start_up), best
    cdef Ints classes_of = ints(ages)
    cdef int64_t at, age, last, classes = soon.shape[0]
    result = np.zeros(classes_of.size)
    best = floats(result)
    for at in range(classes_of.size):
        age = classes_of.at[at]
        for last in range(age, classes):
            best.at[at] = max(
                best.at[at], chances.at[age * classes + last] / (seconds.at[age * classes + last] + before.at[at])
            )
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
