import numpy as np
from numpy.typing import NDArray

from muster.cluster.ledger_arrays import Ints
from muster.runtime.allocation_lifecycle import HeldArray, PendingArray

def distinct_masks(held: HeldArray) -> tuple[NDArray[np.uint32], Ints]: ...
def distinct_reasons(explained: PendingArray) -> tuple[NDArray[np.uint32], Ints]: ...
