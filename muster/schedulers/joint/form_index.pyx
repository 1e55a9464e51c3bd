"""Nodes by how many GPUs a job can have there, so that a place on machines is found without a look at all of them.

The places are those that `network_aware.find_form` finds by looking at every node.
"""

from libcpp.algorithm cimport sort

from muster.schedulers.allocation.draft_core cimport free_on
from muster.schedulers.allocation.gangs_core cimport makes_fast, need_on
from muster.schedulers.allocation.search_core cimport gpus_that_fit
from muster.schedulers.placement.delay_scheduling cimport SPLIT, smallest_island

cdef extern from * nogil:
    int64_t lowest_bit "__builtin_ctzll"(uint64_t bits)


cdef void begin_index(FormIndex* index, Gangs* gangs, int64_t rack_count, int64_t* held) noexcept nogil:
    """Begin an index of the nodes of a draft: it is made for each need as jobs ask for it.

    `held` is by node the GPUs of running jobs that have no place yet; they become fewer.
    """
    cdef int64_t kind, node, most_held = 0, gpus = 0
    index.rooms.clear()
    index.of_class.assign(gangs.class_count, -1)
    index.changed.assign(1, 0)
    index.rack_count, index.alike = rack_count, True
    index.left.assign(rack_count, 0)
    for kind in range(gangs.kind_count):
        gpus = max(gpus, gangs.kinds[kind].gpus)
        if gangs.kinds[kind].gpus != gangs.kinds[0].gpus:
            index.alike = False
    for node in range(gangs.nodes):
        if gangs.island_of_node[node] != gangs.island_of_node[0]:
            index.alike = False
        most_held = max(most_held, held[node])
    index.held_counts, index.words = most_held + 1, gangs.nodes // 64 + 1
    index.list_count = (gpus + 1) * index.held_counts


cdef Room* room_of(
    FormIndex* index, Draft* draft, Gangs* gangs, int64_t at, int64_t* need, double at_least, int64_t* held
) noexcept nogil:
    """The nodes as a job with a need sees them now that has to be so fast.

    `held` is by node the GPUs of running jobs without a place.
    """
    cdef Room* room = &index.rooms[_number_of_room(index, gangs, at, need, at_least)]
    cdef int64_t node
    cdef size_t i
    if room.known == 0:
        room.total = 0
        room.fit.assign(gangs.nodes, -1)
        room.held.assign(gangs.nodes, 0)
        room.racks.assign(index.rack_count, 0)
        room.lists.assign(index.list_count * index.words, 0)
        room.counts.assign(index.list_count, 0)
        for node in range(gangs.nodes):
            _update(index, room, draft, gangs, node, held[node])
    for i in range(room.known, index.changed.size() if room.known > 0 else 0):
        _update(index, room, draft, gangs, index.changed[i], held[index.changed[i]])
    room.known = index.changed.size()
    return room


cdef int64_t _number_of_room(
    FormIndex* index, Gangs* gangs, int64_t at, int64_t* need, double at_least
) noexcept nogil:
    """The number of the room for a job with a need, which is new where no job had the same need and speed to reach."""
    cdef int64_t* known = NULL
    cdef int64_t number = 0
    cdef Room room
    if need != NULL and at_least == 0:
        known = &index.of_class[gangs.classes[at]]
        if known[0] >= 0:
            return known[0]
    while number < <int64_t> index.rooms.size() and not _is_for(&index.rooms[number], gangs, at, need, at_least):
        number += 1
    if number == <int64_t> index.rooms.size():
        room.need, room.at_least, room.job, room.known = need, at_least, at, 0
        index.rooms.push_back(room)
    if known != NULL:
        known[0] = number
    return number


cdef bint _is_for(Room* room, Gangs* gangs, int64_t at, int64_t* need, double at_least) noexcept nogil:
    """Whether a room is that of a job with a need that has to be so fast."""
    if room.at_least != at_least or not _are_equal(gangs, room.need, need):
        return False
    return at_least == 0 or gangs.classes[room.job] == gangs.classes[at]


cdef bint _are_equal(Gangs* gangs, int64_t* one, int64_t* other) noexcept nogil:
    """Whether two needs are the same on each kind of node."""
    cdef int64_t at
    if one == NULL or other == NULL:
        return one == other
    for at in range(gangs.kind_count * gangs.resources):
        if one[at] != other[at]:
            return False
    return True


