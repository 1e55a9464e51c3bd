"""The compiled form of a composed scheduler with quotas, a bound on waiting or jobs that may not use all nodes.

It looks at all jobs in each decision. Under a quota a job's rank goes by what its tenant's jobs before it demand, and
a promoted job goes before all others: the jobs of a kind that start are not the first of its queue. Jobs that may use
some nodes only are counted there (`rooms`), and running ones of a kind where they are. The queues of
`CompiledScheduler` only keep the waiting jobs and their keys here. It decides as `Composed` does with
`IndependentAllocator`.
"""

from libc.math cimport INFINITY
from libcpp.algorithm cimport lower_bound, sort, stable_sort, upper_bound

from muster.cluster.arrays cimport floats
from muster.cluster.ledger_core cimport GPU, MICRO, WHOLE, copy_chain, put_chain, release_job, undo_to
from muster.schedulers.composed_core cimport ATTAINED_QUEUES, ON_ALL, ON_COMPLETION
from muster.schedulers.placement.rooms cimport (
    begin_rooms,
    count_free,
    count_where_it_is,
    enter_rooms,
    free_on,
    held_on,
    keep_rooms,
)
from muster.workload.jobs_core cimport RUNNING, WAITING, Asked, Fact, service_of

from muster.schedulers.ageing import LATE, LEAST_TURN_SECONDS
from muster.schedulers.interruption import WORK_PER_INTERRUPTION
from muster.schedulers.parts import TIMES_ADMITTED
from muster.schedulers.reasons import BEHIND_HEAD, NO_GPUS, NO_PLACE, OUTRANKED, OVER_LIMIT, PLACED, PROTECTED

cdef int64_t _BEHIND_HEAD = BEHIND_HEAD
cdef int64_t _NO_GPUS = NO_GPUS
cdef int64_t _NO_PLACE = NO_PLACE
cdef int64_t _OUTRANKED = OUTRANKED
cdef int64_t _OVER_LIMIT = OVER_LIMIT
cdef int64_t _PLACED = PLACED
cdef int64_t _PROTECTED = PROTECTED
cdef double _LATE = LATE
cdef double _LEAST_TURN_SECONDS = LEAST_TURN_SECONDS
cdef double _WORK_PER_INTERRUPTION = WORK_PER_INTERRUPTION
cdef int64_t _TIMES_ADMITTED = TIMES_ADMITTED
cdef double _FOREVER = 1.7976931348623157e308  # less than infinity alone


cdef double _requested(Asked* asked) noexcept nogil:
    """GPUs that a job asks for, a share of one below 1."""
    return asked.gpus * (asked.milli / <double> WHOLE)


