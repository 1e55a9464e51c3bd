"""Whole demands placed in order as the Synergy authors' program does it, compiled; see `greedy`."""

from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from muster.cluster.arrays cimport Ints, ints
from muster.cluster.ledger_core cimport Books, books_of
from muster.schedulers.allocation.draft_core cimport Draft, draft_of, free_on, keep_amounts
from muster.schedulers.allocation.gangs_core cimport Gangs, gangs_of, has_room, need_of, place_gang, set_level
from muster.schedulers.allocation.search_core cimport pick


def place_demands(draft, gangs, tried, bint consolidating, bint passing):
    """Place the jobs with their whole demand in order, while GPUs are left.

    A job whose demand fits nowhere is passed, or ends it: its place in `tried` is returned, `len(tried)` without one.
    """
    cdef Draft plan = draft_of(draft)
    cdef Gangs jobs = gangs_of(gangs)
    cdef Ints order = ints(tried)
    cdef vector[int64_t] take
    cdef int64_t i, at, node, budget = 0
    cdef int64_t* need
    take.resize(jobs.nodes)
    for node in range(plan.nodes):
        budget += free_on(&plan, node)[0]
    for i in range(order.size):
        at = order.at[i]
        if budget == 0:
            break
        if not plan.movable[at] or jobs.gpus[at] > budget:
            continue
        need = need_of(&jobs, jobs.demands.published, at)
        if pick(&plan, &jobs, at, need, consolidating, take.data()):
            budget -= jobs.gpus[at]
            place_gang(&plan, &jobs, at, need, take.data())
        elif not passing:
            return i
    return order.size


def keep_fixed(books, index, draft, gangs):
    """Fixed jobs keep what they have; those with less than their demand get all of it where it is free."""
    cdef Books here = books_of(books)
    cdef Draft plan = draft_of(draft)
    cdef Gangs jobs = gangs_of(gangs)
    cdef int64_t at
    cdef int64_t* need
    keep_amounts(&here, ints(index).at, &plan)
    for at in range(plan.jobs):
        if plan.fixed[at]:
            need = need_of(&jobs, jobs.demands.published, at)
            if has_room(&plan, &jobs, at, need):
                set_level(&plan, &jobs, at, need)


def place_one(draft, gangs, int64_t at, need, bint consolidating):
    """Place a job with a need, by kind of node and resource; whether it has a place."""
    cdef Draft plan = draft_of(draft)
    cdef Gangs jobs = gangs_of(gangs)
    cdef vector[int64_t] take
    cdef int64_t* amounts = ints(need).at
    take.resize(jobs.nodes)
    if not pick(&plan, &jobs, at, amounts, consolidating, take.data()):
        return False
    place_gang(&plan, &jobs, at, amounts, take.data())
    return True
