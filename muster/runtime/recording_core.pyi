from typing import Any

from numpy.typing import NDArray

from muster.cluster.ledger_arrays import Ints
from muster.runtime.allocation_lifecycle import HeldArray, PendingArray

def held_columns(held: HeldArray) -> tuple[dict[str, NDArray[Any]], Ints]: ...
def explained_columns(explained: PendingArray) -> tuple[dict[str, NDArray[Any]], Ints]: ...
