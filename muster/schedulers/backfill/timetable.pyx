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


cdef inline bint _has_begun(double time, double moment, bint at_once) noexcept nogil:
    return time < moment or (at_once and time == moment)


cdef int64_t _begun(double* times, int64_t count, int64_t guess, double moment, bint at_once) noexcept nogil:
    """How many of these times are before a moment, or `at_once` at it; the first one counts in any case.

    It strides from a guess, wider and wider.
    """
    cdef int64_t low = max(min(guess, count - 1), <int64_t> 0), high, stride = 1, middle
    if _has_begun(times[low], moment, at_once):
        high = low + 1
        while high < count and _has_begun(times[high], moment, at_once):
            low = high
            high += stride
            stride *= 2
        high = min(high, count)
    else:
        high = low
        while low > 0 and not _has_begun(times[low], moment, at_once):
            high = low
            low = max(low - stride, <int64_t> 0)
            stride *= 2
    while high - low > 1:
        middle = (low + high) // 2
        if _has_begun(times[middle], moment, at_once):
            low = middle
        else:
            high = middle
    return max(high, <int64_t> 1)


cdef class Timetable:
    """The future of one cluster."""

    def __init__(self, int64_t nodes):
        self._resources = _RESOURCES
        self._steps.resize(nodes)
        self._times.resize(nodes)
        self._asked.resize(nodes)
        self._ended.resize(nodes)
        self.reservations.resize(nodes)

    cdef void clear(self, Books* books) noexcept nogil:
        """Nothing runs and nothing is reserved; what is releasing counts as free."""
        cdef int64_t node, resource
        cdef Step step
        self._passed_until = self._level_start = INFINITY
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
            self._times[node].assign(1, step.time)
            self.reservations[node] = 0

    cdef void give(self, Share* share) noexcept nogil:
        """A node has so much more for ever."""
        cdef int64_t resource
        for resource in range(self._resources):
            self._steps[share.node][0].free[resource] += share.amount[resource]
        self._add_total(share.amount[GPU])

    cdef void _add_total(self, int64_t gpus) noexcept nogil:
        """So many more GPUs are free before the first mark."""
        self._total += gpus
        self._level_start = INFINITY

    # Jobs

    cdef void run(self, int64_t job, vector[Share]& place, double now, double end) noexcept nogil:
        """A job holds its place from now until a moment."""
        cdef size_t at
        cdef int64_t gpus = 0
        for at in range(place.size()):
            self._change(&place[at], now, end, -1, now)
            gpus += place[at].amount[GPU]
        self._add_total(-gpus)
        self._add_mark(end, gpus, job)

    cdef void end(self, int64_t job, vector[Share]& place, double now, double end) noexcept nogil:
        """A job that was to hold its place until a moment gives it back now."""
        cdef size_t at
        cdef int64_t gpus = 0
        for at in range(place.size()):
            self._change(&place[at], now, end, 1, now)
            gpus += place[at].amount[GPU]
        self._add_total(gpus)
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

        A search asks a node for later and later moments, and the next one begins near its end: the step of the last
        question is a good guess.
        """
        cdef vector[double]* times = &self._times[node]
        cdef int64_t size = times.size(), at = 0
        if size > 1 and times.at(1) <= begin:
            at = _begun(times.data(), size, self._asked[node], begin, True) - 1
            self._asked[node] = at
        count[0] = size - at
        return self._steps[node].data() + at

    cdef int64_t steps_until(self, int64_t node, int64_t count, double moment) noexcept nogil:
        """How many of these last steps of a node begin before a moment, the first one in any case.

        As in `steps_from`, the last answer is a good guess.
        """
        cdef int64_t before = <int64_t> self._times[node].size() - count
        cdef int64_t begun = _begun(self._times[node].data() + before, count, self._ended[node] - before, moment, False)
        self._ended[node] = before + begun
        return begun

    cdef void _change(self, Share* share, double begin, double end, int64_t sign, double now) noexcept nogil:
        """Add a share to what is free from begin to end, or take it away; steps that are over by now are dropped."""
        cdef vector[Step]* steps = &self._steps[share.node]
        cdef vector[double]* times = &self._times[share.node]
        cdef size_t first, last, at = 0
        cdef int64_t resource
        if begin >= end:
            return
        while at + 1 < steps.size() and steps.at(at + 1).time <= now:
            at += 1
        steps.erase(steps.begin(), steps.begin() + at)
        times.erase(times.begin(), times.begin() + at)
        if times.at(0) < now:
            steps.at(0).time = times[0][0] = now
        first = self._split(share.node, begin)
        last = self._split(share.node, end) if end < INFINITY else steps.size()
        for at in range(first, last):
            for resource in range(self._resources):
                steps.at(at).free[resource] += sign * share.amount[resource]
        self._merge(share.node, last)
        self._merge(share.node, first)

    cdef size_t _split(self, int64_t node, double moment) noexcept nogil:
        """The place of the step that begins at a moment, which is made if there is none."""
        cdef vector[Step]* steps = &self._steps[node]
        cdef vector[double]* times = &self._times[node]
        cdef size_t at
        cdef Step copied
        if moment <= times.at(0):
            return 0
        at = _begun(times.data(), times.size(), 0, moment, True)
        if times.at(at - 1) == moment:
            return at - 1
        copied = steps.at(at - 1)
        copied.time = moment
        steps.insert(steps.begin() + at, copied)
        times.insert(times.begin() + at, moment)
        return at

    cdef void _merge(self, int64_t node, size_t at) noexcept nogil:
        """Drop a step that is like the one before it."""
        cdef vector[Step]* steps = &self._steps[node]
        cdef int64_t resource
        if at == 0 or at >= steps.size():
            return
        for resource in range(self._resources):
            if steps.at(at).free[resource] != steps.at(at - 1).free[resource]:
                return
        steps.erase(steps.begin() + at)
        self._times[node].erase(self._times[node].begin() + at)

    # All GPUs

    cdef double next_level(
        self, int64_t gpus, double after, bint at_once, double limit, double before
    ) noexcept nogil:
        """The first moment from which on so many GPUs are free for the limit, or until `before`; inf: not before it.

        Moments are those after `after` at which GPUs come free, and `after` itself if `at_once`. A search asks for
        later and later moments, so that the blocks before `after` are passed over once.
        """
        cdef double start = INFINITY
        cdef int64_t total
        cdef bint begun = False
        cdef size_t block, at = 0
        cdef Mark* mark
        if self._goes_on(gpus, after, at_once, limit, before):
            start, begun = after, True
            block, at, total = self._level_block, self._level_mark, self._level_total
        else:
            self._level_gpus, self._level_limit, self._level_before = gpus, limit, before
            self._pass(after)
            block, total = self._passed, self._total + self._passed_sum
        while block < self.marks.size():
            if at == 0 and self._is_passed_over(block, total, gpus, start, begun, limit):
                total += self._sums[block]
                block += 1
                continue
            while at < self.marks[block].size():
                mark = &self.marks[block][at]
                if not begun and mark.time > after:
                    begun = True
                    if at_once and total >= gpus:
                        start = after
                if mark.time >= before or mark.time >= start + limit:
                    self._note_level(start, block, at, total)
                    return start
                total += mark.gpus
                at += 1
                if not begun:
                    continue
                if total < gpus:
                    start = INFINITY
                elif mark.gpus > 0 and start == INFINITY:
                    start = mark.time
            block, at = block + 1, 0
        if not begun and at_once and total >= gpus:
            start = after
        self._note_level(start, block, 0, total)
        return start

    cdef void _pass(self, double after) noexcept nogil:
        """Sum up the blocks that are over at a moment."""
        if after < self._passed_until:
            self._passed, self._passed_sum = 0, 0
        while self._passed < self.marks.size() and self.marks[self._passed].back().time <= after:
            self._passed_sum += self._sums[self._passed]
            self._passed += 1
        self._passed_until = after

    cdef inline bint _is_passed_over(
        self, size_t block, int64_t total, int64_t gpus, double start, bint begun, double limit
    ) noexcept nogil:
        """Whether no mark of a block changes the answer: too few GPUs are free all the time, or enough are."""
        if start == INFINITY:
            return begun and total + self._most[block] < gpus
        return total + self._least[block] >= gpus and self.marks[block].back().time < start + limit

    cdef inline bint _goes_on(
        self, int64_t gpus, double after, bint at_once, double limit, double before
    ) noexcept nogil:
        """Whether the last answer holds from `after` on up to where its search ended: enough GPUs are free there."""
        if not (at_once and after >= self._level_start and before == self._level_before):
            return False
        if gpus != self._level_gpus or limit != self._level_limit:
            return False
        if self._level_block >= self.marks.size():
            return True
        return self.marks[self._level_block][self._level_mark].time > after

    cdef inline void _note_level(self, double start, size_t block, size_t mark, int64_t total) noexcept nogil:
        """A search ends before a mark, at which so many GPUs are free."""
        self._level_start, self._level_block, self._level_mark, self._level_total = start, block, mark, total

    cdef void _add_mark(self, double time, int64_t gpus, int64_t job) noexcept nogil:
        cdef Mark mark
        cdef size_t block, half
        cdef vector[Mark]* marks
        mark.time, mark.gpus, mark.job = time, gpus, job
        if time == INFINITY or gpus == 0:
            return
        self._passed_until = self._level_start = INFINITY
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
        self._passed_until = self._level_start = INFINITY
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
