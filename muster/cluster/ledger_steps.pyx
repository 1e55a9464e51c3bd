"""The steps that change the ledger's books, for Python: `ledger_core` has them for compiled code."""

from libc.stdint cimport int64_t

from muster.cluster cimport ledger_core as core
from muster.cluster.arrays cimport Ints, ints, records
from muster.cluster.ledger_core cimport PUT, Books, Entry, Row, books_of


def new_row(books):
    """A blank row; the caller has reserved room."""
    cdef Books here = books_of(books)
    return core.new_row(&here)


def room_of_decision(int64_t gpus, int64_t jobs):
    """The rows and the entries of the journal that a decision about so many jobs may write on so many GPUs."""
    return core.rows_of_decision(gpus, jobs), core.entries_of_decision(jobs)


def drop_rows(books, int64_t chain):
    """Return a chain's rows, which are charged nowhere any more, to the list of free rows."""
    cdef Books here = books_of(books)
    core.drop_rows(&here, chain)


def put_chain(books, int64_t job, int64_t chain):
    """Give a job, which holds nothing, the rows of a chain; 0, or why not, and then the rows are dropped."""
    cdef Books here = books_of(books)
    return core.put_chain(&here, job, chain)


def release_job(books, int64_t job):
    """Take all a job holds away from it; its rows stay as they are until the journal is settled."""
    cdef Books here = books_of(books)
    core.release_job(&here, job)


def undo_to(books, int64_t mark):
    """Take steps back until the journal is as long as it was at the mark."""
    cdef Books here = books_of(books)
    core.undo_to(&here, mark)


def carry_out(books, jobs, first, rows):
    """Give each job these rows instead of what it holds, journalled; 0, or why not, with the steps so far left."""
    cdef Books here = books_of(books)
    return core.carry_out(&here, ints(jobs), ints(first), <Row*> records(rows, sizeof(Row)))


def end_release(books, int64_t chain):
    """What a chain held and was still releasing becomes free."""
    cdef Books here = books_of(books)
    core.end_release(&here, chain)


def take_down(books, int64_t node):
    """Make what is free on a node unavailable; no job holds anything on it."""
    cdef Books here = books_of(books)
    core.take_down(&here, node)


def bring_up(books, int64_t node):
    """What was unavailable on a node is free again."""
    cdef Books here = books_of(books)
    core.bring_up(&here, node)


def charge_row(books, int64_t row):
    """Take what a row asks from its node, for no job; 0, or why not, with nothing changed."""
    cdef Books here = books_of(books)
    return core.charge(&here, row)


def discharge_row(books, int64_t row):
    """Give back what a row of no job holds, and the row."""
    cdef Books here = books_of(books)
    core.discharge(&here, row)
    core.drop_rows(&here, row)


def take_changes(books, before, jobs, first, rows):
    """Write down what each job of the journal holds, where that differs from what it held before, and undo all.

    Returns how many jobs differ. The rows of the job at `i` are `rows[first[i]:first[i + 1]]`. `before` is scratch, a
    place a job, all -2.
    """
    cdef Books here = books_of(books)
    return _take_changes(&here, ints(before), ints(jobs), ints(first), <Row*> records(rows, sizeof(Row)))


cdef int64_t _take_changes(Books* books, Ints before, Ints jobs, Ints first, Row* rows) noexcept nogil:
    cdef Entry* entry
    cdef int64_t at, job, old, row, count = 0, used = 0
    first.at[0] = 0
    for at in range(books.entries[0]):
        entry = &books.journal[at]
        if before.at[entry.job] == -2:
            before.at[entry.job] = -1 if entry.kind == PUT else entry.chain
    for at in range(books.entries[0]):
        job = books.journal[at].job
        old, row = before.at[job], books.heads[job]
        if old == -2:
            continue
        before.at[job] = -2
        if core.same_chain(books, old, row):
            continue
        jobs.at[count] = job
        while row >= 0:
            rows[used] = books.rows[row]
            rows[used].next, rows[used].since = -1, 0.0
            used += 1
            row = books.rows[row].next
        count += 1
        first.at[count] = used
    core.undo_to(books, 0)
    return count
