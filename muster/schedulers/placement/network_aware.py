"""A chosen set of gangs put where each loses least to the network, compiled.

Whoever runs stays, and the others get the best of what is left; or all are put anew, if what that gains is
worth more than the interruptions of those that move. What is then free goes by rank to the jobs that can use it.
"""

from __future__ import annotations

import numpy as np

from muster.cluster.ledger_arrays import (
    DELAYED,
    ENTRIES,
    GPU,
    MICRO,
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
    holds_gang,
    pick_gpus,
    place_job,
    put_back,
    put_share,
)
from muster.schedulers.reasons import NO_GPUS, NO_PLACE, OUTRANKED, PLACED
from muster.speed.network.forms import ANYWHERE, EVENLY, IN_ISLAND, IN_MACHINE, IN_RACK
from muster.workload.jobs import AskedArray

_ALIKE = 1e-9
_NO_ROOM = SPLIT * SPLIT


@njit(cache=True)
def arrange(
    books: Books,
    asked: AskedArray,
    jobs: Ints,
    node_allowed: Bools,
    ranked: Ints,
    order: Ints,
    chosen: Bools,
    pinned: Bools,
    line: Ints,
    kinds: Ints,
    speeds: Floats,
    needs: Ints,
    enough: float,
    least: float,
    horizon: float,
    costs: Floats,
    codes: Ints,
    a: Floats,
    b: Floats,
) -> None:
    """Write the changes, and the reasons of all ranked positions; places are looked for in `order`.

    `needs[position or 0]` is what each job has beside each of its GPUs. `line` is each position's line of `kinds` and
    `speeds` (`speed.network.forms`). A place that offers less than `enough` of a gang's best speed is taken only where
    no other job has a use for it, one that offers less than `least` never. Moving pays if what it gains within the
    horizon repays the interruptions of those that move, whose seconds are `costs` by position, and if all of them have
    a place again. A job stopped without need goes on where it was.
    """
    count = len(jobs)
    old = np.full(count, -1)
    had = np.zeros(count)  # share of the best speed on the old place
    for at in ranked:
        old[at] = books.heads[jobs[at]]
        if old[at] >= 0:
            had[at] = share_of_best(books, old[at], kinds[line[at]], speeds[line[at]])
            if not chosen[at]:
                release(books, jobs[at])
    releasing = books.totals[DELAYED] != 0 and books.nodes["releasing"][:, GPU].sum() > 0
    nobody = np.zeros(len(books.nodes), np.int64)
    mark = books.totals[ENTRIES]
    kept = _put_all(
        books, asked, jobs, node_allowed, order, old, had, line, kinds, speeds, needs, enough, nobody
    )
    wanted = 0
    for at in order:
        wanted += asked[jobs[at]]["gpus"]
    if kept < wanted - _ALIKE and not books.totals[DELAYED]:
        undo_to(books, mark)
        sitting = np.zeros(len(books.nodes), np.int64)
        for at in order:
            if old[at] >= 0 and not pinned[at]:
                _count_sitting(books, old[at], sitting, 1)
                release(books, jobs[at])
        moved_worth = _put_all(
            books, asked, jobs, node_allowed, order, old, had, line, kinds, speeds, needs, enough, sitting
        )
        moved = 0.0
        dropped = False
        for at in order:
            now_at = books.heads[jobs[at]]
            if old[at] >= 0 and not (now_at >= 0 and same(books, old[at], now_at)):
                moved += asked[jobs[at]]["gpus"] * costs[at]
                dropped = dropped or now_at < 0
        if dropped or not repays(moved_worth - kept, moved, horizon):
            undo_to(books, mark)
            _put_all(
                books, asked, jobs, node_allowed, order, old, had, line, kinds, speeds, needs, enough, nobody
            )
    if not releasing:
        for at in ranked:
            if old[at] >= 0 and not chosen[at] and books.heads[jobs[at]] < 0:
                put_back(books, jobs[at], old[at])
        for share in (enough, least):
            _put_all(
                books, asked, jobs, node_allowed, ranked, old, had, line, kinds, speeds, needs, share, nobody
            )
    for at in ranked:
        if books.heads[jobs[at]] >= 0:
            codes[at] = PLACED
            continue
        a[at] = asked[jobs[at]]["gpus"] * asked[jobs[at]]["milli"] / 1000
        b[at] = books.totals[GPU] / MICRO
        codes[at] = NO_PLACE
        if a[at] > b[at] or (releasing and not chosen[at]):
            codes[at] = OUTRANKED if old[at] >= 0 else NO_GPUS


