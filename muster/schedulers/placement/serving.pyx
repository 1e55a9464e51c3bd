"""A whole queue served in order: which jobs fit in all, and which of them find a place."""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memset
from libcpp.vector cimport vector

cimport muster.schedulers.placement.rules_core as rules_core
from muster.cluster.arrays cimport Bools, Ints, bools, ints
from muster.cluster.ledger_core cimport GPU, STORAGE, WHOLE, Books, books_of, release_job
from muster.schedulers.placement.columns cimport (
    Jobs,
    Needs,
    Reasons,
    allowed_nodes,
    jobs_of,
    need_of,
    needs_of,
    note_lack,
    note_no_place,
    put_back,
    reasons_of,
    spec_of,
    thousandths_of,
)
from muster.schedulers.placement.rooms cimport (
    Rooms,
    begin_rooms,
    count_free,
    count_held,
    count_where_it_is,
    enter_rooms,
    free_on,
    gpus_held,
    held_on,
    keep_rooms,
)
from muster.schedulers.placement.rules_core cimport Scratch
from muster.workload.jobs_core cimport Asked

import numpy as np

from muster.schedulers.reasons import BEHIND_HEAD, NO_GPUS, OUTRANKED, PLACED

cdef int64_t _BEHIND_HEAD = BEHIND_HEAD
cdef int64_t _NO_GPUS = NO_GPUS
cdef int64_t _OUTRANKED = OUTRANKED
cdef int64_t _PLACED = PLACED

# One service of a queue.
cdef struct Service:
    Books books
    Jobs jobs
    Needs needs
    int64_t* rules
    int64_t rule_lines
    Reasons reasons
    Scratch scratch
    uint8_t hopeless[64]  # gang sizes that found no place


def pick_from(int64_t free, int64_t gpus, int64_t island, int64_t count):
    """Of a node's free GPUs (a mask) so many, close together; NOT_FREE if there are fewer (`rules_core.pick_from`)."""
    return rules_core.pick_from(free, gpus, island, count)


def place_job(books, int64_t job, gang, allowed, need, int64_t rule):
    """Give a job its GPUs, if there is a place by the rule.

    `gang` is their number, thousandths of each, and the nodes that it has to be on, 0 for any number.
    """
    cdef Books here = books_of(books)
    cdef vector[int64_t] fit = vector[int64_t](here.node_count), take = vector[int64_t](here.node_count)
    cdef Scratch scratch
    cdef Asked asked
    asked.gpus, asked.milli, asked.exact_nodes = gang
    scratch.fit, scratch.take = fit.data(), take.data()
    return bool(rules_core.place_job(&here, job, &asked, bools(allowed).at, ints(need).at, rule, scratch))


def choose_in_order(books, jobs, least, ranked, int64_t more, bint moves, bint strict, chosen):
    """Choose the jobs to serve: in order, each that fits in what is left beside those before it (Synergy, "Rounds").

    They are counted on the nodes that they may use (`rooms`), by their GPUs and, if `least` is given, by the least that
    each has to hold beside them (by position and resource in millionths). Running jobs among the ranked compete with
    the others, unless they are chosen at first; other jobs keep what they have. `moves` is whether running jobs may be
    moved for others; else they count where they are. `more`, in millionths of GPUs, may be taken beside what is free.
    What nodes without GPUs have is left for jobs without GPUs.
    """
    cdef Books here = books_of(books)
    cdef Jobs columns = jobs_of(jobs)
    cdef Bools take = bools(chosen)
    cdef Ints order = ints(ranked)
    cdef vector[bint] competes = vector[bint](columns.count, False)
    cdef vector[int64_t] need = vector[int64_t](here.resources)
    cdef int64_t place, at, job, line, without_gpus = 0
    cdef int64_t* amounts = NULL
    cdef Rooms rooms
    lines = jobs.node_allowed
    if least is not None:
        amounts, without_gpus = ints(least).at, len(lines)
        lines = np.concatenate([lines & (books.nodes["gpus"] > 0), lines])
    begin_rooms(&rooms, bools(lines).at, len(lines), columns.nodes, here.resources if amounts else 1)
    count_free(&rooms, &here, more)
    for place in range(order.size):
        competes[order.at[place]] = not take.at[order.at[place]]
    for at in range(columns.count):
        job = columns.numbers[at]
        count_held(&rooms, &here, job)
        if here.heads[job] >= 0 and not competes[at]:
            _find_need(&here, &columns, at, amounts, need)
            count_where_it_is(&rooms, &here, job, need.data(), -1)
    for place in range(order.size):
        at = order.at[place]
        if not competes[at]:
            continue
        job = columns.numbers[at]
        _find_need(&here, &columns, at, amounts, need)
        if here.heads[job] >= 0 and not moves:
            take.at[at] = keep_rooms(&rooms, &here, job, need.data())
        else:
            line = columns.spec[job].constraint + (0 if columns.spec[job].gpus else without_gpus)
            take.at[at] = enter_rooms(&rooms, line, need.data())
        if strict and not take.at[at]:
            return


