"""The arrays by position with which schedulers call compiled code: the jobs, what each needs, and the reasons."""

cimport numpy as cnp

from muster.cluster.arrays cimport bools, floats, ints, records
from muster.cluster.ledger_core cimport CPU, GPU, MEMORY, MICRO, WHOLE, copy_chain, put_chain

from muster.schedulers.reasons import NO_CPUS, NO_PLACE

cdef int64_t _NO_CPUS = NO_CPUS
cdef int64_t _NO_PLACE = NO_PLACE


cdef Jobs jobs_of(object columns) except *:
    """The jobs of a snapshot (`job_columns.JobColumns`)."""
    cdef Jobs jobs
    jobs.spec = <Asked*> records(columns[0], sizeof(Asked))
    jobs.numbers, jobs.count = ints(columns[1]).at, len(columns[1])
    jobs.node_allowed, jobs.nodes = bools(columns[2]).at, columns[2].shape[1]
    return jobs


cdef Reasons reasons_of(object columns) except *:
    """The reasons of a proposal (`job_columns.ReasonColumns`)."""
    cdef Reasons reasons
    reasons.codes = ints(columns[0]).at
    reasons.a, reasons.b = floats(columns[1]).at, floats(columns[2]).at
    return reasons


cdef Needs needs_of(object options) except *:
    """Lines x options x resources."""
    cdef cnp.ndarray array = options
    cdef Needs needs
    needs.at, needs.lines = ints(array).at, array.shape[0]
    needs.options, needs.resources = array.shape[1], array.shape[2]
    return needs


cdef void note_lack(Books* books, Jobs* jobs, int64_t at, int64_t code, Reasons* reasons) noexcept nogil:
    """Note that a job waits for GPUs or for a place: what it needs, and how many GPUs are free."""
    reasons.codes[at] = code
    reasons.a[at] = <double> thousandths_of(jobs, at) / WHOLE
    reasons.b[at] = <double> books.totals[GPU] / MICRO


cdef void note_no_place(Books* books, Jobs* jobs, int64_t at, Reasons* reasons) noexcept nogil:
    """Note that there is no place for a job, or no CPUs and memory for one without GPUs."""
    cdef Asked* spec = spec_of(jobs, at)
    note_lack(books, jobs, at, _NO_PLACE, reasons)
    if spec.gpus == 0:
        reasons.codes[at] = _NO_CPUS
        reasons.a[at] = <double> spec.requested[CPU] / MICRO
        reasons.b[at] = <double> max(spec.requested[MEMORY], <int64_t> 0) / MICRO


cdef bint put_back(Books* books, int64_t job, int64_t chain) noexcept nogil:
    """Give a stopped job the rows it had, if all of it is still free."""
    return put_chain(books, job, copy_chain(books, chain)) == 0
