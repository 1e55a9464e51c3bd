"""A plan in the making, by machine: who sits where with how many GPUs and how much beside them.

A seat is what one job has on one machine. Seats are cheap to make and to change; which GPUs of a machine they
are is decided at the end, when `write_seats` brings the ledger to the plan and leaves alone what stays.

A job of the view is in one of three conditions: MOVABLE (waiting, or running and free to be placed anew),
SETTLED (runs and keeps its GPUs, but its CPUs, memory and storage may change) or APART (not touched here:
shares of a GPU, time-slices, parameter servers, whatever runs while what is given back stays unusable, and, where a
change of CPU alone restarts a job, those that may not be interrupted).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muster.cluster.books import (
    CPU,
    DELAYED,
    MEMORY,
    MICRO,
    NONE,
    SERVER,
    WHOLE,
    Books,
    Bools,
    Floats,
    Ints,
    Rows,
    count_bits,
    new_row,
    put_chain,
    release_job,
)
from muster.cluster.ledger import Transaction
from muster.compiling import njit
from muster.schedulers.contract import View
from muster.schedulers.placement.kernels import PACK, PROPORTIONAL, amounts_on, pick_gpus, place_job
from muster.schedulers.reasons import NO_CPUS, NO_GPUS, NO_PLACE, OUTRANKED, PLACED

MOVABLE, SETTLED, APART = 0, 1, 2

SEAT = np.dtype(
    [
        ("at", np.int64),  # position of the job
        ("node", np.int64),
        ("gpus", np.int64),
        ("amount", np.int64, (4,)),  # held here in all; the GPUs' own entry is not used
        ("next", np.int64),  # of the job
        ("next_here", np.int64),  # of the machine
    ]
)


class Seats(NamedTuple):
    """The plan so far."""

    free: Ints
    """By machine: whole GPUs, then millionths of CPU, memory and storage."""
    seats: Rows
    first: Ints
    """By position: the job's first seat, NONE without one."""
    first_here: Ints
    """By machine: its first seat."""
    last_here: Ints
    used: Ints
    """One number: how many seats there are."""
    condition: Ints
    """By position."""
    home: Ints
    """By position: the machine on which all of the job's GPUs are now; NONE."""
    reserved: Ints
    """By position: the machine where a job without GPUs is to start; NONE."""


def open_seats(view: View, transaction: Transaction, ranked: Ints, chosen: Bools) -> Seats:
    """An empty plan over what the ranked jobs may use; settled jobs sit, with only what they request beside their GPUs.

    Shares of a GPU that are not chosen leave first: what the chosen do not need they may have again at the end.
    """
    jobs, books = view.jobs, view.ledger.books
    without_gpus = jobs.gpus == 0
    leaving = ranked[((jobs.gpu_milli[ranked] < WHOLE) | without_gpus[ranked]) & ~chosen[ranked]]
    for job in jobs.index[leaving].tolist():
        transaction.release(job)
    condition = np.full(len(jobs), SETTLED)
    condition[ranked] = MOVABLE
    condition[jobs.pinned] = APART if view.resize_restarts else SETTLED
    condition[(jobs.gpu_milli < WHOLE) | without_gpus] = APART
    nodes = len(books.nodes)
    seats = Seats(
        free=books.nodes["free"].copy(),
        seats=np.zeros(view.cluster.total_gpus + 1, SEAT),
        first=np.full(len(jobs), NONE),
        first_here=np.full(nodes, NONE),
        last_here=np.full(nodes, NONE),
        used=np.zeros(1, np.int64),
        condition=condition,
        home=np.full(len(jobs), NONE),
        reserved=np.full(len(jobs), NONE),
    )
    requested = jobs.requested_per_gpu
    _open(books, jobs.index, seats, requested)
    comes = ranked[without_gpus[ranked] & chosen[ranked]]
    if len(comes):
        classes, demands = view.wants.of(jobs.model, jobs.gpus, requested)
        more = demands.fair[classes][:, view.wants.kind_of_node] - requested[:, None]
        allowed = view.table.node_allowed[jobs.constraint[comes]] & (books.nodes["up"] != 0)
        _reserve(books, jobs.index, seats, comes, allowed, requested, more)
    return seats


