"""The numbers of classes by model, GPUs and request: a hash table, as every decision looks for those of all jobs."""

from libc.stdint cimport int64_t, uint64_t
from libcpp.vector cimport vector

from muster.cluster.arrays cimport Bools, Ints, bools, ints

cdef int64_t _UNKNOWN = -1
cdef uint64_t _SPREAD = 0x9E3779B97F4A7C15  # odd, its bits as if drawn at random


cdef class RequestClasses:
    """Numbers of classes by rows of a model, a number of GPUs and a request by resource."""

    cdef vector[int64_t] _rows, _numbers, _slots
    cdef int64_t _width

    def __cinit__(self, int64_t resources):
        self._width = 2 + resources
        self._slots.assign(64, _UNKNOWN)

    def find(self, model, gpus, requested, asks, numbers):
        """Write the number of the class of each job that asks for something into `numbers`, -1 for a new class."""
        cdef Ints models = ints(model), many = ints(gpus), amounts = ints(requested), found = ints(numbers)
        cdef Bools some = bools(asks)
        cdef vector[int64_t] row = vector[int64_t](self._width)
        cdef int64_t at, resource, resources = self._width - 2, slot
        for at in range(some.size):
            if not some.at[at]:
                continue
            row[0], row[1] = models.at[at], many.at[at]
            for resource in range(resources):
                row[2 + resource] = amounts.at[at * resources + resource]
            slot = self._slots[self._slot_of(row.data())]
            found.at[at] = _UNKNOWN if slot == _UNKNOWN else self._numbers[slot]

    def add(self, row, int64_t number):
        """Give a row that was not there a number."""
        cdef Ints given = ints(row)
        cdef int64_t at, place
        self._slots[self._slot_of(given.at)] = self._numbers.size()
        self._rows.insert(self._rows.end(), given.at, given.at + self._width)
        self._numbers.push_back(number)
        if 2 * self._numbers.size() > self._slots.size():
            place = 2 * self._slots.size()
            self._slots.assign(place, _UNKNOWN)
            for at in range(<int64_t> self._numbers.size()):
                self._slots[self._slot_of(self._rows.data() + at * self._width)] = at

    cdef int64_t _slot_of(self, int64_t* row) noexcept nogil:
        """Where a row is in the table, or would be."""
        cdef uint64_t mixed = 0
        cdef int64_t at, slot, last = self._slots.size() - 1
        for at in range(self._width):
            mixed = (mixed ^ <uint64_t> row[at]) * _SPREAD
            mixed ^= mixed >> 32
        slot = mixed & last
        while self._slots[slot] != _UNKNOWN and not self._is_row(self._slots[slot], row):
            slot = (slot + 1) & last
        return slot

    cdef bint _is_row(self, int64_t number, int64_t* row) noexcept nogil:
        cdef int64_t at
        for at in range(self._width):
            if self._rows[number * self._width + at] != row[at]:
                return False
        return True
