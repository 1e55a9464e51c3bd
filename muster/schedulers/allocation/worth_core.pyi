from muster.cluster.ledger_arrays import Books, Floats, Ints
from muster.schedulers.allocation.gangs import Gangs
from muster.schedulers.allocation.placement_draft import PlacementDraft
from muster.schedulers.allocation.worth import ForRunning

def worth_of(
    books: Books,
    index: Ints,
    gangs: Gangs,
    plan: PlacementDraft,
    lost: Floats,
    resize_restarts: bool,
    running: ForRunning,
) -> float: ...