@njit(cache=True)
def _put_all(
    books: Books,
    asked: AskedArray,
    jobs: Ints,
    node_allowed: Bools,
    order: Ints,
    old: Ints,
    had: Floats,
    line: Ints,
    kinds: Ints,
    speeds: Floats,
    needs: Ints,
    enough: float,
    sitting: Ints,
) -> float:
    """Put whoever holds nothing in order, on its old place if there is none better; GPUs put, by share of best speed.

    `sitting` counts the GPUs of jobs by node that sat there and may want to again: others sit elsewhere if it is
    all the same to them.
    """
    fit = np.zeros(len(books.nodes), np.int64)
    take = np.zeros(len(books.nodes), np.int64)
    racks = np.zeros(books.nodes["rack"].max() + 1, np.int64)
    hopeless = np.zeros((len(kinds), kinds.shape[1]), np.bool_)
    served = 0.0
    for at in order:
        job = jobs[at]
        gpus = asked[job]["gpus"]
        if books.heads[job] >= 0:
            served += gpus * had[at]
            continue
        if old[at] >= 0 and sitting.any():
            _count_sitting(books, old[at], sitting, -1)
        if gpus * asked[job]["milli"] * 1000 > books.totals[GPU]:
            continue
        allowed = node_allowed[asked[job]["constraint"]]
        need = needs[0 if len(needs) == 1 else at, 0]
        if asked[job]["milli"] < 1000:
            served += place_job(books, job, 1, asked[job]["milli"], allowed, need, PACK, fit, take)
            continue
        best = speeds[line[at], 0]
        anybody = asked[job]["constraint"] == 0 and len(needs) == 1
        for number in range(kinds.shape[1]):
            share = speeds[line[at], number] / best
            if kinds[line[at], number, 0] < 0 or share < enough:
                break
            if old[at] >= 0 and had[at] >= share - _ALIKE and put_back(books, job, old[at]):
                served += gpus * had[at]
                break
            if anybody and hopeless[line[at], number]:
                continue
            if _put(books, job, gpus, allowed, kinds[line[at], number], need, sitting, fit, take, racks):
                served += gpus * share
                break
            hopeless[line[at], number] = hopeless[line[at], number] or anybody
    return served


@njit(cache=True)
def _put(
    books: Books,
    job: int,
    gpus: int,
    allowed: Bools,
    kind: Ints,
    need: Ints,
    sitting: Ints,
    fit: Ints,
    take: Ints,
    racks: Ints,
) -> bool:
    """Put a gang on a place of this form, if there is one."""
    if kind[0] in (IN_ISLAND, IN_MACHINE):
        node = _tightest(books, allowed, gpus, need, sitting, kind[0] == IN_ISLAND)
        if node < 0:
            return False
        return put(books, job, put_share(books, -1, node, pick_gpus(books, node, gpus), 1000, need)) == 0
    if kind[0] == EVENLY:
        if not _find_evenly(books, allowed, gpus // kind[1], kind[1], kind[2], need, sitting, take):
            return False
        chain = -1
        for node in range(len(books.nodes)):
            if take[node] > 0:
                chain = put_share(books, chain, node, pick_gpus(books, node, take[node]), 1000, need)
        return put(books, job, chain) == 0
    fit_by_rack(books, allowed, need, fit, racks)
    if kind[0] == IN_RACK:
        rack = find_rack(books, fit, racks, gpus, False)
        inside = allowed & (books.nodes["rack"] == rack)
        return rack >= 0 and place_job(books, job, gpus, 1000, inside, need, PACK, fit, take)
    return racks.sum() >= gpus and place_in_racks(books, job, gpus, allowed, need, racks, fit, take)


@njit(cache=True)
def _tightest(books: Books, allowed: Bools, gpus: int, need: Ints, sitting: Ints, one_island: bool) -> int:
    """The node with the fewest free GPUs that holds a gang; of equals whose GPUs nobody wants back; or -1."""
    best = -1
    best_score = 1 << 62
    for node in range(len(books.nodes)):
        if allowed[node] and holds_gang(books, node, gpus, need):
            island = smallest_island(books, node, gpus)
            score = (books.nodes[node]["free_gpus"] * SPLIT + sitting[node]) * SPLIT + island
            if score < best_score and not (one_island and island == SPLIT):
                best, best_score = node, score
    return best


@njit(cache=True)
def _find_evenly(
    books: Books, allowed: Bools, share: int, machines: int, racks: int, need: Ints, sitting: Ints, take: Ints
) -> bool:
    """So many GPUs on each of some machines, of as many in each rack: the tightest; whether there are such."""
    nodes = len(books.nodes)
    each = machines // racks
    take[:] = 0
    score = np.full(nodes, _NO_ROOM)
    for node in range(nodes):
        if allowed[node] and holds_gang(books, node, share, need):
            score[node] = books.nodes[node]["free_gpus"] * SPLIT + sitting[node]
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
def _count_sitting(books: Books, chain: int, sitting: Ints, times: int) -> None:
    """Add (or take away) the GPUs of a chain of rows, by node."""
    while chain >= 0:
        sitting[books.rows[chain]["node"]] += times * (books.rows[chain]["amount"][GPU] // MICRO)
        chain = books.rows[chain]["next"]
