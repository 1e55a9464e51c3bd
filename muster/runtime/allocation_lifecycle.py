"""What both worlds do with a plan and with time: settle work, start, move, resize and stop jobs, close records.

Compiled, because it runs at every event. A job's facts are settled only when its rate changes, so that
they do not depend on how often anybody looked.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from muster.cluster.ledger_arrays import (
    DELAYED,
    ENTRIES,
    PUT,
    SERVER,
    Books,
    Bools,
    Floats,
    Ints,
    RowArray,
    carry_out,
    discharge,
    drop_rows,
    release_job,
    undo_to,
)
from muster.cluster.resources import RESOURCE_COUNT
from muster.cluster.structured import Structured
from muster.compiling import njit
from muster.schedulers.reasons import NODE_FAILED, NOT_CONSIDERED
from muster.speed.input_pipeline import ModelTable
from muster.speed.rates import iteration_seconds, note_busy, stage_seconds
from muster.workload.jobs import COMPLETED, RUNNING, TIMED_OUT, WAITING, AskedArray, FactArray

HELD = np.dtype(
    [
        ("job", np.int64),
        ("node", np.int64),
        ("mask", np.int64),
        ("milli", np.int64),
        ("amount", np.int64, (RESOURCE_COUNT,)),
        ("role", np.int64),
        ("group", np.int64),
        ("from", np.float64),
        ("to", np.float64),
    ]
)
HeldArray: TypeAlias = Structured[
    Literal["job", "node", "mask", "milli", "amount", "role", "group", "from", "to"]
]
"""A stretch of time in which a job held something on a node."""

PENDING_INTERVAL = np.dtype(
    [
        ("job", np.int64),
        ("code", np.int64),
        ("a", np.float64),
        ("b", np.float64),
        ("from", np.float64),
        ("to", np.float64),
    ]
)
PendingArray: TypeAlias = Structured[Literal["job", "code", "a", "b", "from", "to"]]
"""A stretch of time in which a job waited for one reason."""

RESTART_MODEL = np.dtype(
    [
        ("resize_restarts", np.int64),  # whether a change of CPU, memory or storage alone restarts a job
        ("whole_round", np.float64),  # seconds of a round that executes whole iterations only; 0: continuous
        ("checkpoint_every", np.float64),  # productive seconds between checkpoints
    ]
)
RestartModel: TypeAlias = Structured[Literal["resize_restarts", "whole_round", "checkpoint_every"]]
"""How a world charges restarts and counts progress; an array of one record."""

_INSTANT = 1e-6
"""Seconds of work that rounding may leave."""
_SMALLEST_RATE = 1e-300

STARTED, STOPPED, CHANGED, HELD_ROWS, RELEASES, IN_TURNS = 0, 1, 2, 3, 4, 5
"""Places in `Outcome.counts`."""

_UNCHANGED = -2
"""In the place of a chain of rows: the journal says nothing of the job."""


class LifecycleReport(NamedTuple):
    """What the kernels that start and stop jobs report; each has room for all that is held when they begin."""

    held: HeldArray
    """The allocation intervals that end, as HELD."""
    releases: Ints
    """The chains whose resources stay unavailable for a while."""
    counts: Ints
    """Jobs started, stopped and changed, entries used of the two above, and whether jobs take turns on GPUs."""


@njit(cache=True)
def settle(facts: FactArray, job: int, now: float, laws: RestartModel) -> None:
    """Bring a running job's work, service and stage seconds up to now."""
    fact = facts[job]
    elapsed = now - fact["settled"]
    productive = min(elapsed, max(now - fact["resumes"], 0.0))
    gained = fact["rate"] * productive
    if laws[0]["whole_round"] > 0:
        gained = np.rint(gained)
    every = laws[0]["checkpoint_every"]
    if every < np.inf:
        last_checkpoint = fact["resumes"] + np.floor(max(now - fact["resumes"], 0.0) / every) * every
        if last_checkpoint > max(fact["settled"], fact["resumes"]):
            fact["saved"] = fact["done"] + fact["rate"] * (
                last_checkpoint - max(fact["settled"], fact["resumes"])
            )
    fact["done"] += gained
    fact["attained"] += fact["held"] * elapsed
    fact["run"] += elapsed
    fact["restart"] += elapsed - productive
    fact["input"] += productive * fact["input_share"]
    fact["communication"] += productive * fact["communication_share"]
    fact["compute"] += productive * (1 - fact["input_share"] - fact["communication_share"])
    fact["settled"] = now


