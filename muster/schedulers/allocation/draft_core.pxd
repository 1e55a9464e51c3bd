"""Drafts of a plan as compiled code sees them: the layout of `placement_draft`, and the steps that change them."""

from libc.stdint cimport int64_t, uint8_t

from muster.cluster.ledger_core cimport SLOTS, Books

cdef struct NodePart:
    int64_t at
    int64_t node
    int64_t gpus
    int64_t amount[SLOTS]
    int64_t next
    int64_t next_here

cdef struct Draft:
    int64_t* free
    NodePart* node_parts
    int64_t* first
    int64_t* first_here
    int64_t* last_here
    int64_t* used
    uint8_t* movable
    uint8_t* fixed
    int64_t* home
    int64_t* reserved
    int64_t nodes
    int64_t jobs
    int64_t resources


cdef inline int64_t floor_of(int64_t amount, int64_t parts) noexcept nogil:
    """One part of an amount, rounded down, also below 0; all of it where there are no parts."""
    if parts == 0:
        return amount
    cdef int64_t part = amount // parts
    return part - (part * parts > amount)


cdef inline int64_t* free_on(Draft* draft, int64_t node) noexcept nogil:
    """What a node has free, by resource."""
    return draft.free + node * draft.resources


cdef inline void per_gpu(Draft* draft, int64_t number, int64_t* amounts) noexcept nogil:
    """Write what a node part has beside each of its GPUs; the GPUs' own entry is not touched."""
    cdef NodePart* part = &draft.node_parts[number]
    cdef int64_t resource
    for resource in range(1, draft.resources):
        amounts[resource] = floor_of(part.amount[resource], part.gpus)


cdef inline void set_amounts(Draft* draft, int64_t number, int64_t* amounts) noexcept nogil:
    """Set what a node part has beside each of its GPUs; the node's free amounts follow."""
    cdef NodePart* part = &draft.node_parts[number]
    cdef int64_t* free = free_on(draft, part.node)
    cdef int64_t resource, amount
    for resource in range(1, draft.resources):
        amount = part.gpus * amounts[resource]
        free[resource] += part.amount[resource] - amount
        part.amount[resource] = amount


cdef inline bint fits(Draft* draft, int64_t node, int64_t gpus, int64_t* amounts) noexcept nogil:
    """Whether a node has this free for so many GPUs; the GPUs themselves are not counted."""
    cdef int64_t* free = free_on(draft, node)
    cdef int64_t resource
    for resource in range(1, draft.resources):
        if free[resource] < gpus * amounts[resource]:
            return False
    return True


cdef inline bint is_overdrawn(Draft* draft, int64_t node) noexcept nogil:
    """Whether the draft has more of something on a node than is free there."""
    cdef int64_t* free = free_on(draft, node)
    cdef int64_t resource
    for resource in range(draft.resources):
        if free[resource] < 0:
            return True
    return False


cdef inline bint alone(Draft* draft, int64_t number) noexcept nogil:
    """Whether a node part is all that its job has."""
    return draft.node_parts[number].next < 0 and draft.first[draft.node_parts[number].at] == number


cdef inline bint tighter(Draft* draft, int64_t node, int64_t other, int64_t home) noexcept nogil:
    """Best fit: whether a node has fewer GPUs, then CPUs, then memory free than another; of equals home."""
    cdef int64_t* here = free_on(draft, node)
    cdef int64_t* there = free_on(draft, other)
    cdef int64_t column
    for column in range(3):
        if here[column] != there[column]:
            return here[column] < there[column]
    return node == home


cdef Draft draft_of(object draft) except *
cdef int64_t add_part(Draft* draft, int64_t at, int64_t node, int64_t gpus) noexcept nogil
cdef void add_rows(Draft* draft, int64_t at, Books* books, int64_t row) noexcept nogil
cdef void remove_last(Draft* draft) noexcept nogil
cdef void remove_job(Draft* draft, int64_t at) noexcept nogil
cdef bint stays_put(Books* books, int64_t row, Draft* draft, int64_t number) noexcept nogil
cdef bint is_unchanged(Books* books, int64_t row, Draft* draft, int64_t number) noexcept nogil
cdef void keep_amounts(Books* books, int64_t* index, Draft* draft) noexcept nogil
