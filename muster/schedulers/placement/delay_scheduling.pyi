from muster.cluster.ledger_arrays import Books, Bools, Floats, Ints
from muster.schedulers.placement.job_columns import JobColumns, ReasonColumns

NOWHERE: int
ISLAND: int
MACHINE: int
RACK: int
NETWORK: int

class Competitors:
    def __init__(
        self,
        since: Floats,
        machine_seconds: Floats,
        rack_seconds: Floats,
        urgent: Bools,
        released: Ints,
        content: Bools,
    ) -> None: ...

class LeaseTerms:
    def __init__(self, now: float, lease_seconds: float, pause_seconds: float, published: bool) -> None: ...

def allocate_by_locality(
    books: Books,
    jobs: JobColumns,
    ranked: Ints,
    begin: int,
    competitors: Competitors,
    resource_options: Ints,
    terms: LeaseTerms,
    reasons: ReasonColumns,
) -> tuple[int, int, float]: ...
def runs_out_at(since: float, seconds: float) -> float: ...
def level_of(books: Books, chain: int) -> int: ...
def fit_by_rack(books: Books, allowed: Bools, need: Ints, fit: Ints, racks: Ints) -> None: ...
def find_rack(books: Books, fit: Ints, racks: Ints, gpus: int, published: bool) -> int: ...
