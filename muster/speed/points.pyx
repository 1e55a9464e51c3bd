"""Points of a model's speed surface (Synergy's W) in the ledger's units, and which of them are worth choosing.

Amounts are by GPU, in millionths: GPU (not used), CPU, memory, storage. Speeds are relative to the reference.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t
from libc.string cimport memcpy
from libcpp.algorithm cimport sort, stable_sort, unique
from libcpp.vector cimport vector

from muster.cluster.arrays cimport floats, ints, records
from muster.cluster.ledger_core cimport SLOTS, Books, Node, books_of
from muster.speed.input_core cimport ModelSpeed
from muster.speed.points_core cimport micro, storage_wanted
from muster.speed.points_core cimport held_speed as speed_of_rows
from muster.speed.points_core cimport speed_at as speed_of

import numpy as np

from muster.cluster.resources import BUILT_IN_COUNT, RESOURCE_COUNT

cdef int64_t _RESOURCES = RESOURCE_COUNT
cdef int64_t _BUILT_IN = BUILT_IN_COUNT
cdef double _ROUNDING = 1e-9  # speeds this close, relatively, are the same
cdef int64_t _UNLIMITED = <int64_t> 1 << 50  # more storage bandwidth than anybody can use

cdef struct Point:
    double speed
    int64_t amount[SLOTS]


# What bounds the points of a class: the most, the share and the request of one GPU.
cdef struct Bounds:
    int64_t* limit
    int64_t* share
    int64_t* requested


cdef ModelSpeed* _record(object models, int64_t model) except NULL:
    return <ModelSpeed*> records(models, sizeof(ModelSpeed)) + model


def speed_at(models, int64_t model, amounts):
    """Speed with these amounts a GPU, relative to the model's reference (Synergy's W)."""
    return speed_of(_record(models, model), ints(amounts).at)


def held_speed(books, int64_t row, models, int64_t model):
    """Speed of a job on what it holds, relative to its model's reference; the slowest machine counts."""
    cdef Books here = books_of(books)
    return speed_of_rows(&here, row, _record(models, 0), model)


def knee(models, int64_t model, limit, share, demand):
    """The cheapest demand within the limit that is as fast as the limit; its speed.

    Measured points and the limit's own lines are tried. Cost: the sum of the parts of one GPU's share; of equal
    costs the one with fewer CPUs. Storage is what these CPUs and memory can use.
    """
    return _knee(_record(models, model), ints(limit).at, ints(share).at, ints(demand).at)


cdef double _knee(ModelSpeed* model, int64_t* limit, int64_t* share, int64_t* demand) noexcept nogil:
    cdef double wanted = speed_of(model, limit) * (1 - _ROUNDING), cheapest = INFINITY, cost
    cdef int64_t candidate[SLOTS]
    cdef int64_t row, column, resource
    memcpy(candidate, limit, _RESOURCES * sizeof(int64_t))
    memcpy(demand + 1, limit + 1, (_RESOURCES - 1) * sizeof(int64_t))
    for row in range(model.n_cpus):
        candidate[1] = min(micro(model.cpus[row]), limit[1])
        for column in range(model.n_memory):
            candidate[2] = min(micro(model.memory[column]), limit[2])
            candidate[3] = storage_wanted(model, candidate[1], candidate[2], limit[3])
            if speed_of(model, candidate) < wanted:
                continue
            cost = 0.0
            for resource in range(1, _BUILT_IN):
                cost += <double> candidate[resource] / max(share[resource], <int64_t> 1)
            if cost < cheapest - _ROUNDING:
                cheapest = cost
                memcpy(demand + 1, candidate + 1, (_RESOURCES - 1) * sizeof(int64_t))
    return speed_of(model, demand)


cdef vector[int64_t] _ascending(vector[int64_t] amounts, int64_t least):
    """The amounts without repetitions, none below the least."""
    cdef size_t at
    for at in range(amounts.size()):
        amounts[at] = max(amounts[at], least)
    sort(amounts.begin(), amounts.end())
    amounts.erase(unique(amounts.begin(), amounts.end()), amounts.end())
    return amounts


cdef vector[int64_t] _cpu_lines(ModelSpeed* model, Bounds bounds):
    """CPU amounts at which the surface may bend or end, ascending: measured, the share's, the limit's.

    Amounts below the request are replaced by it.
    """
    cdef vector[int64_t] lines = [min(bounds.share[1], bounds.limit[1]), bounds.limit[1]]
    cdef int64_t row
    for row in range(model.n_cpus):
        lines.push_back(min(micro(model.cpus[row]), bounds.limit[1]))
    return _ascending(lines, bounds.requested[1])


cdef vector[int64_t] _memory_lines(ModelSpeed* model, Bounds bounds):
    """Memory amounts at which the surface may bend or end, as `_cpu_lines`."""
    cdef vector[int64_t] lines = [min(bounds.share[2], bounds.limit[2]), bounds.limit[2]]
    cdef int64_t column
    for column in range(model.n_memory):
        lines.push_back(min(micro(model.memory[column]), bounds.limit[2]))
    return _ascending(lines, bounds.requested[2])


cdef Point _point(int64_t cpus, int64_t memory, Bounds bounds) noexcept:
    """A point with these CPUs and memory, and of further resources what is requested."""
    cdef Point point
    cdef int64_t resource
    point.amount[0], point.amount[1], point.amount[2] = 0, cpus, memory
    for resource in range(3, _RESOURCES):
        point.amount[resource] = bounds.requested[resource] if resource >= _BUILT_IN else 0
    return point


