"""Each rank's share of a total batch: contiguous, in the order of the ranks, as equal as possible.

The shares of all ranks, one after the other, are the total batch in its own order, whatever the number of ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class BatchPart(NamedTuple):
    """What a rank processes at once: samples of a total batch."""

    begin: int
    end: int
    weight: float
    """Its samples per sample of the total batch, times the ranks: of a mean loss, for the mean over all ranks."""
    is_last: bool
    """Whether it is the rank's last part of the total batch."""


@dataclass(frozen=True)
class Division:
    """How total batches are divided among ranks; the default leaves them whole."""

    rank: int = 0
    ranks: int = 1
    local_batch: int | None = None
    """Most samples that a rank processes at once; None: any number."""

    def shared_among(self, workers: int) -> Division:
        """That of the fullest of so many workers that would be in this rank's place: the last of them."""
        return Division((self.rank + 1) * workers - 1, self.ranks * workers, self.local_batch)

    def parts(self, size: int) -> list[BatchPart]:
        """This rank's parts of a total batch of that many samples; every rank has as many parts.

        Where there are fewer samples than parts, a part without a sample has a neighbouring one with weight 0, so that
        all ranks go through the same collectives.
        """
        if size == 0:
            return [BatchPart(0, 0, 1.0, is_last=True)]
        begin, end = _bounds(size, self.rank, self.ranks)
        largest = largest_share(size, self.ranks)
        count = 1 if self.local_batch is None else -(-largest // self.local_batch)
        parts = []
        for number in range(count):
            first, last = (begin + bound for bound in _bounds(end - begin, number, count))
            weight = (last - first) * self.ranks / size
            if first == last:
                first = min(first, size - 1)
                last = first + 1
            parts.append(BatchPart(first, last, weight, is_last=number + 1 == count))
        return parts


def largest_share(size: int, ranks: int) -> int:
    """Samples of the rank that has most of a total batch of that many."""
    return -(-size // ranks)


def _bounds(size: int, number: int, count: int) -> tuple[int, int]:
    """Where the part with that number begins and ends if a whole of that size has so many parts."""
    return number * size // count, (number + 1) * size // count
