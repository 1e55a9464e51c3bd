"""Which jobs have left the system since an order looked last."""

import numpy as np

from muster.schedulers.contract import Ints, Snapshot


def gone_since(snapshot: Snapshot, seen: Ints) -> Ints:
    """Jobs that were seen and are no longer in the system; both are in arrival order."""
    here = np.append(snapshot.jobs.index, np.iinfo(np.int64).max)
    gone: Ints = seen[here[np.searchsorted(here, seen)] != seen]
    # The last jobs of a daemon that was restarted since then may no longer be in the table.
    return gone[gone < len(snapshot.table)]