cdef void _update(
    FormIndex* index, Room* room, Draft* draft, Gangs* gangs, int64_t node, int64_t held
) noexcept nogil:
    """List a node by what jobs can have there now."""
    cdef int64_t* here = NULL
    cdef int64_t before = room.fit[node], fit = 0, number
    if room.need != NULL:
        here = need_on(gangs, room.need, node)
    if free_on(draft, node)[0] > 0 and makes_fast(gangs, room.job, node, room.at_least):
        fit = max(gpus_that_fit(draft, node, here), <int64_t> 0)
    if fit == before and held == room.held[node]:
        return
    if before >= 0:
        number = before * index.held_counts + room.held[node]
        room.lists[number * index.words + node // 64] &= ~(<uint64_t> 1 << (node % 64))
        room.counts[number] -= 1
    number = fit * index.held_counts + held
    room.lists[number * index.words + node // 64] |= <uint64_t> 1 << (node % 64)
    room.counts[number] += 1
    room.racks[gangs.rack_of_node[node]] += fit - max(before, <int64_t> 0)
    room.total += fit - max(before, <int64_t> 0)
    room.fit[node], room.held[node] = fit, held


cdef void show_room(Room* room, Books* books) noexcept nogil:
    """Write into the nodes of a ledger how many GPUs a job can have there."""
    cdef int64_t node
    for node in range(books.node_count):
        _show(room, books, node)


cdef inline void _show(Room* room, Books* books, int64_t node) noexcept nogil:
    """Which GPUs of a node are free is not known in a draft: the search takes them to be next to each other."""
    books.nodes[node].free_gpus = room.fit[node]
    books.nodes[node].free_mask = (<int64_t> 1 << room.fit[node]) - 1


cdef bint find_machine(
    FormIndex* index, Room* room, Books* books, int64_t gpus, bint one_island, Chosen* chosen
) noexcept nogil:
    """Choose the node with room for the fewest GPUs that holds a gang; of equals one whose GPUs no job needs again."""
    cdef int64_t number, node = -1
    for number in range(gpus * index.held_counts, index.list_count):
        if room.counts[number] > 0:
            node = _tightest_island(index, room, books, gpus, one_island, room.lists.data() + number * index.words)
        if node >= 0:
            forget_chosen(chosen)
            _choose(chosen, node, gpus)
            return True
    return False


cdef int64_t _tightest_island(
    FormIndex* index, Room* room, Books* books, int64_t gpus, bint one_island, uint64_t* nodes
) noexcept nogil:
    """The node in whose tightest island a gang fits most closely, of equals the first; -1: there is none.

    All nodes have room for as many GPUs; where their islands are alike, the first is as good as any.
    """
    cdef int64_t node, island, best = -1, tightest = SPLIT + 1
    cdef uint64_t bits
    cdef int64_t word
    for word in range(index.words):
        bits = nodes[word]
        while bits:
            node = word * 64 + lowest_bit(bits)
            bits &= bits - 1
            _show(room, books, node)
            island = smallest_island(books, node, gpus)
            if island < tightest and not (one_island and island == SPLIT):
                best, tightest = node, island
            if index.alike:
                return best
    return best


cdef bint find_evenly(
    FormIndex* index, Room* room, Books* books, int64_t gpus, int64_t* kind, Chosen* chosen
) noexcept nogil:
    """Choose machines, of as many in each rack, with the same GPUs of each: the tightest; whether there are such."""
    cdef int64_t share = gpus // kind[1], racks = kind[2], each = kind[1] // kind[2], full = 0
    cdef int64_t number, word, node, rack
    cdef vector[int64_t] nodes
    cdef uint64_t bits
    cdef size_t i
    index.left.assign(index.rack_count, 0)
    for number in range(share * index.held_counts, index.list_count):
        for word in range(index.words if room.counts[number] > 0 and full < racks else 0):
            bits = room.lists[number * index.words + word]
            while bits and full < racks:
                node = word * 64 + lowest_bit(bits)
                bits &= bits - 1
                rack = books.nodes[node].rack
                nodes.push_back(node)
                index.left[rack] += 1
                full += index.left[rack] == each
    if full < racks:
        return False
    forget_chosen(chosen)
    for rack in range(index.rack_count):
        index.left[rack] = each if index.left[rack] >= each else 0
    for i in range(nodes.size()):
        rack = books.nodes[nodes[i]].rack
        if index.left[rack] > 0:
            _choose(chosen, nodes[i], share)
            index.left[rack] -= 1
    sort(chosen.nodes.begin(), chosen.nodes.end())
    return True


cdef int64_t most_in_a_rack(Room* room) noexcept nogil:
    """The most GPUs that a job can have in one rack."""
    cdef int64_t most = 0
    cdef size_t rack
    for rack in range(room.racks.size()):
        most = max(most, room.racks[rack])
    return most


cdef void forget_chosen(Chosen* chosen) noexcept nogil:
    """No node is chosen."""
    cdef size_t i
    for i in range(chosen.nodes.size()):
        chosen.gpus[chosen.nodes[i]] = 0
    chosen.nodes.clear()


cdef inline void _choose(Chosen* chosen, int64_t node, int64_t gpus) noexcept nogil:
    """A gang takes GPUs of a node."""
    chosen.nodes.push_back(node)
    chosen.gpus[node] = gpus
