"""The ledger's books as compiled code sees them: the layouts of `ledger_arrays`, and the steps that change them."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from muster.cluster.arrays cimport Ints

cdef enum:
    SLOTS = 8  # resources.MOST_RESOURCES
    PUT = 0
    RELEASE = 1
    UNFIT_NODE = -2
    UNFIT_GPU = -3
    UNFIT_AMOUNT = -4
    GPU = 0
    CPU = 1
    MEMORY = 2
    STORAGE = 3
    SERVER = 1
    PACKED = 1 << 20
    WHOLE = 1000
    MICRO = 1000000

cdef struct Node:
    int64_t capacity[SLOTS]
    int64_t free[SLOTS]
    int64_t releasing[SLOTS]
    int64_t unavailable[SLOTS]
    int64_t share[SLOTS]
    int64_t gpus
    int64_t free_gpus
    int64_t free_mask
    int64_t island
    int64_t rack
    int64_t gpu_type
    int64_t up

cdef struct Device:
    int64_t free_milli
    int64_t holders
    int64_t group
    double busy

cdef struct Row:
    int64_t job
    int64_t node
    int64_t mask
    int64_t milli
    int64_t amount[SLOTS]
    int64_t role
    int64_t group
    int64_t next
    double since

cdef struct Entry:
    int64_t kind
    int64_t job
    int64_t chain

# The nodes that steps have changed since an index of nodes looked, each once.
cdef struct StaleNodes:
    int64_t* nodes
    uint8_t* is_listed
    int64_t count

cdef struct Books:
    Node* nodes
    Device* devices
    Row* rows
    int64_t* heads
    int64_t* totals
    Entry* journal
    int64_t node_count
    int64_t device_count  # a node
    int64_t resources
    # Places in `totals`.
    int64_t* free_row
    int64_t* rows_used
    int64_t* entries
    int64_t* delayed
    StaleNodes* stale  # NULL: there is no index

cdef inline Device* device_of(Books* books, int64_t node, int64_t gpu) noexcept nogil:
    return &books.devices[node * books.device_count + gpu]

cdef extern from *:
    int64_t count_bits "__builtin_popcountll"(uint64_t mask) noexcept nogil

cdef inline void note_change(Books* books, int64_t node) noexcept nogil:
    """A step changes what a node has free."""
    cdef StaleNodes* stale = books.stale
    if stale != NULL and not stale.is_listed[node]:
        stale.is_listed[node] = True
        stale.nodes[stale.count] = node
        stale.count += 1

# Rows that a decision about so many jobs may write on so many GPUs: a row for each GPU and each job, and where all
# GPUs are held, a row each, as many again of a stopped gang that looks for its own place in vain.
cdef inline int64_t rows_of_decision(int64_t gpus, int64_t jobs) noexcept nogil:
    return 2 * gpus + jobs

# Lines of the journal: for each job a stop and twice a place.
cdef inline int64_t entries_of_decision(int64_t jobs) noexcept nogil:
    return 3 * jobs

cdef Books books_of(object arrays) except *
cdef int64_t charge(Books* books, int64_t row) noexcept nogil
cdef void discharge(Books* books, int64_t row) noexcept nogil
cdef int64_t new_row(Books* books) noexcept nogil
cdef int64_t copy_chain(Books* books, int64_t chain) noexcept nogil
cdef void drop_rows(Books* books, int64_t chain) noexcept nogil
cdef int64_t put_chain(Books* books, int64_t job, int64_t chain) noexcept nogil
cdef void release_job(Books* books, int64_t job) noexcept nogil
cdef void undo_to(Books* books, int64_t mark) noexcept nogil
cdef int64_t carry_out(Books* books, Ints jobs, Ints first, Row* rows) noexcept nogil
cdef void end_release(Books* books, int64_t chain) noexcept nogil
cdef bint same_chain(Books* books, int64_t one, int64_t other) noexcept nogil
cdef void take_down(Books* books, int64_t node) noexcept nogil
cdef void bring_up(Books* books, int64_t node) noexcept nogil
