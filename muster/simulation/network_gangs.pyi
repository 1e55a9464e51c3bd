from muster.cluster.ledger_arrays import Books, Bools, Ints
from muster.workload.jobs import AskedArray, FactArray

def put_by_journal(
    books: Books, asked: AskedArray, facts: FactArray, sensitive: Bools, scratch: Ints
) -> tuple[int, int]: ...
def on_machines(
    books: Books, asked: AskedArray, active: Ints, sensitive: Bools, scratch: Ints, at_least: int
) -> tuple[int, int]: ...
