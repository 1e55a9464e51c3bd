"""The steps of a scheduler that leases which read or change the ledger job by job, compiled."""

from libc.math cimport INFINITY, fabs, rint
from libc.stdint cimport int64_t, uint8_t
from libcpp.vector cimport vector

from muster.cluster.arrays cimport Ints, bools, floats, ints, records
from muster.cluster.ledger_core cimport (
    WHOLE,
    Books,
    Node,
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
from muster.schedulers.placement.delay_scheduling cimport ISLAND, MACHINE, NETWORK, RACK, level_of_chain
from muster.schedulers.placement.network_aware cimport FormsOfGang, share_on
from muster.schedulers.placement.rules_core cimport need_on
from muster.workload.jobs_core cimport RUNNING, WAITING, Asked, Fact

import numpy as np

from muster.schedulers.reasons import PLACED

cdef int64_t _PLACED = PLACED


cdef double _ROUNDING = 1e-3  # of a lease: at a moment farther from a whole number of leases, none ends


cdef double _end_of_lease(Fact* fact, double now, double lease) noexcept nogil:
    """When the lease of a running job ends: as noted, or where it is lent without an end, the next one from now on."""
    cdef double end = fact.lease_end
    if end < INFINITY:
        return end
    end = fact.last_start + lease
    while end < now:
        end += lease
    return end


cdef bint _ends_now(Fact* fact, double now, double lease) noexcept nogil:
    """Whether a running job's lease has ended by now."""
    cdef double leases
    if fact.lease_end == INFINITY:
        leases = (now - fact.last_start) / lease
        if fabs(leases - rint(leases)) > _ROUNDING:
            return False
    return _end_of_lease(fact, now, lease) <= now


cdef vector[int64_t] _largest_by_level(Books* books) noexcept nogil:
    """GPUs of the largest island, machine and rack, whatever is free."""
    cdef vector[int64_t] largest, racks
    cdef int64_t number
    cdef Node* node
    largest.resize(NETWORK)
    for number in range(books.node_count):
        node = &books.nodes[number]
        largest[ISLAND] = max(largest[ISLAND], min(node.gpus, max(node.island, <int64_t> 1)))
        largest[MACHINE] = max(largest[MACHINE], node.gpus)
        if node.rack >= <int64_t> racks.size():
            racks.resize(node.rack + 1)
        racks[node.rack] += node.gpus
        largest[RACK] = max(largest[RACK], racks[node.rack])
    return largest


def new_lease_ends(books, asked, facts, jobs, double now, double lease, bint open_ended):
    """The jobs that hold something and whose leases end at another time than before; inf: its end changes nothing."""
    cdef Books held = books_of(books)
    cdef Asked* specs = <Asked*> records(asked, sizeof(Asked))
    cdef Fact* all_facts = <Fact*> records(facts, sizeof(Fact))
    cdef Fact* fact
    cdef Ints numbers = ints(jobs)
    cdef vector[int64_t] largest
    cdef int64_t at, job, chain, count = 0
    cdef int64_t* number
    cdef double end
    cdef double* moment
    given, ends = np.empty(numbers.size, np.int64), np.empty(numbers.size)
    number, moment = ints(given).at, floats(ends).at
    if open_ended:
        largest = _largest_by_level(&held)
    for at in range(numbers.size):
        job = numbers.at[at]
        chain, fact = held.heads[job], &all_facts[job]
        if chain < 0:
            continue
        if open_ended and _stays(&held, chain, specs[job].gpus, largest):
            end = INFINITY
        elif fact.state != RUNNING or _ends_now(fact, now, lease):
            end = now + lease
        else:
            end = _end_of_lease(fact, now, lease)
        if end != fact.lease_end:
            number[count], moment[count] = job, end
            count += 1
    return given[:count], ends[:count]


cdef bint _stays(Books* books, int64_t chain, int64_t gpus, vector[int64_t]& largest) noexcept nogil:
    """Whether a job's GPUs could not be closer together, whatever is free: it takes no other place."""
    cdef int64_t level
    if not _holds_whole_gpus(books, chain):
        return False
    level = level_of_chain(books, chain)
    return level == ISLAND or gpus > largest[level - 1]


def find_bidders(facts, jobs, double now, double lease):
    """Positions of the jobs that wait or whose lease has ended; whose has; since when each is without GPUs."""
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
        if fact.state == RUNNING and _ends_now(fact, now, lease):
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
