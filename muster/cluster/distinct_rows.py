"""The distinct rows of a table of whole numbers."""

from __future__ import annotations

import numpy as np

from muster.cluster.ledger_arrays import Ints


def distinct_rows(rows: Ints) -> tuple[Ints, Ints]:
    """Return the distinct rows, ascending, and which of them each row is.

    Where most columns are the same in all rows, `numpy.unique` takes over ten times as long.
    """
    if not len(rows):
        return rows, np.zeros(0, np.int64)
    order = np.lexsort(rows.T[::-1])
    ascending = rows[order]
    new = np.append(True, (ascending[1:] != ascending[:-1]).any(axis=1))
    which = np.empty(len(rows), np.int64)
    which[order] = np.cumsum(new) - 1
    return ascending[new], which
