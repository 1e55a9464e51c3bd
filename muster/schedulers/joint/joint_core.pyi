from muster.cluster.ledger_arrays import Books, Floats, Ints
from muster.schedulers.allocation.gangs import Gangs
from muster.schedulers.allocation.placement_draft import PlacementDraft
from muster.schedulers.allocation.worth import ForRunning

def place_jointly(
    draft: PlacementDraft, gangs: Gangs, order: Ints, cost: Floats, running: ForRunning, splits_freely: bool
) -> None: ...
def place_on_network(
    books: Books,
    draft: PlacementDraft,
    before: PlacementDraft,
    gangs: Gangs,
    order: Ints,
    cost: Floats,
    running: ForRunning,
    enough: tuple[float, ...],
) -> None: ...
