from muster.cluster.ledger_arrays import Floats, Ints
from muster.schedulers.allocation.gangs import Gangs
from muster.schedulers.allocation.placement_draft import PlacementDraft

HALVINGS: int
HIGHEST_PRICE: float

def targets(draft: PlacementDraft, gangs: Gangs, served: Ints, kind: int) -> tuple[Ints, float]: ...
def lowest_prices(gangs: Gangs, kind: int, count: Ints, pool: Ints) -> Floats: ...
