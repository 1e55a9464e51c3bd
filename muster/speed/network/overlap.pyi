from muster.cluster.ledger_arrays import Floats

MOST_DIMENSIONS: int

def exposed_seconds(
    compute_seconds: float,
    ready_seconds: Floats,
    gradient_gb: Floats,
    update_seconds: Floats,
    latency_seconds: Floats,
    seconds_per_gb: Floats,
) -> float: ...
