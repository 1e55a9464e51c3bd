"""What a plan is worth, compiled; see `worth`."""

from libc.stdint cimport int64_t

from muster.cluster.arrays cimport floats, ints
from muster.cluster.ledger_core cimport Books, books_of
from muster.schedulers.allocation.draft_core cimport Draft, draft_of, is_unchanged, stays_put
from muster.schedulers.allocation.gangs_core cimport Gangs, gangs_of
from muster.schedulers.allocation.resource_fill cimport gang_speed, raise_gang


cdef ForRunning for_running_of(object running) except *:
    cdef ForRunning counts
    counts.worth, counts.up_to = running.worth, running.up_to
    return counts


def worth_of(books, index, gangs, plan, lost, bint resize_restarts, running):
    """The weighted speed of all jobs of a plan, less the part of it that its restarts lose (`lost`, by job).

    Each counts in addition that it runs. Where a resize restarts nothing, gangs on several machines first get what is
    left there.
    """
    cdef Books here = books_of(books)
    cdef Draft draft = draft_of(plan)
    cdef Gangs jobs = gangs_of(gangs)
    cdef int64_t* numbers = ints(index).at
    cdef double* part_lost = floats(lost).at
    cdef ForRunning counts = for_running_of(running)
    cdef int64_t at, head
    cdef bint restarts
    cdef double speed, worth = 0.0, runs = 0.0
    for at in range(jobs.jobs):
        if draft.first[at] < 0:
            continue
        head = here.heads[numbers[at]]
        if resize_restarts:
            restarts = head >= 0 and not is_unchanged(&here, head, &draft, draft.first[at])
        else:
            raise_gang(&draft, &jobs, at)
            restarts = head >= 0 and not stays_put(&here, head, &draft, draft.first[at])
        speed = gang_speed(&draft, &jobs, at)
        worth += jobs.weight[at] * speed * (1 - part_lost[at] * restarts)
        runs += jobs.weight[at] * running_counts(&counts, speed)
    return worth + runs
