"""The long tables of a record as columns, of whose distinct values each is looked up or written as text once."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libcpp.vector cimport vector

cimport numpy as cnp

from muster.cluster.arrays cimport records
from muster.cluster.ledger_core cimport GPU, MICRO, WHOLE, count_bits
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


def held_columns(held):
    """The fields of the records of HELD as arrays, quantities in their units, and the first record that has each mask.

    `mask` is the number of a record's mask among the distinct ones; `amount` has a row for each resource but GPUs,
    whose place is left as it is.
    """
    cdef int64_t at, resource, count = len(held)
    cdef Held* rows = <Held*> records(held, held_size(_RESOURCES))
    cdef Held* row
    cdef Numbering numbering
    cdef vector[int64_t] first
    masks, jobs, nodes, roles = [np.empty(count, np.uint32) for _ in range(4)]
    groups, gpus = np.empty(count, np.int32), np.empty(count)
    begins, ends, amounts = np.empty(count), np.empty(count), np.empty((_RESOURCES, count))
    cdef uint32_t[::1] mask = masks, job = jobs, node = nodes, role = roles
    cdef int32_t[::1] group = groups
    cdef double[::1] gpu = gpus, begin = begins, end = ends
    cdef double[:, ::1] amount = amounts
    for at in range(count):
        row = held_at(rows, at, _RESOURCES)
        mask[at] = numbering.number(row.mask, 0, 0)
        if numbering.size() > first.size():
            first.push_back(at)
        job[at], node[at], role[at], group[at] = row.job, row.node, row.role, row.group
        gpu[at] = <double> count_bits(row.mask) * row.milli / <double> WHOLE
        begin[at], end[at] = row.begin, row.end
        for resource in range(GPU + 1, _RESOURCES):
            amount[resource, at] = row.amount[resource] / <double> MICRO
    columns = {"mask": masks, "job": jobs, "node": nodes, "role": roles, "group": groups, "gpus": gpus}
    return {**columns, "from": begins, "to": ends, "amount": amounts}, np.array(first, np.int64)


def explained_columns(explained):
    """The fields of the records of PENDING_INTERVAL as arrays, and the first record that has each reason.

    `reason` is the number of a record's reason among the distinct ones: reasons differ by code or by a number.
    """
    cdef int64_t at, count = len(explained)
    cdef PendingInterval* rows = <PendingInterval*> records(explained, sizeof(PendingInterval))
    cdef Numbering numbering
    cdef vector[int64_t] first
    reasons, jobs, codes = [np.empty(count, np.uint32) for _ in range(3)]
    begins, ends = np.empty(count), np.empty(count)
    cdef uint32_t[::1] reason = reasons, job = jobs, code = codes
    cdef double[::1] begin = begins, end = ends
    for at in range(count):
        reason[at] = numbering.number(rows[at].code, bits(rows[at].a), bits(rows[at].b))
        if numbering.size() > first.size():
            first.push_back(at)
        job[at], code[at], begin[at], end[at] = rows[at].job, rows[at].code, rows[at].begin, rows[at].end
    columns = {"reason": reasons, "job": jobs, "code": codes, "from": begins, "to": ends}
    return columns, np.array(first, np.int64)
