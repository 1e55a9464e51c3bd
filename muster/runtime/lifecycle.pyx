"""What both worlds do with a plan and with time: settle work, start, move, resize and stop jobs, close records.

Compiled, because it runs at every event. A job's facts are settled only when its rate changes, so that
they do not depend on how often the time is asked for.
"""

from libc.math cimport INFINITY, ceil, floor, isnan, rint

from muster.cluster.arrays cimport bools, floats, ints, records
from muster.cluster.ledger_core cimport (
    PUT,
    SERVER,
    Entry,
    books_of,
    discharge,
    drop_rows,
    release_job,
    same_chain,
    undo_to,
)
from muster.cluster.ledger_core cimport carry_out as carry_out_rows
from muster.speed.rates_core cimport Stages, iteration_seconds, stage_seconds
from muster.speed.rates_core cimport note_busy as note_busy_devices
from muster.workload.jobs_core cimport COMPLETED, RUNNING, TIMED_OUT, WAITING

import numpy as np

from muster.cluster.resources import RESOURCE_COUNT
from muster.schedulers.reasons import NODE_FAILED, NOT_CONSIDERED

cdef int64_t _RESOURCES = RESOURCE_COUNT
cdef int64_t _NODE_FAILED = NODE_FAILED
cdef int64_t _NOT_CONSIDERED = NOT_CONSIDERED

cdef double _INSTANT = 1e-6  # seconds of work that rounding may leave
cdef double _SMALLEST_RATE = 1e-300


cdef void settle_job(Fact* fact, double now, RestartModel* laws) noexcept nogil:
    """Bring a running job's work, service and stage seconds up to now."""
    cdef double elapsed = now - fact.settled
    cdef double productive = min(elapsed, max(now - fact.resumes, 0.0))
    cdef double gained = fact.rate * productive
    cdef double last_checkpoint, since
    if laws.whole_round > 0:
        gained = rint(gained)
    if laws.checkpoint_every < INFINITY:
        last_checkpoint = floor(max(now - fact.resumes, 0.0) / laws.checkpoint_every) * laws.checkpoint_every
        last_checkpoint = fact.resumes + last_checkpoint
        since = max(fact.settled, fact.resumes)
        if last_checkpoint > since:
            fact.saved = fact.done + fact.rate * (last_checkpoint - since)
    fact.done += gained
    fact.attained += fact.held * elapsed
    fact.run += elapsed
    fact.restart += elapsed - productive
    fact.input += productive * fact.input_share
    fact.communication += productive * fact.communication_share
    fact.compute += productive * (1 - fact.input_share - fact.communication_share)
    fact.settled = now


cdef void rate_job(Runtime* world, int64_t job, double now) noexcept nogil:
    """Work out a job's speed on what it holds, and when it will be done at that speed or its time limit is over."""
    cdef Asked* ask = &world.asked[job]
    cdef Fact* fact = &world.facts[job]
    cdef Stages stages = stage_seconds(&world.books, world.books.heads[job], world.models, ask, fact)
    cdef double seconds = iteration_seconds(stages)
    cdef double begins, left, a_round, whole_round = world.laws.whole_round
    fact.held = stages.gpus
    if (stages.gpus > 0 or ask.gpus == 0) and seconds > 0 and seconds < INFINITY:
        fact.rate = stages.iterations / seconds
        fact.input_share = max(seconds - stages.compute - stages.communication, 0.0) / seconds
        fact.communication_share = stages.communication / seconds
    else:
        fact.rate = 0.0
        fact.input_share = 1.0
        fact.communication_share = 0.0
    begins = max(now, fact.resumes)
    left = ask.iterations - fact.done
    if whole_round > 0:
        a_round = floor(fact.rate * whole_round + 1e-9)
        fact.rate = a_round / whole_round
        fact.finish = begins + ceil(left / a_round) * whole_round if a_round > 0 else INFINITY
    else:
        fact.finish = begins + left / fact.rate if fact.rate > 0 else INFINITY
    if world.laws.end_at_limit:
        fact.finish = min(fact.finish, max(now + ask.time_limit - fact.run, now))


