from muster.cluster.ledger_arrays import Floats, Ints
from muster.speed.input_pipeline import ModelTable

def local_batches(models: ModelTable, numbers: Ints, asked_per_held: Floats) -> Floats: ...
def input_seconds(
    models: ModelTable,
    numbers: Ints,
    samples: Floats,
    cpus: Floats,
    memory_gb: Floats,
    storage_gb_per_s: Floats,
) -> Floats: ...
def input_needs(
    models: ModelTable, numbers: Ints, samples: Floats, seconds: Floats
) -> tuple[Floats, Floats]: ...
