from muster.cluster.ledger_arrays import Ints
from muster.schedulers.workers_and_servers.optimus import SizingColumns

def marginal_gains(jobs: SizingColumns, workers: Ints, servers: Ints) -> None: ...
