"""The fastest form of place on a network that has room for a job, compiled."""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t

from muster.schedulers.allocation.draft_core cimport Draft, NodePart, add_part, free_on, set_amounts
from muster.schedulers.allocation.gangs_core cimport Gangs, allowed_nodes, forms_of, need_of, need_on, next_speed
from muster.schedulers.allocation.resource_fill cimport form_of, speed_on_form
from muster.schedulers.joint.form_index cimport (
    Room,
    find_evenly,
    find_machine,
    forget_chosen,
    most_in_a_rack,
    room_of,
    show_room,
)
from muster.schedulers.joint.free_nodes cimport Chosen
from muster.schedulers.joint.search cimport Network, Search
from muster.schedulers.joint.several_nodes cimport join_nodes, place_on_chosen
from muster.schedulers.placement.delay_scheduling cimport MACHINE
from muster.schedulers.placement.network_aware cimport FormsOfGang, find_form, form_on_machine

from muster.speed.input_core cimport ModelSpeed
from muster.speed.network.forms import EVENLY, IN_ISLAND, IN_RACK

cdef int64_t _IN_ISLAND = IN_ISLAND
cdef int64_t _EVENLY = EVENLY  # forms up to this one have the same number of GPUs on each of their machines
cdef int64_t _IN_RACK = IN_RACK

cdef double _EPSILON = 1e-9


cdef void count_held(Search* search) noexcept nogil:
    """Count by node the GPUs of running jobs that have no place yet; none has had its turn."""
    cdef Draft* before = search.network.before
    cdef int64_t number, at
    for number in range(before.used[0]):
        at = before.node_parts[number].at
        if before.movable[at] and search.draft.first[at] < 0:
            search.network.awaits[at] = True
            search.network.held_here[before.node_parts[number].node] += before.node_parts[number].gpus


cdef void count_free(Search* search, int64_t node) noexcept nogil:
    """Count the GPUs that the draft leaves on a node now, in place of those that it left there before."""
    cdef Network* network = search.network
    cdef int64_t now = max(free_on(search.draft, node)[0], <int64_t> 0)
    network.counts[network.free_here[node]] -= 1
    network.free_gpus += now - network.free_here[node]
    network.free_here[node] = now
    if now >= <int64_t> network.counts.size():
        network.counts.resize(now + 1)
    network.counts[now] += 1
    network.most_free = max(network.most_free, now)
    while network.most_free > 0 and network.counts[network.most_free] == 0:
        network.most_free -= 1


cdef bint may_share_machine(Search* search, int64_t at) noexcept nogil:
    """Whether a job goes fast enough on one machine."""
    cdef FormsOfGang forms = forms_of(search.gangs, at)
    return forms.speeds[form_on_machine(forms, MACHINE)] >= search.network.enough * forms.speeds[0]


cdef bint place_on_form(Search* search, int64_t at, bint only_fastest) noexcept nogil:
    """Place a job with its demand on the fastest form that has room; whether it has a place.

    `only_fastest`: no form that is slower than the best. Where it ran it stays, if it has room there and no form with
    room is faster. If some kinds of nodes make it faster than others, it looks on those first, for forms with which it
    is as fast as on the others.
    """
    cdef Network* network = search.network
    cdef Gangs* gangs = search.gangs
    cdef int64_t* best = need_of(gangs, gangs.demands.best, at)
    cdef FormsOfGang forms = forms_of(gangs, at)
    cdef int64_t number, part = network.before.first[at], node, own = -1
    cdef ModelSpeed* model = &gangs.models[gangs.model[at]]
    cdef double speed, slower, least
    cdef Room* room
    if part >= 0:
        own = form_of(network.before, gangs, at, forms)
        while part >= 0 and network.awaits[at]:
            node = network.before.node_parts[part].node
            network.held_here[node] -= network.before.node_parts[part].gpus
            network.index.changed.push_back(node)
            part = network.before.node_parts[part].next
        network.awaits[at] = False
    if network.free_gpus < gangs.gpus[at]:
        return False
    speed = next_speed(gangs, at, INFINITY)
    while speed >= 0:
        slower = next_speed(gangs, at, speed)
        least = speed_on_form(model, forms, 0, slower)
        room = room_of(&network.index, search.draft, gangs, at, best, speed if slower >= 0 else 0.0, network.held_here)
        for number in range(forms.count):
            if forms.kinds[3 * number] < 0 or forms.speeds[number] < network.enough * forms.speeds[0]:
                break
            if speed_on_form(model, forms, number, speed) < least:
                break
            if only_fastest and forms.speeds[number] < forms.speeds[0] * (1 - _EPSILON):
                return False
            if (
                own >= 0
                and forms.speeds[own] >= forms.speeds[number] * (1 - _EPSILON)
                and _stay(search, at, best, room)
            ):
                return True
            if _find_form(search, at, &forms.kinds[3 * number], room):
                place_on_chosen(search, at, best)
                return True
        if only_fastest:
            return False
        speed = slower
    return False


