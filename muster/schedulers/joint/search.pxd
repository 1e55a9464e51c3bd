"""What a search for places works on, for compiled code."""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libcpp.pair cimport pair
from libcpp.vector cimport vector

from muster.cluster.ledger_core cimport Books
from muster.schedulers.allocation.draft_core cimport Draft
from muster.schedulers.allocation.gangs_core cimport Gangs
from muster.schedulers.allocation.worth_core cimport ForRunning
from muster.schedulers.joint.form_index cimport FormIndex
from muster.schedulers.joint.free_nodes cimport Chosen, FreeNodes
from muster.schedulers.placement.delay_scheduling cimport Workspace

ctypedef pair[double, int64_t] Ranked

# What places on a network are looked for with.
cdef struct Network:
    Books books  # its nodes have free what the draft leaves there and a job can use, for a search of all of them
    Workspace work
    FormIndex index
    Draft* before  # where jobs run
    int64_t* held_here  # by node: GPUs of running jobs that have no place yet and had no turn
    vector[uint8_t] awaits  # by position: whether a job is one of those
    int64_t* nothing  # a need, by resource
    double enough  # share of a job's best speed below which it waits
    # GPUs that the draft leaves: by node, on all, on the one with most, and on how many nodes there are so many.
    vector[int64_t] free_here
    int64_t free_gpus
    int64_t most_free
    vector[int64_t] counts

# The jobs of a node that may leave it: their GPUs, and the least that one of them counts for a GPU.
cdef struct Leaving:
    bint known
    int64_t gpus
    double cheapest

# What is known of the nodes for the jobs of each class; see `node_gains`.
cdef struct Guesses:
    vector[Leaving] leaving  # by node
    vector[int64_t] changed  # nodes, one after the other as they changed
    vector[size_t] known  # by class: how many of those changes the guesses know; 0: there are none yet
    vector[vector[double]] of_class  # by class and node
    int64_t room  # how many more guesses may be kept

# What the worth of all gains with a job of a class and weight on a node that so many others leave.
cdef struct Gain:
    int64_t class_
    int64_t leave
    double weight
    double gain

# What is known of the jobs of a node until it changes.
cdef struct OnNode:
    bint known
    double worth  # of all of them
    double worth_alone  # of those that have all their GPUs here
    uint64_t alike  # the same number for nodes of a kind that share as much among jobs of the same classes
    vector[Ranked] may_leave  # those first that are worth least for each GPU
    vector[Gain] gains  # of the jobs that were tried here

# What a search works on; `cost` is the part of a job's speed that taking its place away loses.
cdef struct Search:
    Draft* draft
    Gangs* gangs
    double* cost
    ForRunning* running
    Network* network  # NULL: every place is as fast as any other
    FreeNodes* free
    Chosen* chosen
    Guesses* guesses
    OnNode* on_node
    bint apart_first  # a gang takes what is free on several nodes before jobs leave one for it
    bint fast_first  # a gang over several nodes first looks on those of the kinds that make it fast
