"""Delay scheduling, compiled: places by level of the tree, which are NVLink island, machine, rack and anywhere.

Every job of the queue is tried on what the ones before it left. What an island or a machine holds is taken
at any time; a wider place only once the job has waited for the narrower ones as long as its timers say.
"""

from libc.math cimport INFINITY, nextafter
from libcpp.algorithm cimport stable_sort

from muster.cluster.arrays cimport Ints, bools, floats, ints
from muster.cluster.ledger_core cimport GPU, WHOLE, Node, Row, books_of, count_bits, put_chain
from muster.schedulers.placement.columns cimport (
    Jobs,
    Needs,
    Reasons,
    allowed_nodes,
    jobs_of,
    need_of,
    needs_of,
    note_lack,
    put_back,
    reasons_of,
    spec_of,
    thousandths_of,
)
from muster.schedulers.placement.published_order cimport Place, list_nodes_by_rack, list_places
from muster.schedulers.placement.rules_core cimport (
    PACK,
    chain_of,
    count_fitting,
    find_nodes,
    holds_gang,
    need_on,
    pick_gpus,
    place_job,
    put_share,
)

from muster.schedulers.reasons import BEHIND_HEAD, DELAY_TIMER, NO_GPUS, NO_PLACE, PLACED, RACK_TIMER

cdef int64_t _BEHIND_HEAD = BEHIND_HEAD
cdef int64_t _DELAY_TIMER = DELAY_TIMER
cdef int64_t _NO_GPUS = NO_GPUS
cdef int64_t _NO_PLACE = NO_PLACE
cdef int64_t _PLACED = PLACED
cdef int64_t _RACK_TIMER = RACK_TIMER

cdef int64_t _ANY_SIZE = <int64_t> 1 << 40
cdef int64_t _MOST = <int64_t> 1 << 62


# What is known of gangs with the same needs that may use any node.
cdef struct Known:
    int64_t no_machine_from  # the smallest size that found no machine
    int64_t no_rack_from
    int64_t largest_machine  # GPUs of such a gang that the largest machine holds when it is empty; -1: not known
    int64_t largest_rack


# Which places a job takes besides machines.
cdef struct Takes:
    bint rack
    bint any
    bint published  # in the order of the published program


# The best place that a job takes now: where it is, or for which timer the job waits.
cdef struct Offer:
    int64_t level
    int64_t where  # a node up to MACHINE, a rack at RACK
    int64_t mask  # the GPUs on that node
    int64_t timer  # DELAY_TIMER or RACK_TIMER where the job waits for a narrower place, else PLACED


# Free GPUs of a node that come with what a gang needs.
cdef struct Fitting:
    int64_t gpus
    int64_t node


cdef bint _more_fitting(const Fitting& one, const Fitting& other) noexcept nogil:
    return one.gpus > other.gpus


cdef class Competitors:
    """By position: what each job that competes for free GPUs takes, and since when it has waited.

    `machine_seconds` and `rack_seconds` are how long one machine and one rack are waited for, from `since` on. `urgent`
    jobs take any place, and no other job passes them. `released` is the chain that a job gave back just now, or -1,
    and `content` whether no other place would be worth the job's interruption.
    """

    def __init__(self, since, machine_seconds, rack_seconds, urgent, released, content):
        self._kept = since, machine_seconds, rack_seconds, urgent, released, content
        self.since, self.machine_seconds = floats(since).at, floats(machine_seconds).at
        self.rack_seconds, self.urgent = floats(rack_seconds).at, bools(urgent).at
        self.released, self.content = ints(released).at, bools(content).at


cdef class LeaseTerms:
    """What holds for all that compete.

    The walk pauses behind a job that waited at least `pause_seconds` and got a machine or a rack: timers may learn from
    it. `published` is whether places are tried in the order of the published program.
    """

    def __init__(self, double now, double lease_seconds, double pause_seconds, bint published):
        self.now, self.lease_seconds = now, lease_seconds
        self.pause_seconds, self.published = pause_seconds, published