cdef class WholeQueueScheduler(CompiledScheduler):
    """One scheduler and its queues; `quota` are limits, guarantees and weights by tenant, or None."""

    def __init__(self, settings, kind_of, demands, needs, node_allowed, queues, quota):
        super().__init__(settings, kind_of, demands, needs, node_allowed, queues)
        self._has_quota, self._weighted = quota is not None, settings["weighted"]
        if quota is not None:
            self._kept = self._kept, quota
            self._limits, self._guaranteed, self._weights = floats(quota[0]), floats(quota[1]), floats(quota[2])
        self._promote_after, self._promote_for_good = settings["promote_after"], settings["promote_for_good"]
        self._is_urgent.resize(kind_of.shape[0])
        self._ran.resize(kind_of.shape[0])
        self._would_run.resize(kind_of.shape[0])
        self._is_passed.resize(kind_of.shape[0])
        begin_rooms(&self._rooms, self.node_allowed, node_allowed.shape[0], node_allowed.shape[1], 1)

    cdef void take_over(self, WorldView* world, double now) noexcept nogil:
        """The jobs that wait and run, after the steps of a decision were made true."""
        cdef size_t at, place, left, kinds_left = 0
        cdef int64_t kind
        cdef vector[Ranked]* queue
        for at in range(self.waiting_kinds.size()):
            kind = self.waiting_kinds[at]
            queue = &self.waiting[kind]
            left = 0
            for place in range(queue.size()):
                if world.books.heads[queue.at(place).job] >= 0:
                    self.add_running(queue.at(place).job)
                    self.waiting_count -= 1
                    self.waiting_demand -= self.kinds[kind].demand
                else:
                    self.waiting[kind][left] = self.waiting[kind][place]
                    left += 1
            queue.resize(left)
            self.is_waiting_kind[kind] = left > 0
            if left > 0:
                self.waiting_kinds[kinds_left] = kind
                kinds_left += 1
        self.waiting_kinds.resize(kinds_left)
        self.forget_stopped(world, 0, now)

    # One decision

    cdef void decide(self, WorldView* world, double now) noexcept nogil:
        """Write the steps into the ledger and the reasons that change into `why`, and when to ask again."""
        cdef vector[int64_t] by_rank
        cdef size_t at, place
        cdef int64_t begun = world.books.entries[0], times
        self.stable_until = self.next_wake = INFINITY
        self.wake_on = ON_ALL & ~ON_COMPLETION
        self.protection_ends = INFINITY
        self.served.clear()
        self.victims.clear()
        self.changed.clear()
        self.fresh.clear()
        if not self.waiting_count:
            return
        if self.running_count < <int64_t> self.running.size():
            self.forget_stopped(world, 0, now)
        for at in range(self.running.size()):
            self._note_pace(world, self.running[at].job)
        self._by_key.clear()
        for at in range(self.waiting_kinds.size()):
            for place in range(self.waiting[self.waiting_kinds[at]].size()):
                self._by_key.push_back(self.waiting[self.waiting_kinds[at]][place])
        if self.preemptive:
            self._rank_running(now)
            self._by_key.insert(self._by_key.end(), self.running.begin(), self.running.end())
        sort(self._by_key.begin(), self._by_key.end())
        self._promote(world, now)
        self._order.clear()
        for at in range(self._by_key.size()):
            self._order.push_back(self._by_key[at].job)
        self._put_promoted_first(world)
        for at in range(self.running.size()):
            self._set_reason(self.running[at].job, _PLACED)
            self._ran[self.running[at].job] = True
        by_rank = self._order
        for times in range(_TIMES_ADMITTED):
            self._serve_admitted(world, now)
            if times + 1 == _TIMES_ADMITTED or not self._pass_counted_in_vain(world):
                break
            undo_to(world.books, begun)
            self._order.clear()
            for at in range(by_rank.size()):
                if not self._is_passed[by_rank[at]]:
                    self._order.push_back(by_rank[at])
                    self._set_reason(by_rank[at], _PLACED)
        self.in_vain = False
        for at in range(self._by_key.size()):
            self.in_vain = self.in_vain or self.why[self._by_key[at].job].code == _NO_PLACE
        self._note_all(world)
        self._promise(world, now)
        self._promise_turns(world, now)
        for at in range(self.running.size()):
            self._ran[self.running[at].job] = False
            self.stopped[self.running[at].job] = -1
        for at in range(by_rank.size()):
            self._is_passed[by_rank[at]] = False

    cdef void _serve_admitted(self, WorldView* world, double now) noexcept nogil:
        """Admit, choose and place (`Composed._serve_admitted`)."""
        cdef size_t at
        cdef bint unplaced = False
        if self._has_quota:
            self._admit(world, now)
        self._mark = world.books.entries[0]
        for at in range(self._order.size()):
            self.chosen[self._order[at]] = True
        if self.preemptive:
            self._find_unprotected(world, now)
            self._choose(world, now)
        self._serve_in_order(world, self._order)
        for at in range(self._order.size()):
            unplaced = unplaced or self._is_unplaced(self._order[at])
        if unplaced and not world.books.delayed[0]:
            self._make_room(world, now)
        elif self.protection_ends < INFINITY:
            self._name_protected(world)

    cdef void _set_reason(self, int64_t job, int64_t code) noexcept nogil:
        self.why[job].code, self.why[job].a, self.why[job].b = code, 0.0, 0.0

    cdef bint _is_unplaced(self, int64_t job) noexcept nogil:
        """Whether a promoted job has no place."""
        return self._is_urgent[job] and self.why[job].code != _PLACED

    # Jobs that have waited too long (`ageing`)

    cdef void _promote(self, WorldView* world, double now) noexcept nogil:
        """Find the jobs that go first: the promoted ones that have not had their turn; the overdue ones join them."""
        cdef vector[int64_t] kept
        cdef size_t at
        cdef int64_t job
        cdef Fact* fact
        self._some_newly = False
        for at in range(self._promoted.size()):
            self._is_urgent[self._promoted[at]] = False
        if self._promote_after == INFINITY:
            return
        for at in range(self._promoted.size()):
            job = self._promoted[at]
            fact = &world.facts[job]
            if self._promote_for_good or fact.state == WAITING or (fact.state == RUNNING and _turn_end(fact) > now):
                kept.push_back(job)
                self._is_urgent[job] = True
        for at in range(self._by_key.size()):
            job = self._by_key[at].job
            fact = &world.facts[job]
            if fact.state == WAITING and now - fact.last_stop > self._promote_after and not self._is_urgent[job]:
                kept.push_back(job)
                self._some_newly = True
        sort(kept.begin(), kept.end())
        self._promoted.swap(kept)

    cdef void _put_promoted_first(self, WorldView* world) noexcept nogil:
        """Move the promoted jobs to the front of the order; those that are not promoted for good by when they ran."""
        cdef vector[int64_t] others
        cdef vector[Ranked] first
        cdef Ranked one
        cdef size_t at
        for at in range(self._order.size()):
            one.job = self._order[at]
            if self._is_urgent[one.job]:
                one.key = <double> at if self._promote_for_good else world.facts[one.job].last_stop
                first.push_back(one)
            else:
                others.push_back(one.job)
        sort(first.begin(), first.end())
        self._order.clear()
        for at in range(first.size()):
            self._order.push_back(first[at].job)
            if self._promote_for_good:  # It goes first, but no job makes room for it.
                self._is_urgent[first[at].job] = False
        self._order.insert(self._order.end(), others.begin(), others.end())

    cdef void _make_room(self, WorldView* world, double now) noexcept nogil:
        """Serve the first promoted job that has no place before all others that wait (`Composed._make_room`)."""
        cdef vector[int64_t] kept, behind, victims
        cdef vector[uint8_t] chosen
        cdef size_t at, count, fewest
        cdef int64_t job, first = -1
        cdef int64_t room, needed
        cdef uint8_t* allowed
        cdef bint last = False
        undo_to(world.books, self._mark)
        for at in range(self._order.size()):
            job = self._order[at]
            if first >= 0 and not self._ran[job]:
                behind.push_back(job)
                continue
            kept.push_back(job)
            if first < 0 and self._is_unplaced(job):
                first = job
        allowed = self.node_allowed + world.asked[first].constraint * world.books.node_count
        for at in range(self._order.size(), 0, -1):
            job = self._order[at - 1]
            if self._ran[job] and self.until[job] <= now and not self._is_urgent[job]:
                if held_on(world.books, allowed, job) >= 0:
                    victims.push_back(job)
        for at in range(self._order.size()):
            chosen.push_back(self.chosen[self._order[at]])
        room, needed = free_on(world.books, allowed), self.kinds[self.kind_of[first]].demand
        fewest = 0
        while fewest < victims.size():
            room += held_on(world.books, allowed, victims[fewest])
            fewest += 1
            if room >= needed:
                break
        else:
            fewest = victims.size() + 1
        count = 0
        while True:
            undo_to(world.books, self._mark)
            for at in range(self._order.size()):
                job = self._order[at]
                self._set_reason(job, _PLACED)
                self.chosen[job] = chosen[at] or self._ran[job]
            for at in range(count):
                self.chosen[victims[at]] = False
            self.chosen[first] = self.chosen[first] or count > 0
            self._serve_in_order(world, kept)
            if self.why[first].code == _PLACED or last:
                break
            if fewest <= victims.size():
                count = fewest
                fewest = min(2 * fewest, victims.size()) if fewest < victims.size() else fewest + 1
            else:
                count, last = 0, True
        for at in range(behind.size()):
            self._set_reason(behind[at], _BEHIND_HEAD)

    cdef void _promise_turns(self, WorldView* world, double now) noexcept nogil:
        """Ask again when a waiting job has waited too long, when a turn is over, at once for those newly promoted."""
        cdef double soonest = INFINITY, due
        cdef bint begins = False
        cdef size_t at
        cdef int64_t job
        if self._promote_after == INFINITY:
            return
        for at in range(self._by_key.size()):
            job = self._by_key[at].job
            if world.books.heads[job] < 0:
                due = world.facts[job].last_stop + self._promote_after + _LATE
                soonest = min(soonest, due if due > now else INFINITY)
            elif self._is_urgent[job] and not self._ran[job]:
                begins = True
        if not self._promote_for_good:
            for at in range(self._promoted.size()):
                due = _turn_end(&world.facts[self._promoted[at]])
                soonest = min(soonest, due if due > now else INFINITY)
        self.stable_until, self.next_wake = min(self.stable_until, soonest), min(self.next_wake, soonest)
        if self._some_newly or begins:
            # They go first, and others are served beside those that begin, from the next decision on.
            self.stable_until, self.next_wake = -INFINITY, now

    # Quotas (`admission.quota`)

    cdef void _admit(self, WorldView* world, double now) noexcept nogil:
        """Put the jobs within guarantees before borrowers, and take away what tenants would have over their limits."""
        cdef vector[double] used = vector[double](self._limits.size), by_fixed
        cdef vector[int64_t] fixed
        cdef vector[Ranked] admitted
        cdef Ranked one
        cdef size_t at
        cdef int64_t job, tenant
        cdef double demand, total
        self._excluded.clear()
        for at in range(self.running.size()):
            job = self.running[at].job
            if not self.preemptive or self.until[job] > now:
                fixed.push_back(job)
        sort(fixed.begin(), fixed.end())
        for at in range(fixed.size()):
            used[world.asked[fixed[at]].tenant] += world.facts[fixed[at]].held
        by_fixed = used
        for at in range(self._order.size()):
            job = self._order[at]
            tenant = world.asked[job].tenant
            if self._ran[job] and self.until[job] > now:
                one.key, one.job = 0.0 if by_fixed[tenant] <= self._guaranteed.at[tenant] else 1.0, job
                admitted.push_back(one)
                continue
            demand = self._demand(world, job)
            total = used[tenant] + demand
            if total > self._limits.at[tenant]:
                self._excluded.push_back(job)
                self.why[job].code, self.why[job].a, self.why[job].b = _OVER_LIMIT, self._limits.at[tenant], demand
                continue
            used[tenant] = total
            one.key, one.job = 0.0, job
            if total > self._guaranteed.at[tenant]:
                one.key = 1.0 + total / self._weights.at[tenant] if self._weighted else 1.0
            admitted.push_back(one)
        stable_sort(admitted.begin(), admitted.end(), _before_by_key)
        self._order.clear()
        for at in range(admitted.size()):
            self._order.push_back(admitted[at].job)
        for at in range(self._excluded.size()):
            release_job(world.books, self._excluded[at])

    cdef double _demand(self, WorldView* world, int64_t job) noexcept nogil:
        """GPUs that a job held when the decision began, or asks for."""
        return world.facts[job].held if self._ran[job] else _requested(&world.asked[job])

    cdef bint _pass_counted_in_vain(self, WorldView* world) noexcept nogil:
        """Pass the waiting jobs without a place whose tenants could hold another job's GPUs; whether there are such.

        See `Composed._counted_in_vain` and `Quota`.
        """
        cdef vector[double] held = vector[double](self._limits.size)
        cdef vector[bint] blocks = vector[bint](self._limits.size)
        cdef vector[int64_t] placed
        cdef size_t at
        cdef int64_t job, tenant
        cdef double demand
        cdef bint some = False
        if not self._has_quota or self.strict or world.books.delayed[0]:
            return False
        for at in range(self.running.size()):
            if world.books.heads[self.running[at].job] >= 0:
                placed.push_back(self.running[at].job)
        for at in range(self._order.size()):
            if self._is_unplaced(self._order[at]):
                return False
            if not self._ran[self._order[at]] and world.books.heads[self._order[at]] >= 0:
                placed.push_back(self._order[at])
        sort(placed.begin(), placed.end())
        for at in range(placed.size()):
            held[world.asked[placed[at]].tenant] += self._demand(world, placed[at])
        for at in range(self._excluded.size()):
            job, tenant = self._excluded[at], world.asked[self._excluded[at]].tenant
            demand = self._demand(world, job)
            if demand * MICRO <= world.books.totals[GPU] and held[tenant] + demand <= self._limits.at[tenant]:
                blocks[tenant] = True
        for at in range(self._order.size()):
            job = self._order[at]
            if blocks[world.asked[job].tenant] and not self._ran[job] and world.books.heads[job] < 0:
                self._is_passed[job] = some = True
        return some

    # Serving

    cdef void _choose(self, WorldView* world, double pinned_after) noexcept nogil:
        """Choose the jobs to serve by GPU count: in order, each that fits in what is left (Synergy, "Rounds")."""
        cdef int64_t job, need
        cdef size_t at
        cdef bint fits
        count_free(&self._rooms, world.books, 0)
        for at in range(self._order.size()):
            job = self._order[at]
            self.chosen[job] = self._ran[job] and self.some_protected and self.until[job] > pinned_after
            if self._ran[job] and not self.chosen[job]:
                count_where_it_is(&self._rooms, world.books, job, &self.kinds[self.kind_of[job]].demand, 1)
        for at in range(self._order.size()):
            job = self._order[at]
            if self.chosen[job]:
                continue
            need = self.kinds[self.kind_of[job]].demand
            if self._ran[job]:
                fits = keep_rooms(&self._rooms, world.books, job, &need)
            else:
                fits = enter_rooms(&self._rooms, world.asked[job].constraint, &need)
            self.chosen[job] = fits
            if self.strict and not fits:
                return

    cdef void _serve_in_order(self, WorldView* world, vector[int64_t]& order) noexcept nogil:
        """Stop the running jobs that are not chosen, then place the chosen ones in order, then those that still fit."""
        cdef int64_t turn, job
        cdef size_t at
        cdef bint releasing
        self.blocked = False
        for at in range(order.size()):
            job = order[at]
            self.stopped[job] = -1
            if world.books.heads[job] >= 0:
                self._set_reason(job, _PLACED)
                if not self.chosen[job]:
                    self.stopped[job] = world.books.heads[job]
                    release_job(world.books, job)
        # What is still releasing was promised to a chosen job: others may not take the rest of its GPUs meanwhile.
        releasing = self._releasing(world) > 0
        for turn in range(2):
            for at in range(order.size()):
                job = order[at]
                if world.books.heads[job] < 0 and self.chosen[job] == (turn == 0):
                    self._serve_job(world, job, turn, releasing)

    cdef void _serve_job(self, WorldView* world, int64_t job, int64_t turn, bint releasing) noexcept nogil:
        """Give a job its place back, or another one, or note why it has none."""
        cdef bint promised = releasing and turn == 1
        cdef int64_t kind = self.kind_of[job], stopped = self.stopped[job], lacks
        if not promised and stopped >= 0 and put_chain(world.books, job, copy_chain(world.books, stopped)) == 0:
            self._set_reason(job, _PLACED)
            return
        if self.blocked:
            self._set_reason(job, _BEHIND_HEAD)
            return
        if promised or self.kinds[kind].demand > world.books.totals[GPU]:
            lacks = _OUTRANKED if promised or stopped >= 0 else _NO_GPUS
        elif self._place(world, job, kind):
            self._set_reason(job, _PLACED)
            return
        else:
            lacks = _NO_PLACE
        self.why[job] = self._lack(world, job, lacks, world.books.totals[GPU])
        self.blocked = self.strict

    # Reasons and promises

    cdef void _find_unprotected(self, WorldView* world, double now) noexcept nogil:
        """Find the jobs that would be chosen if all running jobs could be interrupted now that can be later."""
        cdef double soonest = INFINITY
        cdef size_t at
        for at in range(self.running.size() if self.some_protected else 0):
            if self.until[self.running[at].job] > now:
                soonest = min(soonest, self.until[self.running[at].job])
        self.protection_ends = max(soonest - now, 0.0)
        if soonest == INFINITY:
            return
        self._choose(world, _FOREVER)
        for at in range(self._order.size()):
            self._would_run[self._order[at]] = self.chosen[self._order[at]]

    cdef void _name_protected(self, WorldView* world) noexcept nogil:
        """Mark the jobs that wait only because running jobs may not be interrupted yet."""
        cdef size_t at
        cdef int64_t job
        for at in range(self._order.size()):
            job = self._order[at]
            if self._would_run[job]:
                self.why[job] = self._protected(world, job, self.why[job])

    cdef void _note_all(self, WorldView* world) noexcept nogil:
        """List the jobs that start, those that were stopped or moved, and those whose reason changes."""
        cdef size_t at
        cdef Ranked one
        for at in range(self._by_key.size()):
            one = self._by_key[at]
            self._note(world, one.job, self.why[one.job])
            if self._ran[one.job]:
                if self.stopped[one.job] >= 0 or world.books.heads[one.job] < 0:
                    self.victims.push_back(one)
            elif world.books.heads[one.job] >= 0:
                self.served.push_back(one)

    cdef double _seconds_to_level(self, WorldView* world, double now) noexcept nogil:
        """How soon a running job has attained as much as the next waiting job, or falls to the next queue."""
        cdef bint falls = self.order == ATTAINED_QUEUES
        cdef vector[double]* levels = &self.queues if falls else &self.levels
        cdef vector[double].iterator following
        cdef double attained, gpus, soonest = INFINITY
        cdef size_t at
        cdef int64_t job
        self.levels.clear()
        for at in range(self._by_key.size()):
            if world.books.heads[self._by_key[at].job] < 0:
                self.levels.push_back(self._by_key[at].key)
        for at in range(self._by_key.size()):
            job = self._by_key[at].job
            if world.books.heads[job] < 0:
                continue
            if falls:
                attained = service_of(&world.facts[job], now)
                following = upper_bound(levels.begin(), levels.end(), attained)
            else:
                attained = self._by_key[at].key
                following = lower_bound(levels.begin(), levels.end(), attained)
            gpus = world.facts[job].held if world.facts[job].held > 0 else _requested(&world.asked[job])
            if following != levels.end() and gpus > 0:
                soonest = min(soonest, (levels.at(following - levels.begin()) - attained) / gpus)
        return soonest


cdef bint _before_by_key(const Ranked& one, const Ranked& other) noexcept nogil:
    return one.key < other.key


cdef double _turn_end(Fact* fact) noexcept nogil:
    """When a promoted job has had its turn; inf for one that waits."""
    if fact.state != RUNNING:
        return INFINITY
    return max(fact.last_start, fact.resumes) + max(_LEAST_TURN_SECONDS, _WORK_PER_INTERRUPTION * fact.restart_cost)
