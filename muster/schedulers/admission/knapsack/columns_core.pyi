import numpy as np
from numpy.typing import NDArray

from muster.cluster.ledger_arrays import Bools, Floats, Ints

def tabulated(
    group: Ints, profit: Floats, usage: Floats, must_choose: Bools, unit: Floats, most: Floats, nothing: int
) -> tuple[Ints, Floats, Floats, Ints, Ints, int]: ...
def best_of_each(score: Floats, starts: Ints) -> Ints: ...
def entries_of(
    group: Ints, usage: Floats, columns: Ints, groups: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], Floats]: ...
def served_in_order(
    group: Ints, usage: Floats, capacity: Floats, choice: Ints, columns: Ints, rounding: float
) -> Ints: ...
def given_out(
    group: Ints,
    profit: Floats,
    usage: Floats,
    capacity: Floats,
    choice: Ints,
    score: Floats,
    rounding: float,
) -> Ints: ...
