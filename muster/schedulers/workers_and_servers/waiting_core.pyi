from muster.cluster.ledger_arrays import Bools, Floats, Ints
from muster.schedulers.workers_and_servers.sizing_problem import SizingProblem
from muster.schedulers.workers_and_servers.waiting import Charges, Waiting

FIRST_SLOT_SECONDS: float
SIZES: int
IDLE: float

def spread(job: Ints, seconds: Floats, held: Bools) -> Ints: ...
def charges(
    question: SizingProblem,
    job: Ints,
    workers: Ints,
    servers: Ints,
    seconds: Floats,
    hysteresis: float,
    resources: int,
) -> tuple[Floats, Floats, Floats, Bools]: ...
def boundaries_of(job_count: int, job: Ints, usage: Floats, left: Floats, capacity: Floats) -> Floats: ...
def starts_ahead(
    question: SizingProblem,
    job: Ints,
    usage: Floats,
    now_left: Floats,
    later_left: Floats,
    boundaries: Floats,
) -> tuple[Floats, Floats, Floats]: ...
def profits(question: SizingProblem, job: Ints, charged: Charges, ahead: Waiting) -> Floats: ...
