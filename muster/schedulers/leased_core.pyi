from muster.cluster.ledger_arrays import Books, Bools, Floats, Ints
from muster.workload.jobs import AskedArray, FactArray

def new_lease_ends(
    books: Books,
    asked: AskedArray,
    facts: FactArray,
    jobs: Ints,
    now: float,
    lease: float,
    open_ended: bool,
) -> tuple[Ints, Floats]: ...
def find_bidders(facts: FactArray, jobs: Ints, now: float, lease: float) -> tuple[Ints, Bools, Floats]: ...
def end_leases(books: Books, jobs: Ints, bidders: Ints, ended: Bools, released: Ints) -> None: ...
def mark_content(
    books: Books,
    again: Ints,
    released: Ints,
    kinds: Ints,
    speeds: Floats,
    costs: Floats,
    lease: float,
    content: Bools,
) -> None: ...
def go_on_if_unused(books: Books, jobs: Ints, stopped: Ints, released: Ints, codes: Ints) -> None: ...
def lower_to(books: Books, jobs: Ints, resource_options: Ints) -> None: ...
