"""Slurm's two loops on one state of a cluster: which jobs start, where, and what is planned for the others.

The main loop starts jobs in order and stops at the first that does not fit. The backfill loop gives each job, in order,
a start now or a reservation of whole nodes, in a table of time slots that begins empty. `docs/explanation/slurm.md`
states the rules. All times are whole seconds. Amounts are those of the ledger, by node and resource.
"""

from libc.stdint cimport int64_t, uint8_t
from libcpp.algorithm cimport sort
from libcpp.vector cimport vector

from muster.cluster.arrays cimport Bools, Ints, bools, ints

import numpy as np

cdef int64_t _WINDOW = 30  # seconds of the first group of ends that are lifted together

NOT_PLANNED, PLANNED, STARTED = 0, 1, 2


cdef struct Holder:
    int64_t end  # by its limit
    int64_t order
    size_t first  # of its rows
    size_t last


cdef bint _ends_before(const Holder& one, const Holder& other) noexcept nogil:
    return one.order < other.order if one.end == other.end else one.end < other.end


cdef struct Slot:
    int64_t begin
    int64_t end


cdef struct Consecutive:
    int64_t first
    int64_t count
    int64_t weight


cdef class SlurmCycle:
    """What both loops know: free amounts, the jobs that run and when their limits end, nodes that complete a job.

    `free` is an array nodes x resources. Nodes in `completing` have given back what they held, but cannot be used yet:
    main passes over them, and what backfill would start there waits a second. A running job whose limit has passed is
    taken to end `kill_wait` seconds from now. Nodes of a lower weight are taken first; without `weights` all are alike.
    """

    cdef int64_t _nodes, _resources, _kill_wait, _now, _latest
    cdef Ints _free, _weight
    cdef Bools _completing
    cdef object _kept
    cdef vector[Holder] _running
    cdef vector[int64_t] _row_node, _row_amount, _lifted, _chosen
    cdef vector[uint8_t] _usable, _candidates
    cdef vector[Slot] _slots
    cdef vector[vector[uint8_t]] _available  # nodes of each slot
    cdef vector[Consecutive] _runs

    def __init__(self, free, completing, int64_t kill_wait, weights=None):
        kept = np.ascontiguousarray(free, np.int64).copy()
        self._nodes, self._resources = kept.shape
        flat = kept.reshape(-1)
        if weights is None:
            weights = np.zeros(self._nodes, np.int64)
        self._kept = flat, completing, weights
        self._free, self._completing, self._weight = ints(flat), bools(completing), ints(weights)
        self._kill_wait = kill_wait
        self._usable.resize(self._nodes)
        self._candidates.resize(self._nodes)

    def add_running(self, ends, orders, first, nodes, amounts):
        """Jobs that run: when their limits end, their place in the order of submission, and their rows.

        The rows of the job at `i` are those from `first[i]` to `first[i + 1]`: a node and its amounts each.
        """
        cdef Ints end = ints(ends), order = ints(orders), start = ints(first), node = ints(nodes)
        cdef Ints amount = ints(amounts.reshape(-1))
        cdef Holder one
        cdef Py_ssize_t at
        cdef size_t base = self._row_node.size()
        for at in range(node.size):
            self._row_node.push_back(node.at[at])
        for at in range(amount.size):
            self._row_amount.push_back(amount.at[at])
        for at in range(end.size):
            one.end, one.order = end.at[at], order.at[at]
            one.first, one.last = base + start.at[at], base + start.at[at + 1]
            self._running.push_back(one)
        sort(self._running.begin(), self._running.end(), &_ends_before)

    def main(self, wanted, needs, allowed):
        """The nodes of each job that the main loop starts: the first jobs, up to one that does not fit."""
        cdef Ints nodes = ints(wanted), need = ints(needs.reshape(-1))
        cdef Bools may_use = bools(allowed.reshape(-1))
        cdef Py_ssize_t at
        started = []
        for at in range(nodes.size):
            self._begin_with(may_use.at + at * self._nodes, True)
            if not self._choose(self._free.at, need.at + at * self._resources, nodes.at[at]):
                break
            self._take(need.at + at * self._resources)
            started.append(self._chosen_nodes())
        return started

    def fit(self, free, usable, need, int64_t wanted):
        """The nodes that a job would choose with so much free, among the usable ones; None if it does not fit."""
        cdef Ints amounts = ints(free.reshape(-1)), needed = ints(need)
        self._begin_with(bools(usable).at, False)
        return self._chosen_nodes() if self._choose(amounts.at, needed.at, wanted) else None

    def begin_backfill(self, int64_t now, int64_t window):
        """A backfill cycle begins, without reservations."""
        cdef Slot whole
        self._now, self._latest = now, now + window
        self._slots.clear()
        self._available.clear()
        whole.begin, whole.end = now, now + window
        self._slots.push_back(whole)
        self._available.push_back(vector[uint8_t](self._nodes, 1))

    def usable_now(self, allowed, int64_t limit):
        """The allowed nodes that no reservation has within the limit of a job that starts now."""
        self._begin_with(bools(allowed).at, True)
        self._narrow(self._now, self._now + limit)
        usable = np.empty(self._nodes, np.bool_)
        cdef int64_t node
        for node in range(self._nodes):
            usable[node] = self._candidates[node]
        return usable

    def end_running(self, jobs):
        """Running jobs, by their places in the order of submission, have given back what they held."""
        cdef Ints ended = ints(jobs)
        cdef Py_ssize_t at
        cdef size_t holder
        for at in range(ended.size):
            holder = 0
            while self._running[holder].order != ended.at[at]:
                holder += 1
            self._give_back(self._free.at, holder)
            self._running.erase(self._running.begin() + holder)

    def note_completing(self, completing):
        """Which nodes complete a job now that jobs were stopped for another one."""
        self._kept[1][:] = completing

    def start_after_preemption(self, nodes, int64_t order, need, int64_t limit, int64_t resolution, bint starts):
        """A job that others have made room for: its nodes are reserved as a whole, and it runs if it starts at once."""
        cdef Ints places = ints(nodes), needed = ints(need)
        self._chosen.assign(places.at, places.at + places.size)
        if starts:
            self._take(needed.at)
            self._hold(self._now + limit, order, needed.at)
        self._reserve(self._now // resolution * resolution, (self._now + limit) // resolution * resolution)

    def backfill(self, orders, wanted, needs, limits, allowed, int64_t resolution):
        """For each job in order: its outcome, its planned start and its nodes, after those of the cycle before them.

        `orders` are the jobs' places in the order of submission.
        """
        cdef Ints order = ints(orders), nodes = ints(wanted), need = ints(needs.reshape(-1)), limit = ints(limits)
        cdef Bools may_use = bools(allowed.reshape(-1))
        cdef Py_ssize_t at
        cdef int64_t start, now = self._now
        outcomes, starts, places = np.zeros(nodes.size, np.int64), np.zeros(nodes.size, np.int64), []
        for at in range(nodes.size):
            start = self._plan(
                now,
                nodes.at[at],
                need.at + at * self._resources,
                limit.at[at],
                may_use.at + at * self._nodes,
                self._latest,
            )
            if start < 0:
                places.append(None)
                continue
            starts[at] = start
            outcomes[at] = STARTED if start <= now else PLANNED
            places.append(self._chosen_nodes())
            if start <= now:
                self._take(need.at + at * self._resources)
                self._hold(now + limit.at[at], order.at[at], need.at + at * self._resources)
            else:
                self._reserve(start // resolution * resolution, (start + limit.at[at]) // resolution * resolution)
        return outcomes, starts, places

    cdef object _chosen_nodes(self):
        cdef size_t at
        nodes = np.empty(self._chosen.size(), np.int64)
        for at in range(self._chosen.size()):
            nodes[at] = self._chosen[at]
        return nodes

    # Nodes

    cdef void _begin_with(self, uint8_t* may_use, bint none_completing) noexcept nogil:
        """The candidates are the nodes that a job may use."""
        cdef int64_t node
        for node in range(self._nodes):
            self._candidates[node] = may_use[node] and not (none_completing and self._completing.at[node])

    cdef bint _choose(self, int64_t* free, int64_t* need, int64_t wanted) noexcept nogil:
        """Choose so many candidates with room, by runs of neighbours of one weight.

        The lowest weight goes first; of equal ones the shortest sufficient run, else the longest.
        """
        cdef int64_t node, resource, count = 0, left = wanted, best, taken
        cdef size_t at
        cdef bint is_sufficient, best_sufficient
        cdef Consecutive run
        for node in range(self._nodes):
            self._usable[node] = self._candidates[node]
            if self._usable[node]:
                for resource in range(self._resources):
                    if free[node * self._resources + resource] < need[resource]:
                        self._usable[node] = False
                        break
            count += self._usable[node]
        self._chosen.clear()
        if count < wanted:
            return False
        self._runs.clear()
        node = 0
        while node < self._nodes:
            if not self._usable[node]:
                node += 1
                continue
            run.first, run.count, run.weight = node, 0, self._weight.at[node]
            while node < self._nodes and self._usable[node] and self._weight.at[node] == run.weight:
                run.count += 1
                node += 1
            self._runs.push_back(run)
        while left > 0:
            best, best_sufficient = -1, False
            for at in range(self._runs.size()):
                if not self._runs[at].count:
                    continue
                is_sufficient = self._runs[at].count >= left
                if best >= 0 and self._runs[at].weight > self._runs[best].weight:
                    continue
                if (
                    best < 0
                    or self._runs[at].weight < self._runs[best].weight
                    or (is_sufficient and (not best_sufficient or self._runs[at].count < self._runs[best].count))
                    or (not is_sufficient and self._runs[at].count > self._runs[best].count)
                ):
                    best, best_sufficient = at, is_sufficient
            taken = min(left, self._runs[best].count)
            for node in range(self._runs[best].first, self._runs[best].first + taken):
                self._chosen.push_back(node)
            self._runs[best].count = 0
            left -= taken
        sort(self._chosen.begin(), self._chosen.end())
        return True

    cdef void _take(self, int64_t* need) noexcept nogil:
        """A job starts on the chosen nodes."""
        cdef size_t at
        cdef int64_t resource
        for at in range(self._chosen.size()):
            for resource in range(self._resources):
                self._free.at[self._chosen[at] * self._resources + resource] -= need[resource]

    cdef void _hold(self, int64_t end, int64_t order, int64_t* need) noexcept nogil:
        """A job that has just started runs on the chosen nodes."""
        cdef Holder one
        cdef size_t at = self._running.size()
        cdef int64_t resource
        one.end, one.order, one.first = end, order, self._row_node.size()
        for node in self._chosen:
            self._row_node.push_back(node)
            for resource in range(self._resources):
                self._row_amount.push_back(need[resource])
        one.last = self._row_node.size()
        self._running.push_back(one)
        while at > 0 and _ends_before(one, self._running[at - 1]):
            self._running[at] = self._running[at - 1]
            at -= 1
        self._running[at] = one

    # When a job could start

    cdef int64_t _first_start(self, int64_t now, int64_t wanted, int64_t* need) noexcept nogil:
        """When a job would find room on the candidates, and which it would choose; -1: never.

        Running jobs are lifted in the order of their ends, those of one window together; windows begin at a multiple
        of 30 s and double. A job that holds no candidate is skipped without a look at the window.
        """
        cdef int64_t base = 0, window = _WINDOW, last
        cdef size_t at = 0, row, count = self._running.size()
        cdef bint touches
        if self._choose(self._free.at, need, wanted):
            return now
        self._lifted.assign(self._free.at, self._free.at + self._nodes * self._resources)
        while at < count:
            last = -1
            while at < count:
                touches = False
                for row in range(self._running[at].first, self._running[at].last):
                    if self._candidates[self._row_node[row]]:
                        touches = True
                        break
                if touches:
                    last = self._running[at].end
                    if not base:
                        base = last + _WINDOW - last % _WINDOW
                    self._give_back(self._lifted.data(), at)
                at += 1
                if touches and at < count and self._running[at].end > base + window:
                    break
            if last < 0:
                return -1
            window *= 2
            while at < count and self._running[at].end > base + window:
                window *= 2
            if self._choose(self._lifted.data(), need, wanted):
                return last if last > now else now + self._kill_wait
        return -1

    cdef void _give_back(self, int64_t* free, size_t holder) noexcept nogil:
        """What a running job holds is free."""
        cdef size_t row
        cdef int64_t resource
        for row in range(self._running[holder].first, self._running[holder].last):
            for resource in range(self._resources):
                free[self._row_node[row] * self._resources + resource] += self._row_amount[
                    row * self._resources + resource
                ]

    cdef int64_t _plan(
        self, int64_t now, int64_t wanted, int64_t* need, int64_t limit, uint8_t* may_use, int64_t latest
    ) noexcept nogil:
        """When a job starts or is planned to, and its nodes in `_chosen`; -1: neither."""
        cdef int64_t candidate = now, later, start, node, count
        cdef size_t at
        while True:
            self._begin_with(may_use, False)
            later = self._narrow(candidate, candidate + limit)
            count = 0
            for node in range(self._nodes):
                count += self._candidates[node]
            start = self._first_start(now, wanted, need) if count >= wanted else -1
            if start < 0:
                if later < 0:
                    return -1
                candidate = later
                continue
            start = max(start, candidate)
            if start <= now and self._some_completing():
                start, later = now + 1, -1
            if start <= now:
                return start
            if 0 <= later < start:
                candidate = later
                continue
            if start > latest:
                return -1
            if not self._overlaps(start, start + limit):
                return start
            candidate = start

    cdef int64_t _narrow(self, int64_t begin, int64_t end) noexcept nogil:
        """Keep the candidates that no reservation from begin to end includes has; the next boundary worth a try, or -1.

        That is the first one at which nodes appear that the slot before it has not.
        """
        cdef int64_t later = -1, node
        cdef size_t at
        for at in range(self._slots.size()):
            if self._slots[at].end <= begin:
                continue
            if later < 0 and at + 1 < self._slots.size():
                for node in range(self._nodes):
                    if self._available[at + 1][node] and not self._available[at][node]:
                        later = self._slots[at].end
                        break
            if self._slots[at].begin > end:
                break
            for node in range(self._nodes):
                self._candidates[node] &= self._available[at][node]
        return later

    cdef bint _some_completing(self) noexcept nogil:
        """Whether a chosen node completes a job."""
        for node in self._chosen:
            if self._completing.at[node]:
                return True
        return False

    cdef bint _overlaps(self, int64_t begin, int64_t end) noexcept nogil:
        """Whether a reservation has a chosen node at some time."""
        cdef size_t at
        for at in range(self._slots.size()):
            if self._slots[at].begin < end and self._slots[at].end > begin:
                for node in self._chosen:
                    if not self._available[at][node]:
                        return True
        return False

    cdef void _reserve(self, int64_t begin, int64_t end) noexcept nogil:
        """Take the chosen nodes out of the slots from begin to end; slots of equal nodes become one."""
        cdef size_t at = 0
        self._split(begin)
        self._split(end)
        for at in range(self._slots.size()):
            if self._slots[at].begin >= begin and self._slots[at].end <= end:
                for node in self._chosen:
                    self._available[at][node] = False
        at = 0
        while at + 1 < self._slots.size():
            if self._available[at] == self._available[at + 1]:
                self._slots[at].end = self._slots[at + 1].end
                self._slots.erase(self._slots.begin() + at + 1)
                self._available.erase(self._available.begin() + at + 1)
            else:
                at += 1

    cdef void _split(self, int64_t moment) noexcept nogil:
        """Let a slot begin at this moment, if the table reaches it."""
        cdef Slot rest
        cdef vector[uint8_t] nodes
        cdef size_t at
        for at in range(self._slots.size()):
            if self._slots[at].begin < moment < self._slots[at].end:
                rest.begin, rest.end = moment, self._slots[at].end
                self._slots[at].end = moment
                nodes = self._available[at]
                self._slots.insert(self._slots.begin() + at + 1, rest)
                self._available.insert(self._available.begin() + at + 1, nodes)
                return
