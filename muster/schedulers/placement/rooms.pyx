"""What is left on the nodes of each constraint: jobs are counted against it that compete for GPUs in an order.

A job that waits, or may be moved, takes of its own constraint and of each whose nodes include its own: it may be on any
of its nodes. A job that stays takes where it is. Where the nodes of any two constraints are apart, or those of one
include those of the other, jobs that are counted so have their GPUs all at once.
"""

from muster.cluster.ledger_core cimport GPU


cdef void begin_rooms(
    Rooms* rooms, uint8_t* node_allowed, int64_t constraints, int64_t nodes, int64_t resources
) noexcept nogil:
    """Find which constraints include which."""
    cdef int64_t words = nodes // 64 + 1, one, other, node, word
    cdef vector[uint64_t] bits = vector[uint64_t](constraints * words)
    rooms.node_allowed, rooms.constraints, rooms.resources = node_allowed, constraints, resources
    rooms.left.assign(constraints * resources, 0)
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


cdef void count_free(Rooms* rooms, Books* books, int64_t more) noexcept nogil:
    """Count what is free, or will be as soon as it is released, and so many more GPUs for each constraint."""
    cdef int64_t node, each, resource
    rooms.left.assign(rooms.constraints * rooms.resources, 0)
    for each in range(rooms.constraints):
        rooms.left[each * rooms.resources + GPU] = more
    if rooms.constraints == 1 and not books.delayed[0]:
        for resource in range(rooms.resources):
            rooms.left[resource] += books.totals[resource]
        return
    for node in range(books.node_count):
        for each in range(rooms.constraints):
            for resource in range(rooms.resources if rooms.node_allowed[each * books.node_count + node] else 0):
                rooms.left[each * rooms.resources + resource] += (
                    books.nodes[node].free[resource] + books.nodes[node].releasing[resource]
                )


cdef void count_held(Rooms* rooms, Books* books, int64_t job) noexcept nogil:
    """Add what a job holds, where it holds it."""
    cdef int64_t number = books.heads[job], each, resource
    while number >= 0:
        for each in range(rooms.constraints):
            if rooms.node_allowed[each * books.node_count + books.rows[number].node]:
                for resource in range(rooms.resources):
                    rooms.left[each * rooms.resources + resource] += books.rows[number].amount[resource]
        number = books.rows[number].next


cdef void count_where_it_is(Rooms* rooms, Books* books, int64_t job, int64_t* need, int64_t times) noexcept nogil:
    """Add what a job needs on the nodes where it is, by the GPUs that it has on each (times -1: take it away)."""
    cdef int64_t number = books.heads[job], gpus, before = 0, after, each, resource
    if rooms.constraints == 1:
        for resource in range(rooms.resources):
            rooms.left[resource] += times * need[resource]
        return
    gpus = gpus_held(books, job)
    while number >= 0:
        after = before + books.rows[number].amount[GPU]
        if gpus == 0:
            before, after, gpus = 0, 1, 1
        for each in range(rooms.constraints):
            if rooms.node_allowed[each * books.node_count + books.rows[number].node]:
                for resource in range(rooms.resources):
                    rooms.left[each * rooms.resources + resource] += times * (
                        need[resource] * after // gpus - need[resource] * before // gpus
                    )
        before, number = after, books.rows[number].next


cdef bint keep_rooms(Rooms* rooms, Books* books, int64_t job, int64_t* need) noexcept nogil:
    """Count a job that stays where it runs, if so much is left there; whether it is."""
    cdef int64_t number = books.heads[job], each, resource
    cdef bint fits = True
    if rooms.constraints == 1:
        return enter_rooms(rooms, 0, need)
    count_where_it_is(rooms, books, job, need, -1)
    while number >= 0:
        for each in range(rooms.constraints):
            for resource in range(rooms.resources):
                if need[resource] and rooms.node_allowed[each * books.node_count + books.rows[number].node]:
                    fits = fits and rooms.left[each * rooms.resources + resource] >= 0
        number = books.rows[number].next
    if not fits:
        count_where_it_is(rooms, books, job, need, 1)
    return fits


cdef bint enter_rooms(Rooms* rooms, int64_t constraint, int64_t* need) noexcept nogil:
    """Count a job that may be on any of its nodes, if so much is left for it; whether it is."""
    cdef int64_t* left
    cdef int64_t resource
    cdef size_t each
    for each in range(rooms.around[constraint].size()):
        left = rooms.left.data() + rooms.around[constraint][each] * rooms.resources
        for resource in range(rooms.resources):
            if need[resource] and need[resource] > left[resource]:
                return False
    for each in range(rooms.around[constraint].size()):
        left = rooms.left.data() + rooms.around[constraint][each] * rooms.resources
        for resource in range(rooms.resources):
            left[resource] -= need[resource]
    return True


cdef int64_t gpus_held(Books* books, int64_t job) noexcept nogil:
    """Millionths of GPUs that a job holds."""
    cdef int64_t number = books.heads[job], held = 0
    while number >= 0:
        held += books.rows[number].amount[GPU]
        number = books.rows[number].next
    return held


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
