"""A chosen set of gangs put where each loses least to the network, compiled.

Running jobs stay, and the others get the best of what is left; or all are placed again, if what that gains is
worth more than the interruptions of those that move. What is then free goes by rank to the jobs that can use it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muster.cluster.ledger_arrays import (
    DELAYED,
    ENTRIES,
    GPU,
    MICRO,
    WHOLE,
    Books,
    Bools,
    Floats,
    Ints,
    undo_to,
)
from muster.cluster.ledger_arrays import put_chain as put
from muster.cluster.ledger_arrays import release_job as release
from muster.cluster.ledger_arrays import same_chain as same
from muster.compiling import njit
from muster.schedulers.interruption import repays
from muster.schedulers.placement.delay_scheduling import (
    ISLAND,
    MACHINE,
    RACK,
    SPLIT,
    find_rack,
    fit_by_rack,
    level_of,
    place_in_racks,
    smallest_island,
)
from muster.schedulers.placement.kernels import (
    PACK,
    JobColumns,
    ReasonColumns,
    Scratch,
    gpus_releasing,
    holds_gang,
    note_lack,
    pick_gpus,
    place_job,
    put_back,
    put_share,
    scratch_for,
    thousandths_of,
)
from muster.schedulers.reasons import NO_GPUS, NO_PLACE, OUTRANKED, PLACED
from muster.speed.network.forms import ANYWHERE, EVENLY, IN_ISLAND, IN_MACHINE, IN_RACK

_ALIKE = 1e-9
_NO_ROOM = SPLIT * SPLIT


_INSENSITIVE = 0.98
"""Share of a gang's best speed anywhere, from which on it is put last, into what the others leave."""


def most_sensitive_first(speeds: Floats, gpus: Ints) -> Ints:
    """The order in which gangs look for places: large ones that the network can hurt, then the others.

    `speeds` are those on each gang's forms, the best first; unused ends are 0.
    """
    anywhere = np.where(speeds > 0, speeds, np.inf).min(axis=1) / speeds[:, 0]
    order: Ints = np.lexsort((anywhere, -gpus, anywhere >= _INSENSITIVE))
    return order


class RankedGangs(NamedTuple):
    """The positions that are placed, and which of them may be stopped or moved."""

    ranked: Ints
    """Those that may be served, best first."""
    order: Ints
    """The chosen ones in the order in which places are looked for."""
    chosen: Bools
    pinned: Bools
    costs: Floats
    """By position: seconds that an interruption costs."""


class Shapes(NamedTuple):
    """How fast each gang is on the forms that its place can have (`speed.network.forms`), and what it needs."""

    line: Ints
    """By position: the line of the two tables."""
    kinds: Ints
    speeds: Floats
    needs: Ints
    """`needs[position or 0]` is what each job has beside each of its GPUs."""


class PlacementLimits(NamedTuple):
    """Which places are worth taking."""

    enough: float
    """Share of a gang's best speed below which a place is taken only where no other job has a use for it."""
    least: float
    """Share below which a place is never taken."""
    horizon_seconds: float
    """Time in which a move must repay the interruptions of those that move."""


class Before(NamedTuple):
    """By position: what a running job held before anything was moved."""

    chain: Ints
    """Its rows, or -1."""
    share: Floats
    """The share of its best speed there."""


class Search(NamedTuple):
    """What the search for places uses."""

    held_here: Ints
    """By node: the GPUs of jobs that ran there and may need them again: others go elsewhere if it is all the same."""
    hopeless: Bools
    """By line and form: whether a job without constraints found no such place."""
    scratch: Scratch


@njit(cache=True)
def arrange(
    books: Books,
    jobs: JobColumns,
    queue: RankedGangs,
    shapes: Shapes,
    limits: PlacementLimits,
    reasons: ReasonColumns,
) -> None:
    """Write the changes, and the reasons of all ranked positions.

    Moving pays if what it gains within the horizon repays the interruptions of those that move, and if all of them
    have a place again. A job stopped without need goes on where it was.
    """
    before = _stop_others(books, jobs.numbers, queue, shapes)
    releasing = gpus_releasing(books)
    none_held = np.zeros(len(books.nodes), np.int64)
    mark = books.totals[ENTRIES]
    kept = _put_all(books, jobs, queue.order, before, shapes, limits.enough, none_held)
    wanted = 0
    for at in queue.order:
        wanted += jobs.spec[jobs.numbers[at]]["gpus"]
    if kept < wanted - _ALIKE and not books.totals[DELAYED]:
        undo_to(books, mark)
        if not _move_all(books, jobs, queue, before, shapes, limits, kept):
            undo_to(books, mark)
            _put_all(books, jobs, queue.order, before, shapes, limits.enough, none_held)
    if not releasing:
        for at in queue.ranked:
            if before.chain[at] >= 0 and not queue.chosen[at] and books.heads[jobs.numbers[at]] < 0:
                put_back(books, jobs.numbers[at], before.chain[at])
        for share in (limits.enough, limits.least):
            _put_all(books, jobs, queue.ranked, before, shapes, share, none_held)
    _note_reasons(books, jobs, queue, before, releasing, reasons)


