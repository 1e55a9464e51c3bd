"""What jobs hold, row by row of the ledger."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from muster.cluster.ledger_arrays import Books, Ints


def held_rows(books: Books, index: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Yield the positions of jobs that hold something with a row of each, then of those with another row, and so on."""
    row = books.heads[index]
    here = np.flatnonzero(row >= 0)
    row = row[here]
    while len(here):
        yield here, row
        row = books.rows["next"][row]
        more = row >= 0
        here, row = here[more], row[more]
