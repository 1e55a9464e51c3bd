"""The jobs of a snapshot as compiled code sees them (`gangs`), and what is asked of their nodes and demands.

A need is by kind of node and resource, in millionths for each GPU.
"""

from libc.stdint cimport int64_t, uint8_t

from muster.cluster.ledger_core cimport SLOTS, Node
from muster.schedulers.allocation.draft_core cimport Draft, set_amounts
from muster.schedulers.placement.network_aware cimport FormsOfGang
from muster.speed.input_core cimport ModelSpeed

# By class and kind of node (`demands.ProfiledDemands`); choices as they come.
cdef struct Demands:
    int64_t* best
    int64_t* fair
    int64_t* published
    double* fair_speed
    int64_t* limit
    int64_t* share
    int64_t* requested  # by class alone
    int64_t* first_choice
    int64_t* choice
    double* choice_speed

cdef struct Gangs:
    int64_t* gpus
    double* weight  # what the speed of the job counts
    int64_t* classes
    int64_t* model
    int64_t* constraint
    uint8_t* node_allowed
    Demands demands
    Node* kinds
    int64_t* kind_of_node
    ModelSpeed* models
    int64_t jobs
    int64_t nodes
    int64_t kind_count
    int64_t class_count
    int64_t resources
    bint even  # the same number of GPUs on each node of a job
    int64_t* exact_nodes  # that the job has to be on; 0: any number
    int64_t* preferred  # constraint of the nodes to take first; negative: none
    FormsOfGang forms  # of the first line; without any, every place is as fast as any other
    int64_t* line  # by position
    int64_t* rack_of_node
    int64_t* island_of_node  # GPUs of an island


cdef inline FormsOfGang forms_of(Gangs* gangs, int64_t at) noexcept nogil:
    """The forms of a job's place."""
    cdef FormsOfGang forms = gangs.forms
    forms.kinds += 3 * gangs.line[at] * forms.count
    forms.speeds += gangs.line[at] * forms.count
    return forms


cdef inline uint8_t* allowed_nodes(Gangs* gangs, int64_t at) noexcept nogil:
    """By node: whether a job may be there."""
    return gangs.node_allowed + gangs.constraint[at] * gangs.nodes


cdef inline bint may_be_whole(Gangs* gangs, int64_t at) noexcept nogil:
    """Whether a job may have all its GPUs on one node."""
    return gangs.exact_nodes[at] <= 1


cdef inline int64_t* need_of(Gangs* gangs, int64_t* demand, int64_t at) noexcept nogil:
    """The need of a job by one of the demands."""
    return demand + gangs.classes[at] * gangs.kind_count * gangs.resources


cdef inline int64_t* need_on(Gangs* gangs, int64_t* need, int64_t node) noexcept nogil:
    """A need on a node."""
    return need + gangs.kind_of_node[node] * gangs.resources


cdef inline int64_t* request_of(Gangs* gangs, int64_t at) noexcept nogil:
    """What a job requests beside each GPU."""
    return gangs.demands.requested + gangs.classes[at] * gangs.resources


cdef inline int64_t* choice_of(Gangs* gangs, int64_t number) noexcept nogil:
    """The amounts of a choice."""
    return gangs.demands.choice + number * gangs.resources


cdef inline double best_speed_on(Gangs* gangs, int64_t at, int64_t kind) noexcept nogil:
    """The speed of a job's last choice on a kind of node: the most that one node of it gives."""
    cdef int64_t pair = gangs.classes[at] * gangs.kind_count + kind
    return gangs.demands.choice_speed[gangs.demands.first_choice[pair + 1] - 1]


cdef inline double next_speed(Gangs* gangs, int64_t at, double below) noexcept nogil:
    """The largest of a job's best speeds on the kinds of nodes that is below another number; -1: there is none."""
    cdef double speed, most = -1.0
    cdef int64_t kind
    for kind in range(gangs.kind_count):
        speed = best_speed_on(gangs, at, kind)
        if most < speed < below - 1e-9:
            most = speed
    return most


cdef inline bint makes_fast(Gangs* gangs, int64_t at, int64_t node, double at_least) noexcept nogil:
    """Whether a job may be so fast on a node."""
    return at_least <= 0 or best_speed_on(gangs, at, gangs.kind_of_node[node]) >= at_least


cdef inline ModelSpeed* model_on(Gangs* gangs, int64_t at, int64_t kind) noexcept nogil:
    """The record of a job's model that holds on a kind of node."""
    return &gangs.models[gangs.models[gangs.model[at]].on_type[gangs.kinds[kind].gpu_type]]


cdef inline void set_level(Draft* draft, Gangs* gangs, int64_t at, int64_t* need) noexcept nogil:
    """Set the amounts of all node parts of a job alike."""
    cdef int64_t number = draft.first[at]
    while number >= 0:
        set_amounts(draft, number, need_on(gangs, need, draft.node_parts[number].node))
        number = draft.node_parts[number].next


cdef Gangs gangs_of(object gangs) except *
cdef void amount_per_gpu(Gangs* gangs, int64_t kind, int64_t* unit) noexcept nogil
cdef void place_whole(Draft* draft, Gangs* gangs, int64_t at, int64_t node, int64_t* need) noexcept nogil
cdef void place_gang(Draft* draft, Gangs* gangs, int64_t at, int64_t* need, int64_t* take) noexcept nogil
cdef bint has_room(Draft* draft, Gangs* gangs, int64_t at, int64_t* need) noexcept nogil
