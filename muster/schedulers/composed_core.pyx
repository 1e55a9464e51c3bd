"""The compiled form of a composed scheduler: order, share of the node or request, and a rule of placement.

It decides as `Composed` does with `IndependentAllocator`, straight on the ledger.

Between decisions it keeps the waiting jobs sorted, a queue for each kind of equal demand, needs and constraint: their
keys do not change while they wait. In a decision GPUs and places only become fewer from one job to the next, so the
jobs of a kind that start are the first of its queue, and the others wait for one reason, or for another one from some
place on. A decision therefore looks at the running jobs, the jobs that start, and the jobs whose reason changes.
"""

from libc.math cimport INFINITY, NAN, ceil, isnan
from libcpp.algorithm cimport lower_bound, sort, upper_bound

from muster.cluster.arrays cimport bools, ints
from muster.cluster.even_core cimport even_gangs
from muster.cluster.ledger_core cimport GPU, MICRO, WHOLE, copy_chain, put_chain, release_job
from muster.schedulers.placement.rules_core cimport CONSOLIDATE, PACK, Scratch, fewest_nodes, place_job
from muster.workload.jobs_core cimport WAITING, left_of, protection_end, service_of, to_millionth

from muster.schedulers.interruption import WORK_PER_INTERRUPTION
from muster.schedulers.reasons import BEHIND_HEAD, NO_GPUS, NO_PLACE, OUTRANKED, PLACED, PROTECTED

cdef int64_t _BEHIND_HEAD = BEHIND_HEAD
cdef int64_t _NO_GPUS = NO_GPUS
cdef int64_t _NO_PLACE = NO_PLACE
cdef int64_t _OUTRANKED = OUTRANKED
cdef int64_t _PLACED = PLACED
cdef int64_t _PROTECTED = PROTECTED

cdef double _INSTANT = 1e-6  # seconds by which a promise of stability is cut short, so that rounding cannot undo it
cdef double _FOREVER = 1.7976931348623157e308  # less than infinity alone
cdef double _ROUNDING = 1e-9  # far more than the rounding of a product
cdef size_t _FEW_KINDS = 16  # which are searched one by one
cdef int64_t _SEVERAL = -1  # reasons, in the place of one


cdef inline double _key_at(CompiledScheduler self, Pace* pace, double now) noexcept nogil:
    """The key of a running job; it is better by what an interruption costs."""
    cdef double key
    if self.order < REMAINING_SECONDS:
        return pace.reached
    key = to_millionth(pace.reached + pace.rate * max(now - pace.since, 0.0))
    if not isnan(pace.believed):
        key = max(pace.believed - key, 0.0) * pace.scale
    elif self.order == ATTAINED_QUEUES:
        return upper_bound(self.queues.begin(), self.queues.end(), key) - self.queues.begin()
    if self.order == REMAINING_SERVICE:
        key *= pace.gpus
    return key - pace.cost


