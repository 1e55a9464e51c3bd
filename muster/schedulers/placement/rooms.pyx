"""GPUs on the nodes of each constraint: those that jobs are counted against which compete for GPUs in an order.

A job that waits, or may be moved, takes them from its own constraint and from each whose nodes include its own: it may
be on any of its nodes. A job that stays takes them where it is. Where the nodes of any two constraints are apart, or
those of one include those of the other, jobs that are counted so have GPUs all at once.
"""

from muster.cluster.ledger_core cimport GPU, Row


cdef void begin_rooms(Rooms* rooms, uint8_t* node_allowed, int64_t constraints, int64_t nodes) noexcept nogil:
    """Find which constraints include which; the first allows all nodes."""
    cdef int64_t words = nodes // 64 + 1, one, other, node, word
    cdef vector[uint64_t] bits = vector[uint64_t](constraints * words)
    rooms.node_allowed = node_allowed
    rooms.left.assign(constraints, 0)
    rooms.around.assign(constraints, vector[int64_t]())
    for one in range(constraints):
        for node in range(nodes):
            if node_allowed[one * nodes + node]:
                bits[one * words + node // 64] |= <uint64_t> 1 << (node % 64)
    for one in range(constraints):
        rooms.around[one].push_back(one)
        for other in range(constraints):
            word = 0
            while word < words and not bits[one * words + word] & ~bits[other * words + word]:
                word += 1
            if word == words and other != one:
                rooms.around[one].push_back(other)


cdef void open_rooms(Rooms* rooms, Books* books, int64_t more) noexcept nogil:
    """Count what is free, or will be as soon as it is released, and so much more for each."""
    cdef int64_t node, free
    cdef size_t each
    rooms.left.assign(rooms.left.size(), more)
    if rooms.left.size() == 1 and not books.delayed[0]:
        rooms.left[0] += books.totals[GPU]
        return
    for node in range(books.node_count):
        free = books.nodes[node].free[GPU] + books.nodes[node].releasing[GPU]
        for each in range(rooms.left.size() if free else 0):
            if rooms.node_allowed[each * books.node_count + node]:
                rooms.left[each] += free


cdef int64_t free_on(Books* books, uint8_t* allowed) noexcept nogil:
    """Millionths of GPUs that are free on these nodes."""
    cdef int64_t node, free = 0
    for node in range(books.node_count):
        free += books.nodes[node].free[GPU] if allowed[node] else 0
    return free


cdef int64_t held_on(Books* books, uint8_t* allowed, int64_t job) noexcept nogil:
    """Millionths of GPUs that a job holds on these nodes; -1: it is on none of them."""
    cdef int64_t number = books.heads[job], held = -1
    while number >= 0:
        if allowed[books.rows[number].node]:
            held = max(held, <int64_t> 0) + books.rows[number].amount[GPU]
        number = books.rows[number].next
    return held


cdef void leave_rooms(Rooms* rooms, Books* books, int64_t job) noexcept nogil:
    """What a job holds is left for those that are counted next."""
    _count_held(rooms, books, job, 1)


cdef bint keep_rooms(Rooms* rooms, Books* books, int64_t job) noexcept nogil:
    """Count a job that stays where it runs, if so much is left there; whether it is."""
    cdef bint fits = True
    cdef size_t each
    _count_held(rooms, books, job, -1)
    for each in range(rooms.left.size()):
        fits = fits and rooms.left[each] >= 0
    if not fits:
        _count_held(rooms, books, job, 1)
    return fits


cdef void _count_held(Rooms* rooms, Books* books, int64_t job, int64_t times) noexcept nogil:
    """Add (or take away) what a job holds on the nodes of each constraint."""
    cdef int64_t number = books.heads[job]
    cdef Row* row
    cdef size_t each
    while number >= 0:
        row = &books.rows[number]
        for each in range(rooms.left.size()):
            if rooms.node_allowed[each * books.node_count + row.node]:
                rooms.left[each] += times * row.amount[GPU]
        number = row.next


cdef bint enter_rooms(Rooms* rooms, int64_t constraint, int64_t need) noexcept nogil:
    """Count a job that may be on any of its nodes, if so much is left for it; whether it is."""
    cdef size_t each
    for each in range(rooms.around[constraint].size()):
        if rooms.left[rooms.around[constraint][each]] < need:
            return False
    for each in range(rooms.around[constraint].size()):
        rooms.left[rooms.around[constraint][each]] -= need
    return True
