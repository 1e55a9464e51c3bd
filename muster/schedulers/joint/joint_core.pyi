from muster.cluster.ledger_arrays import Books, Floats, Ints
from muster.schedulers.allocation.gangs import Gangs
from muster.schedulers.allocation.placement_draft import PlacementDraft

FOR_RUNNING: float

def place_jointly(draft: PlacementDraft, gangs: Gangs, order: Ints, cost: Floats) -> None: ...
def place_on_network(
    books: Books,
    draft: PlacementDraft,
    before: PlacementDraft,
    gangs: Gangs,
    order: Ints,
    cost: Floats,
    enough: tuple[float, ...],
) -> None: ...
