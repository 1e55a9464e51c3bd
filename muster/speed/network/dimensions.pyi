import numpy as np

from muster.cluster.ledger_arrays import Floats, Ints
from muster.speed.network.placement import Shapes

FLAVOURS: tuple[str, ...]
PHYSICAL: int
ASTRA: int
ISLAND: int
NODE: int
RACK: int
CLUSTER: int
ASTRA_GB_PER_S: float

def dimensions(
    flavour: int, shape: np.void | Shapes, level_gb_per_s: Floats, hop_seconds: Floats
) -> tuple[Ints, Floats, Floats]: ...
def astra_sizes(shape: np.void | Shapes) -> tuple[Ints, Ints]: ...
def astra_links(level: int, size: int) -> int: ...
