"""The frame of every allocator that works on a draft: open it, let the strategy choose a draft, write that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from muster.cluster.ledger_arrays import NONE
from muster.schedulers.allocation.drafting import keep_amounts, keep_in_place, set_amounts
from muster.schedulers.allocation.gangs import Gangs, gangs_of
from muster.schedulers.allocation.placement_draft import (
    PlacementDraft,
    held_by,
    open_draft,
    write_draft,
)
from muster.schedulers.contract import Bools, Ints, Proposal, Snapshot
from muster.schedulers.honours import CPUS_AND_MEMORY, EVEN_GANGS
from muster.schedulers.parts import GangAllocator


@dataclass(frozen=True)
class AllocationInput:
    """What a strategy chooses a draft from."""

    snapshot: Snapshot
    gangs: Gangs
    opened: PlacementDraft
    """What the ranked jobs may use; fixed jobs are placed."""
    ranked: Ints
    chosen: Bools
    proposal: Proposal
    """What the draft will be written into."""
    least: Ints
    """What each job holds beside a GPU at the least, by position, where jobs without GPUs come; else its request."""
    barred: Bools
    """Shares of a GPU that are not to be served, by position; the strategy adds to them."""
    notes: list[str] = field(default_factory=list)
    """What did not go as it should; the strategy adds to it."""

    @property
    def stops_jobs(self) -> bool:
        """Whether the order stops running jobs for others."""
        return self.proposal.stops_jobs

    def keeping(self, stay: Bools) -> PlacementDraft:
        """Return a draft in which these running jobs have what they hold, and so have the fixed ones.

        Not those for whose least there is no room beside jobs without GPUs that come there.
        """
        books, index = self.snapshot.ledger.books, self.snapshot.jobs.index
        draft, opened = self.opened.copy(), int(self.opened.used[0])
        some_come = (draft.reserved != NONE).any()
        keep_in_place(books, index, draft, self._fit_beside_reserved(stay) if some_come else stay)
        if some_come:
            for number in range(opened, int(draft.used[0])):
                set_amounts(draft, number, self.least[draft.node_parts["at"][number]])
        keep_amounts(books, index, draft)
        return draft

    def _fit_beside_reserved(self, stay: Bools) -> Bools:
        """Return those whose least fits where they run, the chosen first."""
        snapshot, ranked = self.snapshot, self.ranked
        heads = snapshot.ledger.books.heads[snapshot.jobs.index]
        candidates = ranked[(stay & self.opened.movable & (heads >= 0))[ranked]]
        left, fit = self.opened.free.copy(), np.zeros(len(stay), np.bool_)
        for at in candidates[np.argsort(~self.chosen[candidates], kind="stable")].tolist():
            held = snapshot.ledger.shares(int(heads[at]))
            nodes = np.array([share.node for share in held])
            needed = np.outer([len(share.gpu_ids) for share in held], self.least[at])
            fit[at] = (needed[:, 1:] <= left[nodes, 1:]).all()
            if fit[at]:
                left[nodes] -= needed
        return fit


@dataclass(frozen=True)
class DraftAllocator(GangAllocator):
    """An allocator whose strategy is `choose_draft`."""

    stable_when_queue_empty: ClassVar[bool] = False
    moves_for_others: ClassVar[bool] = True
    honours: ClassVar[frozenset[str]] = CPUS_AND_MEMORY | {EVEN_GANGS}

    def allocate(self, snapshot: Snapshot, proposal: Proposal, ranked: Ints, chosen: Bools) -> None:
        """Write the draft that the strategy chooses, and what it notes."""
        jobs, gangs = snapshot.jobs, gangs_of(snapshot)
        come_without_gpus = (jobs.waiting & (jobs.gpus == 0))[ranked].any()
        least = self.least_per_gpu(snapshot) if come_without_gpus else jobs.requested_per_gpu
        left_out = held_by(snapshot, ranked[(~chosen & (jobs.gpus == 0))[ranked]])
        opened = open_draft(
            snapshot, proposal.transaction, ranked, chosen, self.pinned(snapshot, proposal), least
        )
        barred = np.zeros(len(jobs), np.bool_)
        if snapshot.ledger.releasing_gpus():
            # What is still releasing was promised to a chosen job: others may not take the rest of its GPUs meanwhile.
            barred = ~chosen
            opened.movable[barred] = False
        given = AllocationInput(snapshot, gangs, opened, ranked, chosen, proposal, least, barred)
        draft = self.choose_draft(given)
        write_draft(snapshot, proposal, draft, ranked, chosen, given.barred, left_out)
        proposal.notes = tuple(given.notes)

    def pinned(self, snapshot: Snapshot, proposal: Proposal) -> Bools:
        """Return the running jobs that may not be interrupted now; the frame around has mostly worked them out."""
        if proposal.pinned is not None:
            return proposal.pinned
        pinned: Bools = self.may_change_from(snapshot) > snapshot.now
        return pinned

    def choose_draft(self, given: AllocationInput) -> PlacementDraft:
        """Return the draft to write; it may be `given.opened` itself, changed."""
        raise NotImplementedError
