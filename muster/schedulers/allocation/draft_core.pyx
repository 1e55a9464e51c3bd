"""Drafts of a plan, for compiled code: reading their arrays, adding and removing node parts, keeping what jobs hold."""

from libc.string cimport memset
from libcpp.vector cimport vector

from muster.cluster.arrays cimport bools, ints, records
from muster.cluster.ledger_core cimport Row, count_bits


cdef Draft draft_of(object arrays) except *:
    """The arrays of a draft (`placement_draft.PlacementDraft`)."""
    cdef Draft draft
    draft.free = ints(arrays[0]).at
    draft.node_parts = <NodePart*> records(arrays[1], sizeof(NodePart))
    draft.first, draft.first_here, draft.last_here = ints(arrays[2]).at, ints(arrays[3]).at, ints(arrays[4]).at
    draft.used = ints(arrays[5]).at
    draft.movable, draft.fixed = bools(arrays[6]).at, bools(arrays[7]).at
    draft.home, draft.reserved = ints(arrays[8]).at, ints(arrays[9]).at
    draft.nodes, draft.resources = arrays[0].shape
    draft.jobs = ints(arrays[2]).size
    return draft


cdef int64_t add_part(Draft* draft, int64_t at, int64_t node, int64_t gpus) noexcept nogil:
    """Give a job GPUs of a node, with nothing beside them yet; the node part's number.

    A job's node parts are added by ascending node.
    """
    cdef int64_t number = draft.used[0], last
    cdef NodePart* part = &draft.node_parts[number]
    draft.used[0] += 1
    memset(part.amount, 0, sizeof(part.amount))
    part.at, part.node, part.gpus = at, node, gpus
    part.next = part.next_here = -1
    free_on(draft, node)[0] -= gpus
    if draft.first[at] < 0:
        draft.first[at] = number
    else:
        last = draft.first[at]
        while draft.node_parts[last].next >= 0:
            last = draft.node_parts[last].next
        draft.node_parts[last].next = number
    if draft.first_here[node] < 0:
        draft.first_here[node] = number
    else:
        draft.node_parts[draft.last_here[node]].next_here = number
    draft.last_here[node] = number
    return number


cdef void add_rows(Draft* draft, int64_t at, Books* books, int64_t row) noexcept nogil:
    """Give a job the GPUs that a chain of rows holds, with nothing beside them yet."""
    while row >= 0:
        add_part(draft, at, books.rows[row].node, count_bits(books.rows[row].mask))
        row = books.rows[row].next


cdef void remove_last(Draft* draft) noexcept nogil:
    """Undo the latest `add_part`, of a job that has nothing else."""
    cdef int64_t number = draft.used[0] - 1, resource, before
    cdef NodePart* part = &draft.node_parts[number]
    cdef int64_t* free = free_on(draft, part.node)
    draft.used[0] = number
    free[0] += part.gpus
    for resource in range(1, draft.resources):
        free[resource] += part.amount[resource]
    draft.first[part.at] = -1
    if draft.first_here[part.node] == number:
        draft.first_here[part.node] = draft.last_here[part.node] = -1
        return
    before = draft.first_here[part.node]
    while draft.node_parts[before].next_here != number:
        before = draft.node_parts[before].next_here
    draft.node_parts[before].next_here = -1
    draft.last_here[part.node] = before


cdef void remove_job(Draft* draft, int64_t at) noexcept nogil:
    """Take a job off all its nodes; the draft's last node parts get the numbers that become free."""
    while draft.first[at] >= 0:
        _remove_part(draft, draft.first[at])


cdef void _remove_part(Draft* draft, int64_t number) noexcept nogil:
    """Remove the first node part of a job."""
    cdef NodePart* part = &draft.node_parts[number]
    cdef int64_t* free = free_on(draft, part.node)
    cdef int64_t resource, before, last = draft.used[0] - 1
    free[0] += part.gpus
    for resource in range(1, draft.resources):
        free[resource] += part.amount[resource]
    draft.first[part.at] = part.next
    before = _before_here(draft, number)
    if before < 0:
        draft.first_here[part.node] = part.next_here
    else:
        draft.node_parts[before].next_here = part.next_here
    if draft.last_here[part.node] == number:
        draft.last_here[part.node] = before
    draft.used[0] = last
    if last != number:
        _renumber(draft, last, number)


