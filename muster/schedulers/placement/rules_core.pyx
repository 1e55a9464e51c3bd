"""Finding places on the ledger, compiled: one job's place by a rule.

Needs are amounts per GPU in millionths; `PROPORTIONAL` stands for the share of the node that is tried, and
`PROPORTIONAL - amount` for the share, but at least the amount.
"""

from libc.string cimport memset
from libcpp.algorithm cimport sort

from muster.cluster.even_core cimport (
    EMPTIEST,
    FIRST,
    FULLEST,
    EvenChoice,
    even_gangs,
    even_part,
    take_even,
    take_exactly,
)
from muster.cluster.ledger_core cimport (
    CPU,
    WHOLE,
    Device,
    Node,
    Row,
    count_bits,
    device_of,
    new_row,
    put_chain,
)


cdef int64_t gpus_that_fit(Books* books, int64_t node, int64_t* need) noexcept nogil:
    """How many whole GPUs, each with what it needs, the node has free."""
    cdef int64_t resource, amount, fit = books.nodes[node].free_gpus
    for resource in range(1, books.resources):
        amount = need_on(books, node, resource, need)
        if amount > 0 and books.nodes[node].free[resource] < fit * amount:
            fit = books.nodes[node].free[resource] // amount
    return fit


cdef bint holds_gang(Books* books, int64_t node, int64_t gpus, int64_t* need) noexcept nogil:
    """Whether a node has so many whole GPUs free, each with what it needs."""
    cdef int64_t resource
    if books.nodes[node].free_gpus < gpus:
        return False
    for resource in range(1, books.resources):
        if need_on(books, node, resource, need) * gpus > books.nodes[node].free[resource]:
            return False
    return True


cdef int64_t pick_from(int64_t free, int64_t gpus, int64_t island, int64_t count) noexcept nogil:
    """Of a node's free GPUs (a mask): inside one NVLink island if possible (the fullest that does), else the
    emptiest first. `island` is the size of one, at least 1. NOT_FREE if fewer are free than `count`."""
    cdef int64_t one = 1, best = -1, best_free = 1 << 30, chosen = 0, first, here, gpu
    if count_bits(free) < count:
        return NOT_FREE
    first = 0
    while first < gpus:
        here = count_bits(free >> first & ((one << island) - 1))
        if count <= here < best_free:
            best, best_free = first, here
        first += island
    while count > 0:
        if best < 0:
            best_free = -1
            first = 0
            while first < gpus:
                here = count_bits((free & ~chosen) >> first & ((one << island) - 1))
                if here > best_free:
                    best, best_free = first, here
                first += island
        for gpu in range(best, min(best + island, gpus)):
            if count > 0 and (free & ~chosen) >> gpu & 1:
                chosen |= one << gpu
                count -= 1
        best = -1
    return chosen


cdef int64_t pick_gpus(Books* books, int64_t node, int64_t count) noexcept nogil:
    """A mask of so many GPUs that no job holds, as close together as they can be; NOT_FREE if there are fewer."""
    cdef Node* here = &books.nodes[node]
    return pick_from(here.free_mask, here.gpus, max(here.island, <int64_t> 1), count)


cdef bint _fuller(Books* books, int64_t node, int64_t other) noexcept nogil:
    """Best fit: fewer free GPUs, then fewer free CPUs, then the lower number."""
    cdef Node* one = &books.nodes[node]
    cdef Node* two
    if other < 0:
        return True
    two = &books.nodes[other]
    if one.free_gpus == two.free_gpus:
        return one.free[CPU] < two.free[CPU]
    return one.free_gpus < two.free_gpus


