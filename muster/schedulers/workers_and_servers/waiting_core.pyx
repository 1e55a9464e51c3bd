"""The passes of `waiting` over sizes and slots, compiled."""

from libc.math cimport INFINITY, exp, floor, isfinite, isnan, pow
from libc.stdint cimport int64_t, uint8_t
from libcpp.algorithm cimport sort
from libcpp.utility cimport pair
from libcpp.vector cimport vector

from muster.cluster.arrays cimport Ints, bools, floats, ints

import numpy as np

FIRST_SLOT_SECONDS = 600.0
MOST_SLOTS, FEWEST_SLOTS = 16, 3
SLOTS_OF_ALL_JOBS = 1200  # Jobs times slots stay below this, where that leaves at least `FEWEST_SLOTS`.
SIZES = 6  # Of one job in the relaxation: spread evenly from the fastest to the slowest, and the one it holds.
# Utility beside the job's own, at a completion after 0 hours; it falls evenly to 0 at `PROGRESS_HOURS`. It decides
# between jobs to which time no longer matters.
PROGRESS, PROGRESS_HOURS = 1e-2, 100.0
# The utility of a job that states none is 1 at 0 hours and falls by 1 in this time. The loss per hour does not depend
# on how long the job has waited: with a loss that shrinks, the newest job would always go first.
UNRATED_HOURS = 24.0
FIRST_COME = 1e-3  # The part by which the profit of the oldest job counts as larger than that of the newest.
IDLE = 1e-4  # Profit of a size that is worth less than a later start: it takes only what would stay idle.

cdef double _first_slot = FIRST_SLOT_SECONDS, _progress = PROGRESS, _progress_hours = PROGRESS_HOURS
cdef double _unrated_hours = UNRATED_HOURS, _first_come = FIRST_COME, _idle = IDLE
cdef int64_t _sizes = SIZES, _most_slots = MOST_SLOTS, _fewest_slots = FEWEST_SLOTS, _slots = SLOTS_OF_ALL_JOBS

# What is read of the jobs of a `SizingProblem`.
cdef struct Jobs:
    double now
    int64_t count
    double* arrival
    double* remaining
    int64_t* workers
    int64_t* servers
    double* interruption_cost
    double* priority
    double* urgency
    double* target
    double* worker
    double* server
    double* limit
    int64_t columns
    bint reserved


cdef Jobs _jobs(object question) except *:
    cdef Jobs jobs
    demands = question.demands
    jobs.now, jobs.count, jobs.reserved = question.now, question.arrival.shape[0], question.reserved
    jobs.arrival, jobs.remaining = floats(question.arrival).at, floats(question.remaining).at
    jobs.workers, jobs.servers = ints(question.workers).at, ints(question.servers).at
    jobs.interruption_cost = floats(question.interruption_cost).at
    jobs.priority, jobs.urgency = floats(question.priority).at, floats(question.urgency).at
    jobs.target = floats(question.target).at
    jobs.worker, jobs.server = floats(demands.worker).at, floats(demands.server).at
    jobs.limit, jobs.columns = floats(demands.limit).at, demands.worker.shape[1]
    return jobs


cdef double _worth(Jobs* jobs, int64_t job, double seconds) noexcept nogil:
    """Utility of a completion in so many seconds from now; see `PROGRESS` and `UNRATED_HOURS`."""
    cdef double completion = jobs.now - jobs.arrival[job] + seconds
    cdef double hours = completion / 3600.0, own
    if isnan(jobs.priority[job]):
        own = 1.0 - hours / _unrated_hours
    else:
        # As `utility` in `sizes` has it.
        own = jobs.priority[job] / (1 + exp(min(jobs.urgency[job] * (completion - jobs.target[job]), <double> 700.0)))
    return own + _progress * (1.0 - hours / _progress_hours)


def spread(job, seconds, held):
    """The entries of at most `SIZES` sizes of each job and the one it holds; the jobs of the entries ascend."""
    cdef Ints jobs = ints(job)
    cdef double* each = floats(seconds).at
    cdef uint8_t* holds = bools(held).at
    cdef vector[pair[double, int64_t]] order
    cdef vector[int64_t] kept
    cdef int64_t at = 0, first, rank
    cdef double step
    is_kept = np.array(held)
    cdef uint8_t* keeps = bools(is_kept).at
    while at < jobs.size:
        first = at
        order.clear()
        while at < jobs.size and jobs.at[at] == jobs.at[first]:
            order.push_back(pair[double, int64_t](each[at], at))
            at += 1
        sort(order.begin(), order.end())
        step = max(at - first - 1, <int64_t> 1) / <double> (_sizes - 1)
        for rank in range(at - first):
            if rank == 0 or floor(rank / step) != floor((rank - 1) / step):
                keeps[order[rank].second] = True
    return np.flatnonzero(is_kept)