@njit(cache=True)
def _open(books: Books, index: Ints, seats: Seats, requested: Ints) -> None:
    for node in range(len(books.nodes)):
        seats.free[node, 0] = books.nodes[node]["free_gpus"]
    for at in range(len(index)):
        head = books.heads[index[at]]
        if seats.condition[at] == APART:
            continue
        if head < 0:
            if seats.condition[at] == SETTLED:
                seats.condition[at] = APART
            continue
        if books.totals[DELAYED] or not _plain(books, head):
            seats.condition[at] = APART
            continue
        seats.home[at] = books.rows[head]["node"] if books.rows[head]["next"] < 0 else NONE
        row = head
        while row >= 0:
            held = books.rows[row]
            node = held["node"]
            gpus = count_bits(held["mask"])
            for resource in range(1, 4):
                seats.free[node, resource] += held["amount"][resource]
            seats.free[node, 0] += gpus
            if seats.condition[at] == SETTLED:
                furnish(seats, sit(seats, at, node, gpus), requested[at])
            row = held["next"]


@njit(cache=True)
def _reserve(
    books: Books, index: Ints, seats: Seats, comes: Ints, allowed: Bools, requested: Ints, more: Ints
) -> None:
    """Reserve a node for each waiting job without GPUs, in order, where settled jobs keep their fair demand.

    Nodes without GPUs come first, then the one with the most CPUs left. `more` is what each job needs by node and
    resource, beside each GPU, to rise from its request to its fair demand.
    """
    spare = seats.free.copy()
    for number in range(seats.used[0]):
        seat = seats.seats[number]
        spare[seat["node"]] -= seat["gpus"] * more[seat["at"], seat["node"]]
    for i in range(len(comes)):
        at = comes[i]
        if books.heads[index[at]] >= 0:
            continue
        best = -1
        for node in range(len(spare)):
            fits = allowed[i, node]
            for resource in range(1, 4):
                fits = fits and requested[at, resource] <= spare[node, resource]
            if not fits:
                continue
            with_gpus = books.nodes[node]["gpus"] > 0
            best_with_gpus = best >= 0 and books.nodes[best]["gpus"] > 0
            more_cpus = best >= 0 and spare[node, 1] > spare[best, 1]
            if best < 0 or with_gpus < best_with_gpus or (with_gpus == best_with_gpus and more_cpus):
                best = node
        if best >= 0:
            seats.reserved[at] = best
            for resource in range(1, 4):
                spare[best, resource] -= requested[at, resource]
                seats.free[best, resource] -= requested[at, resource]


@njit(cache=True)
def _plain(books: Books, row: int) -> bool:
    """Whether a chain is workers on whole GPUs of their own."""
    while row >= 0:
        held = books.rows[row]
        if held["milli"] != 1000 or held["group"] >= 0 or held["role"] == SERVER or held["mask"] == 0:
            return False
        row = held["next"]
    return True


@njit(cache=True)
def sit(seats: Seats, at: int, node: int, gpus: int) -> int:
    """Give a job GPUs of a machine, with nothing beside them yet; the seat. A job's seats: machines ascending."""
    number: int = seats.used[0]
    seats.used[0] += 1
    seat = seats.seats[number]
    seat["at"] = at
    seat["node"] = node
    seat["gpus"] = gpus
    for resource in range(4):
        seat["amount"][resource] = 0
    seat["next"] = -1
    seat["next_here"] = -1
    seats.free[node, 0] -= gpus
    if seats.first[at] < 0:
        seats.first[at] = number
    else:
        last = seats.first[at]
        while seats.seats[last]["next"] >= 0:
            last = seats.seats[last]["next"]
        seats.seats[last]["next"] = number
    if seats.first_here[node] < 0:
        seats.first_here[node] = number
    else:
        seats.seats[seats.last_here[node]]["next_here"] = number
    seats.last_here[node] = number
    return number


@njit(cache=True)
def remove_last(seats: Seats) -> None:
    """Undo the latest `sit`, of a job that has nothing else."""
    number = seats.used[0] - 1
    seat = seats.seats[number]
    node = seat["node"]
    seats.used[0] = number
    seats.free[node, 0] += seat["gpus"]
    for resource in range(1, 4):
        seats.free[node, resource] += seat["amount"][resource]
    seats.first[seat["at"]] = -1
    if seats.first_here[node] == number:
        seats.first_here[node] = -1
        seats.last_here[node] = -1
        return
    before = seats.first_here[node]
    while seats.seats[before]["next_here"] != number:
        before = seats.seats[before]["next_here"]
    seats.seats[before]["next_here"] = -1
    seats.last_here[node] = before


