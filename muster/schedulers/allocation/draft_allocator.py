"""The frame of every allocator that works on a draft: open it, let the strategy choose a draft, write that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from muster.schedulers.allocation.drafting import keep_amounts, keep_in_place
from muster.schedulers.allocation.gangs import Gangs, gangs_of
from muster.schedulers.allocation.placement_draft import PlacementDraft, open_draft, write_draft
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
    notes: list[str] = field(default_factory=list)
    """What did not go as it should; the strategy adds to it."""

    @property
    def stops_jobs(self) -> bool:
        """Whether the order stops running jobs for others."""
        return self.proposal.stops_jobs

    def keeping(self, stay: Bools) -> PlacementDraft:
        """Return a draft in which these running jobs have what they hold, and so have the fixed ones."""
        books, index = self.snapshot.ledger.books, self.snapshot.jobs.index
        draft = self.opened.copy()
        keep_in_place(books, index, draft, stay)
        keep_amounts(books, index, draft)
        return draft


@dataclass(frozen=True)
class DraftAllocator(GangAllocator):
    """An allocator whose strategy is `choose_draft`."""

    stable_when_queue_empty: ClassVar[bool] = False
    honours: ClassVar[frozenset[str]] = CPUS_AND_MEMORY | {EVEN_GANGS}

    def allocate(self, snapshot: Snapshot, proposal: Proposal, ranked: Ints, chosen: Bools) -> None:
        """Write the draft that the strategy chooses, and what it notes."""
        gangs = gangs_of(snapshot)
        opened = open_draft(snapshot, proposal.transaction, ranked, chosen, self.pinned(snapshot))
        given = AllocationInput(snapshot, gangs, opened, ranked, chosen, proposal)
        write_draft(snapshot, proposal, self.choose_draft(given), ranked, chosen)
        proposal.notes = tuple(given.notes)

    def pinned(self, snapshot: Snapshot) -> Bools:
        """Return the running jobs that may not be interrupted now."""
        return snapshot.jobs.pinned

    def choose_draft(self, given: AllocationInput) -> PlacementDraft:
        """Return the draft to write; it may be `given.opened` itself, changed."""
        raise NotImplementedError