def charges(question, job, workers, servers, seconds, double hysteresis, int64_t resources):
    """What each entry, a size of a job, is charged; seconds left with it from now, and from later; whether it is held.

    A change costs the interruption and `hysteresis` of what is left. The resources are the first of the demands.
    """
    cdef Jobs jobs = _jobs(question)
    cdef Ints of = ints(job)
    cdef int64_t* some_workers = ints(workers).at
    cdef int64_t* some_servers = ints(servers).at
    cdef double* each = floats(seconds).at
    cdef int64_t at, one, resource, column
    cdef double time
    usage, now_left, later_left = np.empty((of.size, resources)), np.empty(of.size), np.empty(of.size)
    is_held = np.empty(of.size, np.bool_)
    cdef double* used = floats(usage).at
    cdef double* now = floats(now_left).at
    cdef double* later = floats(later_left).at
    cdef uint8_t* held = bools(is_held).at
    for at in range(of.size):
        one = of.at[at]
        for resource in range(resources):
            column = one * jobs.columns + resource
            if jobs.reserved:
                used[at * resources + resource] = jobs.limit[column]
            else:
                used[at * resources + resource] = (
                    some_workers[at] * jobs.worker[column] + some_servers[at] * jobs.server[column]
                )
        time = jobs.remaining[one] * each[at]
        held[at] = some_workers[at] == jobs.workers[one] and some_servers[at] == jobs.servers[one]
        if jobs.workers[one] > 0:
            now[at] = time if held[at] else time * (1 + hysteresis) + jobs.interruption_cost[one]
            later[at] = time + jobs.interruption_cost[one]
        else:
            now[at], later[at], held[at] = time, time, False
    return usage, now_left, later_left, is_held


cdef double _sum(double* numbers, int64_t count) noexcept nogil:
    """The sum as NumPy has it: in pairs of pairs."""
    cdef double[8] lanes
    cdef double total = 0.0
    cdef int64_t at, lane, half
    if count < 8:
        for at in range(count):
            total += numbers[at]
        return total
    if count > 128:
        half = count // 2
        half -= half % 8
        return _sum(numbers, half) + _sum(numbers + half, count - half)
    for lane in range(8):
        lanes[lane] = numbers[lane]
    for at in range(8, count - count % 8, 8):
        for lane in range(8):
            lanes[lane] += numbers[at + lane]
    total = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]))
    for at in range(count - count % 8, count):
        total += numbers[at]
    return total


cdef double _growth(double total, int64_t slots) noexcept nogil:
    """The factor from 1 on with which 1 + growth + growth^2 + ... over the slots reaches the total."""
    cdef double low = 1.0, high = max(total, <double> 1.0), middle
    cdef double[16] powers
    cdef int64_t halving, slot
    for halving in range(60):
        middle = (low + high) / 2
        for slot in range(slots):
            powers[slot] = pow(middle, slot)
        if _sum(powers, slots) >= total:
            high = middle
        else:
            low = middle
    return low