cdef void _close_rows(Runtime* world, int64_t chain, double now) noexcept nogil:
    """Write what a chain held until now into the record."""
    cdef Row* row
    cdef Held* line
    cdef int64_t resource
    while chain >= 0:
        row = &world.books.rows[chain]
        if now > row.since:
            line = held_at(world.held, world.counts[HELD_ROWS], world.books.resources)
            line.mask, line.begin, line.end = row.mask, row.since, now
            line.job, line.node, line.group = <int32_t> row.job, <int32_t> row.node, <int32_t> row.group
            line.milli, line.role = <int16_t> row.milli, <int16_t> row.role
            for resource in range(world.books.resources):
                line.amount[resource] = row.amount[resource]
            world.counts[HELD_ROWS] += 1
        chain = row.next


cdef bint _moved(Books* books, int64_t one, int64_t other) noexcept nogil:
    """Whether two chains differ in their GPUs or their servers, and not only in CPU, memory or storage."""
    cdef Row* a
    cdef Row* b
    while one >= 0 and other >= 0:
        a, b = &books.rows[one], &books.rows[other]
        if a.node != b.node or a.mask != b.mask or a.milli != b.milli:
            return True
        if a.role != b.role or (a.role == SERVER and a.amount[1] != b.amount[1]):
            return True
        one, other = a.next, b.next
    return one >= 0 or other >= 0


cdef void _open_rows(Runtime* world, int64_t chain, double now) noexcept nogil:
    """The intervals of a chain begin now."""
    while chain >= 0:
        world.books.rows[chain].since = now
        if world.books.rows[chain].group >= 0:
            world.counts[IN_TURNS] = 1
        chain = world.books.rows[chain].next


cdef void _release_rows(Runtime* world, int64_t chain) noexcept nogil:
    """Drop the rows of a chain that is not held any more, or report it where its release takes time."""
    if world.books.delayed[0]:
        world.releases[world.counts[RELEASES]] = chain
        world.counts[RELEASES] += 1
    else:
        drop_rows(&world.books, chain)


cdef void _restart(Fact* fact, double now) noexcept nogil:
    """A job saves what it has done and makes no progress until its restart is over."""
    fact.resumes = now + fact.restart_cost
    fact.saved = fact.done


cdef void _start(Runtime* world, Fact* fact, double now) noexcept nogil:
    """A job that held nothing starts; from its second start on it pays for a restart."""
    world.counts[STARTED] += 1
    if isnan(fact.first_start):
        fact.first_start = now
        fact.resumes = now
    else:
        _restart(fact, now)
    fact.last_start = now
    fact.state = RUNNING


cdef void _change(Runtime* world, Fact* fact, double now, bint moved) noexcept nogil:
    """A running job holds something else from now on; it pays for a restart if it moves or the laws say so."""
    world.counts[CHANGED] += 1
    if moved:
        fact.moves += 1
    if moved or world.laws.resize_restarts != 0:
        _restart(fact, now)


cdef void _stop(Fact* fact, double now, int64_t state) noexcept nogil:
    fact.state = state
    fact.held = 0.0
    fact.rate = 0.0
    fact.last_stop = now
    fact.lease_end = INFINITY
    fact.saved = fact.done
    if state == WAITING:
        fact.finish = INFINITY


cdef void _go_on(Books* books, int64_t old, int64_t new) noexcept nogil:
    """The intervals of a chain are those of the chain that it replaces."""
    cdef int64_t row = old
    while new >= 0:
        books.rows[new].since = books.rows[row].since
        row, new = books.rows[row].next, books.rows[new].next
    drop_rows(books, old)


