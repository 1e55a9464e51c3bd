"""The compiled form of a composed scheduler: order, share of the node or request, and a rule of placement.

It decides as `Composed` does with `IndependentAllocator`, straight on the ledger, and keeps the waiting jobs sorted
between decisions: their keys do not change while they wait.
"""

from libc.math cimport INFINITY, ceil, isnan, rint
from libcpp.algorithm cimport lower_bound, sort, upper_bound

from muster.cluster.arrays cimport bools, floats, ints
from muster.cluster.ledger_core cimport GPU, MICRO, WHOLE, copy_chain, put_chain, release_job
from muster.schedulers.placement.rules_core cimport PROPORTIONAL, place_job
from muster.workload.jobs_core cimport RUNNING, WAITING

import numpy as np

from muster.schedulers.interruption import WORK_PER_INTERRUPTION
from muster.schedulers.reasons import BEHIND_HEAD, NO_CPUS, NO_GPUS, NO_PLACE, OUTRANKED, PLACED, PROTECTED

cdef int64_t _BEHIND_HEAD = BEHIND_HEAD
cdef int64_t _NO_GPUS = NO_GPUS
cdef int64_t _NO_PLACE = NO_PLACE
cdef int64_t _OUTRANKED = OUTRANKED
cdef int64_t _PLACED = PLACED
cdef int64_t _PROTECTED = PROTECTED

cdef double _INSTANT = 1e-6  # seconds by which a promise of stability is cut short, so that rounding cannot undo it
cdef double _FOREVER = 1.7976931348623157e308  # less than infinity alone
cdef int64_t _HOPELESS_SIZES = 64


cdef bint _before(const Ranked& one, const Ranked& other) noexcept nogil:
    if one.key != other.key:
        return one.key < other.key
    return one.job < other.job


cdef inline double _to_millionth(double value) noexcept nogil:
    return rint(value * 1e6) / 1e6


cdef double work_now(Fact* fact, double now) noexcept nogil:
    """Iterations that a job has done by now, to the millionth."""
    cdef double work = fact.done
    if fact.state == RUNNING:
        work += fact.rate * max(now - max(fact.settled, fact.resumes), 0.0)
    return _to_millionth(work)


cdef double service_now(Fact* fact, double now) noexcept nogil:
    """GPU-seconds that a job has attained by now, to the millionth."""
    cdef double service = fact.attained
    if fact.state == RUNNING:
        service += fact.held * (now - fact.settled)
    return _to_millionth(service)


cdef double left_now(Asked* asked, Fact* fact, double now) noexcept nogil:
    """Seconds of work that a job is believed to have left at the reference; NaN where nothing is known."""
    if isnan(asked.believed):
        return asked.believed
    return max(asked.believed - work_now(fact, now), 0.0) * (asked.ideal / asked.iterations)


cdef double protected_until(Asked* asked, Fact* fact, double multiple) noexcept nogil:
    """When a job may be interrupted (`jobs.protected_until`)."""
    cdef double until = -INFINITY
    if fact.state != RUNNING:
        return until
    if asked.preemptible == 0:
        return INFINITY
    if asked.min_runtime > 0:
        until = fact.last_start + asked.min_runtime
    if fact.restart_cost > 0:
        until = max(until, fact.resumes + multiple * fact.restart_cost)
    return until


cdef double interruption_cost(Fact* fact, double now) noexcept nogil:
    """Expected seconds lost if a job is interrupted now."""
    if fact.state == RUNNING and not isnan(fact.unsaved_since):
        return fact.restart_cost + (now - fact.unsaved_since)
    return fact.restart_cost


