"""Opening a draft over the ledger, keeping what jobs hold, and writing the draft back, for `placement_draft`."""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy
from libcpp.vector cimport vector

from muster.cluster.arrays cimport Bools, Ints, bools, ints, records
from muster.cluster.ledger_core cimport (
    GPU,
    MICRO,
    SERVER,
    WHOLE,
    Books,
    Row,
    books_of,
    count_bits,
    new_row,
    put_chain,
    release_job,
)
from muster.schedulers.allocation.draft_core cimport (
    Draft,
    NodePart,
    add_rows,
    draft_of,
    is_unchanged,
    stays_put,
)
from muster.schedulers.allocation.draft_core cimport add_part as add_to
from muster.schedulers.allocation.draft_core cimport keep_amounts as keep_amounts_of
from muster.schedulers.allocation.draft_core cimport per_gpu as amounts_per_gpu
from muster.schedulers.allocation.draft_core cimport set_amounts as set_amounts_of
from muster.schedulers.placement.columns cimport (
    Jobs,
    Reasons,
    jobs_of,
    note_no_place,
    reasons_of,
    thousandths_of,
)
from muster.schedulers.placement.rules_core cimport PACK, Scratch, pick_gpus, place_job
from muster.workload.jobs_core cimport Asked

from muster.schedulers.reasons import NO_GPUS, OUTRANKED, PLACED

cdef int64_t _NO_GPUS = NO_GPUS
cdef int64_t _OUTRANKED = OUTRANKED
cdef int64_t _PLACED = PLACED


def open_parts(books, index, draft, requested):
    """Free what movable jobs hold and place fixed jobs where they run."""
    cdef Books here = books_of(books)
    cdef Draft opened = draft_of(draft)
    _open(&here, ints(index).at, &opened, ints(requested).at)


cdef void _open(Books* books, int64_t* index, Draft* draft, int64_t* requested) noexcept nogil:
    cdef int64_t at, node, head, row, resource, gpus
    cdef Row* held
    for node in range(draft.nodes):
        draft.free[node * draft.resources] = books.nodes[node].free_gpus
    for at in range(draft.jobs):
        head = books.heads[index[at]]
        if not draft.movable[at] and not draft.fixed[at]:
            continue
        if head < 0:
            draft.fixed[at] = False
            continue
        if books.delayed[0] or not _plain(books, head):
            draft.movable[at] = draft.fixed[at] = False
            continue
        draft.home[at] = books.rows[head].node if books.rows[head].next < 0 else -1
        row = head
        while row >= 0:
            held = &books.rows[row]
            gpus = count_bits(held.mask)
            draft.free[held.node * draft.resources] += gpus
            for resource in range(1, draft.resources):
                draft.free[held.node * draft.resources + resource] += held.amount[resource]
            if draft.fixed[at]:
                set_amounts_of(draft, add_to(draft, at, held.node, gpus), requested + at * draft.resources)
            row = held.next


cdef bint _plain(Books* books, int64_t row) noexcept nogil:
    """Whether a chain is workers on whole GPUs of their own."""
    cdef Row* held
    while row >= 0:
        held = &books.rows[row]
        if held.milli != WHOLE or held.group >= 0 or held.role == SERVER or held.mask == 0:
            return False
        row = held.next
    return True


