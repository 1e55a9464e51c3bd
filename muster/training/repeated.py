"""One batch again and again, for a profile of what a job computes: no loader works beside it.

A process that is alone takes as much of the batch as the fullest of so many workers of an elastic job would.
"""

from __future__ import annotations

from collections.abc import Generator

from muster.problems import InputError, Problem
from muster.training.batches import Batches, Epoch, Share
from muster.training.shares import Division

_ENDLESS = 2**62
"""Batches of an epoch that never ends; what a job does between epochs is no part of a step."""


class RepeatedBatch:
    """The first batch of a loader, or a share of it, as an epoch without end."""

    def __init__(self, batches: Batches, workers: int) -> None:
        self._batches = batches
        self._division: Division | None = None
        self._wanted = workers
        self.workers = 0
        """Among how many the batch that is given now is shared."""
        self.samples = 0
        """Of this process in a step; 0: not known."""
        self.passes = 0
        """In which it takes them."""

    @property
    def loader_workers(self) -> int:
        """None: the batch is there."""
        return 0

    def share_among(self, workers: int) -> None:
        """From the next step on the batch is shared among so many."""
        self._wanted = workers

    def divide(self, division: Division) -> None:
        """This rank's place among the ranks that there are."""
        self._division = division

    def begin(self, epoch: int, apart: int = 0) -> Epoch:
        """The first epoch, whichever is wanted."""
        return Epoch(_ENDLESS, self._batches.begin(0, apart).order)

    def rest(self, position: int) -> Generator[Share]:
        """The parts of the one batch, again and again."""
        shares: list[Share] = []
        while True:
            if self.workers != self._wanted:
                shares = self._draw()
            yield from shares

    def _draw(self) -> list[Share]:
        if self._division is not None:
            self._batches.divide(self._division.shared_among(self._wanted))
        elif self._wanted > 1:
            what = "only an elastic job's batches are shared; add elastic=True to run.steps"
            raise InputError(Problem("MUSTER_PROFILED_SHARE", what, found=self._wanted))
        shares = []
        for share in self._batches.rest(0):
            shares.append(share)
            if share.is_last:
                break
        self.workers, self.passes = self._wanted, len(shares)
        self.samples = sum(share.size for share in shares)
        return shares