@njit(cache=True)
def set_rate(
    books: Books,
    asked: AskedArray,
    facts: FactArray,
    job: int,
    models: ModelTable,
    now: float,
    laws: RestartModel,
) -> None:
    """Work out a job's speed on what it holds, and when it will be done at that speed or its time limit is over."""
    ask, fact = asked[job], facts[job]
    input_seconds, compute, communication, gpus, iterations = stage_seconds(
        books, books.heads[job], models, asked, job, fact["exposed"]
    )
    seconds = iteration_seconds(input_seconds, compute, communication)
    fact["held"] = gpus
    if (gpus > 0 or ask["gpus"] == 0) and seconds > 0 and seconds < np.inf:
        fact["rate"] = iterations / seconds
        fact["input_share"] = max(seconds - compute - communication, 0.0) / seconds
        fact["communication_share"] = communication / seconds
    else:
        fact["rate"] = 0.0
        fact["input_share"] = 1.0
        fact["communication_share"] = 0.0
    begins = max(now, fact["resumes"])
    left = ask["iterations"] - fact["done"]
    whole_round = laws[0]["whole_round"]
    if whole_round > 0:
        a_round = np.floor(fact["rate"] * whole_round + 1e-9)
        fact["rate"] = a_round / whole_round
        fact["finish"] = begins + np.ceil(left / a_round) * whole_round if a_round > 0 else np.inf
    else:
        fact["finish"] = begins + left / fact["rate"] if fact["rate"] > 0 else np.inf
    fact["finish"] = min(fact["finish"], max(now + ask["time_limit"] - fact["run"], now))


@njit(cache=True)
def _close_rows(books: Books, chain: int, now: float, outcome: LifecycleReport) -> None:
    """Write what a chain held until now into the record."""
    held, counts = outcome.held, outcome.counts
    while chain >= 0:
        row = books.rows[chain]
        if now > row["since"]:
            line = held[counts[HELD_ROWS]]
            line["job"] = row["job"]
            line["node"] = row["node"]
            line["mask"] = row["mask"]
            line["milli"] = row["milli"]
            for resource in range(RESOURCE_COUNT):
                line["amount"][resource] = row["amount"][resource]
            line["role"] = row["role"]
            line["group"] = row["group"]
            line["from"] = row["since"]
            line["to"] = now
            counts[HELD_ROWS] += 1
        chain = row["next"]


@njit(cache=True)
def _moved(books: Books, one: int, other: int) -> bool:
    """Whether two chains differ in their GPUs or their servers, and not only in CPU, memory or storage."""
    while one >= 0 and other >= 0:
        a, b = books.rows[one], books.rows[other]
        if a["node"] != b["node"] or a["mask"] != b["mask"] or a["milli"] != b["milli"]:
            return True
        if a["role"] != b["role"] or (a["role"] == SERVER and a["amount"][1] != b["amount"][1]):
            return True
        one, other = a["next"], b["next"]
    return one >= 0 or other >= 0


@njit(cache=True)
def broken_gang(asked: AskedArray, jobs: Ints, first: Ints, rows: RowArray) -> int:
    """The first of the changed jobs that would hold fewer or more GPUs than it can run on; -1: none."""
    for at in range(len(jobs)):
        if first[at] == first[at + 1]:
            continue
        milli = 0
        for place in range(first[at], first[at + 1]):
            milli += rows[place]["amount"][0] // 1000
        job: int = jobs[at]
        ask = asked[job]
        if milli < ask["min_gpus"] * ask["milli"] or milli > ask["max_gpus"] * ask["milli"]:
            return job
    return -1


@njit(cache=True)
def place_changes(
    books: Books, asked: AskedArray, jobs: Ints, first: Ints, rows: RowArray
) -> tuple[int, int]:
    """Carry the changes of a decision out in the ledger, journalled; 0, or why they do not fit with all undone.

    The second number is the first job whose gang would not be whole; nothing is done then. -1: there is none.
    """
    broken = broken_gang(asked, jobs, first, rows)
    if broken >= 0:
        return 0, broken
    refusal = carry_out(books, jobs, first, rows)
    if refusal < 0:
        undo_to(books, 0)
    return refusal, -1