def reserve(books, index, draft, comes, allowed, requested, more, keep):
    """Reserve a node for each waiting job without GPUs, in order, where fixed jobs keep their fair demand.

    Running jobs that may be placed again keep what `keep` has beside each of their GPUs.

    Nodes without GPUs come first, then the one with the most CPUs left. `more` is what each job needs by node and
    resource, beside each GPU, to rise from its request to its fair demand. `allowed` is by place in `comes` and node.
    """
    cdef Books here = books_of(books)
    cdef Draft opened = draft_of(draft)
    cdef int64_t width = opened.resources
    cdef Ints numbers = ints(index), waiting = ints(comes), needs = ints(requested), rises = ints(more)
    cdef Ints keeps = ints(keep)
    cdef Bools may_use = bools(allowed)
    cdef vector[int64_t] spare
    cdef int64_t number, i, at, node, resource, row
    cdef NodePart* part
    spare.assign(opened.free, opened.free + opened.nodes * width)
    for number in range(opened.used[0]):
        part = &opened.node_parts[number]
        for resource in range(1, width):
            spare[part.node * width + resource] -= (
                part.gpus * rises.at[(part.at * opened.nodes + part.node) * width + resource]
            )
    for at in range(opened.jobs):
        row = here.heads[numbers.at[at]]
        while row >= 0:
            for resource in range(1, width):
                spare[here.rows[row].node * width + resource] -= (
                    count_bits(here.rows[row].mask) * keeps.at[at * width + resource]
                )
            row = here.rows[row].next
    for i in range(waiting.size):
        at = waiting.at[i]
        if here.heads[numbers.at[at]] >= 0:
            continue
        node = _node_to_reserve(&here, may_use.at + i * opened.nodes, needs.at + at * width, spare.data())
        if node >= 0:
            opened.reserved[at] = node
            for resource in range(1, width):
                spare[node * width + resource] -= needs.at[at * width + resource]
                opened.free[node * width + resource] -= needs.at[at * width + resource]


cdef int64_t _node_to_reserve(Books* books, uint8_t* allowed, int64_t* need, int64_t* spare) noexcept nogil:
    """The node for a job without GPUs, by what each has to spare; -1: none."""
    cdef int64_t node, resource, best = -1, width = books.resources
    cdef bint fits, with_gpus, best_with_gpus, more_cpus
    for node in range(books.node_count):
        fits = allowed[node]
        for resource in range(1, width):
            fits = fits and need[resource] <= spare[node * width + resource]
        if not fits:
            continue
        with_gpus = books.nodes[node].gpus > 0
        best_with_gpus = best >= 0 and books.nodes[best].gpus > 0
        more_cpus = best >= 0 and spare[node * width + 1] > spare[best * width + 1]
        if best < 0 or with_gpus < best_with_gpus or (with_gpus == best_with_gpus and more_cpus):
            best = node
    return best


def add_part(draft, int64_t at, int64_t node, int64_t gpus):
    """Give a job GPUs of a node, with nothing beside them yet; the node part's number.

    A job's node parts are added by ascending node.
    """
    cdef Draft here = draft_of(draft)
    return add_to(&here, at, node, gpus)


def set_amounts(draft, int64_t number, amounts):
    """Set what a node part has beside each of its GPUs; the node's free amounts follow."""
    cdef Draft here = draft_of(draft)
    set_amounts_of(&here, number, ints(amounts).at)


def per_gpu(draft, int64_t number, amounts):
    """Write what a node part has beside each of its GPUs; the GPUs' own entry is not touched."""
    cdef Draft here = draft_of(draft)
    amounts_per_gpu(&here, number, ints(amounts).at)


def keep_in_place(books, index, draft, chosen):
    """Place the chosen jobs that run where they run."""
    cdef Books here = books_of(books)
    cdef Draft plan = draft_of(draft)
    cdef Ints numbers = ints(index)
    cdef Bools stays = bools(chosen)
    cdef int64_t at
    for at in range(plan.jobs):
        if stays.at[at] and plan.movable[at] and here.heads[numbers.at[at]] >= 0:
            add_rows(&plan, at, &here, here.heads[numbers.at[at]])


def keep_amounts(books, index, draft):
    """Give jobs that stay in place what they hold now, on nodes to which no other job comes.

    Where a job without GPUs has a reservation, they share what it leaves beside their requests, in proportion.
    """
    cdef Books here = books_of(books)
    cdef Draft plan = draft_of(draft)
    keep_amounts_of(&here, ints(index).at, &plan)


def write_parts(books, index, draft, ranked, chosen):
    """Release what changes or is not chosen, put resized jobs back on their GPUs, then place the others."""
    cdef Books here = books_of(books)
    cdef Draft plan = draft_of(draft)
    _write(&here, ints(index).at, &plan, ints(ranked), bools(chosen).at)