cdef bint _slower(const Point& one, const Point& other) noexcept nogil:
    return one.speed < other.speed


cdef bint _dominates(vector[Point]& points, size_t one, size_t other) noexcept nogil:
    """Whether one point is as fast with no more of anything; of twins the first."""
    cdef bint same = points[one].speed == points[other].speed
    cdef int64_t resource
    if points[one].speed < points[other].speed:
        return False
    for resource in range(1, _RESOURCES):
        if points[one].amount[resource] > points[other].amount[resource]:
            return False
        same = same and points[one].amount[resource] == points[other].amount[resource]
    return not same or one < other


cdef object _as_arrays(vector[Point]& points):
    """Amounts by point and resource, and speeds by point."""
    amounts, speeds = np.empty((points.size(), _RESOURCES), np.int64), np.empty(points.size())
    cdef int64_t* amount = ints(amounts).at
    cdef double* speed = floats(speeds).at
    cdef size_t at
    for at in range(points.size()):
        memcpy(amount + at * _RESOURCES, points[at].amount, _RESOURCES * sizeof(int64_t))
        speed[at] = points[at].speed
    return amounts, speeds


def choices(models, int64_t model, limit, share, fair, requested):
    """The points within the limit that are as fast as the fair one and not dominated, by speed; the fair one first.

    Measured points, the limit's own lines and the share's own lines, with the storage that they can use; none has
    less than was requested.
    """
    cdef ModelSpeed* record = _record(models, model)
    cdef Bounds bounds = Bounds(ints(limit).at, ints(share).at, ints(requested).at)
    cdef vector[int64_t] cpus = _cpu_lines(record, bounds), memory = _memory_lines(record, bounds)
    cdef vector[Point] points, kept
    cdef Point point
    cdef double at_least
    cdef size_t row, column, one, other
    memcpy(point.amount, ints(fair).at, _RESOURCES * sizeof(int64_t))
    point.speed = speed_of(record, point.amount)
    at_least = point.speed * (1 + _ROUNDING)
    points.push_back(point)
    for row in range(cpus.size()):
        for column in range(memory.size()):
            point = _point(cpus[row], memory[column], bounds)
            point.amount[3] = storage_wanted(record, point.amount[1], point.amount[2], bounds.limit[3])
            point.speed = speed_of(record, point.amount)
            if point.speed > at_least:
                points.push_back(point)
    kept.push_back(points[0])
    for one in range(1, points.size()):
        for other in range(points.size()):
            if other != one and _dominates(points, other, one):
                break
        else:
            kept.push_back(points[one])
    stable_sort(kept.begin(), kept.end(), _slower)
    return _as_arrays(kept)


def corners(models, int64_t model, limit, share, double fair_speed, requested):
    """Points whose mixtures reach everything that is as fast as the fair share: what a valid bound must hold.

    All corners of every cell of the grid that has something as fast in it, from the request on; storage is taken as
    unlimited, since only so the surface stays under the chords between points.
    """
    cdef ModelSpeed* record = _record(models, model)
    cdef Bounds bounds = Bounds(ints(limit).at, ints(share).at, ints(requested).at)
    cdef vector[int64_t] cpus = _cpu_lines(record, bounds), memory = _memory_lines(record, bounds)
    cdef vector[Point] points, found
    cdef vector[bint] kept
    cdef Point point
    cdef size_t rows = cpus.size(), columns = memory.size(), row, column, up, left
    for row in range(rows):
        for column in range(columns):
            point = _point(cpus[row], memory[column], bounds)
            point.amount[3] = _UNLIMITED
            point.speed = speed_of(record, point.amount)
            point.amount[3] = 0
            points.push_back(point)
            kept.push_back(point.speed >= fair_speed * (1 - _ROUNDING))
    # Each cell by its last corner; in a grid of one line the cells are the edges between its points.
    for row in range(min(1, rows - 1), rows):
        for column in range(min(1, columns - 1), columns):
            if points[row * columns + column].speed > fair_speed * (1 + _ROUNDING):
                for up in range(min(row, 1) + 1):
                    for left in range(min(column, 1) + 1):
                        kept[(row - up) * columns + column - left] = True
    for row in range(points.size()):
        if kept[row]:
            found.push_back(points[row])
    return _as_arrays(found)


def published_demand(models, int64_t model, int64_t gpus, machine, demand):
    """Write the authors' best-case demand a GPU; the speed that their program gives a job that holds it.

    Each resource of g times one GPU's knee is cut to one machine. Up to a machine's GPUs the gain shrinks with
    the CPUs cut; of larger gangs the cut resources become proportional and nothing is gained.
    """
    cdef ModelSpeed* record = _record(models, model)
    cdef Node* node = <Node*> records(np.ascontiguousarray(machine), sizeof(Node))
    cdef int64_t* wanted = ints(demand).at
    cdef int64_t ideal[SLOTS]
    cdef double fair_speed = speed_of(record, node.share), best_speed
    cdef bint spans = gpus > node.gpus, cut = False
    cdef int64_t resource
    memcpy(ideal, node.share, sizeof(ideal))
    best_speed = _knee(record, node.capacity, node.share, ideal)
    for resource in range(1, _RESOURCES):
        wanted[resource] = ideal[resource]
        if ideal[resource] * gpus > node.capacity[resource]:
            cut = True
            wanted[resource] = node.share[resource] if spans else node.capacity[resource] // gpus
    if not cut:
        return best_speed
    if spans or ideal[1] <= node.share[1]:
        return fair_speed
    return fair_speed + (best_speed - fair_speed) * (<double> (wanted[1] - node.share[1]) / (ideal[1] - node.share[1]))