cdef int64_t _before_here(Draft* draft, int64_t number) noexcept nogil:
    """The node part before this one on its node; -1: it is the first."""
    cdef int64_t before = draft.first_here[draft.node_parts[number].node]
    if before == number:
        return -1
    while draft.node_parts[before].next_here != number:
        before = draft.node_parts[before].next_here
    return before


cdef void _renumber(Draft* draft, int64_t last, int64_t number) noexcept nogil:
    """Move a node part to another number."""
    cdef NodePart* part = &draft.node_parts[last]
    cdef int64_t before = _before_here(draft, last)
    if before < 0:
        draft.first_here[part.node] = number
    else:
        draft.node_parts[before].next_here = number
    if draft.last_here[part.node] == last:
        draft.last_here[part.node] = number
    if draft.first[part.at] == last:
        draft.first[part.at] = number
    else:
        before = draft.first[part.at]
        while draft.node_parts[before].next != last:
            before = draft.node_parts[before].next
        draft.node_parts[before].next = number
    draft.node_parts[number] = part[0]


cdef bint stays_put(Books* books, int64_t row, Draft* draft, int64_t number) noexcept nogil:
    """Whether the node parts are on the nodes, with as many GPUs, as the rows."""
    cdef Row* held
    cdef NodePart* part
    while row >= 0 and number >= 0:
        held, part = &books.rows[row], &draft.node_parts[number]
        if held.node != part.node or count_bits(held.mask) != part.gpus:
            return False
        row, number = held.next, part.next
    return row < 0 and number < 0


cdef bint is_unchanged(Books* books, int64_t row, Draft* draft, int64_t number) noexcept nogil:
    """Whether the node parts are what the rows hold already."""
    cdef Row* held
    cdef NodePart* part
    cdef int64_t resource
    if not stays_put(books, row, draft, number):
        return False
    while row >= 0:
        held, part = &books.rows[row], &draft.node_parts[number]
        for resource in range(1, draft.resources):
            if held.amount[resource] != part.amount[resource]:
                return False
        row, number = held.next, part.next
    return True


cdef void keep_amounts(Books* books, int64_t* index, Draft* draft) noexcept nogil:
    """Give jobs that stay in place what they hold now, on nodes to which no other job comes.

    Where a job without GPUs has a reservation, they share what it leaves beside their requests, in proportion.
    """
    cdef vector[int64_t] held, room, wanted
    cdef vector[bint] comes
    cdef int64_t at, row, number, resource, more, place
    cdef int64_t amount[SLOTS]
    cdef bint stays
    cdef NodePart* part
    held.assign(draft.used[0], -1)
    comes.assign(draft.nodes, False)
    for at in range(draft.jobs):
        row, number = books.heads[index[at]], draft.first[at]
        stays = (draft.movable[at] or draft.fixed[at]) and stays_put(books, row, draft, number)
        while number >= 0:
            if stays:
                held[number] = row
                row = books.rows[row].next
            else:
                comes[draft.node_parts[number].node] = True
            number = draft.node_parts[number].next
    room.assign(draft.free, draft.free + draft.nodes * draft.resources)
    wanted.assign(room.size(), 0)
    for number in range(draft.used[0]):
        if held[number] >= 0:
            part = &draft.node_parts[number]
            for resource in range(1, draft.resources):
                more = books.rows[held[number]].amount[resource] - part.amount[resource]
                wanted[part.node * draft.resources + resource] += more
    for number in range(draft.used[0]):
        part = &draft.node_parts[number]
        if held[number] < 0 or comes[part.node]:
            continue
        for resource in range(1, draft.resources):
            amount[resource] = books.rows[held[number]].amount[resource]
            place = part.node * draft.resources + resource
            if wanted[place] > room[place]:
                more = amount[resource] - part.amount[resource]
                amount[resource] = part.amount[resource] + <int64_t> (more * (<double> room[place] / wanted[place]))
            amount[resource] = floor_of(amount[resource], part.gpus)
        set_amounts(draft, number, amount)
