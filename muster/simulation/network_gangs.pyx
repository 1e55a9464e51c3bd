"""Which gangs of a run communicate, and on which GPUs: the rows of the ledger as the network takes them."""

from libc.stdint cimport int64_t, uint8_t

from muster.cluster.arrays cimport Ints, bools, ints, records
from muster.cluster.ledger_core cimport GPU, MICRO, PUT, SERVER, Books, Row, books_of
from muster.workload.jobs_core cimport RING, Asked, Fact


# What is gathered: the jobs, where the rows of each begin, and node and GPUs of each row.
cdef struct Gathered:
    int64_t count
    int64_t rows
    int64_t* jobs
    int64_t* first
    int64_t* nodes
    int64_t* bits


cdef Gathered _gathered(object scratch) except *:
    """Nothing yet, in the lines of an array."""
    cdef Gathered gathered
    cdef int64_t* lines = ints(scratch).at
    cdef int64_t width = scratch.shape[1]
    gathered.count = gathered.rows = 0
    gathered.jobs, gathered.first = lines, lines + width
    gathered.nodes, gathered.bits = lines + 2 * width, lines + 3 * width
    gathered.first[0] = 0
    return gathered


cdef int64_t _firsts(int64_t mask, int64_t each, int64_t before) noexcept nogil:
    """Of workers with `each` GPUs, the first of every worker; `before` have been on other machines."""
    cdef int64_t gpu, firsts = 0
    for gpu in range(64):
        if mask >> gpu & 1:
            if before % each == 0:
                firsts |= <int64_t> 1 << gpu
            before += 1
    return firsts


cdef int64_t _write_rows(Books* books, Asked* ask, int64_t job, Gathered* gathered) noexcept nogil:
    """Write a job's rows behind the gathered ones; how many, 0 if it has servers or no more than one GPU or worker."""
    cdef int64_t mask, gpus = 0, written = 0, to = gathered.rows, chain = books.heads[job]
    cdef int64_t each = ask.worker_gpus // MICRO if ask.sync == RING else 1
    cdef Row* row
    while chain >= 0:
        row = &books.rows[chain]
        chain = row.next
        if row.role == SERVER:
            return 0
        mask = row.mask
        if mask:
            if each > 1:
                mask = _firsts(mask, each, gpus // MICRO)
            gpus += row.amount[GPU]
        if mask:
            gathered.nodes[to + written] = row.node
            gathered.bits[to + written] = mask
            written += 1
    return written if gpus > each * MICRO else 0


cdef void _keep_rows(Gathered* gathered, int64_t job, int64_t written) noexcept nogil:
    """Gather a job whose rows are written."""
    gathered.rows += written
    gathered.jobs[gathered.count] = job
    gathered.count += 1
    gathered.first[gathered.count] = gathered.rows


def put_by_journal(books, asked, facts, sensitive, scratch):
    """Gather the sensitive gangs that the journal puts, and count them and their rows; the others have nothing exposed.

    `scratch` gets the jobs, where the rows of each begin, and node and GPUs of each row.
    """
    cdef Books held = books_of(books)
    cdef Asked* all_asked = <Asked*> records(asked, sizeof(Asked))
    cdef Fact* all_facts = <Fact*> records(facts, sizeof(Fact))
    cdef uint8_t* communicates = bools(sensitive).at
    cdef Gathered gathered = _gathered(scratch)
    cdef int64_t at, job, written
    for at in range(held.entries[0]):
        job = held.journal[at].job
        if held.journal[at].kind != PUT or held.heads[job] != held.journal[at].chain:
            continue
        all_facts[job].exposed = 0.0
        if communicates[all_asked[job].model]:
            written = _write_rows(&held, &all_asked[job], job, &gathered)
            if written > 0:
                _keep_rows(&gathered, job, written)
    return gathered.count, gathered.rows


def on_machines(books, asked, active, sensitive, scratch, int64_t at_least):
    """Gather the sensitive gangs on at least so many machines, and count them and their rows.

    `scratch` is as for `put_by_journal`.
    """
    cdef Books held = books_of(books)
    cdef Asked* all_asked = <Asked*> records(asked, sizeof(Asked))
    cdef uint8_t* communicates = bools(sensitive).at
    cdef Ints jobs = ints(active)
    cdef Gathered gathered = _gathered(scratch)
    cdef int64_t at, job, written
    for at in range(jobs.size):
        job = jobs.at[at]
        if communicates[all_asked[job].model]:
            written = _write_rows(&held, &all_asked[job], job, &gathered)
            if written >= at_least:
                _keep_rows(&gathered, job, written)
    return gathered.count, gathered.rows
