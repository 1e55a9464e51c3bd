"""EASY and conservative backfill: jobs pass others that wait, as long as no reservation is delayed.

A decision visits waiting jobs by rank. The first ones are all visited: each starts, or looks for an earlier
reservation, or gets one. Of the others only those are visited that may start now: a job fits now within its limit at
best if its kind fits now for as long, or if its kind fits now until its own reservation begins. Queues know the
shortest limits and the first reservations of their blocks, so that most jobs are passed over unseen.

A decision depends on the jobs, the ledger and the reservations alone: `decide_once` makes it from scratch, the loop of
the simulator keeps the timetable from decision to decision.
"""

from libc.math cimport INFINITY, ceil
from libcpp.algorithm cimport make_heap, pop_heap, push_heap, sort, upper_bound

from muster.cluster.arrays cimport records
from muster.cluster.ledger_core cimport GPU, MICRO, books_of
from muster.schedulers.backfill.timetable cimport Mark, Share, Step, Timetable
from muster.schedulers.composed_core cimport ON_ALL, ON_COMPLETION, CompiledScheduler, Ranked, Why, WorldView
from muster.schedulers.placement.node_index cimport NodeIndex
from muster.schedulers.placement.rules_core cimport PACK, fewest_nodes, gpus_that_fit, holds_gang, need_on
from muster.workload.jobs_core cimport RUNNING, Asked, Fact

import numpy as np

from muster.cluster.resources import RESOURCE_COUNT
from muster.schedulers.reasons import NO_GPUS, PLACED, RESERVED

cdef int64_t _NO_GPUS = NO_GPUS
cdef int64_t _PLACED = PLACED
cdef int64_t _RESERVED = RESERVED
cdef int64_t _RESOURCES = RESOURCE_COUNT
cdef int64_t _ANY_AMOUNT = -(1 << 62)
cdef double _OVERRUN_SECONDS = 60.0  # how long at first a job past its limit is taken to run on
cdef double _INSTANT = 1e-6
cdef size_t _BLOCK = 64  # jobs at most
cdef int64_t _FEW_NODES = 16  # that have come free; with more all nodes are looked at
cdef size_t _MANY_GAINS = 1 << 16


cdef bint _larger(const Fit& one, const Fit& other) noexcept nogil:
    return one.node < other.node if one.gpus == other.gpus else one.gpus > other.gpus


cdef bint _sooner(const Drop& one, const Drop& other) noexcept nogil:
    return one.time < other.time


cdef class _FreeUntil(NodeIndex):
    """What is free on nodes now and stays free until a moment."""

    cdef void bind(self, Timetable timetable) noexcept:
        self.timetable = timetable

    cdef int64_t _fits(self, Books* books, int64_t node, int64_t* need) noexcept nogil:
        cdef int64_t fit = gpus_that_fit(books, node, need)
        if fit > 0 and self.timetable.reservations[node] > 0:
            fit = min(fit, fit_in(self.timetable, books, node, self.now, self.until, need))
        return fit

    cdef bint _holds(self, Books* books, int64_t node, int64_t gpus, int64_t* need) noexcept nogil:
        if not holds_gang(books, node, gpus, need):
            return False
        if self.timetable.reservations[node] == 0:
            return True
        return fit_in(self.timetable, books, node, self.now, self.until, need) >= gpus


cdef int64_t fit_in(
    Timetable timetable, Books* books, int64_t node, double begin, double end, int64_t* need
) noexcept nogil:
    """How many GPUs, each with what it needs, are free on a node from begin to end."""
    cdef int64_t free[SLOTS]
    timetable.least(node, begin, end, free)
    return _fit_of(books, node, free, need)


cdef int64_t _fit_of(Books* books, int64_t node, int64_t* free, int64_t* need) noexcept nogil:
    cdef int64_t resource, amount, fit = free[GPU] // MICRO
    for resource in range(1, books.resources):
        if fit <= 0:
            return 0
        amount = need_on(books, node, resource, need)
        if amount > 0 and amount * fit > free[resource]:
            fit = free[resource] // amount
    return max(fit, <int64_t> 0)


cdef void _list_wanted(Books* books, int64_t node, int64_t gpus, int64_t* need, int64_t* wanted) noexcept nogil:
    """What so many GPUs and what they need on a node come to, by resource."""
    cdef int64_t resource, amount
    wanted[GPU] = gpus * MICRO
    for resource in range(1, books.resources):
        amount = need_on(books, node, resource, need)
        wanted[resource] = gpus * amount if amount > 0 else _ANY_AMOUNT


cdef inline bint _is_short(int64_t* free, int64_t* wanted, int64_t resources) noexcept nogil:
    """Whether less is free than is wanted: without the division that says how many GPUs fit."""
    cdef int64_t resource
    for resource in range(resources):
        if free[resource] < wanted[resource]:
            return True
    return False