cdef int64_t count_racks(Books* books) noexcept nogil:
    """One more than the highest number of a rack."""
    cdef int64_t node, racks = 0
    for node in range(books.node_count):
        racks = max(racks, books.nodes[node].rack + 1)
    return racks


cdef Workspace workspace_for(Books* books, vector[int64_t]& numbers, vector[uint8_t]& inside) noexcept nogil:
    """Arrays for the nodes and racks of a ledger, in the memory of two vectors."""
    cdef Workspace work
    cdef int64_t nodes = books.node_count
    work.rack_count = count_racks(books)
    numbers.assign(3 * nodes + work.rack_count, 0)
    inside.assign(nodes, 0)
    work.scratch.fit, work.scratch.take = numbers.data(), numbers.data() + nodes
    work.room, work.racks = numbers.data() + 2 * nodes, numbers.data() + 3 * nodes
    work.inside = inside.data()
    return work


cdef int64_t level_of_chain(Books* books, int64_t chain) noexcept nogil:
    """How far apart the GPUs of a chain of rows are."""
    cdef int64_t gpu = 0, island, level = MACHINE, row
    cdef Row* first
    cdef Node* node
    if chain < 0:
        return NOWHERE
    first = &books.rows[chain]
    node = &books.nodes[first.node]
    island = max(node.island, <int64_t> 1)
    while gpu < node.gpus:
        if first.mask & ~(((<int64_t> 1 << island) - 1) << gpu) == 0:
            level = ISLAND
        gpu += island
    row = first.next
    while row >= 0:
        if books.nodes[books.rows[row].node].rack != node.rack:
            return NETWORK
        if books.rows[row].node != first.node:
            level = RACK
        row = books.rows[row].next
    return level


cdef int64_t smallest_island(Books* books, int64_t node, int64_t gpus) noexcept nogil:
    """Free GPUs of the fullest island of a node that holds the gang; `SPLIT` if none does."""
    cdef int64_t free = books.nodes[node].free_mask, island = max(books.nodes[node].island, <int64_t> 1)
    cdef int64_t here, first = 0, smallest = SPLIT
    while first < books.nodes[node].gpus:
        here = count_bits(free >> first & ((<int64_t> 1 << island) - 1))
        if gpus <= here < smallest:
            smallest = here
        first += island
    return smallest


cdef int64_t _find_machine(Books* books, uint8_t* allowed, int64_t gpus, int64_t* need) noexcept nogil:
    """The node for a whole gang, in one island if any has room; best fit; or -1."""
    cdef int64_t node, score, best = -1, best_score = _MOST
    for node in range(books.node_count):
        if allowed[node] and holds_gang(books, node, gpus, need):
            score = smallest_island(books, node, gpus) * SPLIT + books.nodes[node].free_gpus
            if score < best_score:
                best, best_score = node, score
    return best


cdef int64_t _lowest(int64_t mask, int64_t count) noexcept nogil:
    """The lowest bits of a mask."""
    cdef int64_t turn, kept = 0
    for turn in range(count):
        kept |= mask & -mask
        mask &= mask - 1
    return kept


cdef int64_t _first_published_place(
    Books* books, uint8_t* allowed, int64_t gpus, int64_t* need, int64_t* mask
) noexcept nogil:
    """The node and mask of the first place in published order that holds a whole gang, islands first."""
    cdef vector[Place] places
    cdef int64_t turn, size, free
    cdef size_t at
    for turn in range(2):
        list_places(books, allowed, turn == 0, places)
        for at in range(places.size()):
            free = books.nodes[places[at].node].free_mask >> places[at].first << places[at].first
            if turn == 0:
                size = min(max(books.nodes[places[at].node].island, <int64_t> 1), <int64_t> 62)
                free &= ((<int64_t> 1 << size) - 1) << places[at].first
            if count_bits(free) >= gpus and holds_gang(books, places[at].node, gpus, need):
                mask[0] = _lowest(free, gpus)
                return places[at].node
    mask[0] = 0
    return -1


cdef void count_by_rack(Books* books, uint8_t* allowed, int64_t* need, int64_t* fit, Workspace* work) noexcept nogil:
    """Free GPUs that come with what they need, by node into `fit` and by rack."""
    cdef int64_t node, rack
    count_fitting(books, allowed, need, fit)
    for rack in range(work.rack_count):
        work.racks[rack] = 0
    for node in range(books.node_count):
        work.racks[books.nodes[node].rack] += fit[node]