@njit(cache=True)
def _note_reasons(
    books: Books,
    jobs: JobColumns,
    queue: RankedGangs,
    before: Before,
    releasing: bool,
    reasons: ReasonColumns,
) -> None:
    """Note which ranked jobs are placed, and why the others are not."""
    for at in queue.ranked:
        if books.heads[jobs.numbers[at]] >= 0:
            reasons.codes[at] = PLACED
            continue
        note_lack(books, jobs, at, NO_PLACE, reasons)
        if reasons.a[at] > reasons.b[at] or (releasing and not queue.chosen[at]):
            reasons.codes[at] = OUTRANKED if before.chain[at] >= 0 else NO_GPUS


@njit(cache=True)
def _stop_others(books: Books, index: Ints, queue: RankedGangs, shapes: Shapes) -> Before:
    """Stop the running jobs that are not chosen; what each ranked one held."""
    before = Before(np.full(len(index), -1), np.zeros(len(index)))
    for at in queue.ranked:
        before.chain[at] = books.heads[index[at]]
        if before.chain[at] >= 0:
            line = shapes.line[at]
            before.share[at] = share_of_best(books, before.chain[at], shapes.kinds[line], shapes.speeds[line])
            if not queue.chosen[at]:
                release(books, index[at])
    return before


@njit(cache=True)
def _move_all(
    books: Books,
    jobs: JobColumns,
    queue: RankedGangs,
    before: Before,
    shapes: Shapes,
    limits: PlacementLimits,
    kept: float,
) -> bool:
    """Place all chosen jobs again, wherever they run; whether that repays the interruptions, `kept` being without."""
    held_here = np.zeros(len(books.nodes), np.int64)
    for at in queue.order:
        if before.chain[at] >= 0 and not queue.pinned[at]:
            _count_held(books, before.chain[at], held_here, 1)
            release(books, jobs.numbers[at])
    moved_worth = _put_all(books, jobs, queue.order, before, shapes, limits.enough, held_here)
    cost = 0.0
    for at in queue.order:
        held = books.heads[jobs.numbers[at]]
        if before.chain[at] >= 0 and not (held >= 0 and same(books, before.chain[at], held)):
            if held < 0:
                return False
            cost += jobs.spec[jobs.numbers[at]]["gpus"] * queue.costs[at]
    return repays(moved_worth - kept, cost, limits.horizon_seconds)


@njit(cache=True)
def _put_all(
    books: Books,
    jobs: JobColumns,
    order: Ints,
    before: Before,
    shapes: Shapes,
    enough: float,
    held_here: Ints,
) -> float:
    """Place those that hold nothing, in order; GPUs placed, each counted by its job's share of the best speed.

    A job gets its old place if there is none better. `held_here` is that of `Search`.
    """
    hopeless = np.zeros((len(shapes.kinds), shapes.kinds.shape[1]), np.bool_)
    search = Search(held_here, hopeless, scratch_for(books))
    served = 0.0
    for at in order:
        job = jobs.numbers[at]
        spec = jobs.spec[job]
        if books.heads[job] >= 0:
            served += spec["gpus"] * before.share[at]
            continue
        if before.chain[at] >= 0 and held_here.any():
            _count_held(books, before.chain[at], held_here, -1)
        if thousandths_of(jobs, at) * 1000 > books.totals[GPU]:
            continue
        if spec["milli"] < WHOLE:
            allowed = jobs.node_allowed[spec["constraint"]]
            need = shapes.needs[0 if len(shapes.needs) == 1 else at, 0]
            served += place_job(books, job, 1, spec["milli"], allowed, need, PACK, search.scratch)
        else:
            served += _put_gang(books, jobs, at, before, shapes, enough, search)
    return served


@njit(cache=True)
def _put_gang(
    books: Books, jobs: JobColumns, at: int, before: Before, shapes: Shapes, enough: float, search: Search
) -> float:
    """Place a gang on its fastest form that has a place; its GPUs, counted by their share of the best speed."""
    job, line = jobs.numbers[at], shapes.line[at]
    spec = jobs.spec[job]
    gpus = spec["gpus"]
    allowed = jobs.node_allowed[spec["constraint"]]
    need = shapes.needs[0 if len(shapes.needs) == 1 else at, 0]
    kinds, speeds, hopeless = shapes.kinds[line], shapes.speeds[line], search.hopeless[line]
    alike = spec["constraint"] == 0 and len(shapes.needs) == 1
    for number in range(len(speeds)):
        share = speeds[number] / speeds[0]
        if kinds[number, 0] < 0 or share < enough:
            break
        if before.chain[at] >= 0 and before.share[at] >= share - _ALIKE:
            if put_back(books, job, before.chain[at]):
                return float(gpus * before.share[at])
        if alike and hopeless[number]:
            continue
        if _put(books, job, gpus, allowed, kinds[number], need, search.held_here, search.scratch):
            return float(gpus * share)
        hopeless[number] = hopeless[number] or alike
    return 0.0


