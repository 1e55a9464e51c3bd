"""What is free on each node from now on, as far as time limits and reservations say.

A node has steps: moments from which on other amounts are free. For the cluster as a whole there are marks, the moments
at which GPUs come free or are taken away, in blocks that know the extremes of their partial sums: a search for enough
GPUs skips most blocks. Times are seconds, amounts those of the ledger.
"""

from libc.math cimport INFINITY
from libcpp.algorithm cimport lower_bound

from muster.cluster.ledger_core cimport GPU

from muster.cluster.resources import RESOURCE_COUNT

cdef int64_t _RESOURCES = RESOURCE_COUNT
cdef size_t _BLOCK = 32  # marks at most


cdef bint _sooner(const Mark& one, const Mark& other) noexcept nogil:
    """By time; at one moment what comes free is first, so that a partial sum is never below the true one."""
    if one.time != other.time:
        return one.time < other.time
    if (one.gpus > 0) != (other.gpus > 0):
        return one.gpus > 0
    return one.job < other.job


cdef class Timetable:
    """The future of one cluster."""

    def __init__(self, int64_t nodes):
        self._resources = _RESOURCES
        self._steps.resize(nodes)
        self._asked.resize(nodes)
        self.reservations.resize(nodes)

    cdef void clear(self, Books* books) noexcept nogil:
        """Nothing runs and nothing is reserved; what is releasing counts as free."""
        cdef int64_t node, resource
        cdef Step step
        self._passed_until = INFINITY
        self.marks.clear()
        self._sums.clear()
        self._least.clear()
        self._most.clear()
        self._total, step.time = 0, -INFINITY
        for node in range(books.node_count):
            for resource in range(self._resources):
                step.free[resource] = 0
                if books.nodes[node].up:
                    step.free[resource] = books.nodes[node].free[resource] + books.nodes[node].releasing[resource]
            self._total += step.free[GPU]
            self._steps[node].assign(1, step)
            self.reservations[node] = 0

    cdef void give(self, Share* share) noexcept nogil:
        """A node has so much more for ever."""
        cdef int64_t resource
        for resource in range(self._resources):
            self._steps[share.node][0].free[resource] += share.amount[resource]
        self._total += share.amount[GPU]

    # Jobs

    cdef void run(self, int64_t job, vector[Share]& place, double now, double end) noexcept nogil:
        """A job holds its place from now until a moment."""
        cdef size_t at
        cdef int64_t gpus = 0
        for at in range(place.size()):
            self._change(&place[at], now, end, -1, now)
            gpus += place[at].amount[GPU]
        self._total -= gpus
        self._add_mark(end, gpus, job)

    cdef void end(self, int64_t job, vector[Share]& place, double now, double end) noexcept nogil:
        """A job that was to hold its place until a moment gives it back now."""
        cdef size_t at
        cdef int64_t gpus = 0
        for at in range(place.size()):
            self._change(&place[at], now, end, 1, now)
            gpus += place[at].amount[GPU]
        self._total += gpus
        self._drop_mark(end, gpus, job)

    cdef void reserve(self, int64_t job, vector[Share]& place, double begin, double end) noexcept nogil:
        """A place is kept free for a job."""
        cdef size_t at
        cdef int64_t gpus = 0
        for at in range(place.size()):
            self._change(&place[at], begin, end, -1, -INFINITY)
            self.reservations[place[at].node] += 1
            gpus += place[at].amount[GPU]
        self._add_mark(begin, -gpus, job)
        self._add_mark(end, gpus, job)

    cdef void cancel(self, int64_t job, vector[Share]& place, double begin, double end) noexcept nogil:
        """A reservation is no more."""
        cdef size_t at
        cdef int64_t gpus = 0
        for at in range(place.size()):
            self._change(&place[at], begin, end, 1, -INFINITY)
            self.reservations[place[at].node] -= 1
            gpus += place[at].amount[GPU]
        self._drop_mark(begin, -gpus, job)
        self._drop_mark(end, gpus, job)

    # Nodes

    cdef bint holds(self, vector[Share]& place, double begin, double end) noexcept nogil:
        """Whether a place is free from begin to end."""
        cdef int64_t free[SLOTS]
        cdef int64_t resource
        cdef size_t at
        for at in range(place.size()):
            self.least(place[at].node, begin, end, free)
            for resource in range(self._resources):
                if free[resource] < place[at].amount[resource]:
                    return False
        return True

    cdef void least(self, int64_t node, double begin, double end, int64_t* free) noexcept nogil:
        """The least that is free on a node at any moment from begin to end, by resource."""
        cdef int64_t resource, at, count
        cdef Step* steps = self.steps_from(node, begin, &count)
        for resource in range(self._resources):
            free[resource] = steps[0].free[resource]
        for at in range(1, count):
            if steps[at].time >= end:
                return
            for resource in range(self._resources):
                free[resource] = min(free[resource], steps[at].free[resource])

    cdef Step* steps_from(self, int64_t node, double begin, int64_t* count) noexcept nogil:
        """The step of a node that holds at a moment, and those after it.

        A search asks a node for later and later moments: it goes on from the step of the last question, with wider
        and wider strides.
        """
        cdef vector[Step]* steps = &self._steps[node]
        cdef size_t low = self._asked[node], high, middle, stride = 1
        if low >= steps.size() or steps.at(low).time > begin:
            low = 0
        high = low + 1
        while high < steps.size() and steps.at(high).time <= begin:
            low = high
            high += stride
            stride *= 2
        high = min(high, steps.size())
        while high - low > 1:
            middle = (low + high) // 2
            if steps.at(middle).time <= begin:
                low = middle
            else:
                high = middle
        self._asked[node] = low
        count[0] = <int64_t> (self._steps[node].size() - low)
        return self._steps[node].data() + low

    cdef void _change(self, Share* share, double begin, double end, int64_t sign, double now) noexcept nogil:
        """Add a share to what is free from begin to end, or take it away; steps that are over by now are dropped."""
        cdef vector[Step]* steps = &self._steps[share.node]
        cdef size_t first, last, at = 0
        cdef int64_t resource
        if begin >= end:
            return
        while at + 1 < steps.size() and steps.at(at + 1).time <= now:
            at += 1
        steps.erase(steps.begin(), steps.begin() + at)
        if steps.at(0).time < now:
            steps.at(0).time = now
        first = self._split(steps[0], begin)
        last = self._split(steps[0], end) if end < INFINITY else steps.size()
        for at in range(first, last):
            for resource in range(self._resources):
                steps.at(at).free[resource] += sign * share.amount[resource]
        self._merge(steps[0], last)
        self._merge(steps[0], first)

    cdef size_t _split(self, vector[Step]& steps, double moment) noexcept nogil:
        """The place of the step that begins at a moment, which is made if there is none."""
        cdef size_t low = 0, at = steps.size(), middle
        cdef Step copied
        if moment <= steps[0].time:
            return 0
        while at - low > 1:
            middle = (low + at) // 2
            if steps[middle].time > moment:
                at = middle
            else:
                low = middle
        if steps[at - 1].time == moment:
            return at - 1
        copied = steps[at - 1]
        copied.time = moment
        steps.insert(steps.begin() + at, copied)
        return at

    cdef void _merge(self, vector[Step]& steps, size_t at) noexcept nogil:
        """Drop a step that is like the one before it."""
        cdef int64_t resource
        if at == 0 or at >= steps.size():
            return
        for resource in range(self._resources):
            if steps[at].free[resource] != steps[at - 1].free[resource]:
                return
        steps.erase(steps.begin() + at)

    # All GPUs

    cdef double next_level(
        self, int64_t gpus, double after, bint at_once, double limit, double before
    ) noexcept nogil:
        """The first moment from which on so many GPUs are free for the limit, or until `before`; inf: not before it.

        Moments are those after `after` at which GPUs come free, and `after` itself if `at_once`. A search asks for
        later and later moments, so that the blocks before `after` are passed over once.
        """
        cdef double start = INFINITY
        cdef int64_t total = self._total
        cdef bint begun = False, enough
        cdef size_t block, at
        cdef Mark* mark
        if after < self._passed_until:
            self._passed, self._passed_sum = 0, 0
        while self._passed < self.marks.size() and self.marks[self._passed].back().time <= after:
            self._passed_sum += self._sums[self._passed]
            self._passed += 1
        self._passed_until = after
        total += self._passed_sum
        for block in range(self._passed, self.marks.size()):
            if begun and start == INFINITY and total + self._most[block] < gpus:
                total += self._sums[block]
                continue
            enough = start < INFINITY and total + self._least[block] >= gpus
            if enough and self.marks[block].back().time < start + limit:
                total += self._sums[block]
                continue
            for at in range(self.marks[block].size()):
                mark = &self.marks[block][at]
                if not begun and mark.time > after:
                    begun = True
                    if at_once and total >= gpus:
                        start = after
                if mark.time >= before or mark.time >= start + limit:
                    return start
                total += mark.gpus
                if not begun:
                    continue
                if total < gpus:
                    start = INFINITY
                elif mark.gpus > 0 and start == INFINITY:
                    start = mark.time
        if not begun and at_once and total >= gpus:
            return after
        return start

    cdef void _add_mark(self, double time, int64_t gpus, int64_t job) noexcept nogil:
        cdef Mark mark
        cdef size_t block, half
        cdef vector[Mark]* marks
        mark.time, mark.gpus, mark.job = time, gpus, job
        if time == INFINITY or gpus == 0:
            return
        self._passed_until = INFINITY
        if self.marks.empty():
            self.marks.resize(1)
            self._sums.resize(1)
            self._least.resize(1)
            self._most.resize(1)
        block = self._block_of(mark)
        marks = &self.marks[block]
        marks.insert(lower_bound(marks.begin(), marks.end(), mark, &_sooner), mark)
        if marks.size() > _BLOCK:
            half = marks.size() // 2
            self.marks.insert(self.marks.begin() + block + 1, vector[Mark]())
            marks = &self.marks[block]
            self.marks[block + 1].assign(marks.begin() + half, marks.end())
            marks.resize(half)
            self._sums.insert(self._sums.begin() + block, 0)
            self._least.insert(self._least.begin() + block, 0)
            self._most.insert(self._most.begin() + block, 0)
            self._sum_up(block + 1)
        self._sum_up(block)

    cdef void _drop_mark(self, double time, int64_t gpus, int64_t job) noexcept nogil:
        cdef Mark mark
        cdef size_t block
        cdef vector[Mark]* marks
        cdef vector[Mark].iterator place
        mark.time, mark.gpus, mark.job = time, gpus, job
        if time == INFINITY or gpus == 0 or self.marks.empty():
            return
        self._passed_until = INFINITY
        block = self._block_of(mark)
        marks = &self.marks[block]
        place = lower_bound(marks.begin(), marks.end(), mark, &_sooner)
        if place == marks.end():
            return
        marks.erase(place)
        if not marks.empty():
            self._sum_up(block)
            return
        self.marks.erase(self.marks.begin() + block)
        self._sums.erase(self._sums.begin() + block)
        self._least.erase(self._least.begin() + block)
        self._most.erase(self._most.begin() + block)

    cdef size_t _block_of(self, Mark& mark) noexcept nogil:
        """The first block that does not end before a mark, or the last one."""
        cdef size_t low = 0, high = self.marks.size() - 1, middle
        while low < high:
            middle = (low + high) // 2
            if _sooner(self.marks[middle].back(), mark):
                low = middle + 1
            else:
                high = middle
        return low

    cdef void _sum_up(self, size_t block) noexcept nogil:
        cdef int64_t total = 0, least = 0, most = 0
        cdef size_t at
        for at in range(self.marks[block].size()):
            total += self.marks[block][at].gpus
            least, most = min(least, total), max(most, total)
        self._sums[block], self._least[block], self._most[block] = total, least, most