cdef void make_true(Runtime* world, double now, int64_t* before) noexcept nogil:
    """Make what the ledger's journal says true: stop, start, move, resize. `before` is scratch, a place a job, all -2.

    A job that holds the same as before, in other rows, goes on.
    """
    cdef Books* books = &world.books
    cdef Entry* entry
    cdef Fact* fact
    cdef int64_t at, job, old, new
    for at in range(books.entries[0]):
        entry = &books.journal[at]
        if before[entry.job] == UNCHANGED:
            before[entry.job] = -1 if entry.kind == PUT else entry.chain
    for at in range(books.entries[0]):
        job = books.journal[at].job
        old, new = before[job], books.heads[job]
        if old == UNCHANGED:
            continue
        before[job] = UNCHANGED
        if old == new:
            continue
        fact = &world.facts[job]
        if old >= 0 and new >= 0 and same_chain(books, old, new):
            _go_on(books, old, new)
            continue
        if old >= 0:
            settle_job(fact, now, world.laws)
            _close_rows(world, old, now)
        if new >= 0:
            _open_rows(world, new, now)
            fact.settled = now
            if old < 0:
                _start(world, fact, now)
            else:
                _change(world, fact, now, _moved(books, old, new))
            rate_job(world, job, now)
        elif old >= 0:
            world.counts[STOPPED] += 1
            fact.preemptions += 1
            _stop(fact, now, WAITING)
        if old >= 0:
            _release_rows(world, old)
    books.entries[0] = 0


cdef void close_holding(Runtime* world, int64_t job, double now) noexcept nogil:
    """Close what a job holds and give it back, outside any decision."""
    cdef int64_t chain = world.books.heads[job]
    _close_rows(world, chain, now)
    release_job(&world.books, job)
    world.books.entries[0] = 0
    _release_rows(world, chain)


cdef void finish_job(Runtime* world, int64_t job) noexcept nogil:
    """End a running job whose work is done or whose time limit is over, at its own time."""
    cdef Asked* ask = &world.asked[job]
    cdef Fact* fact = &world.facts[job]
    cdef double finish = fact.finish
    cdef bint completed
    settle_job(fact, finish, world.laws)
    completed = not world.laws.end_at_limit or ask.time_limit == INFINITY
    if not completed:
        completed = (ask.iterations - fact.done) / max(fact.rate, _SMALLEST_RATE) <= _INSTANT
    if completed:
        fact.done = ask.iterations
    close_holding(world, job, finish)
    _stop(fact, finish, COMPLETED if completed else TIMED_OUT)


cdef void _lose_unsaved(Fact* fact, double now, RestartModel* laws) noexcept nogil:
    """Fall back to the last checkpoint: the productive seconds since then count as lost in restarts.

    They come off the stages in proportion, because a job does not keep those since its checkpoint apart.
    """
    cdef double productive = fact.input + fact.compute + fact.communication
    cdef double since = max(now - fact.resumes, 0.0)
    cdef double lost = min(since - floor(since / laws.checkpoint_every) * laws.checkpoint_every, productive)
    fact.done = fact.saved
    if lost > 0:
        fact.input -= lost * (fact.input / productive)
        fact.compute -= lost * (fact.compute / productive)
        fact.communication -= lost * (fact.communication / productive)
        fact.restart += lost


cdef void interrupt_at_node(Runtime* world, int64_t* active, int64_t count, int64_t node, double now) noexcept nogil:
    """Stop every job that holds something on a failed node; each falls back to its last checkpoint."""
    cdef Books* books = &world.books
    cdef Fact* fact
    cdef int64_t at, job, row, chain
    cdef bint hit
    for at in range(count):
        job = active[at]
        row, hit = books.heads[job], False
        while row >= 0:
            hit = hit or books.rows[row].node == node
            row = books.rows[row].next
        if not hit:
            continue
        fact = &world.facts[job]
        settle_job(fact, now, world.laws)
        _lose_unsaved(fact, now, world.laws)
        chain = books.heads[job]
        _close_rows(world, chain, now)
        row = chain
        while row >= 0:
            discharge(books, row)
            row = books.rows[row].next
        books.heads[job] = -1
        drop_rows(books, chain)
        fact.preemptions += 1
        world.counts[STOPPED] += 1
        _stop(fact, now, WAITING)
        fact.reason = _NODE_FAILED
        fact.reason_since = now