cdef class ReservingCore(CompiledScheduler):
    """One scheduler, its queues and its reservations."""

    def __init__(self, settings, kind_of, demands, needs, node_allowed, queues):
        without = dict.fromkeys(
            ("preemptive", "strict", "static_priority", "takes_turns", "some_protected", "resize_restarts"), False
        )
        super().__init__(without | {"quantum": INFINITY} | settings, kind_of, demands, needs, node_allowed, queues)
        cdef int64_t jobs = kind_of.shape[0], nodes = node_allowed.shape[1], kinds = demands.shape[0]
        self._reservations, self._depth = settings["reservations"], settings["depth"]
        self._moving = self._reservations if self._reservations < INFINITY else settings["moving"]
        self._window, self._resolution = settings["window_seconds"], settings["resolution_seconds"]
        self._interval, self._default_limit = settings["interval_seconds"], settings["default_limit_seconds"]
        self._timetable, self._free = Timetable(nodes), _FreeUntil(nodes, settings["most_gpus"])
        self._free.bind(self._timetable)
        self.index = self._free
        self._disturbed = True
        self._shares.resize(jobs)
        self._begin.resize(jobs, self._none())
        self._end.resize(jobs, INFINITY)
        self._key_of.resize(jobs)
        self._reserved_at.resize(jobs, -1)
        self._tried_at.resize(jobs, -1)
        self._queue.resize(kinds)
        self._shortest.resize(kinds)
        self._first.resize(kinds)
        self._fits_for.resize(kinds)
        self._fit_at.resize(nodes)
        self._seen_at.resize(nodes)
        self._is_known.resize(kinds)

    cdef double _none(self) noexcept nogil:
        """In the place of a reservation's start: if all jobs are to have one, a job without it is always visited."""
        return -INFINITY if self._reservations == INFINITY else INFINITY

    # Who waits and runs

    cdef void add_waiting(self, WorldView* world, int64_t job, double now) noexcept nogil:
        """A job waits from now on."""
        self._add(job, self._key(world, job, now), self._limit_of(world, job))

    cdef void _add(self, int64_t job, double key, double limit) noexcept nogil:
        cdef int64_t kind = self.kind_of[job]
        cdef Waiter one
        cdef Ranked ranked
        cdef size_t block, half
        cdef vector[vector[Waiter]]* queue = &self._queue[kind]
        one.key, one.job, one.limit = key, job, limit
        self._key_of[job], self._begin[job], self._reserved_at[job] = key, self._none(), -1
        self._tried_at[job] = -1
        self._shares[job].clear()
        if queue.empty():
            queue.resize(1)
            self._shortest[kind].resize(1)
            self._first[kind].resize(1)
        block = self._block_of(kind, one)
        queue.at(block).insert(upper_bound(queue.at(block).begin(), queue.at(block).end(), one), one)
        if queue.at(block).size() > _BLOCK:
            half = queue.at(block).size() // 2
            queue.insert(queue.begin() + block + 1, vector[Waiter]())
            queue.at(block + 1).assign(queue.at(block).begin() + half, queue.at(block).end())
            queue.at(block).resize(half)
            self._shortest[kind].insert(self._shortest[kind].begin() + block, 0.0)
            self._first[kind].insert(self._first[kind].begin() + block, 0.0)
            self._summarise(kind, block + 1)
        self._summarise(kind, block)
        ranked.key, ranked.job = key, job
        self.fresh.push_back(ranked)
        self.waiting_count += 1
        self.waiting_demand += self.kinds[kind].demand
        if not self.is_waiting_kind[kind]:
            self.is_waiting_kind[kind] = True
            self.waiting_kinds.push_back(kind)

    cdef void _leave(self, int64_t job) noexcept nogil:
        """A job is not in its queue any more."""
        cdef int64_t kind = self.kind_of[job]
        cdef Waiter one
        cdef size_t block
        cdef vector[vector[Waiter]]* queue = &self._queue[kind]
        one.key, one.job = self._key_of[job], job
        block = self._block_of(kind, one)
        queue.at(block).erase(upper_bound(queue.at(block).begin(), queue.at(block).end(), one) - 1)
        if not queue.at(block).empty():
            self._summarise(kind, block)
            return
        queue.erase(queue.begin() + block)
        self._shortest[kind].erase(self._shortest[kind].begin() + block)
        self._first[kind].erase(self._first[kind].begin() + block)

    cdef size_t _block_of(self, int64_t kind, Waiter& one) noexcept nogil:
        """The first block of a queue that does not end before a job, or the last one."""
        cdef vector[vector[Waiter]]* queue = &self._queue[kind]
        cdef size_t low = 0, high = queue.size() - 1, middle
        while low < high:
            middle = (low + high) // 2
            if queue.at(middle).back() < one:
                low = middle + 1
            else:
                high = middle
        return low

    cdef void _summarise(self, int64_t kind, size_t block) noexcept nogil:
        """The shortest limit and the first reservation of a block."""
        cdef double shortest = INFINITY, first = INFINITY
        cdef vector[Waiter]* jobs = &self._queue[kind][block]
        cdef size_t at
        for at in range(jobs.size()):
            shortest = min(shortest, jobs.at(at).limit)
            first = min(first, self._begin[jobs.at(at).job])
        self._shortest[kind][block], self._first[kind][block] = shortest, first

    cdef void nodes_changed(self) noexcept nogil:
        """Nodes have failed or come back."""
        self._disturbed = True

    cdef void end_running(self, WorldView* world, int64_t job, double now) noexcept nogil:
        """A running job has ended."""
        self._note_gains(self._shares[job])
        if not self._disturbed:
            self._timetable.end(job, self._shares[job], now, self._end[job])
        self._shares[job] = vector[Share]()
        self.running_count -= 1
        if 2 * self.running_count < <int64_t> self.running.size():
            self.forget_stopped(world, 0, now)

    cdef bint some_waiting_in(self, uint8_t* jobs) noexcept nogil:
        """Whether one of these jobs waits."""
        cdef size_t at, block, place
        cdef int64_t kind
        for at in range(self.waiting_kinds.size()):
            kind = self.waiting_kinds[at]
            for block in range(self._queue[kind].size()):
                for place in range(self._queue[kind][block].size()):
                    if jobs[self._queue[kind][block][place].job]:
                        return True
        return False

    cdef void list_waiting(self, vector[int64_t]& jobs) noexcept nogil:
        """Add all waiting jobs to a list."""
        cdef size_t at, block, place
        cdef int64_t kind
        for at in range(self.waiting_kinds.size()):
            kind = self.waiting_kinds[at]
            for block in range(self._queue[kind].size()):
                for place in range(self._queue[kind][block].size()):
                    jobs.push_back(self._queue[kind][block][place].job)

    cdef void take_over(self, WorldView* world, double now) noexcept nogil:
        """The jobs that wait and run, after the steps of a decision were made true."""
        cdef size_t at, left = 0
        cdef int64_t kind
        for at in range(self.served.size()):
            self.add_running(self.served[at].job)
            self.waiting_count -= 1
            self.waiting_demand -= self.kinds[self.kind_of[self.served[at].job]].demand
        for at in range(self.waiting_kinds.size()):
            kind = self.waiting_kinds[at]
            self.is_waiting_kind[kind] = not self._queue[kind].empty()
            if self.is_waiting_kind[kind]:
                self.waiting_kinds[left] = kind
                left += 1
        self.waiting_kinds.resize(left)

    # The timetable

    cdef double _limit_of(self, WorldView* world, int64_t job) noexcept nogil:
        """For how long a job is taken to run at most."""
        cdef double limit = world.asked[job].time_limit
        return limit if limit < INFINITY else self._default_limit

    cdef double _end_of(self, double begin, double limit) noexcept nogil:
        """When a job that starts at a moment is taken to end."""
        cdef double end = begin + limit
        return ceil(end / self._resolution) * self._resolution if self._resolution and end < INFINITY else end

    cdef double _running_end(self, WorldView* world, int64_t job, double now) noexcept nogil:
        """When a running job is taken to end: past its limit, twice as late again and again."""
        cdef Fact* fact = &world.facts[job]
        cdef double end = self._end_of(
            fact.last_start if fact.state == RUNNING else now, self._limit_of(world, job)
        )
        cdef double over = _OVERRUN_SECONDS
        if end > now:
            return end
        while end + over <= now:
            over *= 2
        return end + over

    cdef void _build(self, WorldView* world, double now) noexcept nogil:
        """Make the timetable from what runs, and from the reservations that still hold."""
        cdef size_t at, place
        cdef int64_t job
        cdef vector[Ranked] reserved
        self._forget_gains()
        self._timetable.clear(world.books)
        for at in range(self.running.size()):
            job = self.running[at].job
            if world.books.heads[job] >= 0:
                self._note_place(world, job)
                for place in range(self._shares[job].size()):
                    self._timetable.give(&self._shares[job][place])
        for at in range(self.running.size()):
            job = self.running[at].job
            if world.books.heads[job] >= 0:
                self._end[job] = self._running_end(world, job, now)
                self._timetable.run(job, self._shares[job], now, self._end[job])
        self._by_rank(reserved)
        self._reserved.clear()
        for at in range(reserved.size()):
            job = reserved[at].job
            self._reserved_at[job] = -1
            self._keep_if_it_holds(world, job, now)
        self._disturbed = False

    cdef void _keep_if_it_holds(self, WorldView* world, int64_t job, double now) noexcept nogil:
        """Enter a reservation once more, or drop it."""
        cdef double begin = max(self._begin[job], now), end = self._end_of(begin, self._limit_of(world, job))
        if self._reserved.size() < min(self._reservations, self._depth) and self._timetable.holds(
            self._shares[job], begin, end
        ):
            self._reserve(job, begin, end)
        else:
            self._begin[job] = self._none()
            self._shares[job].clear()
            self._touched.push_back(job)
            self._update(job)

    cdef void _by_rank(self, vector[Ranked]& reserved) noexcept nogil:
        """List the jobs with reservations."""
        cdef Ranked one
        cdef size_t at
        for at in range(self._reserved.size()):
            one.key, one.job = self._key_of[self._reserved[at]], self._reserved[at]
            reserved.push_back(one)
        sort(reserved.begin(), reserved.end())

    cdef void _advance(self, WorldView* world, double now) noexcept nogil:
        """Notice running jobs that are past their limits, and reservations that were not used; drop those too many."""
        cdef vector[Ranked] reserved
        cdef size_t block, at
        cdef Mark* mark
        for block in range(self._timetable.marks.size()):
            if self._timetable.marks[block].front().time > now:
                break
            for at in range(self._timetable.marks[block].size()):
                mark = &self._timetable.marks[block][at]
                if mark.time < now or (mark.time <= now and mark.gpus > 0):
                    self._disturbed = True
                    return
        if self._gained.size() > _MANY_GAINS:
            self._forget_gains()
        if self._reserved.size() > min(self._reservations, self._depth):
            self._by_rank(reserved)
            for at in range(<size_t> min(self._reservations, self._depth), reserved.size()):
                self._cancel(reserved[at].job)
                self._update(reserved[at].job)

    cdef void _reserve(self, int64_t job, double begin, double end) noexcept nogil:
        """Enter a reservation for the place of a job."""
        self._begin[job], self._end[job] = begin, end
        self._timetable.reserve(job, self._shares[job], begin, end)
        self._reserved_at[job] = <int64_t> self._reserved.size()
        self._reserved.push_back(job)
        self._update(job)

    cdef void _cancel(self, int64_t job) noexcept nogil:
        """A job has no reservation any more."""
        cdef int64_t at = self._reserved_at[job], last = self._reserved.back()
        self._note_gains(self._shares[job])
        self._timetable.cancel(job, self._shares[job], self._begin[job], self._end[job])
        self._reserved[at], self._reserved_at[last] = last, at
        self._reserved.pop_back()
        self._reserved_at[job] = -1
        self._begin[job] = self._none()
        self._shares[job].clear()
        self._touched.push_back(job)

    cdef void _restore(self, int64_t job, vector[Share]& place, double begin, double end) noexcept nogil:
        """A job has the reservation again that was its own before it was cancelled last: nothing has come free."""
        self._shares[job] = place
        self._reserve(job, begin, end)
        self._gained.resize(self._gained.size() - place.size())

    cdef void _note_gains(self, vector[Share]& place) noexcept nogil:
        """Something comes free on the nodes of a place."""
        cdef size_t at
        for at in range(place.size()):
            self._gained.push_back(place[at].node)

    cdef void _forget_gains(self) noexcept nogil:
        """All reservations look for an earlier start again."""
        self._gained.clear()
        self._tried_at.assign(self._tried_at.size(), -1)

    cdef void _update(self, int64_t job) noexcept nogil:
        """A waiting job has another reservation."""
        cdef Waiter one
        one.key, one.job = self._key_of[job], job
        self._summarise(self.kind_of[job], self._block_of(self.kind_of[job], one))

    cdef void _note_place(self, WorldView* world, int64_t job) noexcept nogil:
        """What a job holds."""
        cdef int64_t resource, row = world.books.heads[job]
        cdef Share share
        self._shares[job].clear()
        while row >= 0:
            share.node = world.books.rows[row].node
            for resource in range(world.books.resources):
                share.amount[resource] = world.books.rows[row].amount[resource]
            self._shares[job].push_back(share)
            row = world.books.rows[row].next

    # One decision

    cdef void decide(self, WorldView* world, double now) noexcept nogil:
        """Write the steps into the ledger and the reasons that change into `why`, and when to ask again."""
        cdef size_t at
        cdef double due = now
        self.stable_until = self.next_wake = INFINITY
        self.wake_on = ON_ALL & ~ON_COMPLETION
        self.served.clear()
        self.victims.clear()
        self.changed.clear()
        self._touched.clear()
        if not self.waiting_count:
            self.fresh.clear()
            return
        if self._interval:
            due = ceil(now / self._interval - _INSTANT) * self._interval
        self._free_before = world.books.totals[GPU]
        if due <= now:
            if not self._disturbed:
                self._advance(world, now)
            if self._disturbed:
                self._build(world, now)
            self._serve_all(world, now)
        self._explain(world)
        self._explain_reserved(world, now)
        if self.waiting_count > <int64_t> self.served.size():
            self.wake_on = ON_ALL
        self.stable_until = self.next_wake = self._next_start(now) if due <= now else due

    cdef void _serve_all(self, WorldView* world, double now) noexcept nogil:
        """Visit the jobs that may start or have another reservation, by rank."""
        cdef double left = self._depth
        cdef int64_t visited_reserved = 0
        cdef bint all_visited = True, grown
        cdef Candidate one
        cdef Ranked after
        cdef int64_t outcome
        self._free.now = now
        self._is_known.assign(self._is_known.size(), False)
        after.key, after.job = -INFINITY, -1
        self._refill(world, now, after, True)
        while not self._heap.empty() and left > 0:
            one = self._heap.front()
            pop_heap(self._heap.begin(), self._heap.end())
            self._heap.pop_back()
            after.key, after.job = one.key, one.job
            if all_visited or self._may_start(world, one, now):
                outcome = self._visit(world, one, now, all_visited, visited_reserved < self._reservations)
            else:
                outcome = _WAITS
            grown = outcome == _STARTED_EARLY
            if outcome == _WAITS:
                left -= 1
            visited_reserved += self._reserved_at[one.job] >= 0
            if all_visited and visited_reserved >= self._moving:
                all_visited, grown = False, True
            if grown:
                self._is_known.assign(self._is_known.size(), False)
                self._refill(world, now, after, all_visited or self._depth < INFINITY)
            else:
                self._push_next(world, now, one.kind, after, all_visited or self._depth < INFINITY)
        self._heap.clear()

    cdef bint _may_start(self, WorldView* world, Candidate& one, double now) noexcept nogil:
        """Whether a job may start or is to have a reservation."""
        cdef double longest = self._longest(world, one.kind, now)
        return one.limit <= longest or self._begin[one.job] - now <= longest

    cdef void _refill(self, WorldView* world, double now, Ranked& after, bint every) noexcept nogil:
        """Find the next candidate of each kind after a job."""
        cdef size_t at
        self._heap.clear()
        for at in range(self.waiting_kinds.size()):
            self._push_next(world, now, self.waiting_kinds[at], after, every)

    cdef void _push_next(
        self, WorldView* world, double now, int64_t kind, Ranked& after, bint every
    ) noexcept nogil:
        """Find the next job of a kind after another job: one that may start, or `every` job counts."""
        cdef vector[vector[Waiter]]* queue = &self._queue[kind]
        cdef double longest
        cdef Waiter last
        cdef Candidate one
        cdef size_t block, at
        if queue.empty():
            return
        longest = INFINITY if every else self._longest(world, kind, now)
        last.key, last.job = after.key, after.job
        block = self._block_of(kind, last)
        at = upper_bound(queue.at(block).begin(), queue.at(block).end(), last) - queue.at(block).begin()
        while block < queue.size():
            if self._shortest[kind][block] <= longest or self._first[kind][block] - now <= longest:
                while at < queue.at(block).size():
                    last = self._queue[kind][block][at]
                    one.key, one.job, one.limit, one.kind = last.key, last.job, last.limit, kind
                    if one.limit <= longest or self._begin[one.job] - now <= longest:
                        self._heap.push_back(one)
                        push_heap(self._heap.begin(), self._heap.end())
                        return
                    at += 1
            block, at = block + 1, 0

    cdef int64_t _visit(
        self, WorldView* world, Candidate& one, double now, bint may_move, bint may_reserve
    ) noexcept nogil:
        """Start a job, or give it a reservation or an earlier one."""
        cdef bint had = self._reserved_at[one.job] >= 0
        cdef double begin = self._begin[one.job], end = self._end[one.job], earliest
        cdef vector[Share] place
        if self._may_fit(world, one, now):
            if had:
                place = self._shares[one.job]
                self._cancel(one.job)
            if self._start(world, one, now):
                return _STARTED_EARLY if had else _STARTED
            if had:
                self._restore(one.job, place, begin, end)
            self._is_known[one.kind] = False
        if had and may_move:
            self._move(world, one, now)
        elif not had and may_reserve:
            earliest = self._earliest(world, one, now, INFINITY, now + self._window)
            if earliest < INFINITY:
                self._reserve(one.job, earliest, self._end_of(earliest, one.limit))
                self._tried_at[one.job] = self._gained.size()
                self._touched.push_back(one.job)
        return _WAITS

    cdef bint _may_fit(self, WorldView* world, Candidate& one, double now) noexcept nogil:
        """Whether it is worth trying to start a job: no job that could start is left out.

        One that is too long for what its kind fits now can only start with what its own reservation keeps free: on one
        of those nodes, if there is room until the reservation begins.
        """
        cdef double longest = self._longest(world, one.kind, now), begin = self._begin[one.job]
        cdef int64_t* need = self.needs + one.kind * world.books.resources
        cdef int64_t least
        cdef size_t at
        if one.limit <= longest:
            return True
        if self._reserved_at[one.job] < 0 or begin - now > longest:
            return False
        if begin <= now:
            return True
        least = world.asked[one.job].gpus if self._most_nodes(world, one) == 1 else 1
        for at in range(self._shares[one.job].size()):
            if fit_in(self._timetable, world.books, self._shares[one.job][at].node, now, begin, need) >= least:
                return True
        return False

    cdef bint _start(self, WorldView* world, Candidate& one, double now) noexcept nogil:
        """Start a job, if it fits beside all reservations until its limit."""
        cdef Ranked started
        self._free.until = self._end_of(now, one.limit)
        if not self._place(world, one.job, one.kind):
            return False
        self._note_place(world, one.job)
        self._end[one.job] = self._free.until
        self._timetable.run(one.job, self._shares[one.job], now, self._free.until)
        self._leave(one.job)
        started.key, started.job = one.key, one.job
        self.served.push_back(started)
        return True

    cdef void _move(self, WorldView* world, Candidate& one, double now) noexcept nogil:
        """Let a reservation begin earlier, if it can: not before something has come free since the last search."""
        cdef double begin = self._begin[one.job], end = self._end[one.job], earliest
        cdef vector[Share] place
        if self._tried_at[one.job] == <int64_t> self._gained.size():
            return
        # With its own reservation in it, the timetable says where enough GPUs are free in all until it begins.
        earliest = self._timetable.next_level(
            self.kinds[one.kind].demand, now, world.books.delayed[0], one.limit, begin
        )
        if not (earliest < begin and self._may_move(world, one, earliest)):
            self._tried_at[one.job] = self._gained.size()
            return
        place = self._shares[one.job]
        self._cancel(one.job)
        earliest = self._earliest(world, one, now, begin, INFINITY)
        if earliest < begin:
            self._reserve(one.job, earliest, self._end_of(earliest, one.limit))
            # What it leaves may let others fit for longer.
            self._is_known.assign(self._is_known.size(), False)
        else:
            self._restore(one.job, place, begin, end)
        self._tried_at[one.job] = self._gained.size()

    cdef bint _may_move(self, WorldView* world, Candidate& one, double earliest) noexcept nogil:
        """Whether a reservation could begin earlier with what has come free since it was looked for last.

        If none of these nodes has room until the limit for a GPU of the job, it fits nowhere where it did not then.
        """
        cdef uint8_t* allowed = self.node_allowed + world.asked[one.job].constraint * world.books.node_count
        cdef int64_t at, node, fit, tried = self._tried_at[one.job], gained = self._gained.size()
        cdef size_t place
        cdef double start
        if tried < 0 or gained - tried > _FEW_NODES:
            return True
        for at in range(tried, gained):
            node = self._gained[at]
            for place in range(self._shares[one.job].size()):
                if self._shares[one.job][place].node == node:
                    return True
            start = earliest if allowed[node] else INFINITY
            while start < self._begin[one.job]:
                start = self._fit_from(world, one, node, start, &fit)
                if fit > 0:
                    return True
        return False

    # Later starts

    cdef double _earliest(
        self, WorldView* world, Candidate& one, double now, double before, double latest
    ) noexcept nogil:
        """The first start at which a job fits until its limit, its place there in `_shares`; inf: none in time.

        What fits on a node until the limit can only grow when the last shortage before the limit is over. Until then
        the node has no more than it had, so that a search goes from the end of one shortage to the next.
        """
        cdef int64_t demand = self.kinds[one.kind].demand, gpus = world.asked[one.job].gpus
        cdef int64_t most = self._most_nodes(world, one), node
        cdef uint8_t* allowed = self.node_allowed + world.asked[one.job].constraint * world.books.node_count
        cdef double start = self._timetable.next_level(demand, now, world.books.delayed[0], one.limit, before)
        cdef Shortage short
        if not (start < before and start <= latest):
            return INFINITY
        self._counts.assign(self._counts.size(), 0)
        self._shortages.clear()
        for short.node in range(world.books.node_count):
            if allowed[short.node]:
                self._fit_at[short.node] = 0
                self._count(0, 1)
                short.end = self._fit_again(world, one, short.node, start)
                self._shortages.push_back(short)
        if self._shortages.empty():
            return INFINITY
        make_heap(self._shortages.begin(), self._shortages.end())
        self._has_grown = True
        while True:
            if self._has_grown and self._enough(gpus, most):
                for node in range(world.books.node_count):
                    if allowed[node] and self._fit_at[node] > 0 and self._seen_at[node] < start:
                        self._fit_again(world, one, node, start)
                if self._enough(gpus, most):
                    self._take_fits(world, one, allowed)
                    return start
            self._has_grown = False
            start = self._timetable.next_level(
                demand, max(start, self._shortages.front().end), self._shortages.front().end > start, one.limit, before
            )
            if not (start < before and start <= latest):
                return INFINITY
            while self._shortages.front().end <= start:
                self._shortages[0].end = self._fit_again(world, one, self._shortages[0].node, start)
                self._sink_first()

    cdef void _sink_first(self) noexcept nogil:
        """Bring the heap of shortages in order whose first one ends later now."""
        cdef size_t at = 0, child = 1, size = self._shortages.size()
        cdef Shortage first = self._shortages[0]
        while child < size:
            if child + 1 < size and self._shortages[child + 1].end < self._shortages[child].end:
                child += 1
            if self._shortages[child].end >= first.end:
                break
            self._shortages[at] = self._shortages[child]
            at, child = child, 2 * child + 1
        self._shortages[at] = first

    cdef double _fit_again(self, WorldView* world, Candidate& one, int64_t node, double start) noexcept nogil:
        """Note what fits on a node from a start to the limit; the end of the last shortage in that time."""
        cdef int64_t fit
        cdef double over = self._fit_from(world, one, node, start, &fit)
        if fit != self._fit_at[node]:
            self._has_grown |= fit > self._fit_at[node]
            self._count(self._fit_at[node], -1)
            self._count(fit, 1)
            self._fit_at[node] = fit
        self._seen_at[node] = start
        return over

    cdef double _fit_from(
        self, WorldView* world, Candidate& one, int64_t node, double start, int64_t* fit
    ) noexcept nogil:
        """What fits on a node from a start to the limit; the end of the last shortage in that time."""
        cdef int64_t* need = self.needs + one.kind * world.books.resources
        cdef int64_t wanted[SLOTS]
        cdef int64_t count, at, least = world.books.nodes[node].gpus + 1
        cdef double over = INFINITY
        cdef Step* steps = self._timetable.steps_from(node, start, &count)
        _list_wanted(world.books, node, least, need, wanted)
        # From the last step on: where nothing fits, what is before it does not matter.
        at = self._timetable.steps_until(node, count, self._end_of(start, one.limit))
        while at > 0 and least > 0:
            at -= 1
            if _is_short(steps[at].free, wanted, world.books.resources):
                least = _fit_of(world.books, node, steps[at].free, need)
                over = steps[at + 1].time if at + 1 < count else INFINITY
                _list_wanted(world.books, node, least, need, wanted)
        fit[0] = least
        return over

    cdef void _take_fits(self, WorldView* world, Candidate& one, uint8_t* allowed) noexcept nogil:
        """Take nodes for a job: the fullest that holds it, else the emptiest and the fullest that takes the rest."""
        cdef int64_t* need = self.needs + one.kind * world.books.resources
        cdef int64_t resource, left = world.asked[one.job].gpus
        cdef size_t at, best
        cdef Share share
        cdef Fit fit
        cdef vector[Share]* place = &self._shares[one.job]
        place.clear()
        self._fits.clear()
        for fit.node in range(world.books.node_count):
            fit.gpus = self._fit_at[fit.node]
            if allowed[fit.node] and fit.gpus > 0:
                self._fits.push_back(fit)
        sort(self._fits.begin(), self._fits.end(), &_larger)
        while left > 0:
            best = 0
            for at in range(self._fits.size()):
                if self._fits[at].gpus < left:
                    break
                if self._fits[at].gpus < self._fits[best].gpus:
                    best = at
            share.node = self._fits[best].node
            share.amount[GPU] = min(self._fits[best].gpus, left)
            left -= share.amount[GPU]
            for resource in range(1, world.books.resources):
                share.amount[resource] = need_on(world.books, share.node, resource, need) * share.amount[GPU]
            share.amount[GPU] *= MICRO
            place.push_back(share)
            self._fits.erase(self._fits.begin() + best)

    cdef int64_t _most_nodes(self, WorldView* world, Candidate& one) noexcept nogil:
        """On how many nodes a job may be."""
        if self.rule == PACK:
            return world.books.node_count
        if not self.fewest[one.kind]:
            self.fewest[one.kind] = fewest_nodes(
                world.books,
                self.node_allowed + world.asked[one.job].constraint * world.books.node_count,
                world.asked[one.job].gpus,
                self.needs + one.kind * world.books.resources,
                self.fit.data(),
            )
        return self.fewest[one.kind]

    # How long jobs of a kind fit now

    cdef double _longest(self, WorldView* world, int64_t kind, double now) noexcept nogil:
        """For how long at most a job of a kind fits from now on; -inf: it does not fit now.

        After a job starts in the same decision it may be too long, until a job of the kind is tried in vain.
        """
        if not self._is_known[kind]:
            self._is_known[kind] = True
            self._fits_for[kind] = self._find_longest(world, kind, now)
        elif self.kinds[kind].demand > world.books.totals[GPU]:
            self._fits_for[kind] = -INFINITY
        return self._fits_for[kind]

    cdef double _find_longest(self, WorldView* world, int64_t kind, double now) noexcept nogil:
        """Walk through the moments at which fewer GPUs of this kind fit on the nodes that have some now."""
        cdef int64_t* need = self.needs + kind * world.books.resources
        cdef int64_t wanted[SLOTS]
        cdef Candidate one
        cdef uint8_t* allowed
        cdef int64_t node, fit, at, count, gpus
        cdef size_t place
        cdef Step* steps
        cdef Drop drop
        if self.kinds[kind].demand > world.books.totals[GPU] or self._queue[kind].empty():
            return -INFINITY
        one.kind, one.job = kind, self._queue[kind][0][0].job
        allowed = self.node_allowed + world.asked[one.job].constraint * world.books.node_count
        gpus = world.asked[one.job].gpus
        self._counts.assign(self._counts.size(), 0)
        self._drops.clear()
        self._free.list_free(world.books, self._free_nodes)
        for place in range(self._free_nodes.size()):
            node = self._free_nodes[place]
            if not allowed[node]:
                continue
            fit = gpus_that_fit(world.books, node, need)
            self._count(fit, 1)
            if fit == 0 or self._timetable.reservations[node] == 0:
                continue
            steps = self._timetable.steps_from(node, now, &count)
            _list_wanted(world.books, node, fit, need, wanted)
            for at in range(count):
                if not _is_short(steps[at].free, wanted, world.books.resources):
                    continue
                drop.after = _fit_of(world.books, node, steps[at].free, need)
                drop.time, drop.before = max(steps[at].time, now), fit
                self._drops.push_back(drop)
                fit = drop.after
                if fit == 0:
                    break
                _list_wanted(world.books, node, fit, need, wanted)
        sort(self._drops.begin(), self._drops.end(), &_sooner)
        count = self._most_nodes(world, one)
        if not self._enough(gpus, count):
            return -INFINITY
        for place in range(self._drops.size()):
            self._count(self._drops[place].before, -1)
            self._count(self._drops[place].after, 1)
            if not self._enough(gpus, count):
                # Rounding must not hide a job.
                return (self._drops[place].time - now) * (1 + 1e-12) + _INSTANT
        return INFINITY

    cdef void _count(self, int64_t fit, int64_t nodes) noexcept nogil:
        """So many more nodes have room for so many GPUs."""
        if <int64_t> self._counts.size() <= fit:
            self._counts.resize(fit + 1)
        self._counts[fit] += nodes

    cdef bint _enough(self, int64_t gpus, int64_t most_nodes) noexcept nogil:
        """Whether the emptiest of the counted nodes have room for so many GPUs."""
        cdef int64_t fit = <int64_t> self._counts.size() - 1, taken
        while fit > 0 and gpus > 0 and most_nodes > 0:
            taken = min(self._counts[fit], most_nodes)
            gpus -= taken * fit
            most_nodes -= taken
            fit -= 1
        return gpus <= 0

    # Reasons

    cdef void _explain(self, WorldView* world) noexcept nogil:
        """Note the jobs that start."""
        cdef size_t at
        cdef Why placed
        placed.code, placed.a, placed.b = _PLACED, 0.0, 0.0
        for at in range(self.served.size()):
            self._note(world, self.served[at].job, placed)

    cdef void _explain_reserved(self, WorldView* world, double now) noexcept nogil:
        """Note the jobs that have come, or have a reservation now, or none any more."""
        cdef size_t at
        for at in range(self.fresh.size()):
            self._touched.push_back(self.fresh[at].job)
        self.fresh.clear()
        for at in range(self._touched.size()):
            if world.books.heads[self._touched[at]] < 0:
                self._note(world, self._touched[at], self._why_waiting(world, self._touched[at], now))

    cdef Why _why_waiting(self, WorldView* world, int64_t job, double now) noexcept nogil:
        cdef Why why
        if self._reserved_at[job] < 0:
            return self._lack(world, job, _NO_GPUS, self._free_before)
        why.code, why.a, why.b = _RESERVED, self._begin[job] - now, 0.0
        return why

    cdef double _next_start(self, double now) noexcept nogil:
        """When the next reservation begins."""
        cdef double soonest = INFINITY, begin
        cdef size_t at, block, place
        cdef int64_t kind
        if self._reserved.size() <= _BLOCK:
            for at in range(self._reserved.size()):
                if self._begin[self._reserved[at]] > now:
                    soonest = min(soonest, self._begin[self._reserved[at]])
            return soonest
        for at in range(self.waiting_kinds.size()):
            kind = self.waiting_kinds[at]
            for block in range(self._queue[kind].size()):
                if self._first[kind][block] >= soonest:
                    continue
                if self._first[kind][block] > now:
                    soonest = self._first[kind][block]
                    continue
                for place in range(self._queue[kind][block].size()):
                    begin = self._begin[self._queue[kind][block][place].job]
                    if begin > now:
                        soonest = min(soonest, begin)
        return soonest

    # From scratch

    def wait(self, int64_t job, double key, double limit):
        """A job waits, with its time limit or inf."""
        self._add(job, key, limit if limit < INFINITY else self._default_limit)

    def run(self, int64_t job):
        """A job holds something."""
        self.add_running(job)

    def keep(self, int64_t job, double start, nodes, amounts):
        """A waiting job has this reservation."""
        cdef int64_t[:, :] amount = amounts
        cdef Share share
        cdef Py_ssize_t at, resource
        for at in range(len(nodes)):
            share.node = nodes[at]
            for resource in range(_RESOURCES):
                share.amount[resource] = amount[at, resource]
            self._shares[job].push_back(share)
        self._begin[job], self._reserved_at[job] = start, <int64_t> self._reserved.size()
        self._reserved.push_back(job)

    def decide_once(self, books, asked, facts, double now):
        """Write the steps of one decision into the ledger; when to be asked again."""
        cdef Books here = books_of(books)
        cdef WorldView world
        world.books, world.asked, world.facts = &here, <Asked*> records(asked, sizeof(Asked)), <Fact*> records(
            facts, sizeof(Fact)
        )
        self.attach(&here)
        self.decide(&world, now)
        return self.next_wake

    def reservations(self):
        """By job, its reservation: start, nodes, and amounts by node and resource."""
        cdef size_t at, place
        cdef int64_t job, resource
        cdef dict found = {}
        for at in range(self._reserved.size()):
            job = self._reserved[at]
            nodes = np.empty(self._shares[job].size(), np.int64)
            amounts = np.empty((self._shares[job].size(), _RESOURCES), np.int64)
            for place in range(self._shares[job].size()):
                nodes[place] = self._shares[job][place].node
                for resource in range(_RESOURCES):
                    amounts[place, resource] = self._shares[job][place].amount[resource]
            found[job] = self._begin[job], nodes, amounts
        return found