def boundaries_of(int64_t job_count, job, usage, left, capacity):
    """Slots that grow by one factor, the first of `FIRST_SLOT_SECONDS`, until all work could be done."""
    cdef Ints of = ints(job)
    cdef double* used = floats(usage).at
    cdef double* seconds = floats(left).at
    cdef double* there = floats(capacity).at
    cdef int64_t resources = usage.shape[1], at, resource, slot
    cdef int64_t slots = min(max(_slots // max(job_count, <int64_t> 1), _fewest_slots), _most_slots)
    cdef vector[double] least_area, shortest, areas
    cdef double share, longest = 0.0, growth
    least_area.assign(job_count, INFINITY)
    shortest.assign(job_count, INFINITY)
    for at in range(of.size):
        share = used[at * resources] / there[0]
        for resource in range(1, resources):
            share = max(share, used[at * resources + resource] / there[resource])
        least_area[of.at[at]] = min(least_area[of.at[at]], share * seconds[at])
        shortest[of.at[at]] = min(shortest[of.at[at]], seconds[at])
    for at in range(job_count):
        if isfinite(shortest[at]):
            areas.push_back(least_area[at])
            longest = max(longest, shortest[at])
    growth = _growth(max(_sum(areas.data(), areas.size()), longest) / _first_slot, slots)
    boundaries = np.zeros(slots + 1)
    cdef double* ends = floats(boundaries).at
    for slot in range(slots):
        ends[slot + 1] = ends[slot] + _first_slot * pow(growth, slot)
    return boundaries


def starts_ahead(question, job, usage, now_left, later_left, boundaries):
    """By entry and slot of its start: what that gains over a start at the last boundary; by slot, what it holds there.

    Returns the utility of a start at the last boundary, by job, and these two.
    """
    cdef Jobs jobs = _jobs(question)
    cdef Ints of = ints(job)
    cdef double* used = floats(usage).at
    cdef double* now = floats(now_left).at
    cdef double* later = floats(later_left).at
    cdef double* ends = floats(boundaries).at
    cdef int64_t slots = boundaries.shape[0] - 1, resources = usage.shape[1], at, slot, inside, resource
    cdef double end, part
    least, gain = np.full(jobs.count, -np.inf), np.empty((of.size, slots))
    holds = np.zeros((of.size * slots, slots * resources))
    cdef double* unserved = floats(least).at
    cdef double* gains = floats(gain).at
    cdef double* held = floats(holds).at
    for at in range(of.size):
        unserved[of.at[at]] = max(unserved[of.at[at]], _worth(&jobs, of.at[at], ends[slots] + later[at]))
    for at in range(of.size):
        for slot in range(slots):
            end = ends[slot] + later[at] if slot > 0 else now[at]
            gains[at * slots + slot] = _worth(&jobs, of.at[at], end) - unserved[of.at[at]]
            for inside in range(slot, slots):
                part = min(end, ends[inside + 1]) - ends[inside]
                if part <= 0:
                    break
                part = part / (ends[inside + 1] - ends[inside])
                for resource in range(resources):
                    held[inside * resources + resource] = part * used[at * resources + resource]
            held += slots * resources
    return least, gain, holds


cdef double _price(double* spent, int64_t stride, double* ends, int64_t last, double seconds) noexcept nogil:
    """What one unit costs until then, evenly between the boundaries; nothing more after the last one."""
    cdef int64_t low = 0, high = last, middle
    if seconds <= ends[0]:
        return spent[0]
    if seconds >= ends[last]:
        return spent[last * stride]
    while high - low > 1:
        middle = (low + high) // 2
        if ends[middle] <= seconds:
            low = middle
        else:
            high = middle
    if ends[low] == seconds:
        return spent[low * stride]
    cdef double slope = (spent[(low + 1) * stride] - spent[low * stride]) / (ends[low + 1] - ends[low])
    return slope * (seconds - ends[low]) + spent[low * stride]


def profits(question, job, charged, ahead):
    """Of the sizes now, with what they are charged (`charges`), beside a later start (`Waiting`)."""
    cdef Jobs jobs = _jobs(question)
    cdef Ints of = ints(job)
    usage, now_left, _, is_held = charged
    cdef double* used = floats(usage).at
    cdef double* left = floats(now_left).at
    cdef uint8_t* held = bools(is_held).at
    cdef double* ends = floats(ahead.boundaries).at
    cdef double* spent = floats(ahead.spent).at
    cdef double* unserved = floats(ahead.unserved).at
    cdef double* later = floats(ahead.later).at
    cdef double hysteresis = ahead.hysteresis, price, net, oldest
    cdef int64_t last = ahead.boundaries.shape[0] - 1, resources = usage.shape[1], at, one, resource
    profit = np.empty(of.size)
    cdef double* result = floats(profit).at
    for at in range(of.size):
        one = of.at[at]
        price = 0.0
        for resource in range(resources):
            price += used[at * resources + resource] * _price(spent + resource, resources, ends, last, left[at])
        net = (_worth(&jobs, one, left[at]) - unserved[one]) - price - later[one]
        # At the prices of a relaxation several jobs are worth the same: those that run stay, then the oldest come.
        oldest = 1.0 - one / <double> max(jobs.count, <int64_t> 1)
        net *= 1.0 + _first_come * oldest + hysteresis * held[at]
        result[at] = net if net > _idle else _idle * (1.0 + oldest) / (2.0 + left[at] / 1800.0)
    return profit