cdef int64_t _size(Books* books, int64_t node, int64_t* need) noexcept nogil:
    """How many whole GPUs, each with what it needs, the node has while nothing runs on it."""
    cdef int64_t resource, amount, size = books.nodes[node].gpus
    for resource in range(1, books.resources):
        amount = need_on(books, node, resource, need)
        if amount > 0:
            size = min(size, books.nodes[node].capacity[resource] // amount)
    return size


cdef int64_t fewest_nodes(Books* books, uint8_t* allowed, int64_t gpus, int64_t* need, int64_t* most) noexcept nogil:
    """On how few nodes the gang would be if the cluster were empty; one more than there are if on none.

    `most` is scratch, a place a node.
    """
    cdef int64_t node, fewest = 0, nodes = books.node_count
    for node in range(nodes):
        most[node] = _size(books, node, need) if allowed[node] else 0
    if even_gangs(books):
        fewest = even_part(most, nodes, gpus, False)
        return gpus // fewest if fewest > 0 else nodes + 1
    sort(most, most + nodes)
    while gpus > 0 and fewest < nodes:
        fewest += 1
        gpus -= most[nodes - fewest]
    return fewest if gpus <= 0 else nodes + 1


cdef bint _first_whole_nodes(Books* books, uint8_t* allowed, int64_t gpus, int64_t* need, int64_t* take) noexcept nogil:
    """As YARN does it in Tiresias' simulator: no node is shared but one, and none where one could hold the gang.

    A node counts as large as the gang may have it: eight GPUs of which its CPUs are enough for four are four.
    """
    cdef int64_t node, size, largest = 0
    for node in range(books.node_count):
        if allowed[node]:
            largest = max(largest, _size(books, node, need))
    if gpus > largest:
        for node in range(books.node_count):
            size = _size(books, node, need)
            if allowed[node] and 0 < size <= gpus and holds_gang(books, node, size, need):
                take[node] = size
                gpus -= size
        if gpus > largest:
            return False
    if gpus == 0:
        return True
    for node in range(books.node_count):
        if allowed[node] and take[node] == 0 and holds_gang(books, node, gpus, need):
            take[node] = gpus
            return True
    return False


cdef int64_t count_fitting(Books* books, uint8_t* allowed, int64_t* need, int64_t* fit) noexcept nogil:
    """Write by node how many free GPUs come with what they need; all of them."""
    cdef int64_t node, total = 0
    for node in range(books.node_count):
        fit[node] = 0
        if allowed[node] and books.nodes[node].free_gpus > 0:
            fit[node] = gpus_that_fit(books, node, need)
            total += fit[node]
    return total


cdef int64_t _fullest_node(Books* books, uint8_t* allowed, int64_t gpus, int64_t* need) noexcept nogil:
    """The fullest node that holds a whole gang, or -1."""
    cdef int64_t node, best = -1
    for node in range(books.node_count):
        if books.nodes[node].free_gpus < gpus or not allowed[node]:
            continue
        if _fuller(books, node, best) and holds_gang(books, node, gpus, need):
            best = node
    return best


cdef void _take_spread(int64_t nodes, int64_t gpus, Scratch scratch) noexcept nogil:
    """One GPU at a time where most are free."""
    cdef int64_t gpu, node, most
    for gpu in range(gpus):
        most = 0
        for node in range(nodes):
            if scratch.fit[node] - scratch.take[node] > scratch.fit[most] - scratch.take[most]:
                most = node
        scratch.take[most] += 1


cdef bint _take_fewest_nodes(Books* books, int64_t gpus, int64_t at_most, Scratch scratch) noexcept nogil:
    """The emptiest nodes and the tightest that takes the rest; whether so many nodes are enough."""
    cdef int64_t turn, node, most, tightest, chosen
    for turn in range(at_most):
        if gpus == 0:
            break
        most, tightest = -1, -1
        for node in range(books.node_count):
            if scratch.take[node] == 0 and scratch.fit[node] > 0:
                if most < 0 or scratch.fit[node] > scratch.fit[most]:
                    most = node
                if scratch.fit[node] >= gpus and (tightest < 0 or _fuller(books, node, tightest)):
                    tightest = node
        chosen = tightest if tightest >= 0 else most
        scratch.take[chosen] = min(scratch.fit[chosen], gpus)
        gpus -= scratch.take[chosen]
    return gpus == 0


cdef bint find_nodes(
    Books* books, uint8_t* allowed, int64_t gpus, int64_t* need, int64_t rule, Scratch scratch
) noexcept nogil:
    """Choose nodes for a gang by a rule; `scratch.take` gets the GPUs on each. Whether there is a place.

    Pack: the fullest node that holds the gang, else the emptiest nodes and the fullest that takes the rest.
    First fit: nodes in order. Consolidate: as pack, but only on the fewest nodes that could
    ever hold the gang. Spread: one GPU at a time where most are free. Yarn: the first node that holds the gang;
    if it is larger than any, the first nodes that are all free and the first that takes the rest.

    Where gangs are even: equal parts, as large as there is room for (spread: as small), on the nodes that the rule
    prefers; yarn as first fit.
    """
    cdef int64_t node, best, at_most, taken
    cdef bint even = even_gangs(books)
    cdef EvenChoice choice = EMPTIEST if rule == SPREAD else FIRST if rule == FIRST_FIT or rule == YARN else FULLEST
    memset(scratch.take, 0, books.node_count * sizeof(int64_t))
    if rule == YARN and not even:
        return _first_whole_nodes(books, allowed, gpus, need, scratch.take)
    if rule == PACK or rule == CONSOLIDATE:
        best = _fullest_node(books, allowed, gpus, need)
        if best >= 0:
            scratch.take[best] = gpus
            return True
    at_most = books.node_count
    if rule == CONSOLIDATE:
        at_most = fewest_nodes(books, allowed, gpus, need, scratch.fit)
    if count_fitting(books, allowed, need, scratch.fit) < gpus:
        return False
    if even:
        taken = take_even(scratch.fit, books.node_count, gpus, choice, scratch.take)
        return 0 < taken <= at_most
    if rule == FIRST_FIT:
        for node in range(books.node_count):
            scratch.take[node] = min(scratch.fit[node], gpus)
            gpus -= scratch.take[node]
        return True
    if rule == SPREAD:
        _take_spread(books.node_count, gpus, scratch)
        return True
    return _take_fewest_nodes(books, gpus, at_most, scratch)


cdef bint _find_device(
    Books* books, uint8_t* allowed, int64_t milli, int64_t* need, int64_t rule, int64_t* at_node, int64_t* at_gpu
) noexcept nogil:
    """A node and GPU for a share of a GPU: the fullest shared GPU that has room, else one of the fullest node."""
    cdef int64_t node, gpu, resource, emptiness, best = 1 << 30
    cdef Device* device
    cdef bint short_of, found = False
    for node in range(books.node_count):
        if not allowed[node] or not books.nodes[node].up:
            continue
        short_of = False
        for resource in range(1, books.resources):
            if need_on(books, node, resource, need) * milli // WHOLE > books.nodes[node].free[resource]:
                short_of = True
        if short_of:
            continue
        for gpu in range(books.nodes[node].gpus):
            device = device_of(books, node, gpu)
            if device.group >= 0 or device.free_milli < milli:
                continue
            if device.holders == 0:
                emptiness = 1000 + books.nodes[node].free_gpus
                if rule == SPREAD:
                    emptiness = -emptiness
            else:
                emptiness = device.free_milli
            if emptiness < best:
                at_node[0], at_gpu[0], best, found = node, gpu, emptiness, True
    return found


cdef int64_t put_share(
    Books* books, int64_t chain, int64_t node, int64_t mask, int64_t milli, int64_t* need
) noexcept nogil:
    """A row for these GPUs with what they need, in front of a chain; the new chain."""
    cdef int64_t resource, number = new_row(books), gpus = count_bits(mask)
    cdef Row* row = &books.rows[number]
    row.node, row.mask, row.milli, row.next = node, mask, milli, chain
    row.amount[0] = gpus * milli * 1000
    for resource in range(1, books.resources):
        row.amount[resource] = need_on(books, node, resource, need) * gpus * milli // WHOLE
    return number


cdef int64_t chain_of(Books* books, int64_t* take, int64_t* need, int64_t chain) noexcept nogil:
    """Rows for so many GPUs on each node, in front of a chain; the new chain."""
    cdef int64_t node
    for node in range(books.node_count - 1, -1, -1):
        if take[node] > 0:
            chain = put_share(books, chain, node, pick_gpus(books, node, take[node]), WHOLE, need)
    return chain


cdef int64_t _find_node_without_gpus(Books* books, uint8_t* allowed, int64_t* need) noexcept nogil:
    """A node for a job without GPUs: with the fewest free GPUs, of equals with the fewest free CPUs; -1: none."""
    cdef int64_t node, resource, best = -1
    cdef bint fits
    for node in range(books.node_count):
        fits = allowed[node] and books.nodes[node].up != 0
        for resource in range(1, books.resources):
            fits = fits and need[resource] <= books.nodes[node].free[resource]
        if fits and _fuller(books, node, best):
            best = node
    return best


cdef bint _find_exactly(Books* books, Asked* asked, uint8_t* allowed, int64_t* need, Scratch scratch) noexcept nogil:
    """Choose as many nodes for a job as it has to be on, by no rule; whether there is a place."""
    cdef int64_t nodes = books.node_count, count = asked.exact_nodes
    count_fitting(books, allowed, need, scratch.fit)
    return take_exactly(scratch.fit, nodes, asked.gpus, count, even_gangs(books), scratch.take) > 0


cdef bint place_job(
    Books* books, int64_t job, Asked* asked, uint8_t* allowed, int64_t* need, int64_t rule, Scratch scratch
) noexcept nogil:
    """Give a job that holds nothing its GPUs, if there is a place by the rule."""
    cdef int64_t resource, node = -1, gpu = -1, chain = -1, one = 1
    if asked.gpus == 0:
        node = _find_node_without_gpus(books, allowed, need)
        if node < 0:
            return False
        chain = new_row(books)
        books.rows[chain].node = node
        for resource in range(1, books.resources):
            books.rows[chain].amount[resource] = need[resource]
    elif asked.milli < WHOLE:
        if not _find_device(books, allowed, asked.milli, need, rule, &node, &gpu):
            return False
        chain = put_share(books, chain, node, one << gpu, asked.milli, need)
    else:
        if asked.exact_nodes > 0:
            if not _find_exactly(books, asked, allowed, need, scratch):
                return False
        elif not find_nodes(books, allowed, asked.gpus, need, rule, scratch):
            return False
        chain = chain_of(books, scratch.take, need, chain)
    return put_chain(books, job, chain) == 0
