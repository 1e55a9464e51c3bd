from muster.cluster.ledger_arrays import Bools, Floats, NodeArray
from muster.runtime.allocation_lifecycle import HeldArray
from muster.speed.input_pipeline import ModelTable
from muster.workload.jobs import AskedArray

def slowest_by_job(
    held: HeldArray, asked: AskedArray, node_allowed: Bools, models: ModelTable, nodes: NodeArray
) -> Floats: ...
