"""The compiled event loop: jumps to the next moment at which something may change, and lets it happen.

All events of one instant come together, in a fixed order: completions, releases, failures and repairs, arrivals,
timers. With rounds, decisions are taken at ticks only, and a tick is skipped while the last decision holds.
Python is entered to write progress, for failures, and to make room for records.
"""

from libc.math cimport INFINITY, NAN, floor, rint
from libc.stdint cimport int32_t, int64_t
from libcpp.algorithm cimport make_heap, pop_heap, push_heap, sort
from libcpp.vector cimport vector
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from muster.cluster.arrays cimport bools, floats, ints, records
from muster.cluster.ledger_core cimport (
    books_of,
    bring_up,
    end_release,
    entries_of_decision,
    rows_of_decision,
    take_down,
)
from muster.runtime.lifecycle cimport (
    CHANGED,
    HELD_ROWS,
    RELEASES,
    STARTED,
    STOPPED,
    Held,
    PendingInterval,
    RestartModel,
    Runtime,
    close_holding,
    finish_job,
    held_size,
    interrupt_at_node,
    make_true,
    settle_job,
)
from muster.schedulers.composed_core cimport (
    ON_ARRIVAL,
    ON_CAPACITY,
    ON_COMPLETION,
    ON_ROUND,
    ON_TIMER,
    CompiledScheduler,
    WorldView,
)
from muster.speed.rates_core cimport ModelSpeed
from muster.workload.jobs_core cimport COMPLETED, RUNNING, TIMED_OUT, WAITING, Asked, Fact

import numpy as np

from muster.cluster.resources import RESOURCE_COUNT
from muster.schedulers.reasons import NOT_CONSIDERED, PLACED

cdef int64_t _RESOURCES = RESOURCE_COUNT
cdef int64_t _NOT_CONSIDERED = NOT_CONSIDERED
cdef int64_t _PLACED = PLACED
cdef int64_t _FRUITLESS_AT_MOST = 1000
cdef int64_t _PROGRESS_EVERY = 4096
cdef int64_t _DECISION_COLUMNS = 12
cdef size_t _FEW_MOMENTS = 64  # in a heap, of which it does not matter how many are out of date


cdef extern from * nogil:
    """
    #include <cstdint>
    // Something that happens to a job or a chain of rows. The later is the lesser: heaps begin with the earliest.
    struct MusterMoment { double time; int64_t number; };
    static inline bool operator<(const MusterMoment& one, const MusterMoment& other) {
        return one.time != other.time ? one.time > other.time : one.number > other.number;
    }
    """
    cdef cppclass Moment "MusterMoment":
        double time
        int64_t number


cdef double _clock() noexcept nogil:
    cdef timespec moment
    clock_gettime(CLOCK_MONOTONIC, &moment)
    return moment.tv_sec + moment.tv_nsec * 1e-9


