"""Speed by amounts in the ledger's units, for compiled code; `points` says more."""

from libc.math cimport INFINITY, ceil
from libc.stdint cimport int64_t

from muster.cluster.ledger_core cimport SLOTS, Books, Row
from muster.speed.input_core cimport ModelSpeed, relative_speed, storage_needed_gb_per_s


cdef inline double speed_at(ModelSpeed* model, int64_t* amounts) noexcept nogil:
    """Speed with these amounts a GPU, relative to the model's reference (Synergy's W)."""
    return relative_speed(model, amounts[1] / 1e6, amounts[2] / 1e6, amounts[3] / 1e6)


cdef inline int64_t micro(double amount) noexcept nogil:
    """Millionths, rounded up, but not because of a rounding error."""
    return <int64_t> ceil(amount * 1e6 - 1e-3)


cdef inline int64_t storage_wanted(ModelSpeed* model, int64_t cpus, int64_t memory, int64_t limit) noexcept nogil:
    """The storage bandwidth that these CPUs and memory can use, at most the limit; all in millionths."""
    cdef double needed = storage_needed_gb_per_s(model, cpus / 1e6, memory / 1e6)
    return limit if needed * 1e6 >= limit else micro(needed)


cdef inline double held_speed(Books* books, int64_t row, ModelSpeed* models, int64_t model) noexcept nogil:
    """Speed of a job on what it holds, relative to its model's reference; the slowest machine counts."""
    cdef double slowest = INFINITY
    cdef int64_t per_gpu[SLOTS]
    cdef int64_t resource
    cdef Row* held
    while row >= 0:
        held = &books.rows[row]
        if held.amount[0] > 0:
            for resource in range(1, books.resources):
                per_gpu[resource] = held.amount[resource] * 1000000 // held.amount[0]
            slowest = min(slowest, speed_at(&models[models[model].on_type[books.nodes[held.node].gpu_type]], per_gpu))
        row = held.next
    return slowest if slowest < INFINITY else 0.0