cdef int64_t best_rack(Books* books, int64_t* fit, Workspace* work, int64_t gpus, bint published) noexcept nogil:
    """The rack in which a gang takes the fewest machines, of equals the fullest; or the first one; or -1."""
    cdef vector[int64_t] left, machines
    cdef vector[Fitting] emptiest_first
    cdef Fitting one
    cdef int64_t rack, node, score, best = -1, choices = 0, fewest = _ANY_SIZE
    cdef size_t at
    for rack in range(work.rack_count):
        if work.racks[rack] >= gpus:
            best = rack
            choices += 1
            if published:
                return best
    if choices < 2:
        return best
    left.resize(work.rack_count, gpus)
    machines.resize(work.rack_count)
    for node in range(books.node_count):
        one.gpus, one.node = fit[node], node
        emptiest_first.push_back(one)
    stable_sort(emptiest_first.begin(), emptiest_first.end(), _more_fitting)
    for at in range(emptiest_first.size()):
        rack = books.nodes[emptiest_first[at].node].rack
        if work.racks[rack] >= gpus and left[rack] > 0:
            machines[rack] += 1
            left[rack] -= emptiest_first[at].gpus
    for rack in range(work.rack_count):
        score = machines[rack] * SPLIT + work.racks[rack]
        if work.racks[rack] >= gpus and score < fewest:
            best, fewest = rack, score
    return best


cdef void _mark_rack(Books* books, uint8_t* allowed, int64_t rack, Workspace* work) noexcept nogil:
    """Write into `inside` which of the allowed nodes are in a rack."""
    cdef int64_t node
    for node in range(books.node_count):
        work.inside[node] = allowed[node] and books.nodes[node].rack == rack


cdef bint place_in_rack(
    Books* books, int64_t job, Asked* asked, uint8_t* allowed, int64_t* need, int64_t rack, Workspace* work
) noexcept nogil:
    """Put a gang on the allowed nodes of a rack, as few as possible."""
    _mark_rack(books, allowed, rack, work)
    return place_job(books, job, asked, work.inside, need, PACK, work.scratch)


cdef bint find_in_rack(
    Books* books, int64_t gpus, uint8_t* allowed, int64_t* need, int64_t rack, Workspace* work
) noexcept nogil:
    """Choose as few of the allowed nodes of a rack as hold a gang; `scratch.take` gets the GPUs on each."""
    _mark_rack(books, allowed, rack, work)
    return find_nodes(books, work.inside, gpus, need, PACK, work.scratch)


cdef bint place_in_racks(
    Books* books, int64_t job, int64_t gpus, uint8_t* allowed, int64_t* need, Workspace* work
) noexcept nogil:
    """Put a gang on as few racks as possible, on as few machines of each."""
    cdef int64_t rack, chain = -1
    count_by_rack(books, allowed, need, work.room, work)
    while gpus > 0:
        rack = find_in_next_rack(books, gpus, allowed, need, work)
        if rack < 0:
            return False
        chain = chain_of(books, work.scratch.take, need, chain)
        gpus -= work.racks[rack]
        work.racks[rack] = 0
    return put_chain(books, job, chain) == 0


cdef int64_t find_in_next_rack(
    Books* books, int64_t gpus, uint8_t* allowed, int64_t* need, Workspace* work
) noexcept nogil:
    """Choose nodes of the rack that holds what is left of a gang, or else most of it; `scratch.take` gets the GPUs.

    Returns the rack, or -1 without a place. `room` and `racks` are what is free by node and by rack.
    """
    cdef int64_t other, here, rack = best_rack(books, work.room, work, gpus, False)
    if rack < 0:
        rack = 0
        for other in range(work.rack_count):
            if work.racks[other] > work.racks[rack]:
                rack = other
    here = min(gpus, work.racks[rack])
    return rack if here > 0 and find_in_rack(books, here, allowed, need, rack, work) else -1


