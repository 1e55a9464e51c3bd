from muster.cluster.ledger_arrays import Floats, Ints
from muster.speed.network.placement import Shapes

EVEN_ISLANDS: int
EVEN_MACHINES: int
EVEN_RACKS: int

def fill_shapes(
    first: Ints,
    nodes: Ints,
    gpu_bits: Ints,
    rack_of: Ints,
    gpus_per_island: Ints,
    uplink: Floats,
    shapes: Shapes,
) -> None: ...
def crossings(first: Ints, nodes: Ints, rack_of: Ints, uplinks: int) -> tuple[Ints, Ints]: ...
def loads(first: Ints, nodes: Ints, gpu_bits: Ints, shapes: Shapes, rack_of: Ints) -> Floats: ...
