"""A chosen set of gangs put where each loses least to the network, compiled.

Running jobs stay, and the others get the best of what is left; or all are placed again, if what that gains is
worth more than the interruptions of those that move. What is then free goes by rank to the jobs that can use it.
"""

from libc.stdint cimport uint8_t
from libc.string cimport memset
from libcpp.algorithm cimport sort, stable_sort
from libcpp.vector cimport vector

from muster.cluster.arrays cimport Ints, bools, floats, ints
from muster.cluster.even_core cimport FULLEST, even_gangs, take_even
from muster.cluster.ledger_core cimport (
    GPU,
    MICRO,
    WHOLE,
    Row,
    books_of,
    put_chain,
    release_job,
    same_chain,
    undo_to,
)
from muster.schedulers.interruption cimport repays
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
from muster.schedulers.placement.delay_scheduling cimport (
    ISLAND,
    MACHINE,
    RACK,
    SPLIT,
    Workspace,
    best_rack,
    count_by_rack,
    find_in_next_rack,
    find_in_rack,
    level_of_chain,
    place_in_racks,
    smallest_island,
    workspace_for,
)
from muster.schedulers.placement.rules_core cimport (
    PACK,
    chain_of,
    count_fitting,
    holds_gang,
    pick_gpus,
    place_job,
    put_share,
)
from muster.workload.jobs_core cimport Asked

import numpy as np

from muster.schedulers.reasons import NO_GPUS, NO_PLACE, OUTRANKED, PLACED
from muster.speed.network.forms import ANYWHERE, EVENLY, IN_ISLAND, IN_MACHINE, IN_RACK

cdef int64_t _NO_GPUS = NO_GPUS
cdef int64_t _NO_PLACE = NO_PLACE
cdef int64_t _OUTRANKED = OUTRANKED
cdef int64_t _PLACED = PLACED
cdef int64_t _IN_ISLAND = IN_ISLAND
cdef int64_t _IN_MACHINE = IN_MACHINE
cdef int64_t _EVENLY = EVENLY
cdef int64_t _IN_RACK = IN_RACK
cdef int64_t _ANYWHERE = ANYWHERE

cdef double _ALIKE = 1e-9
cdef int64_t _MOST = <int64_t> 1 << 62

cdef double _INSENSITIVE = 0.98
"""Share of a gang's best speed anywhere, from which on it is put last, into what the others leave."""


cdef struct Gang:
    int64_t gpus
    double anywhere  # share of its best speed
    int64_t at


cdef bint _more_sensitive(const Gang& one, const Gang& other) noexcept nogil:
    if (one.anywhere >= _INSENSITIVE) != (other.anywhere >= _INSENSITIVE):
        return one.anywhere < _INSENSITIVE
    if one.gpus != other.gpus:
        return one.gpus > other.gpus
    return one.anywhere < other.anywhere


def most_sensitive_first(positions, share_anywhere, gpus):
    """The positions in the order in which gangs look for places: large ones that the network can hurt, then the others.

    `share_anywhere` is by position what a gang's worst place offers of its best speed, and `gpus` its size.
    """
    cdef Ints places = ints(positions)
    cdef double* share = floats(share_anywhere).at
    cdef int64_t* size = ints(gpus).at
    cdef int64_t* found
    cdef vector[Gang] gangs
    cdef int64_t place
    gangs.resize(places.size)
    for place in range(places.size):
        gangs[place].at = places.at[place]
        gangs[place].gpus, gangs[place].anywhere = size[places.at[place]], share[places.at[place]]
    stable_sort(gangs.begin(), gangs.end(), _more_sensitive)
    ordered = np.empty(places.size, np.int64)
    found = ints(ordered).at
    for place in range(places.size):
        found[place] = gangs[place].at
    return ordered


cdef class RankedGangs:
    """The positions that are placed, and which of them may be stopped or moved.

    `ranked` are those that may be served, best first, and `order` the chosen ones in the order in which places are
    looked for. By position, `chosen`, `pinned`, and `costs`: seconds that an interruption costs.
    """

    cdef object _kept  # arrays whose memory is used here
    cdef Ints ranked, order
    cdef uint8_t* chosen
    cdef uint8_t* pinned
    cdef double* costs

    def __init__(self, ranked, order, chosen, pinned, costs):
        self._kept = ranked, order, chosen, pinned, costs
        self.ranked, self.order = ints(ranked), ints(order)
        self.chosen, self.pinned, self.costs = bools(chosen).at, bools(pinned).at, floats(costs).at