cdef class CompiledScheduler:
    """One scheduler and its queue."""

    def __init__(self, settings, object needs, object node_allowed, object queues, int64_t nodes, int64_t jobs):
        self._kept = needs, node_allowed
        self.order, self.rule = settings["order"], settings["rule"]
        self.preemptive, self.strict = settings["preemptive"], settings["strict"]
        self.static_priority, self.takes_turns = settings["static_priority"], settings["takes_turns"]
        self.durations_known, self.some_protected = settings["durations_known"], settings["some_protected"]
        self.resize_restarts = settings["resize_restarts"]
        self.quantum, self.work_per_interruption = settings["quantum"], WORK_PER_INTERRUPTION
        self.needs, self.needs_lines = ints(needs).at, needs.shape[0]
        self.node_allowed = bools(node_allowed).at
        self.queues = list(queues)
        self.chosen.resize(jobs)
        self.stopped.resize(jobs, -1)
        self.until.resize(jobs, -INFINITY)
        self.why.resize(jobs)
        self.fit.resize(nodes)
        self.take.resize(nodes)

    cdef double _key(self, WorldView* world, int64_t job, double now) noexcept nogil:
        """The key of a job, without what an interruption would cost it."""
        cdef Asked* asked = &world.asked[job]
        cdef Fact* fact = &world.facts[job]
        cdef double key
        if self.order == ARRIVAL:
            return asked.submit
        if self.order == DURATION:
            key = asked.believed * (asked.ideal / asked.iterations)
            return 0.0 if isnan(key) else key
        if self.order == GPUS:
            return asked.gpus
        if self.order == PRIORITY:
            return -asked.priority
        if self.order == DEADLINE:
            return asked.deadline
        if self.order == ATTAINED or (self.order <= REMAINING_SERVICE and isnan(asked.believed)):
            key = service_now(fact, now)
        elif self.order == ATTAINED_QUEUES:
            key = service_now(fact, now)
            return upper_bound(self.queues.begin(), self.queues.end(), key) - self.queues.begin()
        else:
            key = left_now(asked, fact, now)
        return key * asked.gpus if self.order == REMAINING_SERVICE else key

    cdef void add_waiting(self, WorldView* world, int64_t job, double now) noexcept nogil:
        """A job waits from now on."""
        cdef Ranked one
        one.key, one.job = self._key(world, job, now), job
        self.waiting.insert(lower_bound(self.waiting.begin(), self.waiting.end(), one, _before), one)

    cdef void add_running(self, int64_t job) noexcept nogil:
        """A job runs from now on."""
        cdef Ranked one
        one.key, one.job = 0.0, job
        self.running.push_back(one)

    cdef void decide(self, WorldView* world, double now) noexcept nogil:
        """Write the steps into the ledger and the reasons into `why`, and when to ask again."""
        cdef int64_t releasing = 0, node
        self.stable_until = self.next_wake = INFINITY
        self.wake_on = ON_ALL & ~ON_COMPLETION
        self.ranked.clear()
        if self.waiting.empty():
            return
        self._rank(world, now)
        self._protect(world, now)
        if self.preemptive:
            if world.books.delayed[0]:
                for node in range(world.books.node_count):
                    releasing += world.books.nodes[node].releasing[GPU]
            self._count_walk(world, now, world.books.totals[GPU] + releasing)
        self._serve(world)
        if self.preemptive and self.some_protected:
            self._name_protection(world, now)
        self._promise(world, now)

    cdef void _rank(self, WorldView* world, double now) noexcept nogil:
        """The jobs that compete, by key and arrival, into `ranked`."""
        cdef bint counts_cost = self.some_protected and REMAINING_SECONDS <= self.order <= ATTAINED
        cdef bint by_service = self.order == REMAINING_SERVICE or self.order == ATTAINED
        cdef size_t at, one = 0, other = 0
        cdef Ranked* here
        cdef double cost
        if not self.preemptive:
            self.ranked = self.waiting
            return
        for at in range(self.running.size()):
            here = &self.running[at]
            here.key = self._key(world, here.job, now)
            if counts_cost:
                cost = interruption_cost(&world.facts[here.job], now)
                here.key -= cost * (world.facts[here.job].held if by_service else 1.0)
        sort(self.running.begin(), self.running.end(), _before)
        self.ranked.clear()
        while one < self.running.size() and other < self.waiting.size():
            if _before(self.running[one], self.waiting[other]):
                self.ranked.push_back(self.running[one])
                one += 1
            else:
                self.ranked.push_back(self.waiting[other])
                other += 1
        self.ranked.insert(self.ranked.end(), self.running.begin() + one, self.running.end())
        self.ranked.insert(self.ranked.end(), self.waiting.begin() + other, self.waiting.end())

    cdef void _protect(self, WorldView* world, double now) noexcept nogil:
        """When each running job may be interrupted; where jobs take turns, not before its own turn is over."""
        cdef size_t at
        cdef int64_t job
        if not self.some_protected:
            return
        for at in range(self.running.size()):
            job = self.running[at].job
            self.until[job] = protected_until(&world.asked[job], &world.facts[job], self.work_per_interruption)
            if self.takes_turns and interruption_cost(&world.facts[job], now) > 0:
                self.until[job] = max(self.until[job], world.facts[job].resumes + self.quantum)

    cdef void _count_walk(self, WorldView* world, double pinned_after, int64_t free) noexcept nogil:
        """Choose the jobs to serve, by GPU count alone: in order, each that fits in what is left (Synergy, "Rounds").

        A running job that is protected beyond `pinned_after` is chosen first. `free` is in millionths of a GPU.
        """
        cdef size_t at
        cdef int64_t job, held, demand
        for at in range(self.ranked.size()):
            job = self.ranked[at].job
            held = <int64_t> rint(world.facts[job].held * 1e6)
            self.chosen[job] = held > 0 and self.until[job] > pinned_after
            if not self.chosen[job]:
                free += held
        for at in range(self.ranked.size()):
            job = self.ranked[at].job
            if self.chosen[job]:
                continue
            demand = <int64_t> rint(world.facts[job].held * 1e6)
            if demand == 0:
                demand = world.asked[job].gpus * world.asked[job].milli * 1000
            if demand <= free:
                self.chosen[job] = True
                free -= demand
            elif self.strict:
                break

    cdef void _serve(self, WorldView* world) noexcept nogil:
        """Stop the running jobs that are not chosen, then place the chosen ones in order, then the others that fit."""
        cdef Books* books = world.books
        cdef uint8_t hopeless[64]
        cdef bint blocked = False, releasing = False, promised
        cdef int64_t job, code, node, turn
        cdef size_t at
        cdef Scratch scratch
        scratch.fit, scratch.take = self.fit.data(), self.take.data()
        for at in range(_HOPELESS_SIZES):
            hopeless[at] = False
        if self.preemptive:
            for at in range(self.ranked.size()):
                job = self.ranked[at].job
                self.stopped[job] = -1
                if books.heads[job] >= 0:
                    self.why[job].code = _PLACED
                    if not self.chosen[job]:
                        self.stopped[job] = books.heads[job]
                        release_job(books, job)
        # What is still releasing was promised to a chosen job: others may not take the rest of its GPUs meanwhile.
        if books.delayed[0]:
            for node in range(books.node_count):
                releasing = releasing or books.nodes[node].releasing[GPU] > 0
        for turn in range(2 if self.preemptive else 1):
            promised = releasing and turn == 1
            for at in range(self.ranked.size()):
                job = self.ranked[at].job
                if self.preemptive and (books.heads[job] >= 0 or self.chosen[job] == turn):
                    continue
                if not promised and self.stopped[job] >= 0 and put_chain(books, job, copy_chain(books, self.stopped[job])) == 0:
                    self.why[job].code = _PLACED
                elif blocked:
                    self.why[job].code = _BEHIND_HEAD
                    self.why[job].a = self.why[job].b = 0.0
                elif promised or world.asked[job].gpus * world.asked[job].milli * 1000 > books.totals[GPU]:
                    code = _OUTRANKED if promised or self.stopped[job] >= 0 else _NO_GPUS
                    self._note_lack(world, job, code)
                    blocked = self.strict
                elif self._place(world, job, hopeless, scratch):
                    self.why[job].code = _PLACED
                else:
                    self._note_lack(world, job, _NO_PLACE)
                    blocked = self.strict

    cdef bint _place(self, WorldView* world, int64_t job, uint8_t* hopeless, Scratch scratch) noexcept nogil:
        """Give a job a place by the rule; a gang size that found none does not try again."""
        cdef Asked* asked = &world.asked[job]
        cdef Books* books = world.books
        cdef uint8_t* allowed = self.node_allowed + asked.constraint * books.node_count
        cdef int64_t* need = self.needs + (0 if self.needs_lines == 1 else job * books.resources)
        cdef bint alike = self.needs_lines == 1 and asked.constraint == 0 and asked.milli == WHOLE
        alike = alike and asked.gpus < _HOPELESS_SIZES
        if alike and hopeless[asked.gpus]:
            return False
        if place_job(books, job, asked, allowed, need, self.rule, scratch):
            return True
        if alike:
            hopeless[asked.gpus] = True
        return False

    cdef void _note_lack(self, WorldView* world, int64_t job, int64_t code) noexcept nogil:
        """Note that a job waits for GPUs or for a place: what it needs, and how many GPUs are free."""
        cdef Asked* asked = &world.asked[job]
        self.why[job].code = code
        self.why[job].a = asked.gpus * asked.milli / <double> WHOLE
        self.why[job].b = world.books.totals[GPU] / <double> MICRO

    cdef void _name_protection(self, WorldView* world, double now) noexcept nogil:
        """Mark the jobs that wait only because running jobs may not be interrupted yet."""
        cdef double soonest = INFINITY
        cdef int64_t job, node, releasing = 0
        cdef size_t at
        for at in range(self.running.size()):
            if self.until[self.running[at].job] > now:
                soonest = min(soonest, self.until[self.running[at].job])
        if soonest == INFINITY:
            return
        if world.books.delayed[0]:
            for node in range(world.books.node_count):
                releasing += world.books.nodes[node].releasing[GPU]
        self._count_walk(world, _FOREVER, world.books.totals[GPU] + releasing)
        for at in range(self.ranked.size()):
            job = self.ranked[at].job
            if self.chosen[job] and (self.why[job].code == _NO_GPUS or self.why[job].code == _OUTRANKED):
                self.why[job].code = _PROTECTED
                self.why[job].a = world.asked[job].gpus * (world.asked[job].milli / <double> WHOLE)
                self.why[job].b = max(soonest - now, 0.0)

    cdef void _promise(self, WorldView* world, double now) noexcept nogil:
        """How long the decision holds if nothing happens while jobs wait, and when to ask again."""
        cdef double timers = INFINITY, overtaken = INFINITY, next_quantum = INFINITY, free_to_stop = INFINITY
        cdef bint waits = False, in_vain = False
        cdef int64_t job
        cdef size_t at
        for at in range(self.ranked.size()):
            job = self.ranked[at].job
            waits = waits or self.why[job].code != _PLACED
            in_vain = in_vain or self.why[job].code == _NO_PLACE
        if not waits:
            return
        self.wake_on = ON_ALL
        for at in range(self.running.size()):
            job = self.running[at].job
            if self.until[job] > now:
                if self.resize_restarts and self.until[job] < INFINITY:
                    timers = min(timers, self.until[job])
                if world.books.heads[job] >= 0:
                    free_to_stop = min(free_to_stop, self.until[job])
        if self.preemptive:
            overtaken = self._seconds_to_overtake(world, now) - _INSTANT
            if in_vain:
                overtaken = -INFINITY
            if self.some_protected:
                overtaken = min(overtaken, free_to_stop)
                timers = timers if self.takes_turns else min(timers, free_to_stop)
            if self.quantum < INFINITY and overtaken < INFINITY:
                next_quantum = now + self.quantum * max(1.0, ceil((max(overtaken, now) - now) / self.quantum))
        self.stable_until = min(overtaken, timers)
        self.next_wake = min(next_quantum, timers)

    cdef double _seconds_to_overtake(self, WorldView* world, double now) noexcept nogil:
        """When a waiting job's key will first pass a running one's, if nothing happens; `-inf`: cannot be said."""
        if self.static_priority:
            return INFINITY
        if self.order <= REMAINING_SERVICE:
            return INFINITY if self.durations_known else -INFINITY
        return now + self._seconds_to_level(world, now)

    cdef double _seconds_to_level(self, WorldView* world, double now) noexcept nogil:
        """How soon a running job has attained as much as the next waiting job, or falls to the next queue."""
        cdef double soonest = INFINITY, level = INFINITY, lower_key, attained, gpus
        cdef int64_t job
        cdef Py_ssize_t first, last, at
        cdef size_t place
        last = self.ranked.size()
        while last > 0:
            # Jobs of equal key: a level that a running job is at counts.
            first = last - 1
            lower_key = self.ranked[first].key
            while first > 0 and self.ranked[first - 1].key == lower_key:
                first -= 1
            for at in range(first, last):
                if self.order == ATTAINED and self.why[self.ranked[at].job].code != _PLACED:
                    level = lower_key
            for at in range(first, last):
                job = self.ranked[at].job
                if self.why[job].code != _PLACED:
                    continue
                attained = lower_key
                if self.order == ATTAINED_QUEUES:
                    attained = service_now(&world.facts[job], now)
                    place = upper_bound(self.queues.begin(), self.queues.end(), attained) - self.queues.begin()
                    level = self.queues[place] if place < self.queues.size() else INFINITY
                gpus = world.facts[job].held
                if not gpus > 0:
                    gpus = world.asked[job].gpus * (world.asked[job].milli / <double> WHOLE)
                if gpus > 0:
                    soonest = min(soonest, (level - attained) / gpus)
            last = first
        return soonest

    cdef void take_over(self, WorldView* world, double now) noexcept nogil:
        """The jobs that wait and run, after the steps of a decision were made true."""
        cdef size_t at, left = 0
        for at in range(self.waiting.size()):
            if world.books.heads[self.waiting[at].job] < 0:
                self.waiting[left] = self.waiting[at]
                left += 1
            else:
                self.add_running(self.waiting[at].job)
        self.waiting.resize(left)
        self.forget_stopped(world, now)

    cdef void forget_stopped(self, WorldView* world, double now) noexcept nogil:
        """Running jobs that hold nothing any more are not running: they wait, or have ended."""
        cdef size_t at, left = 0
        cdef int64_t job
        for at in range(self.running.size()):
            job = self.running[at].job
            if world.books.heads[job] >= 0:
                self.running[left] = self.running[at]
                left += 1
            elif world.facts[job].state == WAITING:
                self.add_waiting(world, job, now)
        self.running.resize(left)
