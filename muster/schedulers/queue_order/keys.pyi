from muster.cluster.ledger_arrays import Books, Floats, Ints
from muster.speed.input_pipeline import ModelTable
from muster.workload.jobs import AskedArray, FactArray

def best_rates(edges: Floats, chances: Floats, kinds: Ints, ages: Ints, start_up: Floats) -> Floats: ...
def seconds_to_level(
    levels: Floats,
    falls: bool,
    asked: AskedArray,
    facts: FactArray,
    index: Ints,
    attained: Floats,
    running: Ints,
) -> float: ...
def network_sensitivity(
    asked: AskedArray, facts: FactArray, index: Ints, now: float
) -> tuple[Floats, Floats]: ...
def seconds_an_iteration(
    books: Books, index: Ints, gpus: Ints, model: Ints, models: ModelTable, best: Floats
) -> Floats: ...
