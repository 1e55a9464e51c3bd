"""The parts of Parquet files that take a step a value: numbers of values, their packed form, and repeated lists."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy
from libcpp.vector cimport vector

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_AsUTF8AndSize

import numpy as np

cdef enum:
    _SHORTEST_RUN = 16  # that is written as one value and its count
    _SLOTS = 1 << 14  # of a table of values, which 50 bits are too many for; a fourth of them is used at most


cdef void _put_varint(vector[uint8_t]& out, uint64_t number) noexcept nogil:
    while number >= 128:
        out.push_back(<uint8_t> (number & 127 | 128))
        number >>= 7
    out.push_back(<uint8_t> number)


cdef void _put_packed(vector[uint8_t]& out, const uint32_t* values, int64_t count, int width) noexcept nogil:
    """Add values of some bits each, eight at a time; zeros fill up the last eight."""
    cdef uint64_t bits = 0
    cdef uint32_t word
    cdef int used = 0
    cdef int64_t at, groups = (count + 7) // 8
    cdef size_t place, end
    _put_varint(out, groups << 1 | 1)
    place, end = out.size(), out.size() + groups * width
    out.resize(end + sizeof(word))
    for at in range(8 * groups):
        bits |= <uint64_t> (values[at] if at < count else 0) << used
        used += width
        if used >= 32:
            word = <uint32_t> bits
            memcpy(&out[place], &word, sizeof(word))
            place += sizeof(word)
            bits >>= 32
            used -= 32
    word = <uint32_t> bits
    memcpy(&out[place], &word, sizeof(word))
    out.resize(end)


def pack_numbers(const uint32_t[::1] values, int width):
    """Return the values as runs of equal ones and packed bits (Parquet, "RLE/bit-packing hybrid")."""
    cdef vector[uint8_t] out
    cdef const uint32_t* value = &values[0] if values.shape[0] else NULL
    cdef int64_t at = 0, first = 0, end, count = values.shape[0]
    cdef uint32_t differ
    cdef int ahead
    out.reserve(count * width // 8 + 64)
    while at + _SHORTEST_RUN <= count:
        differ = 0
        for ahead in range(1, _SHORTEST_RUN):
            differ |= value[at] ^ value[at + ahead]
        if differ:
            at += 8
            continue
        end = at + _SHORTEST_RUN
        while end < count and value[end] == value[at]:
            end += 1
        if at > first:
            _put_packed(out, value + first, at - first, width)
        _put_varint(out, <uint64_t> (end - at) << 1)
        for ahead in range((width + 7) // 8):
            out.push_back(<uint8_t> (value[at] >> 8 * ahead))
        first = at = end
    if count > first:
        _put_packed(out, value + first, count - first, width)
    return PyBytes_FromStringAndSize(<char*> out.data(), out.size())


def number_distinct(const uint64_t[::1] values):
    """Return the number of each value among the distinct ones, and these; None if there are too many to be worth it."""
    cdef vector[uint64_t] distinct
    cdef vector[uint32_t] slots
    cdef size_t slot
    cdef int64_t at, count = values.shape[0]
    numbers = np.empty(count, np.uint32)
    cdef uint32_t[::1] number = numbers
    slots.resize(_SLOTS, 0)  # one more than a value's number; 0: free
    for at in range(count):
        slot = (values[at] * <uint64_t> 0x9E3779B97F4A7C15) >> 50
        while slots[slot] and distinct[slots[slot] - 1] != values[at]:
            slot = (slot + 1) % _SLOTS
        if not slots[slot]:
            if distinct.size() == _SLOTS // 4:
                return None
            distinct.push_back(values[at])
            slots[slot] = <uint32_t> distinct.size()
        number[at] = slots[slot] - 1
    return numbers, np.array(distinct, np.uint64)


def join_texts(list names):
    """Return texts one after the other, each after its length."""
    cdef vector[uint8_t] out
    cdef Py_ssize_t length
    cdef const char* text
    cdef int byte
    for name in names:
        text = PyUnicode_AsUTF8AndSize(name, &length)
        for byte in range(4):
            out.push_back(<uint8_t> (length >> 8 * byte))
        out.insert(out.end(), <uint8_t*> text, <uint8_t*> text + length)
    return PyBytes_FromStringAndSize(<char*> out.data(), out.size())


def write_out_lists(const uint32_t[::1] lists, const int64_t[::1] first, const uint32_t[::1] elements):
    """Write the lists of these numbers out: for each place 1 where it goes on with a list, 0 where it has no element
    and else 3, and the elements.

    List `n` has the elements from `first[n]` to `first[n + 1]`. One without an element has a place of its own.
    """
    cdef int64_t at, place = 0, value = 0, element, count = 0
    for at in range(lists.shape[0]):
        count += max(first[lists[at] + 1] - first[lists[at]], 1)
    levels, filled, values = np.zeros(count, np.uint32), np.full(count, 3, np.uint32), np.empty(count, np.uint32)
    cdef uint32_t[::1] goes_on = levels, full = filled, out = values
    for at in range(lists.shape[0]):
        if first[lists[at]] == first[lists[at] + 1]:
            full[place] = 1
            place += 1
            continue
        for element in range(first[lists[at]], first[lists[at] + 1]):
            goes_on[place] = element > first[lists[at]]
            out[value] = elements[element]
            place += 1
            value += 1
    return levels, filled, values[:value]