cdef Runtime _runtime(object books, object asked, object facts, object models, object laws, object outcome) except *:
    """The arrays of a world; None for those that a step does not use."""
    cdef Runtime world
    if books is not None:
        world.books = books_of(books)
    if asked is not None:
        world.asked = <Asked*> records(asked, sizeof(Asked))
    world.facts = <Fact*> records(facts, sizeof(Fact))
    if models is not None:
        world.models = <ModelSpeed*> records(models, sizeof(ModelSpeed))
    world.laws = <RestartModel*> records(laws, sizeof(RestartModel))
    if outcome is not None:
        world.held = <Held*> records(outcome[0], held_size(_RESOURCES))
        world.releases, world.counts = ints(outcome[1]).at, ints(outcome[2]).at
    return world


def settle(facts, int64_t job, double now, laws):
    """Bring a running job's work, service and stage seconds up to now."""
    cdef Runtime world = _runtime(None, None, facts, None, laws, None)
    settle_job(&world.facts[job], now, world.laws)


def set_rate(books, asked, facts, int64_t job, models, double now, laws):
    """Work out a job's speed on what it holds, and when it will be done at that speed or its time limit is over."""
    cdef Runtime world = _runtime(books, asked, facts, models, laws, None)
    rate_job(&world, job, now)


def broken_gang(asked, jobs, first, rows):
    """The first of the changed jobs that would hold fewer or more GPUs than it can run on; -1: none."""
    return _broken_gang(
        <Asked*> records(asked, sizeof(Asked)), ints(jobs), ints(first), <Row*> records(rows, sizeof(Row))
    )


cdef int64_t _broken_gang(Asked* asked, Ints jobs, Ints first, Row* rows) noexcept nogil:
    cdef Asked* ask
    cdef int64_t at, place, milli
    for at in range(jobs.size):
        if first.at[at] == first.at[at + 1]:
            continue
        milli = 0
        for place in range(first.at[at], first.at[at + 1]):
            milli += rows[place].amount[0] // 1000
        ask = &asked[jobs.at[at]]
        if milli < ask.min_gpus * ask.milli or milli > ask.max_gpus * ask.milli:
            return jobs.at[at]
    return -1


def place_changes(books, asked, jobs, first, rows):
    """Carry the changes of a decision out in the ledger, journalled; 0, or why they do not fit with all undone.

    The second number is the first job whose gang would not be whole; nothing is done then. -1: there is none.
    """
    cdef Books here = books_of(books)
    cdef int64_t refusal, broken = broken_gang(asked, jobs, first, rows)
    if broken >= 0:
        return 0, broken
    refusal = carry_out_rows(&here, ints(jobs), ints(first), <Row*> records(rows, sizeof(Row)))
    if refusal < 0:
        undo_to(&here, 0)
    return refusal, -1


def settle_journal(books, asked, facts, models, double now, laws, before, outcome):
    """Make what `place_changes` left in the ledger's journal true: stop, start, move, resize.

    `before` is scratch, a place a job, all -2.
    """
    cdef Runtime world = _runtime(books, asked, facts, models, laws, outcome)
    make_true(&world, now, ints(before).at)


def refresh_turns(books, asked, facts, active, models, double now, laws):
    """Settle and re-rate the jobs that share GPUs, whose speed depends on the others."""
    cdef Runtime world = _runtime(books, asked, facts, models, laws, None)
    cdef Ints jobs = ints(active)
    cdef int64_t at, head
    note_busy_devices(&world.books, world.asked, world.facts, jobs, world.models)
    for at in range(jobs.size):
        head = world.books.heads[jobs.at[at]]
        if head >= 0 and world.books.rows[head].group >= 0:
            settle_job(&world.facts[jobs.at[at]], now, world.laws)
            rate_job(&world, jobs.at[at], now)


def expose(books, asked, facts, jobs, exposed, models, double now, laws):
    """Settle and re-rate the jobs whose communication has changed because their neighbours did."""
    cdef Runtime world = _runtime(books, asked, facts, models, laws, None)
    cdef Ints numbers = ints(jobs)
    cdef Floats seconds = floats(exposed)
    cdef int64_t at
    cdef Fact* fact
    for at in range(numbers.size):
        fact = &world.facts[numbers.at[at]]
        if fact.exposed != seconds.at[at]:
            settle_job(fact, now, world.laws)
            fact.exposed = seconds.at[at]
            rate_job(&world, numbers.at[at], now)


