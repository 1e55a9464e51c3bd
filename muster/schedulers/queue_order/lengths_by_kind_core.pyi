from muster.cluster.ledger_arrays import Floats, Ints
from muster.workload.jobs import AskedArray

def number_kinds(asked: AskedArray, index: Ints) -> tuple[Ints, Ints, Ints, Ints]: ...
def chances_to_end(
    ended: Ints, prior: Floats, wider: Ints, kinds: Ints, ages: Ints, weight: float
) -> Floats: ...
