from muster.cluster.ledger_arrays import Books, Bools, Ints
from muster.schedulers.placement.job_columns import JobColumns
from muster.schedulers.workers_and_servers.tasks import NetworkCards, Tasks
from muster.workload.jobs import AskedArray

def place_tasks(books: Books, jobs: JobColumns, order: Ints, tasks: Tasks, cards: NetworkCards) -> Bools: ...
def held_sizes(books: Books, asked: AskedArray, index: Ints) -> tuple[Ints, Ints]: ...
