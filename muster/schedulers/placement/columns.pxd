"""The arrays by position with which schedulers call compiled code: the jobs, what each needs, and the reasons."""

from libc.stdint cimport int64_t, uint8_t

from muster.cluster.ledger_core cimport Books
from muster.workload.jobs_core cimport Asked

# `job_columns.JobColumns`.
cdef struct Jobs:
    Asked* spec  # by number
    int64_t* numbers  # by position
    uint8_t* node_allowed  # constraints x nodes
    int64_t count
    int64_t nodes

# `job_columns.ReasonColumns`, by position.
cdef struct Reasons:
    int64_t* codes
    double* a
    double* b

# By position, or one line for all positions: what a job may have beside each of its GPUs, best first.
cdef struct Needs:
    int64_t* at
    int64_t lines
    int64_t options
    int64_t resources

cdef inline Asked* spec_of(Jobs* jobs, int64_t at) noexcept nogil:
    return &jobs.spec[jobs.numbers[at]]

cdef inline uint8_t* allowed_nodes(Jobs* jobs, int64_t at) noexcept nogil:
    """By node, whether the job at a position may run there."""
    return jobs.node_allowed + spec_of(jobs, at).constraint * jobs.nodes

cdef inline int64_t* need_of(Needs* needs, int64_t at, int64_t option) noexcept nogil:
    """What the job at a position needs with an option, by resource."""
    cdef int64_t line = 0 if needs.lines == 1 else at
    return needs.at + (line * needs.options + option) * needs.resources

cdef inline int64_t thousandths_of(Jobs* jobs, int64_t at) noexcept nogil:
    """Thousandths of a GPU that a job asks for."""
    return spec_of(jobs, at).gpus * spec_of(jobs, at).milli

cdef Jobs jobs_of(object columns) except *
cdef Reasons reasons_of(object columns) except *
cdef Needs needs_of(object options) except *
cdef void note_lack(Books* books, Jobs* jobs, int64_t at, int64_t code, Reasons* reasons) noexcept nogil
cdef void note_no_place(Books* books, Jobs* jobs, int64_t at, Reasons* reasons) noexcept nogil
cdef bint put_back(Books* books, int64_t job, int64_t chain) noexcept nogil
