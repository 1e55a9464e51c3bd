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


def count_walk(books, jobs, pinned, ranked, int64_t more, bint moves, bint strict, chosen):
    """Choose the jobs to serve, by GPU count alone: in order, each that fits in what is left (Synergy, "Rounds").

    They are counted on the nodes that they may use (`rooms`). Running jobs among the ranked compete with the others,
    unless they are pinned: those are chosen first. `moves` is whether others may be moved; else they count where they
    are. `more`, in millionths, may be taken beside what is free.
    """
    cdef Books here = books_of(books)
    cdef Jobs columns = jobs_of(jobs)
    cdef Bools kept = bools(pinned), take = bools(chosen)
    cdef Ints order = ints(ranked)
    cdef int64_t place, at, job, need
    cdef Rooms rooms
    begin_rooms(&rooms, columns.node_allowed, len(jobs.node_allowed), columns.nodes, 1)
    count_free(&rooms, &here, more)
    for place in range(order.size):
        at = order.at[place]
        job = columns.numbers[at]
        take.at[at] = kept.at[at]
        if not take.at[at] and here.heads[job] >= 0:
            need = gpus_held(&here, job)
            count_where_it_is(&rooms, &here, job, &need, 1)
    for place in range(order.size):
        at = order.at[place]
        if take.at[at]:
            continue
        job = columns.numbers[at]
        need = gpus_held(&here, job) if here.heads[job] >= 0 else thousandths_of(&columns, at) * WHOLE
        take.at[at] = _count(&rooms, &here, job, columns.spec[job].constraint, moves, &need)
        if strict and not take.at[at]:
            return


def fit_walk(books, jobs, least, pinned, ranked, bint moves, bint strict, chosen):
    """Leave out chosen jobs whose CPUs and memory do not fit beside those of the jobs before them.

    They are counted as by `count_walk`. `least` is the least that each of them holds, by position and resource in
    millionths. Jobs that are not ranked and run, and then those that are pinned, come first. What nodes without GPUs
    have is left for jobs without GPUs.
    """
    cdef Books here = books_of(books)
    cdef Jobs columns = jobs_of(jobs)
    cdef Bools kept = bools(pinned), take = bools(chosen)
    cdef Ints order = ints(ranked)
    cdef vector[bint] stays = vector[bint](columns.count, True)
    cdef vector[int64_t] need = vector[int64_t](here.resources)
    cdef int64_t place, at, job, line, resource
    cdef int64_t* amounts = ints(least).at
    cdef Rooms rooms
    lines = np.concatenate([jobs.node_allowed & (books.nodes["gpus"] > 0), jobs.node_allowed])
    begin_rooms(&rooms, bools(lines).at, len(lines), columns.nodes, here.resources)
    count_free(&rooms, &here, 0)
    for place in range(order.size):
        at = order.at[place]
        stays[at] = take.at[at] and kept.at[at]
    for at in range(columns.count):
        job = columns.numbers[at]
        count_held(&rooms, &here, job)
        if stays[at] and here.heads[job] >= 0:
            count_where_it_is(&rooms, &here, job, amounts + at * here.resources, -1)
    for place in range(order.size):
        at = order.at[place]
        if not take.at[at] or stays[at]:
            continue
        for resource in range(here.resources):
            need[resource] = 0 if resource == GPU or resource == STORAGE else amounts[at * here.resources + resource]
        job = columns.numbers[at]
        line = columns.spec[job].constraint + (0 if columns.spec[job].gpus else len(jobs.node_allowed))
        take.at[at] = _count(&rooms, &here, job, line, moves, need.data())
        if strict and not take.at[at]:
            for place in range(place, order.size):
                take.at[order.at[place]] = take.at[order.at[place]] and stays[order.at[place]]
            return


cdef bint _count(
    Rooms* rooms, Books* books, int64_t job, int64_t line, bint moves, int64_t* need
) noexcept nogil:
    """Count a job of a line of the rooms, if so much is left for it; whether it is."""
    if books.heads[job] >= 0 and not moves:
        return keep_rooms(rooms, books, job, need)
    return enter_rooms(rooms, line, need)


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
