from muster.cluster.ledger_arrays import Books, Bools, Floats, Ints
from muster.schedulers.placement.job_columns import JobColumns, ReasonColumns

def most_sensitive_first(positions: Ints, share_anywhere: Floats, gpus: Ints) -> Ints: ...

class RankedGangs:
    def __init__(self, ranked: Ints, order: Ints, chosen: Bools, pinned: Bools, costs: Floats) -> None: ...

class Shapes:
    def __init__(self, line: Ints, kinds: Ints, speeds: Floats, needs: Ints) -> None: ...

class PlacementLimits:
    def __init__(self, enough: float, least: float, horizon_seconds: float) -> None: ...

def arrange(
    books: Books,
    jobs: JobColumns,
    queue: RankedGangs,
    shapes: Shapes,
    limits: PlacementLimits,
    reasons: ReasonColumns,
) -> None: ...
def place_beside_all(books: Books, jobs: JobColumns, shapes: Shapes, enough: float) -> bool: ...
def share_of_best(books: Books, chain: int, kinds: Ints, speeds: Floats) -> float: ...