# A call copies the heads of all arrays of `Seats` and `Gangs`: the smallest of the kernels that are called most
# cost less inlined, here and in the other files.
@njit(cache=True, forceinline=True)
def furnish(seats: Seats, number: int, per_gpu: Ints) -> None:
    """Set what a seat has beside each of its GPUs; the machine's free amounts follow."""
    seat = seats.seats[number]
    for resource in range(1, 4):
        amount = seat["gpus"] * per_gpu[resource]
        seats.free[seat["node"], resource] += seat["amount"][resource] - amount
        seat["amount"][resource] = amount


@njit(cache=True, forceinline=True)
def fits(seats: Seats, node: int, gpus: int, per_gpu: Ints) -> bool:
    """Whether a machine has this free for so many GPUs; the GPUs themselves are not asked for."""
    short = 0
    for resource in range(1, 4):
        short += seats.free[node, resource] < gpus * per_gpu[resource]
    return short == 0


@njit(cache=True)
def gpus_that_fit(seats: Seats, node: int, per_gpu: Ints) -> int:
    """How many free GPUs of a machine can have this beside them."""
    fit: int = seats.free[node, 0]
    for resource in range(1, 4):
        if per_gpu[resource] > 0:
            fit = min(fit, seats.free[node, resource] // per_gpu[resource])
    return fit


def empty_copy(opened: Seats) -> Seats:
    """Another plan over the same jobs and machines, as it was when it was opened."""
    return Seats(
        opened.free.copy(),
        opened.seats.copy(),
        opened.first.copy(),
        opened.first_here.copy(),
        opened.last_here.copy(),
        opened.used.copy(),
        opened.condition,
        opened.home,
        opened.reserved,
    )


@njit(cache=True)
def sit_at_home(books: Books, index: Ints, seats: Seats, chosen: Bools) -> None:
    """Seat the chosen jobs that run where they run."""
    for at in range(len(index)):
        if chosen[at] and seats.condition[at] == MOVABLE:
            row = books.heads[index[at]]
            while row >= 0:
                sit(seats, at, books.rows[row]["node"], count_bits(books.rows[row]["mask"]))
                row = books.rows[row]["next"]


@njit(cache=True)
def keep_amounts(books: Books, index: Ints, seats: Seats) -> None:
    """Give those who sit where they run what they hold now, on machines that nobody comes to."""
    held = np.full(seats.used[0], NONE)
    comes = np.zeros(len(seats.free), np.bool_)
    for at in range(len(index)):
        row, number = books.heads[index[at]], seats.first[at]
        stays = seats.condition[at] != APART and stays_put(books, row, seats, number)
        while number >= 0:
            if stays:
                held[number] = row
                row = books.rows[row]["next"]
            else:
                comes[seats.seats[number]["node"]] = True
            number = seats.seats[number]["next"]
    for number in range(seats.used[0]):
        seat = seats.seats[number]
        if held[number] >= 0 and not comes[seat["node"]]:
            furnish(seats, number, books.rows[held[number]]["amount"] // seat["gpus"])


def write_seats(
    view: View,
    transaction: Transaction,
    seats: Seats,
    ranked: Ints,
    chosen: Bools,
    codes: Ints,
    a: Floats,
    b: Floats,
) -> None:
    """Write the plan into the transaction, with a reason for every ranked job; then serve the shares of a GPU.

    DoesNotFit if the plan has more on a machine than is free there.

    Those get their node's proportional share, at least their request, by best fit, the chosen first, from what the
    plan leaves.
    """
    jobs = view.jobs
    rows = 2 * int(seats.used[0]) + len(view.cluster.nodes)
    books = transaction.ledger.reserve(rows + view.cluster.total_gpus, 3 * len(jobs))
    shared = ranked[seats.condition[ranked] == APART]
    shared = shared[jobs.gpu_milli[shared] < WHOLE]
    _write(books, jobs.index, seats, ranked, chosen)
    requested = jobs.requested_per_gpu
    for at in np.flatnonzero(seats.reserved >= 0).tolist():
        put_chain(books, jobs.index[at], amounts_on(books, seats.reserved[at], requested[at]))
    view.check_placed(np.flatnonzero((seats.first >= 0) | (seats.reserved >= 0)))
    if len(shared):
        _serve_shares(
            books,
            jobs.index,
            jobs.gpu_milli,
            jobs.constraint,
            view.table.node_allowed,
            PROPORTIONAL - requested,
            shared,
            chosen,
        )
    _explain(books, jobs.index, jobs.gpus * jobs.gpu_milli, requested, ranked, jobs.running, codes, a, b)


@njit(cache=True)
def _write(books: Books, index: Ints, seats: Seats, ranked: Ints, chosen: Bools) -> None:
    """Release what changes or is not chosen, put resized jobs back on their GPUs, then place the others."""
    old = np.full(len(index), NONE)
    changed = np.zeros(len(index), np.bool_)
    for at in ranked:
        if seats.condition[at] == APART and not chosen[at]:
            release_job(books, index[at])
    for at in range(len(index)):
        if seats.condition[at] == APART:
            continue
        head = books.heads[index[at]]
        if not is_unchanged(books, head, seats, seats.first[at]):
            changed[at] = True
            old[at] = head
            release_job(books, index[at])
    for stays in (True, False):
        for at in range(len(index)):
            if (
                changed[at]
                and seats.first[at] >= 0
                and stays_put(books, old[at], seats, seats.first[at]) == stays
            ):
                put_chain(books, index[at], _chain(books, old[at] if stays else NONE, seats, seats.first[at]))


@njit(cache=True)
def stays_put(books: Books, row: int, seats: Seats, number: int) -> bool:
    """Whether the seats are on the machines, with as many GPUs, as the rows."""
    while row >= 0 and number >= 0:
        held, seat = books.rows[row], seats.seats[number]
        if held["node"] != seat["node"] or count_bits(held["mask"]) != seat["gpus"]:
            return False
        row, number = held["next"], seat["next"]
    return row < 0 and number < 0


@njit(cache=True)
def is_unchanged(books: Books, row: int, seats: Seats, number: int) -> bool:
    """Whether the seats are what the rows hold already."""
    if not stays_put(books, row, seats, number):
        return False
    while row >= 0:
        held, seat = books.rows[row], seats.seats[number]
        for resource in range(1, 4):
            if held["amount"][resource] != seat["amount"][resource]:
                return False
        row, number = held["next"], seat["next"]
    return True


@njit(cache=True)
def _chain(books: Books, old: int, seats: Seats, number: int) -> int:
    """Rows for a job's seats, on the GPUs of its old rows where there are some."""
    first = -1
    last = -1
    while number >= 0:
        seat = seats.seats[number]
        row = new_row(books)
        record = books.rows[row]
        record["node"] = seat["node"]
        if old >= 0:
            record["mask"] = books.rows[old]["mask"]
            old = books.rows[old]["next"]
        else:
            record["mask"] = pick_gpus(books, seat["node"], seat["gpus"])
        record["amount"][0] = seat["gpus"] * 1_000_000
        for resource in range(1, 4):
            record["amount"][resource] = seat["amount"][resource]
        if last < 0:
            first = row
        else:
            books.rows[last]["next"] = row
        last = row
        number = seat["next"]
    return first


@njit(cache=True)
def _serve_shares(
    books: Books,
    index: Ints,
    milli: Ints,
    constraint: Ints,
    node_allowed: Bools,
    needs: Ints,
    shared: Ints,
    chosen: Bools,
) -> None:
    nodes = len(books.nodes)
    fit = np.zeros(nodes, np.int64)
    take = np.zeros(nodes, np.int64)
    for the_chosen in (True, False):
        for at in shared:
            if chosen[at] == the_chosen and books.heads[index[at]] < 0:
                place_job(
                    books, index[at], 1, milli[at], node_allowed[constraint[at]], needs[at], PACK, fit, take
                )


@njit(cache=True)
def _explain(
    books: Books,
    index: Ints,
    milli: Ints,
    requested: Ints,
    ranked: Ints,
    running: Bools,
    codes: Ints,
    a: Floats,
    b: Floats,
) -> None:
    free = books.totals[0] // 1000
    for at in ranked:
        if books.heads[index[at]] >= 0:
            codes[at] = PLACED
            continue
        if milli[at] == 0:
            codes[at] = NO_CPUS
            a[at] = requested[at, CPU] / MICRO
            b[at] = requested[at, MEMORY] / MICRO
            continue
        codes[at] = NO_PLACE
        if milli[at] > free:
            codes[at] = OUTRANKED if running[at] else NO_GPUS
        a[at] = milli[at] / 1000
        b[at] = free / 1000
