"""Nodes by how many GPUs a job can have there, for compiled code."""

from libc.stdint cimport int64_t, uint64_t
from libcpp.vector cimport vector

from muster.cluster.ledger_core cimport Books
from muster.schedulers.allocation.draft_core cimport Draft
from muster.schedulers.allocation.gangs_core cimport Gangs
from muster.schedulers.joint.free_nodes cimport Chosen

# The nodes of a draft as jobs with one need see them, or as those of one class do that have to be so fast.
cdef struct Room:
    int64_t* need  # NULL: nothing
    double at_least  # the speed; 0: any
    int64_t job  # one of the class
    vector[int64_t] fit  # by node: GPUs that a job can have there
    vector[int64_t] held  # by node: GPUs of running jobs that have no place yet, as they are in the lists
    vector[uint64_t] lists  # by GPUs that a job can have and GPUs held: a bit a node
    vector[int64_t] counts  # of nodes, likewise
    vector[int64_t] racks  # by rack: GPUs that a job can have
    int64_t total
    size_t known  # how many of the changes of nodes it knows; 0: it is not made yet

cdef struct FormIndex:
    vector[Room] rooms
    vector[int64_t] of_class  # which room is that of a class; -1: not looked for yet
    vector[int64_t] changed  # nodes, one after the other as they changed
    int64_t rack_count
    int64_t held_counts  # one more than the most GPUs held on a node
    int64_t list_count  # held_counts by one more than the GPUs of the largest node
    int64_t words  # of a list
    bint alike  # all nodes have the same GPUs and islands
    vector[int64_t] left  # scratch, by rack

cdef void begin_index(FormIndex* index, Gangs* gangs, int64_t rack_count, int64_t* held) noexcept nogil
cdef Room* room_of(
    FormIndex* index, Draft* draft, Gangs* gangs, int64_t at, int64_t* need, double at_least, int64_t* held
) noexcept nogil
cdef void show_room(Room* room, Books* books) noexcept nogil
cdef bint find_machine(
    FormIndex* index, Room* room, Books* books, int64_t gpus, bint one_island, Chosen* chosen
) noexcept nogil
cdef bint find_evenly(
    FormIndex* index, Room* room, Books* books, int64_t gpus, int64_t* kind, Chosen* chosen
) noexcept nogil
cdef int64_t most_in_a_rack(Room* room) noexcept nogil
cdef void forget_chosen(Chosen* chosen) noexcept nogil
