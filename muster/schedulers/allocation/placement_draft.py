"""A plan in the making, by node: which job has how many GPUs where, and how much beside them.

A node part is what one job has on one node. Node parts are cheap to add and to change. `write_draft` chooses the GPUs
at the end, when it writes the plan into the ledger, and leaves alone what does not change.

Two masks say what the draft may do with a job. A movable job waits, or runs and may be placed again. A fixed job runs
and keeps its GPUs, but its CPUs, memory and storage may change. The draft leaves all other jobs alone: shares of a
GPU, time slices, parameter servers, every running job while released GPUs stay unavailable, and, where a change of
CPU alone restarts a job, those that may not be interrupted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muster.cluster.ledger import Transaction
from muster.cluster.ledger_arrays import (
    DELAYED,
    GPU,
    NONE,
    SERVER,
    WHOLE,
    Books,
    Bools,
    Ints,
    Rows,
    count_bits,
    new_row,
    put_chain,
    release_job,
)
from muster.cluster.resources import RESOURCE_COUNT
from muster.compiling import njit
from muster.schedulers.contract import Proposal, Snapshot
from muster.schedulers.placement.kernels import (
    PACK,
    PROPORTIONAL,
    JobColumns,
    ReasonColumns,
    amounts_on,
    job_columns,
    note_no_place,
    pick_gpus,
    place_job,
    reason_columns,
    scratch_for,
    thousandths_of,
)
from muster.schedulers.reasons import NO_GPUS, OUTRANKED, PLACED

NODE_PART = np.dtype(
    [
        ("at", np.int64),  # position of the job
        ("node", np.int64),
        ("gpus", np.int64),
        ("amount", np.int64, (RESOURCE_COUNT,)),  # held here in all; the GPUs' own entry is not used
        ("next", np.int64),  # of the job
        ("next_here", np.int64),  # of the node
    ]
)


class PlacementDraft(NamedTuple):
    """The plan so far."""

    free: Ints
    """By node: whole GPUs, then millionths of CPU, memory and storage."""
    node_parts: Rows
    first: Ints
    """By position: the job's first node part, NONE without one."""
    first_here: Ints
    """By node: its first node part."""
    last_here: Ints
    used: Ints
    """One number: how many node parts there are."""
    movable: Bools
    """By position: whether the job may be placed, or placed again."""
    fixed: Bools
    """By position: whether the job keeps its GPUs and may get other amounts beside them."""
    home: Ints
    """By position: the node on which all of the job's GPUs are now; NONE."""
    reserved: Ints
    """By position: the node where a job without GPUs is to start; NONE."""

    def copy(self) -> PlacementDraft:
        """Return a draft with the same node parts that changes on its own."""
        return PlacementDraft(*map(np.copy, self))


def open_draft(snapshot: Snapshot, transaction: Transaction, ranked: Ints, chosen: Bools) -> PlacementDraft:
    """Return a draft over what the ranked jobs may use, in which fixed jobs have only their request beside their GPUs.

    Shares of a GPU that are not chosen leave first: `write_draft` gives back what the chosen do not need.
    """
    jobs, books = snapshot.jobs, snapshot.ledger.books
    without_gpus = jobs.gpus == 0
    shares = (jobs.gpu_milli < WHOLE) | without_gpus
    for job in jobs.index[ranked[shares[ranked] & ~chosen[ranked]]].tolist():
        transaction.release(job)
    pinned, whole = jobs.pinned, ~shares
    movable = np.zeros(len(jobs), np.bool_)
    movable[ranked] = True
    movable &= whole & ~pinned
    nodes = len(books.nodes)
    draft = PlacementDraft(
        free=books.nodes["free"].copy(),
        node_parts=np.zeros(snapshot.cluster.total_gpus + 1, NODE_PART),
        first=np.full(len(jobs), NONE),
        first_here=np.full(nodes, NONE),
        last_here=np.full(nodes, NONE),
        used=np.zeros(1, np.int64),
        movable=movable,
        fixed=whole & ~movable & ~(pinned & snapshot.resize_restarts),
        home=np.full(len(jobs), NONE),
        reserved=np.full(len(jobs), NONE),
    )
    requested = jobs.requested_per_gpu
    _open(books, jobs.index, draft, requested)
    comes = ranked[without_gpus[ranked] & chosen[ranked]]
    if len(comes):
        classes, demands = snapshot.resource_profiles.of(jobs.model, jobs.gpus, requested)
        more = demands.fair[classes][:, snapshot.resource_profiles.kind_of_node] - requested[:, None]
        allowed = snapshot.table.node_allowed[jobs.constraint[comes]] & (books.nodes["up"] != 0)
        _reserve(books, jobs.index, draft, comes, allowed, requested, more)
    return draft


