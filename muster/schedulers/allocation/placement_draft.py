"""A plan in the making, by node: which job has how many GPUs where, and how much beside them.

A node part is what one job has on one node. Node parts are cheap to add and to change. `write_draft` chooses the GPUs
at the end, when it writes the plan into the ledger, and leaves alone what does not change.

Two masks say what the draft may do with a job. A movable job waits, or runs and may be placed again. A fixed job runs
and keeps its GPUs, but its CPUs, memory and storage may change. The draft leaves all other jobs alone: shares of a
GPU, time slices, parameter servers, every running job while released GPUs stay unavailable, and, where a change of
CPU alone restarts a job, those that may not be interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from muster.cluster.ledger import DoesNotFit, NodeAllocation, Transaction
from muster.cluster.ledger_arrays import NONE, WHOLE, Bools, Ints, Rows
from muster.cluster.resources import RESOURCE_COUNT
from muster.cluster.structured import layout_of
from muster.schedulers.allocation.drafting import (
    explain,
    open_parts,
    reserve,
    serve_shares,
    write_parts,
    write_reserved,
)
from muster.schedulers.contract import Proposal, Snapshot
from muster.schedulers.placement.job_columns import PROPORTIONAL, job_columns, reason_columns

NODE_PART = layout_of(
    ("at", np.int64),  # position of the job
    ("node", np.int64),
    ("gpus", np.int64),
    ("amount", np.int64, (RESOURCE_COUNT,)),  # held here in all; the GPUs' own entry is not used
    ("next", np.int64),  # of the job
    ("next_here", np.int64),  # of the node
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

    @property
    def planned(self) -> Bools:
        """By position: the jobs that the plan is about, all others hold what they hold."""
        planned: Bools = self.movable | self.fixed
        return planned

    @property
    def gpus(self) -> int:
        """GPUs that jobs of this draft have or may get."""
        held = self.node_parts["gpus"][: int(self.used[0])].sum()
        return int(held + np.maximum(self.free[:, 0], 0).sum())

    def copy(self) -> PlacementDraft:
        """Return a draft with the same node parts that changes on its own; room that is not used is not copied."""
        used = int(self.used[0])
        node_parts = np.empty_like(self.node_parts)
        # As numbers, which is four times as fast as field by field.
        node_parts[:used].view(np.int64)[:] = self.node_parts[:used].view(np.int64)
        columns = (column.copy() for column in self[2:])
        return PlacementDraft._make((self.free.copy(), node_parts, *columns))


def open_draft(
    snapshot: Snapshot,
    transaction: Transaction,
    ranked: Ints,
    chosen: Bools,
    pinned: Bools | None = None,
    least: Ints | None = None,
) -> PlacementDraft:
    """Return a draft over what the ranked jobs may use, in which fixed jobs have only their request beside their GPUs.

    Running jobs that are `pinned` are fixed; None: those that may not be interrupted. Where jobs without GPUs come, the
    chosen running ones keep room for their `least` beside each GPU; None: their request.

    Shares of a GPU that are not chosen leave first: `write_draft` gives back what the chosen do not need.
    """
    jobs, books = snapshot.jobs, snapshot.ledger.books
    without_gpus = jobs.gpus == 0
    shares = (jobs.gpu_milli < WHOLE) | without_gpus
    leaves = shares & ~chosen & (books.heads[jobs.index] != NONE)
    for job in jobs.index[ranked[leaves[ranked]]].tolist():
        transaction.release(job)
    whole = ~shares
    pinned = jobs.pinned if pinned is None else pinned
    served = np.zeros(len(jobs), np.bool_)
    served[ranked] = True
    kept = jobs.running & snapshot.keeps_amounts & (chosen | ~served)
    movable = served & whole & ~pinned & ~kept
    nodes = len(books.nodes)
    draft = PlacementDraft(
        free=books.nodes["free"].copy(),
        node_parts=np.empty(snapshot.cluster.total_gpus + 1, NODE_PART),
        first=np.full(len(jobs), NONE),
        first_here=np.full(nodes, NONE),
        last_here=np.full(nodes, NONE),
        used=np.zeros(1, np.int64),
        movable=movable,
        fixed=whole & ~movable & ~(pinned & snapshot.resize_restarts) & ~kept,
        home=np.full(len(jobs), NONE),
        reserved=np.full(len(jobs), NONE),
    )
    requested = jobs.requested_per_gpu
    open_parts(books, jobs.index, draft, requested)
    comes = ranked[without_gpus[ranked] & chosen[ranked]]
    if len(comes):
        classes, demands = snapshot.resource_profiles.of(jobs.model, jobs.gpus, requested)
        more = demands.fair[classes][:, snapshot.resource_profiles.kind_of_node] - requested[:, None]
        allowed = snapshot.table.node_allowed[jobs.constraint[comes]] & (books.nodes["up"] != 0)
        keep = np.where((jobs.running & movable & chosen)[:, None], requested if least is None else least, 0)
        reserve(books, jobs.index, draft, comes, allowed, requested, np.ascontiguousarray(more), keep)
    return draft


def write_draft(
    snapshot: Snapshot,
    proposal: Proposal,
    draft: PlacementDraft,
    ranked: Ints,
    chosen: Bools,
    barred: Bools,
    left_out: Mapping[int, Sequence[NodeAllocation]],
) -> None:
    """Write the draft into the proposal, with a reason for every ranked job; then serve the shares of a GPU.

    Before these come jobs without GPUs that are not chosen and run: they have what they held, where it is still free.

    Those that are not barred get their node's proportional share, at least their request, by best fit, the chosen
    first, from what the draft leaves; the request alone where their model says nothing. DoesNotFit if the draft has
    more on a node than is free there.
    """
    jobs = snapshot.jobs
    # The draft has counted its parts, a row each; a job without GPUs has one. Each job is stopped and placed once.
    books = proposal.transaction.ledger.reserve(int(draft.used[0]) + len(jobs), 2 * len(jobs))
    write_parts(books, jobs.index, draft, ranked, chosen)
    write_reserved(books, jobs.index, draft, jobs.requested_per_gpu)
    snapshot.check_placed(np.flatnonzero((draft.first >= 0) | (draft.reserved >= 0)))
    put_back(proposal.transaction, left_out)
    serve(snapshot, proposal.transaction, ranked[((jobs.gpu_milli < WHOLE) & ~barred)[ranked]], chosen)
    explain(books, job_columns(snapshot), ranked, jobs.running, reason_columns(proposal))


def held_by(snapshot: Snapshot, at: Ints) -> Mapping[int, Sequence[NodeAllocation]]:
    """Return what the jobs at these positions hold, by their numbers; not those that hold nothing."""
    ledger, numbers = snapshot.ledger, snapshot.jobs.index[at]
    heads = ledger.books.heads[numbers]
    return {
        job: ledger.shares(head)
        for job, head in zip(numbers.tolist(), heads.tolist(), strict=True)
        if head >= 0
    }


def put_back(transaction: Transaction, held: Mapping[int, Sequence[NodeAllocation]]) -> None:
    """Give jobs what they held, where it is still free."""
    for job, shares in held.items():
        with suppress(DoesNotFit):
            transaction.put(job, shares)


def serve(snapshot: Snapshot, transaction: Transaction, shares: Ints, chosen: Bools) -> None:
    """Place those of these shares of a GPU that hold nothing, by best fit, the chosen first, where there is room."""
    if len(shares):
        # Shares alone, which hold nothing: a row and a place each.
        books = transaction.ledger.reserve(len(shares), len(shares))
        jobs = snapshot.jobs
        requested = jobs.requested_per_gpu
        unknown = snapshot.resource_profiles.says_nothing_of(jobs.model)
        needs = np.where(unknown[:, None] & (requested > 0), requested, PROPORTIONAL - requested)
        serve_shares(books, job_columns(snapshot), needs, shares, chosen)