cdef void _write(Books* books, int64_t* index, Draft* draft, Ints ranked, uint8_t* chosen) noexcept nogil:
    cdef vector[int64_t] changed, old
    cdef int64_t at, head, i, chain
    cdef size_t place
    cdef int stays
    for i in range(ranked.size):
        at = ranked.at[i]
        if not draft.movable[at] and not draft.fixed[at] and not chosen[at]:
            release_job(books, index[at])
    for at in range(draft.jobs):
        head = books.heads[index[at]]
        if (draft.movable[at] or draft.fixed[at]) and not is_unchanged(books, head, draft, draft.first[at]):
            release_job(books, index[at])
            if draft.first[at] >= 0:
                changed.push_back(at)
                old.push_back(head)
    for stays in range(1, -1, -1):
        for place in range(changed.size()):
            at = changed[place]
            if stays_put(books, old[place], draft, draft.first[at]) == stays:
                chain = _chain(books, old[place] if stays else -1, draft, draft.first[at])
                put_chain(books, index[at], chain)


cdef int64_t _chain(Books* books, int64_t old, Draft* draft, int64_t number) noexcept nogil:
    """Rows for a job's node parts, on the GPUs of its old rows where there are some."""
    cdef int64_t first = -1, last = -1, row
    cdef NodePart* part
    cdef Row* record
    while number >= 0:
        part = &draft.node_parts[number]
        row = new_row(books)
        record = &books.rows[row]
        record.node = part.node
        if old >= 0:
            record.mask = books.rows[old].mask
            old = books.rows[old].next
        else:
            record.mask = pick_gpus(books, part.node, part.gpus)
        memcpy(record.amount, part.amount, draft.resources * sizeof(int64_t))
        record.amount[GPU] = part.gpus * MICRO
        if last < 0:
            first = row
        else:
            books.rows[last].next = row
        last = row
        number = part.next
    return first


def write_reserved(books, index, draft, requested):
    """Give the jobs without GPUs that have a reservation what they request, on their nodes."""
    cdef Books here = books_of(books)
    cdef Draft plan = draft_of(draft)
    cdef Ints numbers = ints(index), needs = ints(requested)
    cdef int64_t at, row, resource
    for at in range(plan.jobs):
        if plan.reserved[at] >= 0:
            row = new_row(&here)
            here.rows[row].node = plan.reserved[at]
            for resource in range(1, plan.resources):
                here.rows[row].amount[resource] = needs.at[at * plan.resources + resource]
            put_chain(&here, numbers.at[at], row)


def serve_shares(books, jobs, needs, shared, chosen):
    """Place the shares of a GPU that hold nothing by best fit, the chosen first."""
    cdef Books here = books_of(books)
    cdef Asked* spec = <Asked*> records(jobs.spec, sizeof(Asked))
    cdef Asked asked
    cdef Ints numbers = ints(jobs.numbers), waiting = ints(shared), need = ints(needs)
    cdef Bools served = bools(chosen), allowed = bools(jobs.node_allowed)
    cdef vector[int64_t] fit, take
    cdef Scratch scratch
    cdef int64_t i, at
    cdef int the_chosen
    fit.resize(here.node_count)
    take.resize(here.node_count)
    scratch.fit, scratch.take = fit.data(), take.data()
    for the_chosen in range(1, -1, -1):
        for i in range(waiting.size):
            at = waiting.at[i]
            if served.at[at] == the_chosen and here.heads[numbers.at[at]] < 0:
                asked = spec[numbers.at[at]]
                asked.gpus = 1
                place_job(
                    &here,
                    numbers.at[at],
                    &asked,
                    allowed.at + asked.constraint * here.node_count,
                    need.at + at * here.resources,
                    PACK,
                    scratch,
                )


def explain(books, jobs, ranked, running, reasons):
    """Write the reason of every ranked job, with its two numbers."""
    cdef Books here = books_of(books)
    cdef Jobs columns = jobs_of(jobs)
    cdef Reasons written = reasons_of(reasons)
    cdef Ints order = ints(ranked)
    cdef Bools runs = bools(running)
    cdef int64_t i, at
    for i in range(order.size):
        at = order.at[i]
        if here.heads[columns.numbers[at]] >= 0:
            written.codes[at] = _PLACED
            continue
        note_no_place(&here, &columns, at, &written)
        if thousandths_of(&columns, at) * 1000 > here.totals[GPU]:
            written.codes[at] = _OUTRANKED if runs.at[at] else _NO_GPUS