@njit(cache=True)
def _open(books: Books, index: Ints, draft: PlacementDraft, requested: Ints) -> None:
    """Free what movable jobs hold and place fixed jobs where they run."""
    for node in range(len(books.nodes)):
        draft.free[node, 0] = books.nodes[node]["free_gpus"]
    for at in range(len(index)):
        head = books.heads[index[at]]
        if not draft.movable[at] and not draft.fixed[at]:
            continue
        if head < 0:
            draft.fixed[at] = False
            continue
        if books.totals[DELAYED] or not _plain(books, head):
            draft.movable[at], draft.fixed[at] = False, False
            continue
        draft.home[at] = books.rows[head]["node"] if books.rows[head]["next"] < 0 else NONE
        row = head
        while row >= 0:
            held = books.rows[row]
            node = held["node"]
            gpus = count_bits(held["mask"])
            for resource in range(1, RESOURCE_COUNT):
                draft.free[node, resource] += held["amount"][resource]
            draft.free[node, 0] += gpus
            if draft.fixed[at]:
                set_amounts(draft, add_part(draft, at, node, gpus), requested[at])
            row = held["next"]


@njit(cache=True)
def _reserve(
    books: Books, index: Ints, draft: PlacementDraft, comes: Ints, allowed: Bools, requested: Ints, more: Ints
) -> None:
    """Reserve a node for each waiting job without GPUs, in order, where fixed jobs keep their fair demand.

    Nodes without GPUs come first, then the one with the most CPUs left. `more` is what each job needs by node and
    resource, beside each GPU, to rise from its request to its fair demand.
    """
    spare = draft.free.copy()
    for number in range(draft.used[0]):
        node_part = draft.node_parts[number]
        spare[node_part["node"]] -= node_part["gpus"] * more[node_part["at"], node_part["node"]]
    for i in range(len(comes)):
        at = comes[i]
        if books.heads[index[at]] >= 0:
            continue
        best = -1
        for node in range(len(spare)):
            fits = allowed[i, node]
            for resource in range(1, RESOURCE_COUNT):
                fits = fits and requested[at, resource] <= spare[node, resource]
            if not fits:
                continue
            with_gpus = books.nodes[node]["gpus"] > 0
            best_with_gpus = best >= 0 and books.nodes[best]["gpus"] > 0
            more_cpus = best >= 0 and spare[node, 1] > spare[best, 1]
            if best < 0 or with_gpus < best_with_gpus or (with_gpus == best_with_gpus and more_cpus):
                best = node
        if best >= 0:
            draft.reserved[at] = best
            for resource in range(1, RESOURCE_COUNT):
                spare[best, resource] -= requested[at, resource]
                draft.free[best, resource] -= requested[at, resource]


@njit(cache=True)
def _plain(books: Books, row: int) -> bool:
    """Return whether a chain is workers on whole GPUs of their own."""
    while row >= 0:
        held = books.rows[row]
        if held["milli"] != 1000 or held["group"] >= 0 or held["role"] == SERVER or held["mask"] == 0:
            return False
        row = held["next"]
    return True


@njit(cache=True)
def add_part(draft: PlacementDraft, at: int, node: int, gpus: int) -> int:
    """Give a job GPUs of a node, with nothing beside them yet; the node part's number.

    A job's node parts are added by ascending node.
    """
    number: int = draft.used[0]
    draft.used[0] += 1
    node_part = draft.node_parts[number]
    node_part["at"] = at
    node_part["node"] = node
    node_part["gpus"] = gpus
    for resource in range(RESOURCE_COUNT):
        node_part["amount"][resource] = 0
    node_part["next"] = -1
    node_part["next_here"] = -1
    draft.free[node, 0] -= gpus
    if draft.first[at] < 0:
        draft.first[at] = number
    else:
        last = draft.first[at]
        while draft.node_parts[last]["next"] >= 0:
            last = draft.node_parts[last]["next"]
        draft.node_parts[last]["next"] = number
    if draft.first_here[node] < 0:
        draft.first_here[node] = number
    else:
        draft.node_parts[draft.last_here[node]]["next_here"] = number
    draft.last_here[node] = number
    return number


@njit(cache=True)
def add_rows(draft: PlacementDraft, at: int, books: Books, row: int) -> None:
    """Give a job the GPUs that a chain of rows holds, with nothing beside them yet."""
    while row >= 0:
        add_part(draft, at, books.rows[row]["node"], count_bits(books.rows[row]["mask"]))
        row = books.rows[row]["next"]