cdef class CompiledScheduler:
    """One scheduler and its queues."""

    def __init__(self, settings, kind_of, demands, needs, node_allowed, queues):
        cdef size_t kind, count = demands.shape[0]
        cdef int64_t* demand = ints(demands).at
        self._kept = kind_of, needs, node_allowed
        self.order, self.rule = settings["order"], settings["rule"]
        self.preemptive, self.strict = settings["preemptive"], settings["strict"]
        self.static_priority, self.takes_turns = settings["static_priority"], settings["takes_turns"]
        self.durations_known, self.some_protected = settings["durations_known"], settings["some_protected"]
        self.resize_restarts = settings["resize_restarts"]
        self.quantum, self.work_per_interruption = settings["quantum"], WORK_PER_INTERRUPTION
        self.kind_of, self.needs = ints(kind_of).at, ints(needs).at
        self.node_allowed = bools(node_allowed).at
        self.queues = list(queues)
        self.most_gpus = demands.max(initial=0) / MICRO
        self.waiting.resize(count)
        self.kinds.resize(count)
        self.is_waiting_kind.resize(count, False)
        for kind in range(count):
            self.kinds[kind].demand, self.kinds[kind].tail = demand[kind], _SEVERAL
            self.kinds[kind].head = self.kinds[kind].zone = self.kinds[kind].placed = 0
            self.kinds[kind].failed = 0
        self.chosen.resize(kind_of.shape[0])
        self.stopped.resize(kind_of.shape[0], -1)
        self.until.resize(kind_of.shape[0], -INFINITY)
        self.paces.resize(kind_of.shape[0])
        self.soonest_end = -INFINITY
        self.why.resize(kind_of.shape[0])
        self.fit.resize(node_allowed.shape[1])
        self.take.resize(node_allowed.shape[1])
        self.index = NodeIndex(node_allowed.shape[1], settings["most_gpus"])
        self.fewest.resize(count)

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
            key = service_of(fact, now)
        elif self.order == ATTAINED_QUEUES:
            key = service_of(fact, now)
            return upper_bound(self.queues.begin(), self.queues.end(), key) - self.queues.begin()
        else:
            key = left_of(asked, fact, now)
        return key * asked.gpus if self.order == REMAINING_SERVICE else key

    # Who waits and runs

    cdef void add_waiting(self, WorldView* world, int64_t job, double now) noexcept nogil:
        """A job waits from now on."""
        cdef Ranked one
        cdef int64_t kind = self.kind_of[job]
        cdef KindState* state = &self.kinds[kind]
        cdef vector[Ranked]* queue = &self.waiting[kind]
        cdef size_t place
        one.key, one.job = self._key(world, job, now), job
        place = lower_bound(queue.begin() + state.head, queue.end(), one) - queue.begin()
        queue.insert(queue.begin() + place, one)
        if place < state.zone:
            state.zone += 1
        self.fresh.push_back(one)
        self.waiting_count += 1
        self.waiting_demand += state.demand
        if not self.is_waiting_kind[kind]:
            self.is_waiting_kind[kind] = True
            self.waiting_kinds.push_back(kind)

    cdef void add_running(self, int64_t job) noexcept nogil:
        """A job runs from now on."""
        cdef Ranked one
        one.key, one.job = 0.0, job
        self.running.push_back(one)
        self.running_count += 1
        self.running_demand += self.kinds[self.kind_of[job]].demand

    cdef void _note_pace(self, WorldView* world, int64_t job) noexcept nogil:
        """Note how the key of a running job will change until it holds something else, and its protection.

        A job of a simulation loses `restart_cost` in an interruption, whenever that is.
        """
        cdef Asked* asked = &world.asked[job]
        cdef Fact* fact = &world.facts[job]
        cdef Pace* pace = &self.paces[job]
        pace.demand, pace.gpus, pace.cost = self.kinds[self.kind_of[job]].demand, asked.gpus, 0.0
        pace.believed = asked.believed if self.order <= REMAINING_SERVICE else NAN
        if self.order < REMAINING_SECONDS:
            pace.reached, pace.rate, pace.since = self._key(world, job, 0.0), 0.0, 0.0
        elif isnan(pace.believed):
            pace.reached, pace.rate, pace.since = fact.attained, fact.held, fact.settled
        else:
            pace.reached, pace.rate, pace.since = fact.done, fact.rate, max(fact.settled, fact.resumes)
            pace.scale = asked.ideal / asked.iterations
        if not self.some_protected:
            return
        if REMAINING_SECONDS <= self.order <= ATTAINED:
            pace.cost = fact.restart_cost
            if self.order == REMAINING_SERVICE or self.order == ATTAINED:
                pace.cost *= fact.held
        if self.preemptive or self.resize_restarts:
            self.until[job] = protection_end(asked, fact, self.work_per_interruption)
            if self.takes_turns and fact.restart_cost > 0:
                self.until[job] = max(self.until[job], fact.resumes + self.quantum)

    cdef void attach(self, Books* books) noexcept nogil:
        """Jobs are placed on these books."""
        self.index.attach(books)

    cdef void nodes_changed(self) noexcept nogil:
        """Nodes have failed or come back."""

    cdef void end_running(self, WorldView* world, int64_t job, double now) noexcept nogil:
        """A running job has ended; it is left out when many have."""
        self.running_count -= 1
        if 2 * self.running_count < <int64_t> self.running.size():
            self.forget_stopped(world, 0, now)

    cdef bint some_waiting_in(self, uint8_t* jobs) noexcept nogil:
        """Whether one of these jobs waits."""
        cdef size_t at, place
        cdef int64_t kind
        for at in range(self.waiting_kinds.size()):
            kind = self.waiting_kinds[at]
            for place in range(self.kinds[kind].head, self.waiting[kind].size()):
                if jobs[self.waiting[kind][place].job]:
                    return True
        return False

    cdef void list_waiting(self, vector[int64_t]& jobs) noexcept nogil:
        """Add all waiting jobs to a list."""
        cdef size_t at, place
        cdef int64_t kind
        for at in range(self.waiting_kinds.size()):
            kind = self.waiting_kinds[at]
            for place in range(self.kinds[kind].head, self.waiting[kind].size()):
                jobs.push_back(self.waiting[kind][place].job)

    cdef void take_over(self, WorldView* world, double now) noexcept nogil:
        """The jobs that wait and run, after the steps of a decision were made true."""
        cdef size_t at, place, left = 0
        cdef int64_t kind
        cdef KindState* state
        cdef vector[Ranked]* queue
        for at in range(self.waiting_kinds.size()):
            kind = self.waiting_kinds[at]
            state, queue = &self.kinds[kind], &self.waiting[kind]
            for place in range(state.head, state.placed):
                self.add_running(queue.at(place).job)
                self._note_pace(world, queue.at(place).job)
                self.waiting_count -= 1
                self.waiting_demand -= state.demand
            state.head = state.placed
            if 2 * state.head > queue.size():
                queue.erase(queue.begin(), queue.begin() + state.head)
                state.zone = state.zone - state.head if state.zone > state.head else 0
                state.head = state.placed = 0
            if queue.empty():
                state.tail, self.is_waiting_kind[kind] = _SEVERAL, False
            else:
                self.waiting_kinds[left] = kind
                left += 1
        self.waiting_kinds.resize(left)
        if not self.victims.empty():
            self.forget_stopped(world, self.first_stopped, now)

    cdef void forget_stopped(self, WorldView* world, size_t first, double now) noexcept nogil:
        """Running jobs that hold nothing any more, from a place on, are not running: they wait, or have ended."""
        cdef size_t at, left = first
        cdef int64_t job
        for at in range(first, self.running.size()):
            job = self.running[at].job
            if world.books.heads[job] >= 0:
                self.running[left] = self.running[at]
                left += 1
                continue
            self.running_demand -= self.kinds[self.kind_of[job]].demand
            if world.facts[job].state == WAITING:
                self.add_waiting(world, job, now)
        self.running.resize(left)
        self.running_count = left

    # One decision

    cdef void decide(self, WorldView* world, double now) noexcept nogil:
        """Write the steps into the ledger and the reasons that change into `why`, and when to ask again."""
        cdef size_t at
        self.stable_until = self.next_wake = INFINITY
        self.wake_on = ON_ALL & ~ON_COMPLETION
        for at in range(self.victims.size()):
            if world.books.heads[self.victims[at].job] >= 0:
                self._note_pace(world, self.victims[at].job)
        self.served.clear()
        self.victims.clear()
        self.changed.clear()
        self.trace.clear()
        if not self.waiting_count:
            return
        self.blocked = self.promised = self.in_vain = False
        self.soonest_end = -INFINITY
        for at in range(self.waiting_kinds.size()):
            self.kinds[self.waiting_kinds[at]].placed = self.kinds[self.waiting_kinds[at]].head
            self.kinds[self.waiting_kinds[at]].failed = 0
        if self.preemptive and self.waiting_demand <= world.books.totals[GPU] and not world.books.delayed[0]:
            # There are GPUs for all: none has to be taken from a running job.
            for at in range(self.waiting_kinds.size()):
                self.kinds[self.waiting_kinds[at]].chosen = self.waiting[self.waiting_kinds[at]].size()
            self._serve(world, 0)
            self.protection_ends = INFINITY
            self._explain(world)
            self._promise(world, now)
            return
        if self.preemptive:
            if self.running_count < <int64_t> self.running.size():
                self.forget_stopped(world, 0, now)
            self._rank_running(now)
            self._read_running(now)
            self.free_before = world.books.totals[GPU] + self._releasing(world)
            self._walk(now, self.free_before)
            for at in range(self.waiting_kinds.size()):
                self.kinds[self.waiting_kinds[at]].chosen = self.kinds[self.waiting_kinds[at]].cursor
            self._stop_others(world)
            # What is releasing now was promised to a chosen job: others may not take the rest of its GPUs meanwhile.
            self.promised = self._releasing(world) > 0
        self._serve(world, 0)
        if self.preemptive:
            self._serve(world, 1)
        self._name_protection(world, now)
        self._explain(world)
        self._promise(world, now)

    cdef int64_t _releasing(self, WorldView* world) noexcept nogil:
        """Millionths of GPUs whose jobs are gone and that no job can have yet."""
        cdef int64_t node, releasing = 0
        if world.books.delayed[0]:
            for node in range(world.books.node_count):
                releasing += world.books.nodes[node].releasing[GPU]
        return releasing

    cdef void _rank_running(self, double now) noexcept nogil:
        """Sort the running jobs by key and arrival."""
        cdef Py_ssize_t at, place, steps = 0, count = self.running.size()
        cdef Ranked* running = self.running.data()
        cdef Pace* paces = self.paces.data()
        cdef Ranked one
        for at in range(count):
            running[at].key = _key_at(self, &paces[running[at].job], now)
        # They are nearly sorted from the last decision.
        for at in range(1, count):
            one, place = running[at], at - 1
            while place >= 0 and one < running[place]:
                running[place + 1] = running[place]
                place -= 1
                steps += 1
            running[place + 1] = one
            if steps > 8 * count:
                sort(self.running.begin(), self.running.end())
                return

    cdef void _read_running(self, double now) noexcept nogil:
        """Put side by side what is asked of the running jobs in their order, and find those that are protected."""
        cdef size_t at
        cdef int64_t job, demand
        cdef int64_t protected = 0, pinned = 0  # demands of jobs that may not be interrupted now; not at all
        cdef double until, soonest = INFINITY
        cdef Ranked* running = self.running.data()
        cdef Held* held
        self.held.resize(self.running.size())
        held = self.held.data()
        self.last_protected = 0
        for at in range(self.running.size()):
            job = running[at].job
            demand, until = self.paces[job].demand, self.until[job]
            held[at].demand, held[at].until = demand, until
            if until > now:
                protected += demand
                soonest = min(soonest, until)
                if until <= _FOREVER:
                    self.last_protected = at
                else:
                    pinned += demand
        self.protected_demand, self.pinned_demand, self.soonest_end = protected, pinned, soonest

    # Queues merged by rank: a heap of kinds, first of which is the one whose job at its cursor comes first.

    cdef void _push(self, int64_t kind) noexcept nogil:
        cdef size_t at = self.heap.size(), parent
        cdef Ranked one = self.waiting[kind][self.kinds[kind].cursor]
        self.heap.push_back(kind)
        while at > 0:
            parent = (at - 1) // 2
            if not one < self._first_of(parent):
                break
            self.heap[at] = self.heap[parent]
            at = parent
        self.heap[at] = kind

    cdef Ranked _first_of(self, size_t at) noexcept nogil:
        """The next job of the kind at a place of the heap."""
        return self.waiting[self.heap[at]][self.kinds[self.heap[at]].cursor]

    cdef int64_t _pop(self) noexcept nogil:
        cdef int64_t kind = self.heap[0], last = self.heap.back()
        cdef size_t at = 0, child
        cdef Ranked one = self.waiting[last][self.kinds[last].cursor]
        self.heap.pop_back()
        if self.heap.empty():
            return kind
        while 2 * at + 1 < self.heap.size():
            child = 2 * at + 1
            if child + 1 < self.heap.size() and self._first_of(child + 1) < self._first_of(child):
                child += 1
            if not self._first_of(child) < one:
                break
            self.heap[at] = self.heap[child]
            at = child
        self.heap[at] = last
        return kind

    cdef bint _kind_comes_first(self, vector[Ranked]& others, size_t other) noexcept nogil:
        """Whether the first job of the heap comes before the next of another list."""
        cdef int64_t kind
        if self.heap.empty():
            return False
        if other >= others.size():
            return True
        kind = self.heap[0]
        return self.waiting[kind][self.kinds[kind].cursor] < others[other]

    cdef void _walk(self, double pinned_after, int64_t free) noexcept nogil:
        """Choose the jobs to serve, by GPU count alone: in order, each that fits in what is left (Synergy, "Rounds").

        A running job holds what its kind demands. One that is protected beyond `pinned_after`, which is now or for
        ever, is chosen first. `free` is in millionths of a GPU. The waiting jobs before the cursor of their kind are
        chosen.
        """
        cdef size_t at = 0, upto, running = self.running.size(), first_left = running
        cdef int64_t kind
        cdef KindState* state
        cdef Ranked* ranked = self.running.data()
        free += self.running_demand - (self.pinned_demand if pinned_after == _FOREVER else self.protected_demand)
        self.heap.clear()
        for at in range(self.waiting_kinds.size()):
            self.kinds[self.waiting_kinds[at]].cursor = self.kinds[self.waiting_kinds[at]].head
            self._push(self.waiting_kinds[at])
        at = 0
        while True:
            upto = running
            if not self.heap.empty():
                upto = lower_bound(ranked + at, ranked + running, self._first_of(0)) - ranked
            at = self._choose_running(at, upto, pinned_after, &free, &first_left)
            if at < upto or self.heap.empty() or free <= 0:
                break
            kind = self._pop()
            state = &self.kinds[kind]
            if state.demand <= free:
                free -= state.demand
                state.cursor += 1
                if state.cursor < self.waiting[kind].size():
                    self._push(kind)
            else:
                first_left = min(first_left, at)
                if self.strict:
                    break
        self.in_turn = (0 if pinned_after == _FOREVER else self.last_protected) < min(first_left, at)
        for at in range(at, running):
            self.chosen[ranked[at].job] = self.held[at].until > pinned_after

    cdef size_t _choose_running(
        self, size_t at, size_t upto, double pinned_after, int64_t* free, size_t* first_left
    ) noexcept nogil:
        """Choose of the running jobs between two places; the place of the one with which choosing ends."""
        cdef Ranked* ranked = self.running.data()
        cdef Held* held = self.held.data()
        cdef uint8_t* chosen = self.chosen.data()
        cdef int64_t left = free[0]
        cdef bint pinned, fits
        while at < upto and left > 0:
            pinned, fits = held[at].until > pinned_after, held[at].demand <= left
            chosen[ranked[at].job] = pinned | fits
            left -= held[at].demand if fits & (not pinned) else 0
            if not (pinned | fits):
                first_left[0] = min(first_left[0], at)
                if self.strict:
                    break
            at += 1
        free[0] = left
        return at

    cdef void _stop_others(self, WorldView* world) noexcept nogil:
        """Stop the running jobs that are not chosen."""
        cdef size_t at
        cdef int64_t job
        for at in range(self.running.size()):
            job = self.running[at].job
            if not self.chosen[job]:
                if self.victims.empty():
                    self.first_stopped = at
                self.kinds[self.kind_of[job]].failed = 0
                self.stopped[job] = world.books.heads[job]
                self.victims.push_back(self.running[at])
                release_job(world.books, job)

    cdef void _serve(self, WorldView* world, int64_t turn) noexcept nogil:
        """Place the chosen jobs in order (turn 0), then those that still fit, some of which ran until now (turn 1)."""
        cdef size_t at, victim = 0 if turn == 1 else self.victims.size()
        cdef int64_t kind
        cdef KindState* state
        self.free_at_start[turn] = world.books.totals[GPU]
        self.heap.clear()
        for at in range(self.waiting_kinds.size()):
            state = &self.kinds[self.waiting_kinds[at]]
            if not self.preemptive:
                state.chosen = self.waiting[self.waiting_kinds[at]].size()
            state.cursor = state.placed
            if not state.failed and state.cursor < self._end(self.waiting_kinds[at], turn):
                self._push(self.waiting_kinds[at])
        while not self.heap.empty() or victim < self.victims.size():
            if not self._kind_comes_first(self.victims, victim):
                self._serve_victim(world, self.victims[victim])
                victim += 1
                continue
            kind = self._pop()
            if self.blocked or (turn == 1 and self.promised):
                if not self.blocked and self.strict:
                    self._block(world, self.waiting[kind][self.kinds[kind].cursor], _OUTRANKED)
                self.heap.clear()
            elif not self.kinds[kind].failed:
                self._serve_one(world, turn, kind)

    cdef size_t _end(self, int64_t kind, int64_t turn) noexcept nogil:
        """The place in a queue before which jobs have their turn."""
        return self.kinds[kind].chosen if turn == 0 else self.waiting[kind].size()

    cdef void _serve_one(self, WorldView* world, int64_t turn, int64_t kind) noexcept nogil:
        """Place the job at the cursor of a kind, or note that this kind has no place."""
        cdef KindState* state = &self.kinds[kind]
        cdef Ranked one = self.waiting[kind][state.cursor]
        cdef int64_t lacks = _NO_GPUS
        if state.demand <= world.books.totals[GPU]:
            lacks = _NO_PLACE
            if self._place(world, one.job, kind):
                self._trace(world, turn, one)
                self.served.push_back(one)
                state.cursor += 1
                state.placed = state.cursor
                if state.cursor < self._end(kind, turn):
                    self._push(kind)
                return
            self.in_vain = True
        state.failed = lacks
        if self.strict:
            self._block(world, one, lacks)

    cdef void _serve_victim(self, WorldView* world, Ranked one) noexcept nogil:
        """Give a stopped job its place back, or another one, or note why it has none."""
        cdef int64_t kind = self.kind_of[one.job]
        cdef KindState* state = &self.kinds[kind]
        cdef int64_t lacks = _OUTRANKED
        if not self.promised and put_chain(world.books, one.job, copy_chain(world.books, self.stopped[one.job])) == 0:
            self._trace(world, 1, one)
            return
        if self.blocked:
            self.why[one.job].code, self.why[one.job].a, self.why[one.job].b = _BEHIND_HEAD, 0.0, 0.0
            return
        if not self.promised and state.demand <= world.books.totals[GPU]:
            lacks = _NO_PLACE
            if state.failed != _NO_PLACE and self._place(world, one.job, kind):
                self._trace(world, 1, one)
                return
            state.failed, self.in_vain = _NO_PLACE, True
        self.why[one.job] = self._lack(world, one.job, lacks, world.books.totals[GPU])
        if self.strict:
            self._block(world, one, lacks)

    cdef void _block(self, WorldView* world, Ranked one, int64_t lacks) noexcept nogil:
        """A job that has no place lets no other pass."""
        self.blocked, self.blocker = True, one
        self.of_blocker = self._lack(world, one.job, lacks, world.books.totals[GPU])

    cdef bint _place(self, WorldView* world, int64_t job, int64_t kind) noexcept nogil:
        """Give a job a place by the rule."""
        cdef Asked* asked = &world.asked[job]
        cdef Books* books = world.books
        cdef Scratch scratch
        cdef uint8_t* allowed = self.node_allowed + asked.constraint * books.node_count
        cdef int64_t* need = self.needs + kind * books.resources
        scratch.fit, scratch.take = self.fit.data(), self.take.data()
        if asked.milli < WHOLE or even_gangs(books) or (self.rule != PACK and self.rule != CONSOLIDATE):
            return place_job(books, job, asked, allowed, need, self.rule, scratch)
        if self.rule == PACK:
            self.fewest[kind] = books.node_count
        elif not self.fewest[kind]:
            self.fewest[kind] = fewest_nodes(books, allowed, asked.gpus, need, scratch.fit)
        if not self.index.find(books, allowed, asked.gpus, need, self.fewest[kind]):
            return False
        return put_chain(books, job, self.index.chain(books, need)) == 0

    cdef void _trace(self, WorldView* world, int64_t turn, Ranked one) noexcept nogil:
        """Note how many GPUs are left after a job was served."""
        cdef Left left
        left.turn, left.key, left.job, left.free = turn, one.key, one.job, world.books.totals[GPU]
        self.trace.push_back(left)

    # Why jobs wait

    cdef Why _lack(self, WorldView* world, int64_t job, int64_t code, int64_t free) noexcept nogil:
        """A job waits for GPUs or for a place: what it needs, and how many GPUs are free."""
        cdef Why why
        why.code = code
        why.a = world.asked[job].gpus * world.asked[job].milli / <double> WHOLE
        why.b = free / <double> MICRO
        return why

    cdef int64_t _left_at(self, int64_t turn, Ranked one) noexcept nogil:
        """GPUs left when it was a job's turn, in millionths."""
        cdef Py_ssize_t low = 0, high = self.trace.size(), middle
        cdef Ranked after
        while low < high:
            middle = (low + high) // 2
            after.key, after.job = self.trace[middle].key, self.trace[middle].job
            if self.trace[middle].turn < turn or (self.trace[middle].turn == turn and after < one):
                low = middle + 1
            else:
                high = middle
        if low == 0 or self.trace[low - 1].turn < turn:
            return self.free_at_start[turn]
        return self.trace[low - 1].free

    cdef Why _why(self, WorldView* world, int64_t kind, size_t place) noexcept nogil:
        """Why the job at a place of a queue waits."""
        cdef KindState* state = &self.kinds[kind]
        cdef Ranked one = self.waiting[kind][place]
        cdef int64_t turn = 1 if self.preemptive and place >= state.chosen else 0
        cdef int64_t free, lacks
        cdef Why why
        if self.blocked:
            why = self.of_blocker
            if one.job != self.blocker.job:
                why.code, why.a, why.b = _BEHIND_HEAD, 0.0, 0.0
        elif turn == 1 and self.promised:
            why = self._lack(world, one.job, _OUTRANKED, world.books.totals[GPU])
        else:
            free = self._left_at(turn, one)
            lacks = _NO_PLACE if state.failed == _NO_PLACE and state.demand <= free else _NO_GPUS
            why = self._lack(world, one.job, lacks, free)
        if self.protection_ends < INFINITY and place < state.would_run:
            why = self._protected(world, one.job, why)
        return why

    cdef Why _protected(self, WorldView* world, int64_t job, Why why) noexcept nogil:
        """The reason of a job that would run if no running job were protected."""
        if why.code == _NO_GPUS or why.code == _OUTRANKED:
            why.code, why.b = _PROTECTED, self.protection_ends
            why.a = world.asked[job].gpus * (world.asked[job].milli / <double> WHOLE)
        return why

    cdef void _name_protection(self, WorldView* world, double now) noexcept nogil:
        """Find the jobs that wait only because running jobs may not be interrupted yet."""
        cdef size_t at
        cdef int64_t job
        self.protection_ends = INFINITY
        if not self.preemptive or not self.some_protected or self.soonest_end == INFINITY:
            return
        self.protection_ends = max(self.soonest_end - now, 0.0)
        if self.in_turn:
            # All protected jobs come before the first that is left out: without protection the same are chosen.
            for at in range(self.waiting_kinds.size()):
                self.kinds[self.waiting_kinds[at]].would_run = self.kinds[self.waiting_kinds[at]].chosen
            return
        self._walk(_FOREVER, self.free_before)
        for at in range(self.waiting_kinds.size()):
            self.kinds[self.waiting_kinds[at]].would_run = self.kinds[self.waiting_kinds[at]].cursor
        for at in range(self.victims.size()):
            job = self.victims[at].job
            if self.chosen[job]:
                self.why[job] = self._protected(world, job, self.why[job])

    cdef void _explain(self, WorldView* world) noexcept nogil:
        """Find the jobs whose reason changes."""
        cdef size_t at, place
        cdef int64_t kind
        cdef Why placed
        cdef vector[Ranked]* queue
        cdef vector[Ranked].iterator first
        placed.code, placed.a, placed.b = _PLACED, 0.0, 0.0
        for at in range(self.served.size()):
            self._note(world, self.served[at].job, placed)
        for at in range(self.victims.size()):
            if world.books.heads[self.victims[at].job] < 0:
                self._note(world, self.victims[at].job, self.why[self.victims[at].job])
        for at in range(self.fresh.size()):
            if world.books.heads[self.fresh[at].job] < 0:
                kind = self.kind_of[self.fresh[at].job]
                queue = &self.waiting[kind]
                first = queue.begin() + self.kinds[kind].placed
                place = lower_bound(first, queue.end(), self.fresh[at]) - queue.begin()
                self._note(world, self.fresh[at].job, self._why(world, kind, place))
        self.fresh.clear()
        for at in range(self.waiting_kinds.size()):
            self._explain_kind(world, self.waiting_kinds[at])

    cdef void _explain_kind(self, WorldView* world, int64_t kind) noexcept nogil:
        """Find the jobs of a kind whose reason changes: those before the rest, and all if that of the rest does."""
        cdef KindState* state = &self.kinds[kind]
        cdef size_t place, zone = state.placed, upto, size = self.waiting[kind].size()
        cdef int64_t tail = state.failed
        if self.blocked:
            tail = _BEHIND_HEAD
            if self.kind_of[self.blocker.job] == kind:
                zone = state.placed + 1
        elif self.promised:
            tail, zone = _OUTRANKED, max(zone, state.chosen)
        elif tail == _NO_PLACE and state.demand > world.books.totals[GPU]:
            tail = _SEVERAL
        if self.protection_ends < INFINITY:
            zone = max(zone, state.would_run)
        zone = min(zone, size)
        upto = max(zone, min(state.zone, size))
        if tail != state.tail or tail == _SEVERAL:
            upto = size
        for place in range(state.placed, upto):
            self._note(world, self.waiting[kind][place].job, self._why(world, kind, place))
        state.zone, state.tail = zone, tail

    cdef void _note(self, WorldView* world, int64_t job, Why why) noexcept nogil:
        """A job has this reason now."""
        if world.facts[job].reason != why.code:
            self.why[job] = why
            self.changed.push_back(job)

    # Until when

    cdef void _promise(self, WorldView* world, double now) noexcept nogil:
        """How long the decision holds if nothing happens while jobs wait, and when to ask again."""
        cdef double timers = INFINITY, overtaken = INFINITY, next_quantum = INFINITY, free_to_stop = INFINITY
        cdef bint waits = self.waiting_count > <int64_t> self.served.size()
        cdef int64_t job
        cdef size_t at
        for at in range(self.victims.size()):
            waits = waits or world.books.heads[self.victims[at].job] < 0
        if not waits:
            return
        self.wake_on = ON_ALL
        if self.soonest_end > -INFINITY:
            free_to_stop = self.soonest_end
        for at in range(self.running.size() if self.some_protected and self.soonest_end == -INFINITY else 0):
            job = self.running[at].job
            if self.until[job] > now and world.books.heads[job] >= 0:
                free_to_stop = min(free_to_stop, self.until[job])
        if self.resize_restarts:
            timers = free_to_stop
        if self.preemptive:
            if self.in_vain:
                overtaken = -INFINITY
            elif not self.static_priority:
                if self.order >= ATTAINED:
                    overtaken = now + self._seconds_to_level(world, now) - _INSTANT
                elif not self.durations_known:
                    overtaken = -INFINITY
            if self.some_protected:
                overtaken = min(overtaken, free_to_stop)
                timers = timers if self.takes_turns else min(timers, free_to_stop)
            if self.quantum < INFINITY and overtaken < INFINITY:
                next_quantum = now + self.quantum * max(1.0, ceil((max(overtaken, now) - now) / self.quantum))
        self.stable_until = min(overtaken, timers)
        self.next_wake = min(next_quantum, timers)

    cdef double _seconds_to_level(self, WorldView* world, double now) noexcept nogil:
        """How soon a running job has attained as much as the next waiting job, or falls to the next queue."""
        cdef double soonest = INFINITY, attained
        cdef double most_gpus = self.most_gpus * (1 + _ROUNDING)
        cdef bint in_queues = self.order == ATTAINED_QUEUES
        cdef size_t at
        self._begin_levels(world)
        if not in_queues and not self.running.empty():
            self._advance_levels(world, self.running.front().key)
            soonest = self._soonest_below(world, now)
        for at in range(self.running.size()):
            attained = self.running[at].key
            if not in_queues:
                while self.next_level < attained:
                    self._advance_levels(world, attained)
                # Not even with the most GPUs of any job would it be there sooner than another.
                if self.next_level - attained > soonest * most_gpus:
                    continue
            if world.books.heads[self.running[at].job] >= 0:
                soonest = min(soonest, self._seconds_of(world, self.running[at], now))
        sort(self.served.begin(), self.served.end())
        self._begin_levels(world)
        for at in range(self.served.size()):
            soonest = min(soonest, self._seconds_of(world, self.served[at], now))
        return soonest

    cdef double _soonest_below(self, WorldView* world, double now) noexcept nogil:
        """How soon the running job next below the first level is there: mostly none is sooner."""
        cdef Ranked level
        cdef Py_ssize_t at
        level.key, level.job = self.next_level, -1
        at = lower_bound(self.running.begin(), self.running.end(), level) - self.running.begin() - 1
        while at >= 0 and world.books.heads[self.running[at].job] < 0:
            at -= 1
        return self._seconds_of(world, self.running[at], now) if at >= 0 else INFINITY

    cdef void _begin_levels(self, WorldView* world) noexcept nogil:
        """Set the cursors to the first waiting jobs; where there are many kinds, sort all their keys instead."""
        cdef size_t at, place
        cdef int64_t kind
        self.levels.clear()
        self.next_level, self.next_victim = -INFINITY, 0
        for at in range(self.waiting_kinds.size()):
            kind = self.waiting_kinds[at]
            self.kinds[kind].cursor = self.kinds[kind].placed
            if self.waiting_kinds.size() > _FEW_KINDS:
                for place in range(self.kinds[kind].placed, self.waiting[kind].size()):
                    self.levels.push_back(self.waiting[kind][place].key)
        sort(self.levels.begin(), self.levels.end())

    cdef double _seconds_of(self, WorldView* world, Ranked one, double now) noexcept nogil:
        """How soon a job reaches the next level. Jobs are asked about in the order of their keys."""
        cdef double attained = one.key, gpus = world.facts[one.job].held
        cdef size_t place
        if not gpus > 0:
            gpus = world.asked[one.job].gpus * (world.asked[one.job].milli / <double> WHOLE)
        if not gpus > 0:
            return INFINITY
        if self.order == ATTAINED_QUEUES:
            attained = service_of(&world.facts[one.job], now)
            place = upper_bound(self.queues.begin(), self.queues.end(), attained) - self.queues.begin()
            return (self.queues[place] - attained) / gpus if place < self.queues.size() else INFINITY
        while self.next_level < attained:
            self._advance_levels(world, attained)
        return (self.next_level - attained) / gpus

    cdef void _advance_levels(self, WorldView* world, double attained) noexcept nogil:
        """Find the least key of a waiting job that is not below this."""
        cdef double level = INFINITY
        cdef size_t at
        cdef KindState* state
        cdef vector[Ranked]* queue
        while self.next_victim < self.victims.size() and (
            self.victims[self.next_victim].key < attained
            or world.books.heads[self.victims[self.next_victim].job] >= 0
        ):
            self.next_victim += 1
        if self.next_victim < self.victims.size():
            level = self.victims[self.next_victim].key
        if self.waiting_kinds.size() > _FEW_KINDS:
            at = lower_bound(self.levels.begin(), self.levels.end(), attained) - self.levels.begin()
            self.next_level = min(level, self.levels[at]) if at < self.levels.size() else level
            return
        for at in range(self.waiting_kinds.size()):
            state, queue = &self.kinds[self.waiting_kinds[at]], &self.waiting[self.waiting_kinds[at]]
            while state.cursor < queue.size() and queue.at(state.cursor).key < attained:
                state.cursor += 1
            if state.cursor < queue.size():
                level = min(level, queue.at(state.cursor).key)
        self.next_level = level