cdef class Shapes:
    """How fast each gang is on the forms that its place can have (`speed.network.forms`), and what it needs.

    `line` is by position the line of `kinds` and `speeds`; `needs[position or 0]` is what each job has beside each of
    its GPUs.
    """

    cdef object _kept  # arrays whose memory is used here
    cdef int64_t* line
    cdef FormsOfGang first  # of the first line
    cdef int64_t lines
    cdef Needs needs

    def __init__(self, line, kinds, speeds, needs):
        self._kept = line, kinds, speeds, needs
        self.line, self.lines, self.needs = ints(line).at, len(kinds), needs_of(needs)
        self.first.count, self.first.kinds = kinds.shape[1], ints(kinds).at
        self.first.speeds = floats(speeds).at

    cdef FormsOfGang of(self, int64_t at) noexcept nogil:
        """The forms of the gang at a position."""
        cdef FormsOfGang forms = self.first
        forms.kinds += 3 * self.line[at] * forms.count
        forms.speeds += self.line[at] * forms.count
        return forms


cdef class PlacementLimits:
    """Which places are worth taking.

    `enough` is the share of a gang's best speed below which a place is taken only where no other job has a use for it,
    `least` the share below which it is never taken, and `horizon_seconds` the time in which a move must repay the
    interruptions of those that move.
    """

    cdef double enough, least, horizon_seconds

    def __init__(self, double enough, double least, double horizon_seconds):
        self.enough, self.least, self.horizon_seconds = enough, least, horizon_seconds


cdef struct Scored:
    int64_t score
    int64_t node


cdef bint _tighter(const Scored& one, const Scored& other) noexcept nogil:
    return one.score < other.score


cdef bint _has_form(int64_t* kind, int64_t level, bint even, int64_t machines, int64_t racks) noexcept nogil:
    """Whether a place of this level, on so many machines and racks, has a form."""
    if kind[0] == _IN_ISLAND:
        return level == ISLAND
    if kind[0] == _IN_MACHINE:
        return level <= MACHINE
    if kind[0] == _EVENLY:
        return even and machines == kind[1] and racks == kind[2]
    if kind[0] == _IN_RACK:
        return level <= RACK
    return kind[0] == _ANYWHERE or kind[0] == -1


cdef double share_on(Books* books, int64_t chain, FormsOfGang forms) noexcept nogil:
    """What a gang's place offers of its best speed, by the first of its forms that the place has."""
    cdef vector[int64_t] racks  # of each machine
    cdef int64_t level = level_of_chain(books, chain), row = chain
    cdef bint even = True
    while row >= 0:
        racks.push_back(books.nodes[books.rows[row].node].rack)
        even = even and books.rows[row].amount[GPU] == books.rows[chain].amount[GPU]
        row = books.rows[row].next
    return forms.speeds[form_of_place(forms, level, even, racks)] / forms.speeds[0]


cdef int64_t form_of_place(FormsOfGang forms, int64_t level, bint even, vector[int64_t]& racks) noexcept nogil:
    """The first form that a place has: of this level, with as many GPUs on each machine or not.

    `racks` has the rack of each machine; it is sorted.
    """
    cdef int64_t machines = racks.size(), used = 0, most = 0
    cdef size_t at, begin = 0
    sort(racks.begin(), racks.end())
    for at in range(racks.size()):
        if at + 1 == racks.size() or racks[at + 1] != racks[at]:
            used += 1
            most = max(most, <int64_t> (at + 1 - begin))
            begin = at + 1
    return _first_form(forms, level, even and most * used == machines, machines, used)


cdef int64_t form_on_machine(FormsOfGang forms, int64_t level) noexcept nogil:
    """The first form that a place on one machine has: in one island (the level says so), or not."""
    return _first_form(forms, level, True, 1, 1)


cdef inline int64_t _first_form(
    FormsOfGang forms, int64_t level, bint even, int64_t machines, int64_t racks
) noexcept nogil:
    cdef int64_t number = 0
    while not _has_form(&forms.kinds[3 * number], level, even, machines, racks):
        number += 1
    return number