@njit(cache=True)
def settle_journal(
    books: Books,
    asked: AskedArray,
    facts: FactArray,
    models: ModelTable,
    now: float,
    laws: RestartModel,
    before: Ints,
    outcome: LifecycleReport,
) -> None:
    """Make what `carry_out` left in the ledger's journal true: stop, start, move, resize.

    `before` is scratch, a place a job, all -2.
    """
    _note_chains_before(books, before)
    for at in range(books.totals[ENTRIES]):
        job: int = books.journal[at]["job"]
        old, new = before[job], books.heads[job]
        if old == _UNCHANGED:
            continue
        before[job] = _UNCHANGED
        if old >= 0:
            settle(facts, job, now, laws)
            _close_rows(books, old, now, outcome)
        if new >= 0:
            _open_rows(books, new, now, outcome)
            facts[job]["settled"] = now
            if old < 0:
                _start(facts, job, now, outcome)
            else:
                _change(facts, job, now, _moved(books, old, new), laws, outcome)
            set_rate(books, asked, facts, job, models, now, laws)
        elif old >= 0:
            outcome.counts[STOPPED] += 1
            facts[job]["preemptions"] += 1
            _stop(facts, job, now, WAITING)
        if old >= 0:
            _release_rows(books, old, outcome)
    books.totals[ENTRIES] = 0


@njit(cache=True)
def _note_chains_before(books: Books, before: Ints) -> None:
    """For each job in the journal the chain that it held before the first entry; -1: none."""
    for at in range(books.totals[ENTRIES]):
        entry = books.journal[at]
        if before[entry["job"]] == _UNCHANGED:
            before[entry["job"]] = -1 if entry["kind"] == PUT else entry["chain"]


@njit(cache=True)
def _open_rows(books: Books, chain: int, now: float, outcome: LifecycleReport) -> None:
    """The intervals of a chain begin now."""
    while chain >= 0:
        books.rows[chain]["since"] = now
        if books.rows[chain]["group"] >= 0:
            outcome.counts[IN_TURNS] = 1
        chain = books.rows[chain]["next"]


@njit(cache=True)
def _release_rows(books: Books, chain: int, outcome: LifecycleReport) -> None:
    """Drop the rows of a chain that is not held any more, or report it where its release takes time."""
    if books.totals[DELAYED]:
        outcome.releases[outcome.counts[RELEASES]] = chain
        outcome.counts[RELEASES] += 1
    else:
        drop_rows(books, chain)


@njit(cache=True)
def _start(facts: FactArray, job: int, now: float, outcome: LifecycleReport) -> None:
    """A job that held nothing starts; from its second start on it pays for a restart."""
    fact = facts[job]
    outcome.counts[STARTED] += 1
    if np.isnan(fact["first_start"]):
        fact["first_start"] = now
        fact["resumes"] = now
    else:
        _restart(facts, job, now)
    fact["last_start"] = now
    fact["state"] = RUNNING


@njit(cache=True)
def _change(
    facts: FactArray, job: int, now: float, moved: bool, laws: RestartModel, outcome: LifecycleReport
) -> None:
    """A running job holds something else from now on; it pays for a restart if it moves or the laws say so."""
    outcome.counts[CHANGED] += 1
    if moved:
        facts[job]["moves"] += 1
    if moved or laws[0]["resize_restarts"] != 0:
        _restart(facts, job, now)


@njit(cache=True)
def _restart(facts: FactArray, job: int, now: float) -> None:
    """A job saves what it has done and makes no progress until its restart is over."""
    facts[job]["resumes"] = now + facts[job]["restart_cost"]
    facts[job]["saved"] = facts[job]["done"]


@njit(cache=True)
def refresh_turns(
    books: Books,
    asked: AskedArray,
    facts: FactArray,
    active: Ints,
    models: ModelTable,
    now: float,
    laws: RestartModel,
) -> None:
    """Settle and re-rate the jobs that share GPUs, whose speed depends on who the others are."""
    note_busy(books, asked, facts, active, models)
    for job in active:
        head = books.heads[job]
        if head >= 0 and books.rows[head]["group"] >= 0:
            settle(facts, job, now, laws)
            set_rate(books, asked, facts, job, models, now, laws)


@njit(cache=True)
def expose(
    books: Books,
    asked: AskedArray,
    facts: FactArray,
    jobs: Ints,
    exposed: Floats,
    models: ModelTable,
    now: float,
    laws: RestartModel,
) -> None:
    """Settle and re-rate the jobs whose communication has changed because their neighbours did."""
    for at in range(len(jobs)):
        job = jobs[at]
        if facts[job]["exposed"] != exposed[at]:
            settle(facts, job, now, laws)
            facts[job]["exposed"] = exposed[at]
            set_rate(books, asked, facts, job, models, now, laws)


@njit(cache=True)
def _stop(facts: FactArray, job: int, now: float, state: int) -> None:
    fact = facts[job]
    fact["state"] = state
    fact["held"] = 0.0
    fact["rate"] = 0.0
    fact["last_stop"] = now
    fact["lease_end"] = np.inf
    fact["saved"] = fact["done"]
    if state == WAITING:
        fact["finish"] = np.inf


