"""The steps of a scheduler that leases which read or change the ledger job by job, compiled."""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t, uint8_t
from libcpp.vector cimport vector

from muster.cluster.arrays cimport Ints, bools, floats, ints, records
from muster.cluster.ledger_core cimport (
    WHOLE,
    Books,
    Row,
    books_of,
    copy_chain,
    count_bits,
    put_chain,
    release_job,
    undo_to,
)
from muster.schedulers.interruption cimport repays
from muster.schedulers.placement.columns cimport Needs, need_of, needs_of, put_back
from muster.schedulers.placement.network_aware cimport FormsOfGang, share_on
from muster.schedulers.placement.rules_core cimport need_on
from muster.workload.jobs_core cimport RUNNING, WAITING, Fact

import numpy as np

from muster.schedulers.reasons import PLACED

cdef int64_t _PLACED = PLACED


def find_bidders(facts, jobs, double now):
    """Positions of those who wait or whose lease has ended; whose has; since when each is without GPUs."""
    cdef Fact* all_facts = <Fact*> records(facts, sizeof(Fact))
    cdef Fact* fact
    cdef Ints numbers = ints(jobs)
    cdef int64_t at, count = 0
    cdef int64_t* found
    cdef uint8_t* has_ended
    cdef double* begins
    bidders, ended = np.empty(numbers.size, np.int64), np.zeros(numbers.size, np.bool_)
    since = np.full(numbers.size, INFINITY)
    found, has_ended, begins = ints(bidders).at, bools(ended).at, floats(since).at
    for at in range(numbers.size):
        fact = &all_facts[numbers.at[at]]
        if fact.state == RUNNING and fact.lease_end <= now:
            has_ended[at] = True
            begins[at] = now
        elif fact.state == WAITING:
            begins[at] = fact.last_stop
        else:
            continue
        found[count] = at
        count += 1
    return bidders[:count], ended, since


def end_leases(books, jobs, bidders, ended, released):
    """Take back what they held, and note its chain."""
    cdef Books held = books_of(books)
    cdef Ints positions = ints(bidders)
    cdef int64_t* numbers = ints(jobs).at
    cdef uint8_t* has_ended = bools(ended).at
    cdef int64_t* chains = ints(released).at
    cdef int64_t turn, at
    for turn in range(positions.size):
        at = positions.at[turn]
        if has_ended[at]:
            chains[at] = held.heads[numbers[at]]
            release_job(&held, numbers[at])


def mark_content(books, again, released, kinds, speeds, costs, double lease, content):
    """Mark the jobs that cannot gain the cost of an interruption within a lease.

    `kinds` and `speeds` are the forms of each of them.
    """
    cdef Books held = books_of(books)
    cdef Ints positions = ints(again)
    cdef int64_t* chains = ints(released).at
    cdef double* cost = floats(costs).at
    cdef uint8_t* marked = bools(content).at
    cdef FormsOfGang forms
    cdef int64_t turn, at
    cdef double best
    forms.count, forms.kinds, forms.speeds = kinds.shape[1], ints(kinds).at, floats(speeds).at
    for turn in range(positions.size):
        at = positions.at[turn]
        best = share_on(&held, chains[at], forms)
        marked[at] = not repays(1.0 - best, cost[at], lease)
        forms.kinds += 3 * forms.count
        forms.speeds += forms.count


def go_on_if_unused(books, jobs, stopped, released, codes):
    """Give each of these jobs back what it held, unless another job has taken some of it."""
    cdef Books held = books_of(books)
    cdef Ints positions = ints(stopped)
    cdef int64_t* numbers = ints(jobs).at
    cdef int64_t* chains = ints(released).at
    cdef int64_t* code = ints(codes).at
    cdef int64_t turn, at
    for turn in range(positions.size):
        at = positions.at[turn]
        if put_back(&held, numbers[at], chains[at]):
            code[at] = _PLACED


cdef bint _holds_whole_gpus(Books* books, int64_t chain) noexcept nogil:
    """Whether a job holds something, and no share of a GPU."""
    cdef int64_t row = chain
    while row >= 0:
        if books.rows[row].milli < WHOLE:
            return False
        row = books.rows[row].next
    return chain >= 0


cdef void _set_amounts(Books* books, int64_t chain, int64_t* need) noexcept nogil:
    """Write into each row of a chain what its GPUs need beside them."""
    cdef int64_t resource
    cdef Row* row
    while chain >= 0:
        row = &books.rows[chain]
        for resource in range(1, books.resources):
            row.amount[resource] = need_on(books, row.node, resource, need) * count_bits(row.mask)
        chain = row.next


def lower_to(books, jobs, resource_options):
    """Set what jobs with whole GPUs of their own hold beside each of them to the first of `resource_options`.

    Nothing changes where that does not fit, as after another scheduler's placement.
    """
    cdef Books books_now = books_of(books)
    cdef Ints numbers = ints(jobs)
    cdef Needs needs = needs_of(resource_options)
    cdef vector[int64_t] held
    cdef int64_t at, chain, mark = books_now.entries[0]
    if books_now.delayed[0]:
        return
    held.resize(numbers.size, -1)
    for at in range(numbers.size):
        chain = books_now.heads[numbers.at[at]]
        if _holds_whole_gpus(&books_now, chain):
            held[at] = chain
            release_job(&books_now, numbers.at[at])
    for at in range(numbers.size):
        if held[at] >= 0:
            chain = copy_chain(&books_now, held[at])
            _set_amounts(&books_now, chain, need_of(&needs, at, 0))
            if put_chain(&books_now, numbers.at[at], chain) != 0:
                undo_to(&books_now, mark)
                return
