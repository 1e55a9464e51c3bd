from muster.schedulers.allocation.gangs import Gangs
from muster.schedulers.allocation.placement_draft import PlacementDraft

def share_with_gangs(draft: PlacementDraft, gangs: Gangs) -> None: ...