cdef class EventLoop:
    """One run of a compiled scheduler over one job table."""

    cdef object _engine
    cdef Runtime _world
    cdef WorldView _view
    cdef CompiledScheduler _scheduler
    cdef int64_t* _before
    cdef int64_t* _arrivals
    cdef int64_t _arrival_count, _arrived, _last_measured_arrival, _active, _measured_active
    cdef unsigned char* _measured
    cdef double _now, _round, _origin, _patient_until, _release_seconds, _next_failure, _patience
    cdef bint _in_rounds
    cdef int64_t _pending, _last_tick, _fruitless, _explained
    cdef int64_t _explained_room, _held_room, _release_room, _row_room, _entry_room, _gpus
    cdef PendingInterval* _pending_intervals
    cdef vector[Moment] _finishes, _releases
    cdef vector[int64_t] _due
    cdef vector[double] _decisions, _seconds

    def __init__(self, engine, CompiledScheduler scheduler):
        self._engine, self._scheduler = engine, scheduler
        self._before, self._arrivals = ints(engine._before).at, ints(engine._arrivals).at
        self._arrival_count = len(engine._arrivals)
        self._last_measured_arrival = engine._last_measured_arrival
        self._measured = bools(engine._measured).at
        self._in_rounds = engine._round is not None
        self._round = engine._round if self._in_rounds else 0.0
        self._origin = engine._origin
        self._release_seconds = engine._options.release_seconds_per_gpu
        self._last_tick = -1
        self._next_failure = engine._failures.next_time()
        self._patience = engine.patience
        self._gpus = engine.ledger.cluster.total_gpus
        scheduler.stable_until = scheduler.next_wake = -INFINITY
        scheduler.wake_on = 63
        self._point()

    cdef int _point(self) except -1:
        """Take over the arrays of the engine, some of which may have grown."""
        engine = self._engine
        held, releases, counts = engine._outcome
        self._world.books = books_of(engine.ledger.books)
        self._scheduler.attach(&self._world.books)
        self._world.asked = <Asked*> records(engine._asked, sizeof(Asked))
        self._world.facts = <Fact*> records(engine._facts, sizeof(Fact))
        self._view.books, self._view.asked, self._view.facts = &self._world.books, self._world.asked, self._world.facts
        self._world.models = <ModelSpeed*> records(engine._models, sizeof(ModelSpeed))
        self._world.laws = <RestartModel*> records(engine._laws, sizeof(RestartModel))
        self._world.held, self._held_room = <Held*> records(held, held_size(_RESOURCES)), len(held)
        self._world.releases, self._world.counts = ints(releases).at, ints(counts).at
        self._release_room = len(releases)
        self._row_room, self._entry_room = len(engine.ledger.books.rows), len(engine.ledger.books.journal)
        self._pending_intervals = <PendingInterval*> records(engine._explained, sizeof(PendingInterval))
        self._explained_room = len(engine._explained)
        return 0

    cdef int _make_room(self) except -1:
        """Room for every job in the system to change what it holds and why it waits."""
        cdef int64_t used = self._world.books.rows_used[0]
        cdef int64_t rows = rows_of_decision(self._gpus, self._active)
        cdef int64_t entries = entries_of_decision(self._active)
        cdef int64_t held = self._world.counts[HELD_ROWS] + used, explained = self._explained + self._active
        cdef bint enough = used + rows <= self._row_room and entries <= self._entry_room
        enough = enough and held <= self._held_room and explained <= self._explained_room
        if enough and (not self._world.books.delayed[0] or self._active <= self._release_room):
            return 0
        self._engine.make_room(rows, entries, held, explained, self._active)
        return self._point()

    def run(self, progress=None):
        """Until the measured jobs are done, or nothing can happen any more."""
        cdef int64_t steps = 0
        cdef double last, now
        while True:
            last = self._last_end()
            if last == -INFINITY:
                break
            now = min(self._next_event(), last)
            if now == INFINITY:
                break
            if self._happen(now) and now < last:
                self._decide(now)
            if self._fruitless > _FRUITLESS_AT_MOST and now > self._patient_until:
                break
            steps += 1
            if steps % _PROGRESS_EVERY == 0 and progress is not None:
                self._report()
                progress(self._engine.progress())
        self._report()
        self._close()
        self._report()

    # When

    cdef double _last_end(self):
        """When the last measured job ends, if all of them run; inf while others are to come; -inf: all have ended."""
        cdef double last = -INFINITY
        cdef size_t at
        cdef int64_t job
        if self._arrived < self._last_measured_arrival:
            return INFINITY
        if self._measured_active == 0:
            return -INFINITY
        if self._scheduler.some_waiting_in(self._measured):
            return INFINITY
        for at in range(self._scheduler.running.size()):
            job = self._scheduler.running[at].job
            if self._measured[job] and self._world.books.heads[job] >= 0:
                last = max(last, self._world.facts[job].finish)
        return last

    cdef double _next_finish(self) noexcept nogil:
        """The next completion."""
        while not self._finishes.empty():
            if self._is_up_to_date(&self._finishes.front()):
                return self._finishes.front().time
            pop_heap(self._finishes.begin(), self._finishes.end())
            self._finishes.pop_back()
        return INFINITY

    cdef double _next_arrival(self) noexcept nogil:
        if self._arrived == self._arrival_count:
            return INFINITY
        return self._world.asked[self._arrivals[self._arrived]].submit

    cdef double _next_event(self) noexcept nogil:
        """The next moment at which something happens or the scheduler is to be asked."""
        cdef double arrival = self._next_arrival(), finish = self._next_finish()
        cdef double release = self._releases.front().time if not self._releases.empty() else INFINITY
        cdef double change = self._next_failure if self._active or arrival < INFINITY else INFINITY
        cdef double ask
        cdef int64_t wake_on = self._scheduler.wake_on
        if not self._in_rounds:
            finish = finish if wake_on & ON_COMPLETION else INFINITY
            return max(self._now, min(arrival, finish, release, change, self._scheduler.next_wake))
        ask = min(self._scheduler.stable_until, self._scheduler.next_wake)
        if self._pending & wake_on:
            ask = -INFINITY
        if wake_on & ON_ARRIVAL:
            ask = min(ask, arrival)
        # A completion that the scheduler does not feel is caught up with later, at its own time.
        if wake_on & ON_COMPLETION:
            ask = min(ask, finish)
        if ask < INFINITY:
            ask = self._tick(max(ask, self._now, arrival if not self._active else -INFINITY))
        return max(self._now, min(ask, release, change))

    cdef double _tick(self, double moment) noexcept nogil:
        """The first tick from a moment on that no decision has been taken at."""
        cdef double number = floor((moment - self._origin) / self._round)
        if self._origin + number * self._round < moment:
            number += 1
        return self._origin + max(number, <double> (self._last_tick + 1), 0.0) * self._round

    # What happens

    cdef bint _happen(self, double now) except -1:
        """Let everything up to now happen; whether the scheduler is to be asked."""
        cdef int64_t triggers = 0, number
        cdef bint due
        self._now = now
        if self._next_finish() <= now:
            triggers |= ON_COMPLETION
            self._complete(now)
        while not self._releases.empty() and self._releases.front().time <= now:
            end_release(&self._world.books, self._releases.front().number)
            pop_heap(self._releases.begin(), self._releases.end())
            self._releases.pop_back()
            triggers |= ON_CAPACITY
        if self._next_failure <= now:
            self._change_nodes(now)
            triggers |= ON_CAPACITY
        if self._arrive(now):
            triggers |= ON_ARRIVAL
        self._pending |= triggers
        if not self._in_rounds:
            if self._scheduler.next_wake <= now:
                self._pending |= ON_TIMER
                return True
            return (self._pending & self._scheduler.wake_on) != 0
        number = <int64_t> rint((now - self._origin) / self._round)
        if number <= self._last_tick or self._origin + number * self._round != now:
            return False
        due = min(self._scheduler.stable_until, self._scheduler.next_wake) <= now
        if due or self._pending & self._scheduler.wake_on:
            self._last_tick = number
            self._pending |= ON_ROUND
            return True
        return False

    cdef bint _arrive(self, double now) except -1:
        """Let the jobs that have come by now wait; whether there are any."""
        cdef int64_t job, first = self._arrived
        cdef Fact* fact
        while self._next_arrival() <= now:
            job = self._arrivals[self._arrived]
            fact = &self._world.facts[job]
            fact.state, fact.reason = WAITING, _NOT_CONSIDERED
            fact.reason_since = self._world.asked[job].submit
            self._arrived += 1
            self._active += 1
            self._measured_active += self._measured[job]
            self._scheduler.add_waiting(&self._view, job, now)
        return self._arrived > first

    cdef int _complete(self, double now) except -1:
        """End the jobs that are done by now, in the order of their arrival."""
        cdef size_t at
        self._make_room()
        self._due.clear()
        while self._next_finish() <= now:
            self._due.push_back(self._finishes.front().number)
            pop_heap(self._finishes.begin(), self._finishes.end())
            self._finishes.pop_back()
        sort(self._due.begin(), self._due.end())
        for at in range(self._due.size()):
            if at > 0 and self._due[at] == self._due[at - 1]:
                continue
            finish_job(&self._world, self._due[at])
            self._active -= 1
            self._measured_active -= self._measured[self._due[at]]
            self._scheduler.end_running(&self._view, self._due[at], now)
        self._note_releases(now)
        return 0

    cdef int _change_nodes(self, double now) except -1:
        """Nodes fail and come back."""
        cdef vector[int64_t] active
        cdef size_t at
        for node, repaired in self._engine._failures.due(now):
            if repaired:
                bring_up(&self._world.books, node)
                continue
            self._make_room()
            active.clear()
            for at in range(self._scheduler.running.size()):
                active.push_back(self._scheduler.running[at].job)
            sort(active.begin(), active.end())
            interrupt_at_node(&self._world, active.data(), active.size(), node, now)
            self._scheduler.forget_stopped(&self._view, 0, now)
            take_down(&self._world.books, node)
        self._scheduler.nodes_changed()
        self._next_failure = self._engine._failures.next_time()
        return 0

    cdef void _note_releases(self, double now) noexcept nogil:
        """When what jobs have given back will be free."""
        cdef Moment release
        cdef int64_t at, chain, row
        cdef double milli
        cdef Fact* fact
        for at in range(self._world.counts[RELEASES]):
            chain = self._world.releases[at]
            milli, row = 0.0, chain
            while row >= 0:
                milli += self._world.books.rows[row].amount[0] / 1000
                row = self._world.books.rows[row].next
            fact = &self._world.facts[self._world.books.rows[chain].job]
            # With rounds a completion is noticed at the tick after it.
            release.time = fact.finish if fact.state == COMPLETED or fact.state == TIMED_OUT else now
            release.time += milli / 1000 * self._release_seconds
            release.number = chain
            self._releases.push_back(release)
            push_heap(self._releases.begin(), self._releases.end())
        self._world.counts[RELEASES] = 0

    # Decisions

    cdef int _decide(self, double now) except -1:
        """Ask the scheduler and make true what it says."""
        cdef Runtime* world = &self._world
        cdef double began
        cdef int64_t started, stopped, changed
        self._make_room()
        self._pending = 0
        began = _clock()
        self._scheduler.decide(&self._view, now)
        self._seconds.push_back(_clock() - began)
        world.counts[STARTED] = world.counts[STOPPED] = world.counts[CHANGED] = 0
        if world.books.entries[0]:
            make_true(world, now, self._before)
            self._note_finishes()
            self._note_releases(now)
        started, stopped, changed = world.counts[STARTED], world.counts[STOPPED], world.counts[CHANGED]
        self._note_reasons(now)
        if started or stopped:
            self._scheduler.take_over(&self._view, now)
        if started or stopped or changed:
            self._note_decision(now, started, stopped, changed)
        if started or self._arrived < self._arrival_count or not self._active or not self._releases.empty():
            self._fruitless = 0
        elif not self._scheduler.running_count:
            self._fruitless += 1
        else:
            self._fruitless = 0
        if self._fruitless == 1:
            self._patient_until = now + self._patience
        return 0

    cdef void _note_finishes(self) noexcept nogil:
        """When the jobs that start or change are done, into the heap."""
        cdef size_t at
        for at in range(self._scheduler.served.size()):
            self._note_finish(self._scheduler.served[at].job)
        for at in range(self._scheduler.victims.size()):
            if self._world.books.heads[self._scheduler.victims[at].job] >= 0:
                self._note_finish(self._scheduler.victims[at].job)
        if self._finishes.size() > _FEW_MOMENTS + 4 * <size_t> self._scheduler.running_count:
            self._drop_outdated_finishes()

    cdef bint _is_up_to_date(self, Moment* done) noexcept nogil:
        """Whether a job still runs and will be done at this moment."""
        cdef Fact* fact = &self._world.facts[done.number]
        return fact.state == RUNNING and fact.finish == done.time

    cdef void _drop_outdated_finishes(self) noexcept nogil:
        """Keep the completions that will be: a heap is the slower the larger it is."""
        cdef size_t at, left = 0
        for at in range(self._finishes.size()):
            if self._is_up_to_date(&self._finishes[at]):
                self._finishes[left] = self._finishes[at]
                left += 1
        self._finishes.resize(left)
        make_heap(self._finishes.begin(), self._finishes.end())

    cdef void _note_finish(self, int64_t job) noexcept nogil:
        cdef Moment done
        done.time, done.number = self._world.facts[job].finish, job
        self._finishes.push_back(done)
        push_heap(self._finishes.begin(), self._finishes.end())

    cdef void _note_decision(self, double now, int64_t started, int64_t stopped, int64_t changed) noexcept nogil:
        """A line of the record."""
        cdef int64_t resource
        self._decisions.push_back(now)
        self._decisions.push_back(self._scheduler.running_count)
        self._decisions.push_back(self._scheduler.waiting_count)
        self._decisions.push_back(started)
        self._decisions.push_back(stopped)
        self._decisions.push_back(changed)
        for resource in range(4):
            self._decisions.push_back(self._world.books.totals[resource])
        self._decisions.push_back(NAN)
        self._decisions.push_back(NAN)

    cdef void _note_reasons(self, double now) noexcept nogil:
        """Write down the reasons that changed, in the order of arrival."""
        cdef vector[int64_t]* changed = &self._scheduler.changed
        cdef size_t at
        sort(changed.begin(), changed.end())
        for at in range(changed.size()):
            if at == 0 or changed.at(at) != changed.at(at - 1):
                self._explain(changed.at(at), self._scheduler.why[changed.at(at)].code, now)

    cdef void _explain(self, int64_t job, int64_t code, double now) noexcept nogil:
        """A job has another reason from now on."""
        cdef Fact* fact = &self._world.facts[job]
        cdef PendingInterval* line
        if fact.reason > 0 and now > fact.reason_since:
            line = &self._pending_intervals[self._explained]
            line.job, line.code = <int32_t> job, <int32_t> fact.reason
            line.a, line.b = fact.reason_a, fact.reason_b
            line.begin, line.end = fact.reason_since, now
            self._explained += 1
        fact.reason, fact.reason_since = code, now
        fact.reason_a = self._scheduler.why[job].a if code != _PLACED else 0.0
        fact.reason_b = self._scheduler.why[job].b if code != _PLACED else 0.0

    # The end

    cdef int _close(self) except -1:
        """Settle what still runs and write down what is still held or explained."""
        cdef vector[int64_t] left
        cdef size_t at
        cdef int64_t job
        for at in range(self._scheduler.running.size()):
            left.push_back(self._scheduler.running[at].job)
        self._scheduler.list_waiting(left)
        sort(left.begin(), left.end())
        self._make_room()
        for at in range(left.size()):
            job = left[at]
            if self._world.books.heads[job] >= 0:
                settle_job(&self._world.facts[job], self._now, self._world.laws)
                close_holding(&self._world, job, self._now)
        for at in range(left.size()):
            if self._world.facts[left[at]].reason != _PLACED:
                self._explain(left[at], _PLACED, self._now)
        return 0

    cdef int _report(self) except -1:
        """Give the engine what others may know of the run."""
        self._engine.take_report(
            self._now, self._arrived, self._active, self._world.counts[HELD_ROWS], self._explained
        )
        return 0

    def decisions(self):
        """The lines of the decisions that changed something."""
        return _array(self._decisions).reshape(-1, _DECISION_COLUMNS)

    def decision_seconds(self):
        """How long each decision took."""
        return _array(self._seconds)


cdef object _array(vector[double]& values):
    copy = np.empty(values.size())
    cdef double* to = floats(copy).at
    cdef size_t at
    for at in range(values.size()):
        to[at] = values[at]
    return copy
