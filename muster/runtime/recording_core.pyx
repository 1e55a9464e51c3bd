"""Numbers for the distinct values of a record's long columns, so that each is looked up or written as text once."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libcpp.vector cimport vector

cimport numpy as cnp

from muster.cluster.arrays cimport records
from muster.runtime.lifecycle cimport Held, PendingInterval, held_at, held_size

import numpy as np

from muster.cluster.resources import RESOURCE_COUNT

cnp.import_array()

cdef int64_t _RESOURCES = RESOURCE_COUNT

cdef extern from * nogil:
    """
    #include <cstdint>
    #include <cstring>
    #include <unordered_map>
    // Up to three values, compared bit by bit.
    struct MusterTriple {
        uint64_t first, second, third;
        bool operator==(const MusterTriple& other) const {
            return first == other.first && second == other.second && third == other.third;
        }
    };
    static inline uint64_t muster_bits(double number) {
        uint64_t bits;
        std::memcpy(&bits, &number, sizeof(bits));
        return bits;
    }
    // Gives each distinct triple a number, in the order in which they come.
    struct MusterNumbering {
        struct Hash {
            size_t operator()(const MusterTriple& one) const {
                uint64_t mixed = one.first * 0x9E3779B97F4A7C15ull ^ one.second * 0xC2B2AE3D27D4EB4Full;
                mixed = (mixed ^ one.third) * 0x165667B19E3779F9ull;
                return mixed ^ mixed >> 32;
            }
        };
        std::unordered_map<MusterTriple, uint32_t, Hash> known;
        MusterTriple last;
        uint32_t of_last;
        uint32_t operator()(uint64_t first, uint64_t second, uint64_t third) {
            MusterTriple here = {first, second, third};
            if (known.empty() || !(here == last)) {
                of_last = known.try_emplace(here, (uint32_t) known.size()).first->second;
                last = here;
            }
            return of_last;
        }
        size_t size() const { return known.size(); }
    };
    """
    uint64_t bits "muster_bits"(double number)
    cdef cppclass Numbering "MusterNumbering":
        uint32_t number "operator()"(uint64_t first, uint64_t second, uint64_t third)
        size_t size()


def distinct_masks(held):
    """Of each record of HELD the number of its mask among the distinct ones, and the first record that has each."""
    cdef Held* rows = <Held*> records(held, held_size(_RESOURCES))
    cdef Numbering numbering
    cdef vector[int64_t] first
    cdef int64_t at, count = len(held)
    cdef cnp.ndarray numbers = np.empty(count, np.uint32)
    cdef uint32_t* number = <uint32_t*> cnp.PyArray_DATA(numbers)
    for at in range(count):
        number[at] = numbering.number(held_at(rows, at, _RESOURCES).mask, 0, 0)
        if numbering.size() > first.size():
            first.push_back(at)
    return numbers, np.array(first, np.int64)


def distinct_reasons(explained):
    """Of each record of PENDING_INTERVAL the number of its reason among the distinct ones, and the first of each.

    Reasons differ by code or by one of their two numbers.
    """
    cdef PendingInterval* rows = <PendingInterval*> records(explained, sizeof(PendingInterval))
    cdef Numbering numbering
    cdef vector[int64_t] first
    cdef int64_t at, count = len(explained)
    cdef cnp.ndarray numbers = np.empty(count, np.uint32)
    cdef uint32_t* number = <uint32_t*> cnp.PyArray_DATA(numbers)
    for at in range(count):
        number[at] = numbering.number(rows[at].code, bits(rows[at].a), bits(rows[at].b))
        if numbering.size() > first.size():
            first.push_back(at)
    return numbers, np.array(first, np.int64)