@njit(cache=True)
def close_job(books: Books, job: int, now: float, outcome: LifecycleReport) -> None:
    """Close what a job holds and give it back, outside any decision."""
    chain = books.heads[job]
    _close_rows(books, chain, now, outcome)
    release_job(books, job)
    books.totals[ENTRIES] = 0
    _release_rows(books, chain, outcome)


@njit(cache=True)
def end_lease(
    books: Books, facts: FactArray, job: int, now: float, laws: RestartModel, outcome: LifecycleReport
) -> None:
    """Take what a job holds back at the end of its lease; it waits for the next offer."""
    settle(facts, job, now, laws)
    close_job(books, job, now, outcome)
    facts[job]["preemptions"] += 1
    _stop(facts, job, now, WAITING)
    facts[job]["reason"] = NOT_CONSIDERED
    facts[job]["reason_since"] = now


@njit(cache=True)
def complete_due(
    books: Books,
    asked: AskedArray,
    facts: FactArray,
    active: Ints,
    now: float,
    laws: RestartModel,
    outcome: LifecycleReport,
) -> int:
    """End the running jobs whose work is done or whose time limit is over by now, each at its own time.

    Returns how many are left active; `active` is compacted in place.
    """
    left = 0
    for at in range(len(active)):
        job = active[at]
        fact = facts[job]
        if fact["state"] == RUNNING and fact["finish"] <= now:
            finish = fact["finish"]
            settle(facts, job, finish, laws)
            left_seconds = (asked[job]["iterations"] - fact["done"]) / max(fact["rate"], _SMALLEST_RATE)
            completed = asked[job]["time_limit"] == np.inf or left_seconds <= _INSTANT
            if completed:
                fact["done"] = asked[job]["iterations"]
            close_job(books, job, finish, outcome)
            _stop(facts, job, finish, COMPLETED if completed else TIMED_OUT)
        else:
            active[left] = job
            left += 1
    return left


@njit(cache=True)
def lose_node(
    books: Books,
    facts: FactArray,
    active: Ints,
    node: int,
    now: float,
    laws: RestartModel,
    outcome: LifecycleReport,
) -> None:
    """Stop every job that holds something on a failed node; each falls back to its last checkpoint."""
    for job in active:
        row = books.heads[job]
        hit = False
        while row >= 0:
            hit = hit or books.rows[row]["node"] == node
            row = books.rows[row]["next"]
        if hit:
            settle(facts, job, now, laws)
            facts[job]["done"] = facts[job]["saved"]
            chain = books.heads[job]
            _close_rows(books, chain, now, outcome)
            row = chain
            while row >= 0:
                discharge(books, row)
                row = books.rows[row]["next"]
            books.heads[job] = -1
            drop_rows(books, chain)
            facts[job]["preemptions"] += 1
            outcome.counts[STOPPED] += 1
            _stop(facts, job, now, WAITING)
            facts[job]["reason"] = NODE_FAILED
            facts[job]["reason_since"] = now


@njit(cache=True)
def next_times(facts: FactArray, active: Ints, measured: Bools) -> tuple[float, float, float]:
    """The next completion, the next lease end, and the end of the last measured job if all of them run."""
    finish = lease_end = np.inf
    last = -np.inf
    for job in active:
        fact = facts[job]
        if fact["state"] == RUNNING:
            done: float = fact["finish"]
            leased: float = fact["lease_end"]
            finish = min(finish, done)
            lease_end = min(lease_end, leased)
            if measured[job]:
                last = max(last, done)
        elif measured[job]:
            last = np.inf
    return finish, lease_end, last


@njit(cache=True)
def note_reasons(
    facts: FactArray, index: Ints, codes: Ints, a: Floats, b: Floats, now: float, explained: PendingArray
) -> int:
    """Write down the reasons that changed; how many stretches ended."""
    ended = 0
    for at in range(len(index)):
        fact = facts[index[at]]
        if fact["reason"] == codes[at]:
            continue
        if fact["reason"] > 0 and now > fact["reason_since"]:
            line = explained[ended]
            line["job"] = index[at]
            line["code"] = fact["reason"]
            line["a"] = fact["reason_a"]
            line["b"] = fact["reason_b"]
            line["from"] = fact["reason_since"]
            line["to"] = now
            ended += 1
        fact["reason"] = codes[at]
        fact["reason_a"] = a[at]
        fact["reason_b"] = b[at]
        fact["reason_since"] = now
    return ended
