"""What jobs have done by a moment, what they have left, and until when they may not be interrupted."""

from muster.cluster.arrays cimport Floats, Ints, floats, ints, records

import numpy as np


def service_now(facts, index, double now):
    """GPU-seconds that each job has attained by now, to the millionth."""
    cdef Fact* all_facts = <Fact*> records(facts, sizeof(Fact))
    cdef Ints jobs = ints(index)
    cdef Py_ssize_t at
    cdef Floats service
    result = np.empty(jobs.size)
    service = floats(result)
    for at in range(jobs.size):
        service.at[at] = service_of(&all_facts[jobs.at[at]], now)
    return result


def work_now(facts, index, double now):
    """Iterations that each job has done by now, to the millionth."""
    cdef Fact* all_facts = <Fact*> records(facts, sizeof(Fact))
    cdef Ints jobs = ints(index)
    cdef Py_ssize_t at
    cdef Floats work
    result = np.empty(jobs.size)
    work = floats(result)
    for at in range(jobs.size):
        work.at[at] = work_of(&all_facts[jobs.at[at]], now)
    return result


def left_now(asked, facts, index, double now):
    """Seconds of work that each job is believed to have left at the reference; NaN where nothing is known."""
    cdef Asked* all_asked = <Asked*> records(asked, sizeof(Asked))
    cdef Fact* all_facts = <Fact*> records(facts, sizeof(Fact))
    cdef Ints jobs = ints(index)
    cdef Py_ssize_t at
    cdef Floats left
    result = np.empty(jobs.size)
    left = floats(result)
    for at in range(jobs.size):
        left.at[at] = left_of(&all_asked[jobs.at[at]], &all_facts[jobs.at[at]], now)
    return result


def protected_until(asked, facts, index, double multiple):
    """When each job may be interrupted, seconds; inf where its owner forbids it, -inf for a job that holds nothing.

    A running job is left alone until its owner's minimum has passed, and until it has worked `multiple` times as
    long as an interruption costs it since its first step.
    """
    cdef Asked* all_asked = <Asked*> records(asked, sizeof(Asked))
    cdef Fact* all_facts = <Fact*> records(facts, sizeof(Fact))
    cdef Ints jobs = ints(index)
    cdef Py_ssize_t at
    cdef Floats until
    result = np.empty(jobs.size)
    until = floats(result)
    for at in range(jobs.size):
        until.at[at] = protection_end(&all_asked[jobs.at[at]], &all_facts[jobs.at[at]], multiple)
    return result
