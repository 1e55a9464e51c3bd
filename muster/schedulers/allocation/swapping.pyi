from muster.cluster.ledger_arrays import Ints
from muster.schedulers.allocation.gangs import Gangs
from muster.schedulers.allocation.placement_draft import PlacementDraft

def swap_jobs(
    draft: PlacementDraft, gangs: Gangs, served: Ints, wanted: Ints, of_kind: Ints, tries: int
) -> None: ...
