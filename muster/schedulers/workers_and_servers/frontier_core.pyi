from muster.cluster.ledger_arrays import Bools, Floats, Ints

def sizes_on_frontier(
    step_columns: tuple[Floats, Floats, Floats, Bools, Floats],
    worker: Floats,
    server: Floats,
    limit: Floats,
    least_workers: Ints,
    held_workers: Ints,
    held_servers: Ints,
) -> tuple[Ints, Ints, Ints, Floats]: ...
def fastest_of(job: Ints, seconds: Floats) -> Ints: ...
