from muster.cluster.ledger_arrays import Bools, Floats, Ints

def tabulated(
    group: Ints, profit: Floats, usage: Floats, must_choose: Bools, unit: Floats, most: Floats, nothing: int
) -> tuple[Ints, Floats, Floats, Ints, Ints]: ...
def best_of_each(score: Floats, starts: Ints) -> Ints: ...
def given_out(
    group: Ints,
    profit: Floats,
    usage: Floats,
    capacity: Floats,
    choice: Ints,
    score: Floats,
    rounding: float,
) -> Ints: ...