cdef void _find_need(Books* books, Jobs* jobs, int64_t at, int64_t* least, vector[int64_t]& need) noexcept nogil:
    """Find what a job has to hold, by resource: the GPUs that it holds or asks for, and the least beside them."""
    cdef int64_t resource, job = jobs.numbers[at]
    for resource in range(1, books.resources if least else 1):
        need[resource] = 0 if resource == STORAGE else least[at * books.resources + resource]
    need[GPU] = gpus_held(books, job) if books.heads[job] >= 0 else thousandths_of(jobs, at) * WHOLE


def gpus_on_nodes_of(books, jobs, int64_t first, others, held):
    """Write into `held` what others hold on the nodes that a job may use, -1 for none of them; what is free there.

    All in millionths.
    """
    cdef Books here = books_of(books)
    cdef Jobs columns = jobs_of(jobs)
    cdef Ints at = ints(others), on_nodes = ints(held)
    cdef uint8_t* allowed = allowed_nodes(&columns, first)
    cdef int64_t place
    for place in range(at.size):
        on_nodes.at[place] = held_on(&here, allowed, columns.numbers[at.at[place]])
    return free_on(&here, allowed)


def serve(books, jobs, ranked, chosen, resource_options, rules, bint strict, reasons):
    """Stop the running jobs that are not chosen, then place the chosen ones in order, then the others that still fit.

    A running job keeps its place. A chosen job that finds no place leaves its GPUs to later ones; a job stopped
    for it in vain gets its place back. `resource_options[position or 0]` are the needs to try, best first, and
    `rules[position or 0]` the rule of placement. What comes out are the reasons.
    """
    cdef Service service
    service.books, service.jobs = books_of(books), jobs_of(jobs)
    service.needs, service.reasons = needs_of(resource_options), reasons_of(reasons)
    service.rules, service.rule_lines = ints(rules).at, len(rules)
    cdef vector[int64_t] fit = vector[int64_t](service.books.node_count)
    cdef vector[int64_t] take = vector[int64_t](service.books.node_count)
    service.scratch.fit, service.scratch.take = fit.data(), take.data()
    memset(service.hopeless, 0, sizeof(service.hopeless))
    _serve(&service, ints(ranked), bools(chosen).at, strict)


cdef bint _gpus_releasing(Books* books) noexcept nogil:
    """Whether GPUs that were given back are not free yet."""
    cdef int64_t node
    if books.delayed[0]:
        for node in range(books.node_count):
            if books.nodes[node].releasing[GPU] > 0:
                return True
    return False


cdef void _serve(Service* service, Ints ranked, uint8_t* chosen, bint strict) noexcept nogil:
    cdef Books* books = &service.books
    cdef Jobs* jobs = &service.jobs
    cdef Reasons* reasons = &service.reasons
    cdef vector[int64_t] stopped = vector[int64_t](jobs.count, -1)
    cdef int64_t turn, place, at, job, code
    cdef bint blocked = False, releasing, promised
    for place in range(ranked.size):
        at = ranked.at[place]
        job = jobs.numbers[at]
        if books.heads[job] >= 0:
            reasons.codes[at] = _PLACED
            if not chosen[at]:
                stopped[at] = books.heads[job]
                release_job(books, job)
    # What is still releasing was promised to a chosen job: others may not take the rest of its GPUs meanwhile.
    releasing = _gpus_releasing(books)
    for turn in range(2):
        promised = releasing and turn == 1
        for place in range(ranked.size):
            at = ranked.at[place]
            job = jobs.numbers[at]
            if books.heads[job] >= 0 or (chosen[at] != 0) != (turn == 0):
                continue
            if not promised and stopped[at] >= 0 and put_back(books, job, stopped[at]):
                reasons.codes[at] = _PLACED
            elif blocked:
                reasons.codes[at] = _BEHIND_HEAD
            elif promised or thousandths_of(jobs, at) * WHOLE > books.totals[GPU]:
                code = _OUTRANKED if promised or stopped[at] >= 0 else _NO_GPUS
                note_lack(books, jobs, at, code, reasons)
                blocked = strict
            elif _place_with_first_option(service, at):
                reasons.codes[at] = _PLACED
            else:
                note_no_place(books, jobs, at, reasons)
                blocked = strict


cdef bint _place_with_first_option(Service* service, int64_t at) noexcept nogil:
    """Place a job with the first of its resource options for which there is a place."""
    cdef Asked* spec = spec_of(&service.jobs, at)
    cdef int64_t rule = service.rules[0 if service.rule_lines == 1 else at], option
    cdef bint alike = service.needs.lines == 1 and service.rule_lines == 1 and spec.constraint == 0
    alike = alike and spec.milli == WHOLE and spec.gpus < 64 and spec.exact_nodes == 0
    if alike and service.hopeless[spec.gpus]:
        return False
    for option in range(service.needs.options):
        if rules_core.place_job(
            &service.books,
            service.jobs.numbers[at],
            spec,
            allowed_nodes(&service.jobs, at),
            need_of(&service.needs, at, option),
            rule,
            service.scratch,
        ):
            return True
    if alike:
        service.hopeless[spec.gpus] = True
    return False
