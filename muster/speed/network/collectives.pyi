from muster.cluster.ledger_arrays import Floats, Ints

ALGORITHMS: tuple[str, ...]
HIERARCHIES: tuple[str, ...]
RING: int
HALVING_DOUBLING: int
DIRECT: int
DOUBLE_BINARY_TREE: int
BASELINE: int
BANDWIDTH_AWARE: int

def all_reduce(algorithm: int, gpus: int, hop_seconds: float, gb_per_s: float) -> tuple[float, float]: ...
def stack(
    algorithm: int, hierarchy: int, sizes: Ints, hop_seconds: Floats, gb_per_s: Floats
) -> tuple[Floats, Floats]: ...
