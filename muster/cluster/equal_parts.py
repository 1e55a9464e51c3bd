"""On how few nodes the GPUs of a job fit, the largest part on each, as Slurm divides them."""

from __future__ import annotations

import numpy as np

from muster.cluster.ledger_arrays import Ints


def fewest_equal_parts(per_node: Ints, gpus: int) -> int:
    """Return on how few nodes with so many GPUs each as many GPUs fit, at most the largest part on each."""
    fewest = max(-(-gpus // max(int(per_node.max(initial=0)), 1)), 1)
    for nodes in range(fewest, min(gpus, len(per_node)) + 1):
        if np.count_nonzero(per_node >= -(-gpus // nodes)) >= nodes:
            return nodes
    return fewest
