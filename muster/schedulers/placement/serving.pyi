from muster.cluster.ledger_arrays import Books, Bools, Ints
from muster.schedulers.placement.job_columns import JobColumns, ReasonColumns

def pick_from(free: int, gpus: int, island: int, count: int) -> int: ...
def place_job(
    books: Books, job: int, gang: tuple[int, int, int], allowed: Bools, need: Ints, rule: int
) -> bool: ...
def choose_in_order(
    books: Books,
    jobs: JobColumns,
    least: Ints | None,
    ranked: Ints,
    more: int,
    moves: bool,
    strict: bool,
    chosen: Bools,
) -> None: ...
def gpus_on_nodes_of(books: Books, jobs: JobColumns, first: int, others: Ints, held: Ints) -> int: ...
def serve(
    books: Books,
    jobs: JobColumns,
    ranked: Ints,
    chosen: Bools,
    resource_options: Ints,
    rules: Ints,
    strict: bool,
    reasons: ReasonColumns,
) -> None: ...
