"""The passes over the columns of a knapsack, compiled: the table, the best of each group, what is left given out."""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.vector cimport vector

from muster.cluster.arrays cimport Ints, bools, floats, ints, records

import numpy as np


def tabulated(group, profit, usage, must_choose, unit, most, int64_t nothing):
    """Group, profit, usage and number of the columns that fit alone, and where each group of them begins.

    Usage is counted in `unit` and a column fits up to `most` of it. A group that may take nothing has a last column
    for that, whose number is `nothing`. Last comes the first group that has no column; -1: each has one.
    """
    cdef Ints groups = ints(group)
    cdef double* profits = floats(profit).at
    cdef double* used = floats(usage).at
    cdef uint8_t* must = bools(must_choose).at
    cdef double* one = floats(unit).at
    cdef double* limit = floats(most).at
    cdef int64_t group_count = must_choose.shape[0], resources = usage.shape[1]
    cdef int64_t longest = groups.size + group_count, at = 0, found = 0, number, resource
    cdef int64_t empty = -1
    cdef bint fits
    kept_group, kept_profit = np.empty(longest, np.int64), np.empty(longest)
    kept_usage, original = np.empty((longest, resources)), np.empty(longest, np.int64)
    starts = np.empty(group_count, np.int64)
    cdef int64_t* to_group = ints(kept_group).at
    cdef double* to_profit = floats(kept_profit).at
    cdef double* to_usage = floats(kept_usage).at
    cdef int64_t* to_original = ints(original).at
    cdef int64_t* begins = ints(starts).at
    for number in range(group_count):
        begins[number] = found
        while at < groups.size and groups.at[at] == number:
            fits = True
            for resource in range(resources):
                to_usage[found * resources + resource] = used[at * resources + resource] / one[resource]
                fits &= to_usage[found * resources + resource] <= limit[resource]
            if fits:
                to_group[found], to_profit[found], to_original[found] = number, profits[at], at
                found += 1
            at += 1
        if not must[number]:
            to_group[found], to_profit[found], to_original[found] = number, 0.0, nothing
            for resource in range(resources):
                to_usage[found * resources + resource] = 0.0
            found += 1
        if begins[number] == found and empty < 0:
            empty = number
    return kept_group[:found], kept_profit[:found], kept_usage[:found], original[:found], starts, empty


def best_of_each(score, starts):
    """The first column with the highest score of each group."""
    cdef Ints begins = ints(starts)
    cdef double* scores = floats(score).at
    cdef int64_t number, at, end, count = score.shape[0]
    best = np.empty(begins.size, np.int64)
    cdef int64_t* first = ints(best).at
    for number in range(begins.size):
        end = begins.at[number + 1] if number + 1 < begins.size else count
        first[number] = begins.at[number]
        for at in range(begins.at[number] + 1, end):
            if scores[at] > scores[first[number]]:
                first[number] = at
    return best


def entries_of(group, usage, columns, int64_t groups):
    """Of some columns the entries of a linear program: where each column begins, rows and values.

    That is 1 in the group's row, and the usage in the rows of the resources that are used.
    """
    cdef Ints some = ints(columns)
    cdef int64_t* group_of = ints(group).at
    cdef double* used = floats(usage).at
    cdef int64_t resources = usage.shape[1], at, resource, count = 0
    begins = np.empty(some.size, np.int32)
    rows, values = np.empty(some.size * (resources + 1), np.int32), np.empty(some.size * (resources + 1))
    cdef int32_t* begin = <int32_t*> records(begins, sizeof(int32_t))
    cdef int32_t* row = <int32_t*> records(rows, sizeof(int32_t))
    cdef double* value = floats(values).at
    for at in range(some.size):
        begin[at] = count
        row[count], value[count] = group_of[some.at[at]], 1.0
        count += 1
        for resource in range(resources):
            if used[some.at[at] * resources + resource] != 0:
                row[count] = groups + resource
                value[count] = used[some.at[at] * resources + resource]
                count += 1
    return begins, rows[:count], values[:count]


cdef struct Table:
    int64_t* group
    double* profit
    double* usage
    double* capacity
    int64_t groups
    int64_t resources
    double rounding


cdef void _keep_gainful(Table* table, int64_t* choice, vector[int64_t]* columns) noexcept nogil:
    """Keep the columns that have more profit than their group's present one and fit in what is left."""
    cdef int64_t at, number, column, resource, current, kept = 0
    cdef bint fits
    cdef vector[double] left
    left.assign(table.resources, 0.0)
    for number in range(table.groups):
        for resource in range(table.resources):
            left[resource] += table.usage[choice[number] * table.resources + resource]
    for resource in range(table.resources):
        left[resource] = table.capacity[resource] - left[resource] + table.rounding
    for at in range(columns.size()):
        column = columns[0][at]
        current = choice[table.group[column]]
        fits = table.profit[column] > table.profit[current] + table.rounding
        for resource in range(table.resources):
            if not fits:
                break
            fits = (
                table.usage[column * table.resources + resource]
                - table.usage[current * table.resources + resource]
                <= left[resource]
            )
        if fits:
            columns[0][kept] = column
            kept += 1
    columns.resize(kept)


def served_in_order(group, usage, capacity, choice, columns, double rounding):
    """The choice after each column, in their order, took the place of its group's if what is left is enough for it."""
    cdef Ints some = ints(columns)
    cdef int64_t* group_of = ints(group).at
    cdef double* used = floats(usage).at
    cdef int64_t resources = capacity.shape[0], at, resource, column, before
    cdef bint fits
    left = capacity + rounding - usage[choice].sum(axis=0)
    result = choice.copy()
    cdef double* free = floats(left).at
    cdef int64_t* taken = ints(result).at
    for at in range(some.size):
        column, before = some.at[at], taken[group_of[some.at[at]]]
        fits = True
        for resource in range(resources):
            fits &= used[column * resources + resource] - used[before * resources + resource] <= free[resource]
        if fits:
            for resource in range(resources):
                free[resource] -= used[column * resources + resource] - used[before * resources + resource]
            taken[group_of[column]] = column
    return result


def given_out(group, profit, usage, capacity, choice, score, double rounding):
    """The choice after what is left was given to the groups that gain from it, by score, until none does."""
    cdef Table table
    cdef double* scores = floats(score).at
    cdef vector[int64_t] candidates
    cdef int64_t at, column, move, count = group.shape[0]
    cdef double gain, most
    result = choice.copy()
    cdef int64_t* taken = ints(result).at
    table.group, table.profit, table.usage = ints(group).at, floats(profit).at, floats(usage).at
    table.capacity, table.groups, table.resources = floats(capacity).at, choice.shape[0], capacity.shape[0]
    table.rounding = rounding
    while True:
        candidates.resize(count)
        for at in range(count):
            candidates[at] = at
        _keep_gainful(&table, taken, &candidates)
        if candidates.empty():
            return result
        # A move only shrinks what is left, mostly: look again at the others when these are used up.
        while not candidates.empty():
            most, move = -INFINITY, candidates[0]
            for at in range(candidates.size()):
                column = candidates[at]
                gain = scores[column] - scores[taken[table.group[column]]]
                if gain > most:
                    most, move = gain, column
            taken[table.group[move]] = move
            _keep_gainful(&table, taken, &candidates)