cdef bint find_form(
    Books* books,
    int64_t gpus,
    uint8_t* allowed,
    int64_t* kind,
    int64_t* need,
    int64_t* held_here,
    Workspace* work,
) noexcept nogil:
    """Choose nodes for a gang on a place of this form; `scratch.take` gets the GPUs on each. Whether there is one.

    Of equal nodes those go first of which jobs hold the fewest GPUs that they may need again (`held_here`).
    """
    cdef int64_t* take = work.scratch.take
    cdef int64_t node, rack
    if kind[0] == _IN_ISLAND or kind[0] == _IN_MACHINE:
        node = _tightest(books, gpus, allowed, need, kind[0] == _IN_ISLAND, held_here)
        if node >= 0:
            memset(take, 0, books.node_count * sizeof(int64_t))
            take[node] = gpus
        return node >= 0
    if kind[0] == _EVENLY:
        return _find_evenly(books, gpus // kind[1], allowed, kind, need, held_here, work)
    if even_gangs(books):
        return _find_even(books, gpus, allowed, need, kind[0] == _IN_RACK, work)
    if kind[0] == _IN_RACK:
        count_by_rack(books, allowed, need, work.scratch.fit, work)
        rack = best_rack(books, work.scratch.fit, work, gpus, False)
        return rack >= 0 and find_in_rack(books, gpus, allowed, need, rack, work)
    return _find_anywhere(books, gpus, allowed, need, work)


cdef bint _find_even(
    Books* books, int64_t gpus, uint8_t* allowed, int64_t* need, bint in_rack, Workspace* work
) noexcept nogil:
    """As many GPUs on each of as few machines as possible, of one rack if that is asked; whether there are such.

    Of racks with as few machines that is the one with the least room.
    """
    cdef vector[int64_t] fit, room
    cdef int64_t node, rack, taken, best = -1, fewest = _MOST
    count_fitting(books, allowed, need, work.scratch.fit)
    fit.assign(work.scratch.fit, work.scratch.fit + books.node_count)
    if not in_rack:
        return take_even(fit.data(), books.node_count, gpus, FULLEST, work.scratch.take) > 0
    room.assign(work.rack_count, 0)
    for node in range(books.node_count):
        room[books.nodes[node].rack] += fit[node]
    for rack in range(work.rack_count):
        taken = _take_in_rack(books, gpus, fit, rack, work) if room[rack] >= gpus else 0
        if 0 < taken < fewest or (best >= 0 and taken == fewest and room[rack] < room[best]):
            best, fewest = rack, taken
    return best >= 0 and _take_in_rack(books, gpus, fit, best, work) > 0


cdef int64_t _take_in_rack(
    Books* books, int64_t gpus, vector[int64_t]& fit, int64_t rack, Workspace* work
) noexcept nogil:
    """Take the GPUs of an even gang from the machines of a rack; of how many, 0 without a place."""
    cdef vector[int64_t] here
    cdef int64_t node
    here.assign(books.node_count, 0)
    for node in range(books.node_count):
        if books.nodes[node].rack == rack:
            here[node] = fit[node]
    return take_even(here.data(), books.node_count, gpus, FULLEST, work.scratch.take)


cdef bint _are_free(Books* books, int64_t gpus, uint8_t* allowed, int64_t* need, Workspace* work) noexcept nogil:
    """Whether so many GPUs are free anywhere with what they need."""
    return count_fitting(books, allowed, need, work.scratch.fit) >= gpus


cdef bint _find_anywhere(Books* books, int64_t gpus, uint8_t* allowed, int64_t* need, Workspace* work) noexcept nogil:
    """As few racks as possible, as few machines of each; whether there is a place."""
    cdef vector[int64_t] total
    cdef int64_t node, rack
    cdef int64_t* take = work.scratch.take
    if not _are_free(books, gpus, allowed, need, work):
        return False
    total.assign(books.node_count, 0)
    count_by_rack(books, allowed, need, work.room, work)
    while gpus > 0:
        rack = find_in_next_rack(books, gpus, allowed, need, work)
        if rack < 0:
            return False
        for node in range(books.node_count):
            total[node] += take[node]
        gpus -= work.racks[rack]
        work.racks[rack] = 0
    for node in range(books.node_count):
        take[node] = total[node]
    return True


cdef int64_t _tightest(
    Books* books, int64_t gpus, uint8_t* allowed, int64_t* need, bint one_island, int64_t* held_here
) noexcept nogil:
    """The node with the fewest free GPUs that holds a gang; of equals one whose GPUs no job needs again; or -1."""
    cdef int64_t node, island, score, best = -1, best_score = _MOST
    for node in range(books.node_count):
        if allowed[node] and holds_gang(books, node, gpus, need):
            island = smallest_island(books, node, gpus)
            score = (books.nodes[node].free_gpus * SPLIT + held_here[node]) * SPLIT + island
            if score < best_score and not (one_island and island == SPLIT):
                best, best_score = node, score
    return best


cdef bint _find_evenly(
    Books* books,
    int64_t share,
    uint8_t* allowed,
    int64_t* kind,
    int64_t* need,
    int64_t* held_here,
    Workspace* work,
) noexcept nogil:
    """So many GPUs on each of some machines, of as many in each rack: the tightest; whether there are such."""
    cdef int64_t* take = work.scratch.take
    cdef int64_t* left = work.racks
    cdef vector[Scored] by_score
    cdef Scored one
    cdef int64_t node, rack, racks = kind[2], each = kind[1] // kind[2], full = 0
    cdef size_t at
    for node in range(books.node_count):
        take[node] = 0
        if allowed[node] and holds_gang(books, node, share, need):
            one.score, one.node = books.nodes[node].free_gpus * SPLIT + held_here[node], node
            by_score.push_back(one)
    stable_sort(by_score.begin(), by_score.end(), _tighter)
    for rack in range(work.rack_count):
        left[rack] = 0
    for at in range(by_score.size()):
        if full == racks:
            break
        rack = books.nodes[by_score[at].node].rack
        left[rack] += 1
        full += left[rack] == each
    if full < racks:
        return False
    for rack in range(work.rack_count):
        left[rack] = each if left[rack] >= each else 0
    for at in range(by_score.size()):
        rack = books.nodes[by_score[at].node].rack
        if left[rack] > 0:
            take[by_score[at].node] = share
            left[rack] -= 1
    return True


cdef void _count_held(Books* books, int64_t chain, int64_t* held_here, int64_t times) noexcept nogil:
    """Add (or take away) the GPUs of a chain of rows, by node."""
    cdef Row* row
    while chain >= 0:
        row = &books.rows[chain]
        held_here[row.node] += times * (row.amount[GPU] // MICRO)
        chain = row.next


cdef class _Arrangement:
    """One search for the places of all gangs."""

    cdef Books books
    cdef Jobs jobs
    cdef Reasons reasons
    cdef RankedGangs queue
    cdef Shapes shapes
    cdef PlacementLimits limits
    cdef vector[int64_t] chain  # by position: the rows that a running job held before anything was moved, or -1
    cdef vector[double] share  # by position: the share of its best speed there
    # By node: the GPUs of jobs that ran there and may need them again: others go elsewhere if it is all the same.
    cdef vector[int64_t] held_here
    cdef vector[uint8_t] hopeless  # by line and form: whether a job without constraints found no such place
    cdef vector[int64_t] numbers
    cdef vector[uint8_t] inside
    cdef Workspace work

    cdef void stop_others(self) noexcept nogil:
        """Stop the running jobs that are not chosen; note what each ranked one held."""
        cdef Ints ranked = self.queue.ranked
        cdef int64_t place, at, job
        self.chain.assign(self.jobs.count, -1)
        self.share.assign(self.jobs.count, 0.0)
        for place in range(ranked.size):
            at = ranked.at[place]
            job = self.jobs.numbers[at]
            self.chain[at] = self.books.heads[job]
            if self.chain[at] >= 0:
                self.share[at] = share_on(&self.books, self.chain[at], self.shapes.of(at))
                if not self.queue.chosen[at]:
                    release_job(&self.books, job)

    cdef bint is_releasing(self) noexcept nogil:
        """Whether GPUs that were given back are not free yet."""
        cdef int64_t node
        if self.books.delayed[0]:
            for node in range(self.books.node_count):
                if self.books.nodes[node].releasing[GPU] > 0:
                    return True
        return False

    cdef double put_all(self, Ints order, double enough) noexcept nogil:
        """Place those that hold nothing, in order; GPUs placed, each counted by its job's share of the best speed.

        A job gets its old place if there is none better.
        """
        cdef double served = 0.0
        cdef int64_t place, at, job
        cdef Asked* asked
        cdef bint some_held = False
        cdef size_t node
        self.hopeless.assign(self.shapes.lines * self.shapes.first.count, 0)
        for node in range(self.held_here.size()):
            some_held = some_held or self.held_here[node] != 0
        for place in range(order.size):
            at = order.at[place]
            job, asked = self.jobs.numbers[at], spec_of(&self.jobs, at)
            if self.books.heads[job] >= 0:
                served += asked.gpus * self.share[at]
                continue
            if self.chain[at] >= 0 and some_held:
                _count_held(&self.books, self.chain[at], self.held_here.data(), -1)
            if thousandths_of(&self.jobs, at) * 1000 > self.books.totals[GPU]:
                continue
            served += self.put_one(at, enough)
        return served

    cdef double put_one(self, int64_t at, double enough) noexcept nogil:
        """Place a job on its fastest form that has a place; its GPUs, counted by their share of the best speed."""
        cdef Asked* asked = spec_of(&self.jobs, at)
        cdef uint8_t* allowed = allowed_nodes(&self.jobs, at)
        cdef int64_t* need = need_of(&self.shapes.needs, at, 0)
        cdef FormsOfGang forms = self.shapes.of(at)
        cdef uint8_t* hopeless = self.hopeless.data() + self.shapes.line[at] * forms.count
        cdef bint alike = asked.constraint == 0 and self.shapes.needs.lines == 1
        cdef int64_t number, job = self.jobs.numbers[at]
        cdef double share
        if asked.milli < WHOLE:
            return place_job(&self.books, job, asked, allowed, need, PACK, self.work.scratch)
        for number in range(forms.count):
            share = forms.speeds[number] / forms.speeds[0]
            if forms.kinds[3 * number] < 0 or share < enough:
                break
            if self.chain[at] >= 0 and self.share[at] >= share - _ALIKE:
                if put_back(&self.books, job, self.chain[at]):
                    return asked.gpus * self.share[at]
            if alike and hopeless[number]:
                continue
            if self.put(job, asked, allowed, &forms.kinds[3 * number], need):
                return asked.gpus * share
            hopeless[number] = hopeless[number] or alike
        return 0.0

    cdef bint put(self, int64_t job, Asked* asked, uint8_t* allowed, int64_t* kind, int64_t* need) noexcept nogil:
        """Put a gang on a place of this form, if there is one."""
        cdef Books* books = &self.books
        cdef int64_t* take = self.work.scratch.take
        cdef int64_t node, chain = -1
        if kind[0] == _ANYWHERE or kind[0] == -1:
            return _are_free(books, asked.gpus, allowed, need, &self.work) and place_in_racks(
                books, job, asked.gpus, allowed, need, &self.work
            )
        if not find_form(books, asked.gpus, allowed, kind, need, self.held_here.data(), &self.work):
            return False
        if kind[0] == _IN_RACK:
            return put_chain(books, job, chain_of(books, take, need, -1)) == 0
        for node in range(books.node_count):
            if take[node] > 0:
                chain = put_share(books, chain, node, pick_gpus(books, node, take[node]), WHOLE, need)
        return put_chain(books, job, chain) == 0

    cdef bint move_all(self, double kept) noexcept nogil:
        """Place all chosen jobs again; whether that repays the interruptions, `kept` being what is placed without."""
        cdef Ints order = self.queue.order
        cdef double moved_worth, cost = 0.0
        cdef int64_t place, at, job, held
        for place in range(order.size):
            at = order.at[place]
            if self.chain[at] >= 0 and not self.queue.pinned[at]:
                _count_held(&self.books, self.chain[at], self.held_here.data(), 1)
                release_job(&self.books, self.jobs.numbers[at])
        moved_worth = self.put_all(order, self.limits.enough)
        self.held_here.assign(self.books.node_count, 0)
        for place in range(order.size):
            at = order.at[place]
            job = self.jobs.numbers[at]
            held = self.books.heads[job]
            if self.chain[at] >= 0 and not (held >= 0 and same_chain(&self.books, self.chain[at], held)):
                if held < 0:
                    return False
                cost += self.jobs.spec[job].gpus * self.queue.costs[at]
        return repays(moved_worth - kept, cost, self.limits.horizon_seconds)

    cdef void go_on(self) noexcept nogil:
        """Let stopped jobs go on where they were, if that is free, and place what else can use what is free."""
        cdef Ints ranked = self.queue.ranked
        cdef int64_t place, at
        for place in range(ranked.size):
            at = ranked.at[place]
            if self.chain[at] >= 0 and not self.queue.chosen[at] and self.books.heads[self.jobs.numbers[at]] < 0:
                put_back(&self.books, self.jobs.numbers[at], self.chain[at])
        self.put_all(ranked, self.limits.enough)
        self.put_all(ranked, self.limits.least)

    cdef void note_reasons(self, bint releasing) noexcept nogil:
        """Note which ranked jobs are placed, and why the others are not."""
        cdef Ints ranked = self.queue.ranked
        cdef int64_t place, at
        for place in range(ranked.size):
            at = ranked.at[place]
            if self.books.heads[self.jobs.numbers[at]] >= 0:
                self.reasons.codes[at] = _PLACED
                continue
            note_lack(&self.books, &self.jobs, at, _NO_PLACE, &self.reasons)
            if self.reasons.a[at] > self.reasons.b[at] or (releasing and not self.queue.chosen[at]):
                self.reasons.codes[at] = _OUTRANKED if self.chain[at] >= 0 else _NO_GPUS


def arrange(books, jobs, RankedGangs queue, Shapes shapes, PlacementLimits limits, reasons):
    """Write the changes, and the reasons of all ranked positions.

    Moving pays if what it gains within the horizon repays the interruptions of those that move, and if all of them
    have a place again. A job stopped without need goes on where it was.
    """
    cdef _Arrangement search = _Arrangement()
    cdef int64_t place, mark, wanted = 0
    cdef double kept
    cdef bint releasing
    search.books, search.jobs, search.reasons = books_of(books), jobs_of(jobs), reasons_of(reasons)
    search.queue, search.shapes, search.limits = queue, shapes, limits
    search.work = workspace_for(&search.books, search.numbers, search.inside)
    search.held_here.assign(search.books.node_count, 0)
    search.stop_others()
    releasing = search.is_releasing()
    mark = search.books.entries[0]
    kept = search.put_all(queue.order, limits.enough)
    for place in range(queue.order.size):
        wanted += spec_of(&search.jobs, queue.order.at[place]).gpus
    if kept < wanted - _ALIKE and not search.books.delayed[0]:
        undo_to(&search.books, mark)
        if not search.move_all(kept):
            undo_to(&search.books, mark)
            search.put_all(queue.order, limits.enough)
    if not releasing:
        search.go_on()
    search.note_reasons(releasing)


def place_beside_all(books, jobs, Shapes shapes, double enough):
    """Place the job that waits, if every job is then where it loses nothing; whether that is so.

    The order of the jobs does not matter then. With more than one that waits it would.
    """
    cdef _Arrangement search = _Arrangement()
    cdef int64_t at, job, gpus, mark, waits = -1
    search.books, search.jobs, search.shapes = books_of(books), jobs_of(jobs), shapes
    for at in range(search.jobs.count):
        job = search.jobs.numbers[at]
        if search.books.heads[job] < 0:
            if waits >= 0:
                return False
            waits = at
        elif share_on(&search.books, search.books.heads[job], shapes.of(at)) < 1.0:
            return False
    if waits < 0:
        return True
    if thousandths_of(&search.jobs, waits) * 1000 > search.books.totals[GPU]:
        return False
    search.chain.assign(search.jobs.count, -1)
    search.hopeless.assign(shapes.lines * shapes.first.count, 0)
    search.held_here.assign(search.books.node_count, 0)
    search.work = workspace_for(&search.books, search.numbers, search.inside)
    mark, gpus = search.books.entries[0], spec_of(&search.jobs, waits).gpus
    if search.put_one(waits, enough) < gpus or search.books.heads[search.jobs.numbers[waits]] < 0:
        undo_to(&search.books, mark)
        return False
    return True


def share_of_best(books, int64_t chain, kinds, speeds):
    """What a gang's place offers of its best speed, by the first of its forms that the place has."""
    cdef Books held = books_of(books)
    cdef FormsOfGang of_gang
    of_gang.count, of_gang.kinds, of_gang.speeds = len(kinds), ints(kinds).at, floats(speeds).at
    return share_on(&held, chain, of_gang)
