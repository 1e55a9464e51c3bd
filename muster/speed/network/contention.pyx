"""How fast gangs communicate that share uplinks, each sending for a part of the time only.

While gangs send at the same time, an uplink is shared max-min fairly: each gets an equal part of it, or less where it
cannot use as much. When they send is taken to be independent: their iterations are of different lengths, so their
bursts drift past each other. A gang's expected speed is that over the other gangs' being busy or not. A gang that is
met on several uplinks counts on the fullest of them, once.
"""

from libc.math cimport pow
from libc.stdint cimport int64_t
from libcpp.algorithm cimport sort
from libcpp.vector cimport vector

from muster.cluster.arrays cimport Floats, Ints, floats, ints

import numpy as np

cdef enum:
    _EXACTLY = 8  # gangs on a link up to which each one's part of the time counts; beyond it their mean does
    _BINOMIALLY = 200  # up to which the number of busy ones varies; beyond it there are as many as in the mean

cdef double _UNLIKELY = 1e-6


cdef bint _slower(const Level& one, const Level& other) noexcept nogil:
    return one.speed < other.speed


cdef bint _fuller(const OnLink& one, const OnLink& other) noexcept nogil:
    if one.pressure != other.pressure:
        return one.pressure > other.pressure
    return one.link < other.link


cdef class Neighbourhood:
    """Gangs on their uplinks: gang j crosses the distinct `links[first[j]:first[j + 1]]`.

    While it sends undisturbed it uses `uses` GB/s of each; `capacity` is by link.
    """

    def __cinit__(self, first, links, uses, capacity):
        cdef Ints begins = ints(first), crossed = ints(links)
        cdef Floats used = floats(uses), room = floats(capacity)
        cdef vector[int64_t] fill
        cdef int64_t at, gang
        self.gangs = begins.size - 1
        self.first.assign(begins.at, begins.at + begins.size)
        self.links.assign(crossed.at, crossed.at + crossed.size)
        self.uses.assign(used.at, used.at + used.size)
        self.capacity.assign(room.at, room.at + room.size)
        self.busy.assign(self.gangs, 1.0)
        self.pressure.assign(room.size, 0.0)
        self.link_first.assign(room.size + 1, 0)
        self.met.assign(self.gangs, -1)
        for at in range(crossed.size):
            self.link_first[crossed.at[at] + 1] += 1
        for at in range(room.size):
            self.link_first[at + 1] += self.link_first[at]
        fill = self.link_first
        self.gang_at.resize(crossed.size)
        self.use_at.resize(crossed.size)
        for gang in range(self.gangs):
            for at in range(begins.at[gang], begins.at[gang + 1]):
                self.gang_at[fill[crossed.at[at]]] = gang
                self.use_at[fill[crossed.at[at]]] = used.at[at]
                fill[crossed.at[at]] += 1

    cdef void set_busy(self, double* busy) noexcept nogil:
        """Say which part of the time each gang sends."""
        cdef int64_t link, at
        self.busy.assign(busy, busy + self.gangs)
        for link in range(<int64_t> self.capacity.size()):
            self.pressure[link] = 0.0
            for at in range(self.link_first[link], self.link_first[link + 1]):
                self.pressure[link] += self.busy[self.gang_at[at]] * self.use_at[at] / self.capacity[link]

    cdef double speed(self, int64_t gang) noexcept nogil:
        """Expected speed of a gang while it sends, against that without the others."""
        cdef vector[OnLink] crossed
        cdef vector[vector[Level]] distributions
        cdef OnLink here
        cdef int64_t at
        for at in range(self.first[gang], self.first[gang + 1]):
            here.link, here.use, here.pressure = self.links[at], self.uses[at], self.pressure[self.links[at]]
            if here.use > 0:
                crossed.push_back(here)
        sort(crossed.begin(), crossed.end(), _fuller)
        self.stamp += 1
        for at in range(<int64_t> crossed.size()):
            self._add_link(gang, &crossed[at], distributions)
        return _expected_least(distributions)

    cdef void _add_link(self, int64_t gang, OnLink* here, vector[vector[Level]]& distributions) noexcept nogil:
        """Add the distribution of the gang's speed on a link, among gangs that it has not been seen with yet."""
        cdef vector[double] busy, chance
        cdef vector[Level] levels
        cdef Level level
        cdef double total = 0.0, used = 0.0, room = self.capacity[here.link], mean, left = 1.0
        cdef int64_t at, other, others
        for at in range(self.link_first[here.link], self.link_first[here.link + 1]):
            other = self.gang_at[at]
            if other == gang or self.met[other] == self.stamp:
                continue
            self.met[other] = self.stamp
            busy.push_back(self.busy[other])
            total += self.busy[other]
            used += self.busy[other] * self.use_at[at]
        if total <= 0:
            return
        mean = used / total
        others = busy.size()
        if others > _BINOMIALLY:
            level.speed, level.reached = min(1.0, max(room / (total + 1), room - used) / here.use), 1.0
            levels.push_back(level)
            distributions.push_back(levels)
            return
        if others > _EXACTLY:
            _count_alike(total / others, others, chance)
        else:
            _count_busy(busy, chance)
        for at in range(others + 1):
            left -= chance[at]
            if chance[at] < _UNLIKELY and at < others:
                continue
            level.speed = min(1.0, max(room / (at + 1), room - at * mean) / here.use)
            level.reached = 1.0 - max(left, 0.0) if at < others else 1.0
            levels.push_back(level)
        distributions.push_back(levels)


