from muster.cluster.ledger_arrays import Bools, Floats, Ints

def sizes_on_frontier(
    step_columns: tuple[Floats, Floats, Floats, Bools, Floats],
    worker: Floats,
    server: Floats,
    limit: Floats,
    least_workers: Ints,
) -> tuple[Ints, Ints, Ints, Floats]: ...
