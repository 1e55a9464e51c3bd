"""Finding places on the ledger for compiled code; `rules` says what each rule does."""

from libc.stdint cimport int64_t, uint8_t

from muster.cluster.ledger_core cimport Books
from muster.workload.jobs_core cimport Asked

cdef enum:
    PROPORTIONAL = -1
    NOT_FREE = -1
    PACK = 0
    FIRST_FIT = 1
    CONSOLIDATE = 2
    SPREAD = 3
    YARN = 4

# Arrays in which a place for one gang is worked out, by node: GPUs that fit, and GPUs that the gang takes.
cdef struct Scratch:
    int64_t* fit
    int64_t* take

cdef inline int64_t need_on(Books* books, int64_t node, int64_t resource, int64_t* need) noexcept nogil:
    """Millionths of a resource that one GPU needs on this node."""
    cdef int64_t amount = need[resource]
    if amount < 0:
        amount = max(books.nodes[node].share[resource], PROPORTIONAL - amount)
    return amount

cdef int64_t gpus_that_fit(Books* books, int64_t node, int64_t* need) noexcept nogil
cdef bint holds_gang(Books* books, int64_t node, int64_t gpus, int64_t* need) noexcept nogil
cdef int64_t pick_from(int64_t free, int64_t gpus, int64_t island, int64_t count) noexcept nogil
cdef int64_t pick_gpus(Books* books, int64_t node, int64_t count) noexcept nogil
cdef int64_t fewest_nodes(Books* books, uint8_t* allowed, int64_t gpus, int64_t* need, int64_t* most) noexcept nogil
cdef int64_t count_fitting(Books* books, uint8_t* allowed, int64_t* need, int64_t* fit) noexcept nogil
cdef bint find_nodes(
    Books* books, uint8_t* allowed, int64_t gpus, int64_t* need, int64_t rule, Scratch scratch
) noexcept nogil
cdef int64_t put_share(
    Books* books, int64_t chain, int64_t node, int64_t mask, int64_t milli, int64_t* need
) noexcept nogil
cdef int64_t chain_of(Books* books, int64_t* take, int64_t* need, int64_t chain) noexcept nogil
cdef bint place_job(
    Books* books, int64_t job, Asked* asked, uint8_t* allowed, int64_t* need, int64_t rule, Scratch scratch
) noexcept nogil