cdef bint join_on_form(Search* search, int64_t at) noexcept nogil:
    """Place a job on the fastest form where the jobs make room for it and all gain; whether it has a place."""
    cdef FormsOfGang forms = forms_of(search.gangs, at)
    cdef Network* network = search.network
    cdef Room* room = room_of(&network.index, search.draft, search.gangs, at, NULL, 0.0, network.held_here)
    cdef int64_t number
    for number in range(forms.count):
        if forms.kinds[3 * number] < 0 or forms.speeds[number] < network.enough * forms.speeds[0]:
            return False
        if _find_form(search, at, &forms.kinds[3 * number], room):
            if join_nodes(search, at):
                return True
    return False


cdef bint _find_form(Search* search, int64_t at, int64_t* kind, Room* room) noexcept nogil:
    """Choose nodes for a job on a place of this form; whether there is one.

    All nodes are looked at where the job may not be on some of them, and for the forms that are not of whole machines.
    """
    cdef Network* network = search.network
    cdef Chosen* chosen = search.chosen
    cdef int64_t gpus = search.gangs.gpus[at], node
    cdef int64_t* take = network.work.scratch.take
    if kind[0] <= _EVENLY and gpus // kind[1] > network.most_free:
        return False
    if search.gangs.exact_nodes[at] == 1 and (kind[0] > _EVENLY or kind[1] > 1):
        return False
    if room.total < gpus or (kind[0] == _IN_RACK and most_in_a_rack(room) < gpus):
        return False
    if kind[0] < _EVENLY and search.gangs.constraint[at] == 0:
        return find_machine(&network.index, room, &network.books, gpus, kind[0] == _IN_ISLAND, chosen)
    if kind[0] == _EVENLY and search.gangs.constraint[at] == 0:
        return find_evenly(&network.index, room, &network.books, gpus, kind, chosen)
    show_room(room, &network.books)
    if not find_form(
        &network.books,
        gpus,
        allowed_nodes(search.gangs, at),
        kind,
        network.nothing,
        network.held_here,
        &network.work,
    ):
        return False
    forget_chosen(chosen)
    for node in range(search.gangs.nodes):
        if take[node] > 0:
            chosen.gpus[node] = take[node]
            chosen.nodes.push_back(node)
    return True


cdef bint _stay(Search* search, int64_t at, int64_t* need, Room* room) noexcept nogil:
    """Place a job where it ran, with a need, if it has room there; whether it has."""
    cdef Draft* before = search.network.before
    cdef int64_t number = before.first[at]
    cdef NodePart* part
    while number >= 0:
        part = &before.node_parts[number]
        if room.fit[part.node] < part.gpus or not allowed_nodes(search.gangs, at)[part.node]:
            return False
        number = part.next
    number = before.first[at]
    while number >= 0:
        part = &before.node_parts[number]
        set_amounts(
            search.draft,
            add_part(search.draft, at, part.node, part.gpus),
            need_on(search.gangs, need, part.node),
        )
        number = part.next
    return True