cdef bint _place_in_order(
    Books* books, int64_t job, int64_t gpus, uint8_t* allowed, int64_t* need, Workspace* work
) noexcept nogil:
    """Put a gang on the first GPUs by rack and machine; `scratch.fit` are those that come with what they need."""
    cdef vector[int64_t] nodes
    cdef int64_t at, node, mask, chain = -1, left = gpus
    cdef int64_t* take = work.scratch.take
    list_nodes_by_rack(books, nodes)
    for at in range(books.node_count):
        node = nodes[at]
        take[node] = min(left, work.scratch.fit[node]) if allowed[node] else 0
        left -= take[node]
    if left > 0:
        return False
    for at in range(books.node_count - 1, -1, -1):
        node = nodes[at]
        if take[node] > 0:
            mask = _lowest(books.nodes[node].free_mask, take[node])
            chain = put_share(books, chain, node, mask, WHOLE, need)
    return put_chain(books, job, chain) == 0


cdef void _note_largest(Books* books, uint8_t* allowed, int64_t* need, Known* known, Workspace* work) noexcept nogil:
    """Note how many GPUs of a gang the largest machine and the largest rack could hold if they were empty."""
    cdef int64_t node, rack, resource, amount, most
    for rack in range(work.rack_count):
        work.racks[rack] = 0
    known.largest_machine = known.largest_rack = 0
    for node in range(books.node_count):
        if allowed[node]:
            most = books.nodes[node].gpus
            for resource in range(1, books.resources):
                amount = need_on(books, node, resource, need)
                if amount > 0:
                    most = min(most, books.nodes[node].capacity[resource] // amount)
            known.largest_machine = max(known.largest_machine, most)
            work.racks[books.nodes[node].rack] += most
    for rack in range(work.rack_count):
        known.largest_rack = max(known.largest_rack, work.racks[rack])


cpdef double runs_out_at(double since, double seconds) noexcept nogil:
    """The moment from which on the difference to `since` is at least so many seconds, as floats are subtracted.

    The rounded sum alone can be a moment at which the difference is still below `seconds`.
    """
    cdef double moment = since + seconds
    while moment - since < seconds:
        moment = nextafter(moment, INFINITY)
    return moment


cdef void _forget(Known* known) noexcept nogil:
    """Nothing is known of gangs with some needs."""
    known.no_machine_from = known.no_rack_from = _ANY_SIZE
    known.largest_machine = known.largest_rack = -1


cdef double _waits_until(Competitors competitors, int64_t at, int64_t timer) noexcept nogil:
    """When a job's timer for a machine or for a rack runs out; inf if it waits for neither."""
    cdef double seconds = competitors.rack_seconds[at]
    if timer == _PLACED:
        return INFINITY
    if timer == _DELAY_TIMER:
        seconds = min(competitors.machine_seconds[at], seconds)
    return runs_out_at(competitors.since[at], seconds)


cdef Offer _offer_of(int64_t level, int64_t where, int64_t mask, int64_t timer) noexcept nogil:
    cdef Offer offer
    offer.level, offer.where, offer.mask, offer.timer = level, where, mask, timer
    return offer


cdef Offer _machine_offer(
    Books* books, uint8_t* allowed, int64_t gpus, int64_t* need, bint published
) noexcept nogil:
    """The machine for a whole gang, and its GPUs there, in one island if any has room."""
    cdef int64_t level, mask, machine = _find_machine(books, allowed, gpus, need)
    if machine < 0:
        return _offer_of(NOWHERE, -1, 0, _PLACED)
    if published:
        machine = _first_published_place(books, allowed, gpus, need, &mask)
    else:
        mask = pick_gpus(books, machine, gpus)
    level = ISLAND if smallest_island(books, machine, gpus) < SPLIT else MACHINE
    return _offer_of(level, machine, mask, _PLACED)


cdef Offer _best_offer(
    Books* books, uint8_t* allowed, int64_t gpus, int64_t* need, Takes takes, Known* known, Workspace* work
) noexcept nogil:
    """The narrowest place that holds a gang and that it takes."""
    cdef Offer offer
    cdef int64_t rack, other, everywhere = 0
    if gpus < known.no_machine_from:
        offer = _machine_offer(books, allowed, gpus, need, takes.published)
        if offer.level != NOWHERE:
            return offer
        known.no_machine_from = gpus
    if known.largest_machine < 0:
        _note_largest(books, allowed, need, known, work)
    takes.rack = takes.rack or gpus > known.largest_machine
    takes.any = takes.any or gpus > known.largest_rack
    if not takes.rack and not takes.any:
        return _offer_of(NOWHERE, -1, 0, _DELAY_TIMER)
    count_by_rack(books, allowed, need, work.scratch.fit, work)
    rack = -1
    if takes.rack and gpus < known.no_rack_from:
        rack = best_rack(books, work.scratch.fit, work, gpus, takes.published)
        if rack < 0:
            known.no_rack_from = gpus
    if rack >= 0:
        return _offer_of(RACK, rack, 0, _PLACED)
    if not takes.any:
        return _offer_of(NOWHERE, -1, 0, _RACK_TIMER)
    for other in range(work.rack_count):
        everywhere += work.racks[other]
    return _offer_of(NETWORK if everywhere >= gpus else NOWHERE, -1, 0, _PLACED)


cdef void _accept(
    Books* books,
    int64_t job,
    Asked* asked,
    uint8_t* allowed,
    int64_t* need,
    Offer offer,
    bint published,
    Workspace* work,
) noexcept nogil:
    """Put a gang on the place that it takes."""
    if offer.level <= MACHINE:
        put_chain(books, job, put_share(books, -1, offer.where, offer.mask, WHOLE, need))
    elif published:
        if offer.level == RACK:
            _mark_rack(books, allowed, offer.where, work)
            allowed = work.inside
        _place_in_order(books, job, asked.gpus, allowed, need, work)
    elif offer.level == RACK:
        place_in_rack(books, job, asked, allowed, need, offer.where, work)
    else:
        place_in_racks(books, job, asked.gpus, allowed, need, work)


cdef class _Walk:
    """One walk down a queue of jobs that compete."""

    cdef Books books
    cdef Jobs jobs
    cdef Needs needs
    cdef Reasons reasons
    cdef Competitors competitors
    cdef LeaseTerms terms
    cdef vector[Known] known  # by option
    cdef vector[int64_t] numbers
    cdef vector[uint8_t] inside
    cdef Workspace work

    cdef Offer serve_one(self, int64_t at) noexcept nogil:
        """Give a job the best place that it takes, or its own back; the level, or NOWHERE and its timer."""
        cdef Books* books = &self.books
        cdef Asked* asked = spec_of(&self.jobs, at)
        cdef uint8_t* allowed = allowed_nodes(&self.jobs, at)
        cdef int64_t* need
        cdef int64_t option, timer = _PLACED
        cdef Takes takes = self._takes(at)
        cdef Known own
        cdef Known* known
        cdef Offer offer
        for option in range(self.needs.options):
            need = need_of(&self.needs, at, option)
            if asked.milli < WHOLE:
                if place_job(books, self.jobs.numbers[at], asked, allowed, need, PACK, self.work.scratch):
                    return _offer_of(ISLAND, -1, 0, timer)
                continue
            known = &self.known[option]
            if self.needs.lines > 1 or asked.constraint != 0:
                known = &own
                _forget(known)
            offer = _best_offer(books, allowed, asked.gpus, need, takes, known, &self.work)
            if offer.level != NOWHERE:
                if not self._stays(at, offer.level):
                    _accept(
                        books, self.jobs.numbers[at], asked, allowed, need, offer, takes.published, &self.work
                    )
                offer.timer = timer
                return offer
            if offer.timer != _PLACED:
                timer = offer.timer
        return _offer_of(NOWHERE, -1, 0, timer)

    cdef Takes _takes(self, int64_t at) noexcept nogil:
        """What a job takes after its wait."""
        cdef Takes takes
        cdef double waited = self.terms.now - self.competitors.since[at]
        cdef double for_machine = self.competitors.machine_seconds[at]
        cdef double for_rack = self.competitors.rack_seconds[at]
        if not self.terms.published:  # Only the published program lets a machine timer outlast the rack timer.
            for_machine = min(for_machine, for_rack)
        takes.published = self.terms.published
        takes.rack = self.competitors.urgent[at] or waited >= for_machine
        takes.any = self.competitors.urgent[at] or waited >= for_rack
        return takes

    cdef bint _stays(self, int64_t at, int64_t level) noexcept nogil:
        """Give a job what it gave back, if a place of this level is no better; whether it has it again."""
        cdef int64_t old = self.competitors.released[at]
        if old < 0 or not (self.competitors.content[at] or level >= level_of_chain(&self.books, old)):
            return False
        return put_back(&self.books, self.jobs.numbers[at], old)

    cdef bint note(self, int64_t at, Offer served, double* wake) noexcept nogil:
        """Write the reason of a job that was served or has no place; whether it waits for a timer, which may wake."""
        cdef double since = self.competitors.since[at]
        cdef double until = _waits_until(self.competitors, at, served.timer)
        if served.level != NOWHERE:
            self.reasons.codes[at] = _PLACED
        elif until < INFINITY:
            self.reasons.codes[at] = served.timer
            self.reasons.a[at] = (self.terms.now - since) / self.terms.lease_seconds
            self.reasons.b[at] = (until - since) / self.terms.lease_seconds
            wake[0] = min(wake[0], until)
            return True
        else:
            note_lack(&self.books, &self.jobs, at, _NO_PLACE, &self.reasons)
        return False


def allocate_by_locality(
    books, jobs, ranked, int64_t begin, Competitors competitors, resource_options, LeaseTerms terms, reasons
):
    """Serve the queue from `begin` on; how far it got, at which level the last one is, when the next timer runs out.

    What comes out besides are the reasons.
    """
    cdef _Walk walk = _Walk()
    cdef Ints queue = ints(ranked)
    cdef int64_t turn, at, level = NOWHERE
    cdef size_t option
    cdef double wake = INFINITY
    cdef bint waits, blocked = False
    cdef Offer served
    walk.books, walk.jobs, walk.reasons = books_of(books), jobs_of(jobs), reasons_of(reasons)
    walk.needs, walk.competitors, walk.terms = needs_of(resource_options), competitors, terms
    walk.work = workspace_for(&walk.books, walk.numbers, walk.inside)
    walk.known.resize(walk.needs.options)
    for option in range(walk.known.size()):
        _forget(&walk.known[option])
    for turn in range(begin, queue.size):
        at = queue.at[turn]
        level = NOWHERE
        if blocked:
            walk.reasons.codes[at] = _BEHIND_HEAD
            continue
        if thousandths_of(&walk.jobs, at) * 1000 > walk.books.totals[GPU]:
            note_lack(&walk.books, &walk.jobs, at, _NO_GPUS, &walk.reasons)
            blocked = competitors.urgent[at]
            continue
        served = walk.serve_one(at)
        waits = walk.note(at, served, &wake)
        level = served.level
        if level == NOWHERE:
            blocked = not waits and competitors.urgent[at]
        elif level <= RACK and terms.now - competitors.since[at] >= terms.pause_seconds:
            return turn + 1, level, wake
    return queue.size, level, wake


def level_of(books, int64_t chain):
    """How far apart the GPUs of a chain of rows are."""
    cdef Books held = books_of(books)
    return level_of_chain(&held, chain)


def fit_by_rack(books, allowed, need, fit, racks):
    """Write free GPUs that come with what they need, by node and by rack."""
    cdef Books held = books_of(books)
    cdef Workspace work
    work.racks, work.rack_count = ints(racks).at, len(racks)
    count_by_rack(&held, bools(allowed).at, ints(need).at, ints(fit).at, &work)


def find_rack(books, fit, racks, int64_t gpus, bint published):
    """The rack in which a gang takes the fewest machines, of equals the fullest; or the first one; or -1."""
    cdef Books held = books_of(books)
    cdef Workspace work
    work.racks, work.rack_count = ints(racks).at, len(racks)
    return best_rack(&held, ints(fit).at, &work, gpus, published)