@njit(cache=True)
def remove_last(draft: PlacementDraft) -> None:
    """Undo the latest `add_part`, of a job that has nothing else."""
    number = draft.used[0] - 1
    node_part = draft.node_parts[number]
    node = node_part["node"]
    draft.used[0] = number
    draft.free[node, 0] += node_part["gpus"]
    for resource in range(1, RESOURCE_COUNT):
        draft.free[node, resource] += node_part["amount"][resource]
    draft.first[node_part["at"]] = -1
    if draft.first_here[node] == number:
        draft.first_here[node] = -1
        draft.last_here[node] = -1
        return
    before = draft.first_here[node]
    while draft.node_parts[before]["next_here"] != number:
        before = draft.node_parts[before]["next_here"]
    draft.node_parts[before]["next_here"] = -1
    draft.last_here[node] = before


# A call copies the headers of all arrays of a draft and of `Gangs`: the smallest of the kernels that are called most
# cost less inlined, here and in the other files. Each call more counts the references to all of them.
@njit(cache=True, forceinline=True)
def set_amounts(draft: PlacementDraft, number: int, per_gpu: Ints) -> None:
    """Set what a node part has beside each of its GPUs; the node's free amounts follow."""
    node_part = draft.node_parts[number]
    for resource in range(1, RESOURCE_COUNT):
        amount = node_part["gpus"] * per_gpu[resource]
        draft.free[node_part["node"], resource] += node_part["amount"][resource] - amount
        node_part["amount"][resource] = amount


@njit(cache=True, forceinline=True)
def fits(draft: PlacementDraft, node: int, gpus: int, per_gpu: Ints) -> bool:
    """Return whether a node has this free for so many GPUs; the GPUs themselves are not counted."""
    short = 0
    for resource in range(1, RESOURCE_COUNT):
        short += draft.free[node, resource] < gpus * per_gpu[resource]
    return short == 0


