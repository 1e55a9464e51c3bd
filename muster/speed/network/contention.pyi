from muster.cluster.ledger_arrays import Floats, Ints

def speeds(first: Ints, links: Ints, uses: Floats, capacity: Floats, busy: Floats) -> Floats: ...
def speeds_beside(
    first: Ints,
    links: Ints,
    uses: Floats,
    capacity: Floats,
    busy: Floats,
    candidates: tuple[Ints, Ints, Floats],
) -> Floats: ...
