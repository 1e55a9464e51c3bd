from typing import Any

from muster.cluster.ledger_arrays import Floats, Ints
from muster.speed.network.placement import Shapes
from muster.speed.network.speed import StageArray

def fill_stages(
    arrays: tuple[Any, ...],
    how: tuple[Any, ...],
    models: Ints,
    shapes: Shapes,
    stretched: Floats,
    stages: StageArray,
) -> None: ...
def fill_contended(
    arrays: tuple[Any, ...],
    how: tuple[Any, ...],
    models: Ints,
    shapes: Shapes,
    stretched: Floats,
    compute_seconds: Floats,
    uplinks: tuple[Ints, Ints, Floats, Floats],
    stages: StageArray,
) -> None: ...
