"""Why a job waits, in words: from the decision record, and from a simulation of the queue as it is now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from muster.service.board import Board
from muster.service.forecast import GUESSED_SECONDS, Forecast, NoForecast, forecast
from muster.service.store import Store
from muster.service.store.rows import ENDED, Holding, JobRow, Phase, State, Wish
from muster.service.waiting import reason_in_words
from muster.words import duration

_NAMED_AT_MOST = 5


@dataclass(frozen=True)
class Why:
    """An answer to `muster why`."""

    job_id: int
    state: str
    sentences: list[str]
    reason: str
    parameters: Mapping[str, float]
    ahead: list[int] = field(default_factory=list)
    """Waiting jobs that are expected to start before it."""
    holders: list[int] = field(default_factory=list)
    """Jobs that hold GPUs now."""
    estimated_start_seconds: float | None = None
    """From now; None: not known, or it runs."""

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)


def why(store: Store, board: Board, job: int) -> Why | None:
    """Why a job is where it is; None: there is no such job."""
    row = store.job(job)
    if row is None:
        return None
    if row.state is not State.QUEUED or row.wish is not None:
        return Why(row.id, row.state, _not_waiting(row, store), row.reason, row.reason_parameters)
    living = store.living()
    held = store.holdings(open_only=True)
    expected, obstacle = None, ""
    try:
        expected = forecast(living, board)
    except NoForecast as no:
        obstacle = str(no)
    holders = sorted({holding.job for holding in held})
    ahead = _ahead(row, living, expected)
    start = None if expected is None else expected.starts.get(row.id)
    sentences = [
        f"Job {row.id} ({row.request.name}, {_gpus(row)}) has waited {duration(_waited(row, store.now()))}"
        f"{_last_ran(row)}.",
        f"{_sentence(row)}.",
        *_who_holds(held, living, board),
        *_who_is_ahead(ahead, board),
        *_what_would_help(row, expected, holders),
        f"When it starts cannot be estimated: {obstacle}."
        if expected is None
        else _when(start, expected, board),
    ]
    return Why(row.id, row.state, sentences, row.reason, row.reason_parameters, ahead, holders, start)


def _not_waiting(row: JobRow, store: Store) -> list[str]:
    """About a job that runs, is held, has ended, or is about to."""
    name = f"Job {row.id} ({row.request.name})"
    if row.wish is Wish.CANCEL:
        return [f"{name} is being cancelled: it has been asked to end."]
    if row.state in ENDED:
        return [f"{name} does not wait: it has {_ended_how(row)}."]
    if row.state is State.HELD or row.wish is Wish.HOLD:
        return [f"{name} is held; it competes again after `muster release {row.id}`."]
    if row.phase is Phase.STOPPING:
        return [
            f"{name} has been asked to stop and saves its work; it goes on where the scheduler puts it next."
        ]
    where = ", ".join(
        f"{holding.node} (GPU {', '.join(map(str, holding.gpus))}; {holding.cpus:g} CPU, "
        f"{holding.memory_gb:.3g} GB)"
        for holding in store.holdings(row.id, open_only=True)
    )
    since = duration(store.now() - (row.last_start or row.submitted))
    return [f"{name} does not wait: it has run for {since} on {where or 'its machine'}."]


def _ended_how(row: JobRow) -> str:
    if row.state is State.COMPLETED:
        return "completed"
    if row.state is State.CANCELLED:
        return "been cancelled"
    return f"failed: {row.message}" if row.message else "failed"


def _waited(row: JobRow, now: float) -> float:
    return now - (row.submitted if row.last_stop is None else row.last_stop)


def _last_ran(row: JobRow) -> str:
    return (
        ""
        if row.last_stop is None
        else f" since it was stopped, after {duration(row.run_seconds)} of running"
    )


def _sentence(row: JobRow) -> str:
    """The scheduler's own reason."""
    words = reason_in_words(row)
    if row.deaths:
        words += f"; its last {row.deaths} starts ended without progress, so the next one is delayed"
    return words[0].upper() + words[1:]


def _gpus(row: JobRow) -> str:
    gpus = row.request.gpus * row.request.gpu_share
    return f"{gpus:g} GPU" + ("s" if gpus > 1 else "")


def _listed(jobs: Sequence[int], names: Mapping[int, str]) -> str:
    told = [f"{job}{names.get(job, '')}" for job in jobs[:_NAMED_AT_MOST]]
    more = len(jobs) - len(told)
    return ", ".join(told) + (f" and {more} more" if more else "")


def _who_holds(held: Sequence[Holding], living: Sequence[JobRow], board: Board) -> list[str]:
    if not held:
        return ["Nobody holds any GPU now."]
    gpus: dict[int, float] = {}
    for holding in held:
        gpus[holding.job] = gpus.get(holding.job, 0.0) + len(holding.gpus) * holding.gpu_milli / 1000
    owners = {row.id: row for row in living}
    names = {job: f" ({owners[job].request.name}, {count:g})" for job, count in gpus.items() if job in owners}
    most = sorted(gpus, key=lambda job: (-gpus[job], job))
    total = f"{sum(gpus.values()):g} of {board.cluster.total_gpus} GPUs are held"
    return [f"{total}, by {'job' if len(most) == 1 else 'jobs'} {_listed(most, names)}."]


def _ahead(row: JobRow, living: Sequence[JobRow], expected: Forecast | None) -> list[int]:
    if expected is None or row.id not in expected.starts:
        return []
    mine = expected.starts[row.id]
    waiting = {other.id for other in living if other.state is State.QUEUED and other.id != row.id}
    before = [(start, job) for job, start in expected.starts.items() if job in waiting and start < mine]
    return [job for _, job in sorted(before)]


def _who_is_ahead(ahead: Sequence[int], board: Board) -> list[str]:
    if not ahead:
        return [f"Nobody who waits is served before it by {board.scheduler}."]
    noun = "job" if len(ahead) == 1 else "jobs"
    return [f"{board.scheduler} serves {len(ahead)} waiting {noun} before it: {_listed(ahead, {})}."]


def _what_would_help(row: JobRow, expected: Forecast | None, holders: Sequence[int]) -> list[str]:
    """The ends of running jobs that come before its start."""
    if expected is None or row.id not in expected.starts:
        return []
    start = expected.starts[row.id]
    ends = sorted((expected.ends[job], job) for job in holders if expected.ends.get(job, start + 1) <= start)
    if not ends:
        return []
    end, job = ends[-1]
    return [f"What has to happen first: job {job} ends, in about {duration(end)}."]


def _when(start: float | None, expected: Forecast, board: Board) -> str:
    if start is None:
        return (
            "A simulation of the present queue never starts it: no machine that it may use is large enough."
        )
    guess = ""
    if expected.guessed:
        noun = "job that does" if expected.guessed == 1 else "jobs that do"
        guess = (
            f"; {expected.guessed} {noun} not say its steps taken to last {duration(GUESSED_SECONDS)} more"
        )
    when = "at the next decision" if start < board.round_seconds / 2 else f"in about {duration(start)}"
    return f"It is expected to start {when} (a simulation of the present queue{guess})."
