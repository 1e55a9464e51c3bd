"""The step of one job whose workers and servers are counted, for compiled code; `step_time` says what its terms are."""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t

cdef inline double longest_term(double* terms, int64_t count, double workers, double load) noexcept nogil:
    """Seconds of the longest of so many terms, each a, b and c of a/w + b + c w/p; `load` is w/p."""
    cdef double longest = -INFINITY
    cdef int64_t term
    for term in range(count):
        longest = max(longest, terms[3 * term] / workers + terms[3 * term + 1] + terms[3 * term + 2] * load)
    return longest