@njit(cache=True)
def _put(
    books: Books,
    job: int,
    gpus: int,
    allowed: Bools,
    kind: Ints,
    need: Ints,
    held_here: Ints,
    scratch: Scratch,
) -> bool:
    """Put a gang on a place of this form, if there is one."""
    take = scratch.take
    if kind[0] in (IN_ISLAND, IN_MACHINE):
        node = _tightest(books, allowed, gpus, need, held_here, kind[0] == IN_ISLAND)
        if node < 0:
            return False
        return put(books, job, put_share(books, -1, node, pick_gpus(books, node, gpus), WHOLE, need)) == 0
    if kind[0] == EVENLY:
        if not _find_evenly(books, allowed, gpus // kind[1], kind, need, held_here, take):
            return False
        chain = -1
        for node in range(len(books.nodes)):
            if take[node] > 0:
                chain = put_share(books, chain, node, pick_gpus(books, node, take[node]), WHOLE, need)
        return put(books, job, chain) == 0
    fit_by_rack(books, allowed, need, scratch.fit, scratch.racks)
    if kind[0] == IN_RACK:
        rack = find_rack(books, scratch.fit, scratch.racks, gpus, False)
        inside = allowed & (books.nodes["rack"] == rack)
        return rack >= 0 and place_job(books, job, gpus, WHOLE, inside, need, PACK, scratch)
    return scratch.racks.sum() >= gpus and place_in_racks(books, job, gpus, allowed, need, scratch)


@njit(cache=True)
def _tightest(books: Books, allowed: Bools, gpus: int, need: Ints, held_here: Ints, one_island: bool) -> int:
    """The node with the fewest free GPUs that holds a gang; of equals one whose GPUs no job needs again; or -1."""
    best = -1
    best_score = 1 << 62
    for node in range(len(books.nodes)):
        if allowed[node] and holds_gang(books, node, gpus, need):
            island = smallest_island(books, node, gpus)
            score = (books.nodes[node]["free_gpus"] * SPLIT + held_here[node]) * SPLIT + island
            if score < best_score and not (one_island and island == SPLIT):
                best, best_score = node, score
    return best


@njit(cache=True)
def _find_evenly(
    books: Books, allowed: Bools, share: int, kind: Ints, need: Ints, held_here: Ints, take: Ints
) -> bool:
    """So many GPUs on each of some machines, of as many in each rack: the tightest; whether there are such."""
    nodes = len(books.nodes)
    machines, racks = kind[1], kind[2]
    each = machines // racks
    take[:] = 0
    score = np.full(nodes, _NO_ROOM)
    for node in range(nodes):
        if allowed[node] and holds_gang(books, node, share, need):
            score[node] = books.nodes[node]["free_gpus"] * SPLIT + held_here[node]
    tightest = np.argsort(score, kind="mergesort")
    found = np.zeros(books.nodes["rack"].max() + 1, np.int64)
    full = 0
    for node in tightest:
        if score[node] == _NO_ROOM or full == racks:
            break
        rack = books.nodes[node]["rack"]
        found[rack] += 1
        full += found[rack] == each
    if full < racks:
        return False
    left = np.where(found >= each, each, 0)
    for node in tightest:
        rack = books.nodes[node]["rack"]
        if left[rack] > 0:
            take[node] = share
            left[rack] -= 1
    return True


@njit(cache=True)
def share_of_best(books: Books, chain: int, kinds: Ints, speeds: Floats) -> float:
    """What a gang's place offers of its best speed, by the first of its forms that the place has."""
    level = level_of(books, chain)
    machines = 0
    racks = np.zeros(books.nodes["rack"].max() + 1, np.int64)
    even = True
    row = chain
    while row >= 0:
        racks[books.nodes[books.rows[row]["node"]]["rack"]] += 1
        even = even and books.rows[row]["amount"][GPU] == books.rows[chain]["amount"][GPU]
        machines += 1
        row = books.rows[row]["next"]
    used = np.count_nonzero(racks)
    even = even and racks.max() * used == machines
    number = 0
    while True:
        kind = kinds[number]
        if (
            (kind[0] == IN_ISLAND and level == ISLAND)
            or (kind[0] == IN_MACHINE and level <= MACHINE)
            or (kind[0] == EVENLY and even and machines == kind[1] and used == kind[2])
            or (kind[0] == IN_RACK and level <= RACK)
            or kind[0] in (ANYWHERE, -1)
        ):
            share: float = speeds[number] / speeds[0]
            return share
        number += 1


@njit(cache=True)
def _count_held(books: Books, chain: int, held_here: Ints, times: int) -> None:
    """Add (or take away) the GPUs of a chain of rows, by node."""
    while chain >= 0:
        held_here[books.rows[chain]["node"]] += times * (books.rows[chain]["amount"][GPU] // MICRO)
        chain = books.rows[chain]["next"]