def close_job(books, int64_t job, double now, outcome):
    """Close what a job holds and give it back, outside any decision."""
    cdef Runtime world
    world.books = books_of(books)
    world.held = <Held*> records(outcome[0], held_size(_RESOURCES))
    world.releases, world.counts = ints(outcome[1]).at, ints(outcome[2]).at
    close_holding(&world, job, now)


def end_lease(books, facts, int64_t job, double now, laws, outcome):
    """Take what a job holds back at the end of its lease; it waits for the next offer."""
    cdef Runtime world = _runtime(books, None, facts, None, laws, outcome)
    cdef Fact* fact = &world.facts[job]
    settle_job(fact, now, world.laws)
    close_holding(&world, job, now)
    fact.preemptions += 1
    _stop(fact, now, WAITING)
    fact.reason = _NOT_CONSIDERED
    fact.reason_since = now


def complete_due(books, asked, facts, active, double now, laws, outcome):
    """End the running jobs whose work is done or whose time limit is over by now, each at its own time.

    Returns how many are left active; `active` is compacted in place.
    """
    cdef Runtime world = _runtime(books, asked, facts, None, laws, outcome)
    cdef Ints jobs = ints(active)
    cdef int64_t at, left = 0
    cdef Fact* fact
    for at in range(jobs.size):
        fact = &world.facts[jobs.at[at]]
        if fact.state == RUNNING and fact.finish <= now:
            finish_job(&world, jobs.at[at])
        else:
            jobs.at[left] = jobs.at[at]
            left += 1
    return left


def lose_node(books, facts, active, int64_t node, double now, laws, outcome):
    """Stop every job that holds something on a failed node; each falls back to its last checkpoint."""
    cdef Runtime world = _runtime(books, None, facts, None, laws, outcome)
    cdef Ints jobs = ints(active)
    interrupt_at_node(&world, jobs.at, jobs.size, node, now)


def next_times(facts, active, measured):
    """The next completion, the next lease end, and the end of the last measured job if all of them run."""
    cdef Fact* all_facts = <Fact*> records(facts, sizeof(Fact))
    cdef Ints jobs = ints(active)
    cdef Bools counts = bools(measured)
    cdef double finish = INFINITY, lease_end = INFINITY, last = -INFINITY
    cdef int64_t at
    cdef Fact* fact
    for at in range(jobs.size):
        fact = &all_facts[jobs.at[at]]
        if fact.state == RUNNING:
            finish, lease_end = min(finish, fact.finish), min(lease_end, fact.lease_end)
            if counts.at[jobs.at[at]]:
                last = max(last, fact.finish)
        elif counts.at[jobs.at[at]]:
            last = INFINITY
    return finish, lease_end, last


def note_reasons(facts, index, codes, a, b, double now, explained):
    """Write down the reasons that changed; how many stretches ended."""
    cdef Fact* all_facts = <Fact*> records(facts, sizeof(Fact))
    cdef PendingInterval* lines = <PendingInterval*> records(explained, sizeof(PendingInterval))
    codes = np.ascontiguousarray(codes, np.int64)
    a, b = np.ascontiguousarray(a, np.float64), np.ascontiguousarray(b, np.float64)
    cdef Ints jobs = ints(index), code = ints(codes)
    cdef Floats first = floats(a), second = floats(b)
    cdef int64_t at, ended = 0
    cdef Fact* fact
    cdef PendingInterval* line
    for at in range(jobs.size):
        fact = &all_facts[jobs.at[at]]
        if fact.reason == code.at[at]:
            continue
        if fact.reason > 0 and now > fact.reason_since:
            line = &lines[ended]
            line.job, line.code = <int32_t> jobs.at[at], <int32_t> fact.reason
            line.a, line.b = fact.reason_a, fact.reason_b
            line.begin, line.end = fact.reason_since, now
            ended += 1
        fact.reason, fact.reason_since = code.at[at], now
        fact.reason_a, fact.reason_b = first.at[at], second.at[at]
    return ended
