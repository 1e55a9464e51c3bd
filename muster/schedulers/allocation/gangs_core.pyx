"""The jobs of a snapshot for compiled code: reading their arrays, placing them, and whether they have room."""

from muster.cluster.arrays cimport bools, floats, ints, records
from muster.schedulers.allocation.draft_core cimport NodePart, add_part, fits, floor_of


cdef Gangs gangs_of(object arrays) except *:
    """The arrays of `gangs.Gangs`."""
    cdef Gangs gangs
    cdef object demands = arrays[5], forms = arrays[10]
    gangs.gpus, gangs.classes, gangs.model = ints(arrays[0]).at, ints(arrays[1]).at, ints(arrays[2]).at
    gangs.constraint, gangs.node_allowed = ints(arrays[3]).at, bools(arrays[4]).at
    gangs.demands.best, gangs.demands.fair = ints(demands.best).at, ints(demands.fair).at
    gangs.demands.published, gangs.demands.fair_speed = ints(demands.published).at, floats(demands.fair_speed).at
    gangs.demands.limit, gangs.demands.share = ints(demands.limit).at, ints(demands.share).at
    gangs.demands.requested = ints(demands.requested).at
    gangs.demands.first_choice, gangs.demands.choice = ints(demands.first_choice).at, ints(demands.choice).at
    gangs.demands.choice_speed = floats(demands.choice_speed).at
    gangs.kinds = <Node*> records(arrays[6], sizeof(Node))
    gangs.kind_of_node = ints(arrays[7]).at
    gangs.models = <ModelSpeed*> records(arrays[8], sizeof(ModelSpeed))
    gangs.weight = floats(arrays[9]).at
    gangs.jobs, gangs.nodes = ints(arrays[0]).size, ints(arrays[7]).size
    gangs.class_count, gangs.kind_count, gangs.resources = demands.best.shape
    gangs.even, gangs.exact_nodes, gangs.preferred = arrays[11], ints(arrays[12]).at, ints(arrays[13]).at
    gangs.forms.count = 0
    if len(forms.line):
        gangs.forms.count = forms.speeds.shape[1]
        gangs.forms.kinds, gangs.forms.speeds = ints(forms.kinds).at, floats(forms.speeds).at
        gangs.line, gangs.rack_of_node = ints(forms.line).at, ints(forms.rack_of_node).at
        gangs.island_of_node = ints(forms.island_of_node).at
    return gangs


cdef void amount_per_gpu(Gangs* gangs, int64_t kind, int64_t* unit) noexcept nogil:
    """What a node of this kind has for each GPU, by resource, at least 1: the unit of comparisons."""
    cdef Node* node = &gangs.kinds[kind]
    cdef int64_t resource
    for resource in range(gangs.resources):
        unit[resource] = max(node.capacity[resource] // max(node.gpus, <int64_t> 1), <int64_t> 1)


cdef void place_whole(Draft* draft, Gangs* gangs, int64_t at, int64_t node, int64_t* need) noexcept nogil:
    """Place all of a job on one node."""
    set_amounts(draft, add_part(draft, at, node, gangs.gpus[at]), need_on(gangs, need, node))


cdef void place_gang(Draft* draft, Gangs* gangs, int64_t at, int64_t* need, int64_t* take) noexcept nogil:
    """Place a job on the nodes that were chosen for it."""
    cdef int64_t node
    for node in range(gangs.nodes):
        if take[node] > 0:
            set_amounts(draft, add_part(draft, at, node, take[node]), need_on(gangs, need, node))


cdef bint has_room(Draft* draft, Gangs* gangs, int64_t at, int64_t* need) noexcept nogil:
    """Whether all nodes of a job have room for a need instead of what it has."""
    cdef int64_t number = draft.first[at], resource
    cdef int64_t more[SLOTS]
    cdef int64_t* here
    cdef NodePart* part
    while number >= 0:
        part = &draft.node_parts[number]
        here = need_on(gangs, need, part.node)
        for resource in range(1, draft.resources):
            more[resource] = here[resource] - floor_of(part.amount[resource], part.gpus)
        if not fits(draft, part.node, part.gpus, more):
            return False
        number = part.next
    return True
