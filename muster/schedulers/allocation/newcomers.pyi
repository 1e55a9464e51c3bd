from muster.cluster.ledger_arrays import Ints
from muster.schedulers.allocation.gangs import Gangs
from muster.schedulers.allocation.placement_draft import PlacementDraft

def place_newcomers(draft: PlacementDraft, gangs: Gangs, served: Ints, ranked: Ints) -> None: ...
