"""Gangs with the same number of GPUs, and the same of all else, on each of their nodes, compiled."""

from libc.string cimport memset

from muster.cluster.ledger_core cimport Row, count_bits


cdef int64_t even_part(int64_t* fit, int64_t nodes, int64_t gpus, bint smallest) noexcept nogil:
    """The most GPUs on each node (`smallest`: the fewest) by which a gang is even on what fits by node; 0: none."""
    cdef int64_t turn, parts, part, node, room
    for turn in range(1, gpus + 1):
        parts = gpus + 1 - turn if smallest else turn
        if parts > nodes or gpus % parts:
            continue
        part, room = gpus // parts, 0
        for node in range(nodes):
            room += fit[node] >= part
        if room >= parts:
            return part
    return 0


cdef int64_t take_even(int64_t* fit, int64_t nodes, int64_t gpus, EvenChoice choice, int64_t* take) noexcept nogil:
    """Write the GPUs of an even gang on each node to `take`; on how many nodes, 0 without a place."""
    cdef int64_t part = even_part(fit, nodes, gpus, choice == EMPTIEST)
    if part == 0:
        memset(take, 0, nodes * sizeof(int64_t))
        return 0
    return _take_parts(fit, nodes, part, gpus // part, choice, take)


cdef int64_t take_exactly(
    int64_t* fit, int64_t nodes, int64_t gpus, int64_t count, bint even, int64_t* take
) noexcept nogil:
    """Write the GPUs of a gang on each of so many nodes to `take`; on how many, 0 without a place.

    It takes equal parts of the fullest nodes that have them. Where there are none, and gangs need not be even, it
    takes what fits on the emptiest nodes, and one GPU of each at least.
    """
    cdef int64_t taken = 0
    if gpus % count == 0:
        taken = _take_parts(fit, nodes, gpus // count, count, FULLEST, take)
    if taken == 0 and not even and count <= gpus and _take_emptiest(fit, nodes, gpus, count, take):
        taken = count
    if taken == 0:
        memset(take, 0, nodes * sizeof(int64_t))
    return taken


cdef int64_t _take_parts(
    int64_t* fit, int64_t nodes, int64_t part, int64_t count, EvenChoice choice, int64_t* take
) noexcept nogil:
    """Take a part of each of so many nodes that have it; of how many, 0 if there are too few."""
    cdef int64_t turn, node, best
    memset(take, 0, nodes * sizeof(int64_t))
    for turn in range(count):
        best = -1
        for node in range(nodes):
            if take[node] > 0 or fit[node] < part:
                continue
            if (
                best < 0
                or (choice == FULLEST and fit[node] < fit[best])
                or (choice == EMPTIEST and fit[node] > fit[best])
            ):
                best = node
        if best < 0:
            return 0
        take[best] = part
    return count


cdef bint _take_emptiest(int64_t* fit, int64_t nodes, int64_t gpus, int64_t count, int64_t* take) noexcept nogil:
    """Take GPUs of so many nodes, those with the most room for them, at least one of each; whether that is enough."""
    cdef int64_t turn, node, best
    memset(take, 0, nodes * sizeof(int64_t))
    for turn in range(count):
        best = -1
        for node in range(nodes):
            if take[node] == 0 and fit[node] > 0 and (best < 0 or fit[node] > fit[best]):
                best = node
        if best < 0:
            return False
        take[best] = min(fit[best], gpus - (count - 1 - turn))
        gpus -= take[best]
    return gpus == 0


cdef bint level_chain(Books* books, int64_t chain) noexcept nogil:
    """Lower the amounts of a chain of rows to what all of them have; whether their GPUs are equal."""
    cdef int64_t row = books.rows[chain].next, resource
    cdef Row* first = &books.rows[chain]
    while row >= 0:
        if count_bits(books.rows[row].mask) != count_bits(first.mask) or books.rows[row].milli != first.milli:
            return False
        for resource in range(1, books.resources):
            first.amount[resource] = min(first.amount[resource], books.rows[row].amount[resource])
        row = books.rows[row].next
    row = first.next
    while row >= 0:
        for resource in range(1, books.resources):
            books.rows[row].amount[resource] = first.amount[resource]
        row = books.rows[row].next
    return True
