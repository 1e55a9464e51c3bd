from muster.cluster.ledger_arrays import Books, Bools, Floats, Ints, RowArray
from muster.runtime.allocation_lifecycle import LifecycleReport, PendingArray, RestartModel
from muster.speed.input_pipeline import ModelTable
from muster.workload.jobs import AskedArray, FactArray

def settle(facts: FactArray, job: int, now: float, laws: RestartModel) -> None: ...
def set_rate(
    books: Books,
    asked: AskedArray,
    facts: FactArray,
    job: int,
    models: ModelTable,
    now: float,
    laws: RestartModel,
) -> None: ...
def broken_gang(asked: AskedArray, jobs: Ints, first: Ints, rows: RowArray) -> int: ...
def place_changes(
    books: Books, asked: AskedArray, jobs: Ints, first: Ints, rows: RowArray
) -> tuple[int, int]: ...
def settle_journal(
    books: Books,
    asked: AskedArray,
    facts: FactArray,
    models: ModelTable,
    now: float,
    laws: RestartModel,
    before: Ints,
    outcome: LifecycleReport,
) -> None: ...
def refresh_turns(
    books: Books,
    asked: AskedArray,
    facts: FactArray,
    active: Ints,
    models: ModelTable,
    now: float,
    laws: RestartModel,
) -> None: ...
def expose(
    books: Books,
    asked: AskedArray,
    facts: FactArray,
    jobs: Ints,
    exposed: Floats,
    models: ModelTable,
    now: float,
    laws: RestartModel,
) -> None: ...
def close_job(books: Books, job: int, now: float, outcome: LifecycleReport) -> None: ...
def end_lease(
    books: Books, facts: FactArray, job: int, now: float, laws: RestartModel, outcome: LifecycleReport
) -> None: ...
def complete_due(
    books: Books,
    asked: AskedArray,
    facts: FactArray,
    active: Ints,
    now: float,
    laws: RestartModel,
    outcome: LifecycleReport,
) -> int: ...
def lose_node(
    books: Books,
    facts: FactArray,
    active: Ints,
    node: int,
    now: float,
    laws: RestartModel,
    outcome: LifecycleReport,
) -> None: ...
def next_times(facts: FactArray, active: Ints, measured: Bools) -> tuple[float, float, float]: ...
def note_reasons(
    facts: FactArray, index: Ints, codes: Ints, a: Floats, b: Floats, now: float, explained: PendingArray
) -> int: ...