@njit(cache=True)
def gpus_that_fit(draft: PlacementDraft, node: int, per_gpu: Ints) -> int:
    """Return how many free GPUs of a node can have this beside them."""
    fit: int = draft.free[node, 0]
    for resource in range(1, RESOURCE_COUNT):
        if per_gpu[resource] > 0:
            fit = min(fit, draft.free[node, resource] // per_gpu[resource])
    return fit


@njit(cache=True)
def keep_in_place(books: Books, index: Ints, draft: PlacementDraft, chosen: Bools) -> None:
    """Place the chosen jobs that run where they run."""
    for at in range(len(index)):
        if chosen[at] and draft.movable[at] and books.heads[index[at]] >= 0:
            add_rows(draft, at, books, books.heads[index[at]])


@njit(cache=True)
def keep_amounts(books: Books, index: Ints, draft: PlacementDraft) -> None:
    """Give jobs that stay in place what they hold now, on nodes to which no other job comes.

    Where a job without GPUs has a reservation, they share what it leaves beside their requests, in proportion.
    """
    held = np.full(draft.used[0], NONE)
    comes = np.zeros(len(draft.free), np.bool_)
    for at in range(len(index)):
        row, number = books.heads[index[at]], draft.first[at]
        stays = (draft.movable[at] or draft.fixed[at]) and stays_put(books, row, draft, number)
        while number >= 0:
            if stays:
                held[number] = row
                row = books.rows[row]["next"]
            else:
                comes[draft.node_parts[number]["node"]] = True
            number = draft.node_parts[number]["next"]
    room, wanted = draft.free.copy(), np.zeros_like(draft.free)
    for number in range(draft.used[0]):
        if held[number] >= 0:
            node_part = draft.node_parts[number]
            wanted[node_part["node"]] += books.rows[held[number]]["amount"] - node_part["amount"]
    for number in range(draft.used[0]):
        node_part = draft.node_parts[number]
        node = node_part["node"]
        if held[number] >= 0 and not comes[node]:
            amount = books.rows[held[number]]["amount"].copy()
            for resource in range(1, RESOURCE_COUNT):
                if wanted[node, resource] > room[node, resource]:
                    more = amount[resource] - node_part["amount"][resource]
                    part = more * (room[node, resource] / wanted[node, resource])
                    amount[resource] = node_part["amount"][resource] + np.int64(part)
            set_amounts(draft, number, amount // node_part["gpus"])


def write_draft(
    snapshot: Snapshot, proposal: Proposal, draft: PlacementDraft, ranked: Ints, chosen: Bools
) -> None:
    """Write the draft into the proposal, with a reason for every ranked job; then serve the shares of a GPU.

    Those get their node's proportional share, at least their request, by best fit, the chosen first, from what the
    draft leaves. DoesNotFit if the draft has more on a node than is free there.
    """
    jobs = snapshot.jobs
    rows = 2 * int(draft.used[0]) + len(snapshot.cluster.nodes)
    books = proposal.transaction.ledger.reserve(rows + snapshot.cluster.total_gpus, 3 * len(jobs))
    shared = ranked[jobs.gpu_milli[ranked] < WHOLE]
    _write(books, jobs.index, draft, ranked, chosen)
    requested = jobs.requested_per_gpu
    for at in np.flatnonzero(draft.reserved >= 0).tolist():
        put_chain(books, jobs.index[at], amounts_on(books, draft.reserved[at], requested[at]))
    snapshot.check_placed(np.flatnonzero((draft.first >= 0) | (draft.reserved >= 0)))
    columns = job_columns(snapshot)
    if len(shared):
        _serve_shares(books, columns, PROPORTIONAL - requested, shared, chosen)
    _explain(books, columns, ranked, jobs.running, reason_columns(proposal))


@njit(cache=True)
def _write(books: Books, index: Ints, draft: PlacementDraft, ranked: Ints, chosen: Bools) -> None:
    """Release what changes or is not chosen, put resized jobs back on their GPUs, then place the others."""
    old = np.full(len(index), NONE)
    changed = np.zeros(len(index), np.bool_)
    for at in ranked:
        if not draft.movable[at] and not draft.fixed[at] and not chosen[at]:
            release_job(books, index[at])
    for at in range(len(index)):
        head = books.heads[index[at]]
        if (draft.movable[at] or draft.fixed[at]) and not is_unchanged(books, head, draft, draft.first[at]):
            changed[at] = True
            old[at] = head
            release_job(books, index[at])
    for stays in (True, False):
        for at in np.flatnonzero(changed & (draft.first >= 0)):
            if stays_put(books, old[at], draft, draft.first[at]) == stays:
                put_chain(books, index[at], _chain(books, old[at] if stays else NONE, draft, draft.first[at]))


@njit(cache=True)
def stays_put(books: Books, row: int, draft: PlacementDraft, number: int) -> bool:
    """Return whether the node parts are on the nodes, with as many GPUs, as the rows."""
    while row >= 0 and number >= 0:
        held, node_part = books.rows[row], draft.node_parts[number]
        if held["node"] != node_part["node"] or count_bits(held["mask"]) != node_part["gpus"]:
            return False
        row, number = held["next"], node_part["next"]
    return row < 0 and number < 0


@njit(cache=True)
def is_unchanged(books: Books, row: int, draft: PlacementDraft, number: int) -> bool:
    """Return whether the node parts are what the rows hold already."""
    if not stays_put(books, row, draft, number):
        return False
    while row >= 0:
        held, node_part = books.rows[row], draft.node_parts[number]
        for resource in range(1, RESOURCE_COUNT):
            if held["amount"][resource] != node_part["amount"][resource]:
                return False
        row, number = held["next"], node_part["next"]
    return True


@njit(cache=True)
def _chain(books: Books, old: int, draft: PlacementDraft, number: int) -> int:
    """Return rows for a job's node parts, on the GPUs of its old rows where there are some."""
    first, last = -1, -1
    while number >= 0:
        node_part = draft.node_parts[number]
        row = new_row(books)
        record = books.rows[row]
        record["node"] = node_part["node"]
        if old >= 0:
            record["mask"] = books.rows[old]["mask"]
            old = books.rows[old]["next"]
        else:
            record["mask"] = pick_gpus(books, node_part["node"], node_part["gpus"])
        record["amount"][0] = node_part["gpus"] * 1_000_000
        for resource in range(1, RESOURCE_COUNT):
            record["amount"][resource] = node_part["amount"][resource]
        if last < 0:
            first = row
        else:
            books.rows[last]["next"] = row
        last = row
        number = node_part["next"]
    return first


@njit(cache=True)
def _serve_shares(books: Books, jobs: JobColumns, needs: Ints, shared: Ints, chosen: Bools) -> None:
    """Place the shares of a GPU that hold nothing by best fit, the chosen first."""
    scratch = scratch_for(books)
    for the_chosen in (True, False):
        for at in shared:
            number = jobs.numbers[at]
            if chosen[at] == the_chosen and books.heads[number] < 0:
                spec = jobs.spec[number]
                allowed = jobs.node_allowed[spec["constraint"]]
                place_job(books, number, 1, spec["milli"], allowed, needs[at], PACK, scratch)


@njit(cache=True)
def _explain(books: Books, jobs: JobColumns, ranked: Ints, running: Bools, reasons: ReasonColumns) -> None:
    """Write the reason of every ranked job, with its two numbers."""
    for at in ranked:
        if books.heads[jobs.numbers[at]] >= 0:
            reasons.codes[at] = PLACED
        else:
            note_no_place(books, jobs, at, reasons)
            if thousandths_of(jobs, at) * 1000 > books.totals[GPU]:
                reasons.codes[at] = OUTRANKED if running[at] else NO_GPUS