cdef void _count_busy(vector[double]& busy, vector[double]& chance) noexcept nogil:
    """The probability that so many of some gangs are busy at once, by number."""
    cdef int64_t at, count
    chance.assign(1, 1.0)
    for at in range(<int64_t> busy.size()):
        chance.push_back(0.0)
        for count in range(at + 1, 0, -1):
            chance[count] = chance[count] * (1 - busy[at]) + chance[count - 1] * busy[at]
        chance[0] *= 1 - busy[at]


cdef void _count_alike(double busy, int64_t gangs, vector[double]& chance) noexcept nogil:
    """The same of gangs that are all busy for the same part of the time."""
    cdef int64_t count
    cdef double odds
    busy = min(busy, 0.999)
    odds = busy / (1 - busy)
    chance.assign(1, pow(1 - busy, <double> gangs))
    for count in range(1, gangs + 1):
        chance.push_back(chance[count - 1] * odds * (gangs - count + 1) / count)


cdef double _expected_least(vector[vector[Level]]& distributions) noexcept nogil:
    """The mean of the smallest of independent speeds.

    Of each the levels fall, and `reached` is how likely the speed is at least that.
    """
    cdef vector[Level] steps
    cdef vector[int64_t] place
    cdef double mean = 0.0, before = 0.0, all_reach
    cdef size_t at, one
    if distributions.size() == 0:
        return 1.0
    for one in range(distributions.size()):
        steps.insert(steps.end(), distributions[one].begin(), distributions[one].end())
        place.push_back(distributions[one].size() - 1)
    sort(steps.begin(), steps.end(), _slower)
    for at in range(steps.size()):
        if steps[at].speed <= before:
            continue
        all_reach = 1.0
        for one in range(distributions.size()):
            while place[one] >= 0 and distributions[one][place[one]].speed < steps[at].speed:
                place[one] -= 1
            all_reach *= distributions[one][place[one]].reached if place[one] >= 0 else 0.0
        mean += (steps[at].speed - before) * all_reach
        before = steps[at].speed
    return mean


def speeds(first, links, uses, capacity, busy):
    """Expected speed of every gang while it sends; `busy` is the part of the time in which each does."""
    cdef Neighbourhood around = Neighbourhood(first, links, uses, capacity)
    cdef Floats found
    cdef int64_t gang
    result = np.ones(around.gangs)
    found = floats(result)
    around.set_busy(floats(busy).at)
    for gang in range(around.gangs):
        found.at[gang] = around.speed(gang)
    return result
