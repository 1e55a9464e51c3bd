"""When waiting jobs start: simulations of a queue as it is, over durations drawn from what has ended.

A job that waits or runs takes a share of its time limit, as long as the jobs that ended took of theirs
(`muster.simulation.drawn_durations`); a running job at least as long as it has run. A job without a time limit takes
as long as one of those that ended, and one of which it is known how long it takes, takes that. Jobs that are yet to
come are drawn too: those of the recent past, at the rate of the recent past.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from muster.cluster import Cluster
from muster.cluster.ledger_arrays import Floats
from muster.cluster.portable_math import power
from muster.problems import InputError, Problem
from muster.schedulers.contract import Scheduler
from muster.schedulers.queue_order.multifactor import DECAY
from muster.simulation.drawn_durations import DurationUrns, PastDurations
from muster.simulation.options import Options
from muster.simulation.resumed import Place, ResumedScheduler, Resumption
from muster.simulation.simulate import Continued, simulate
from muster.workload.models import Model
from muster.workload.trace import trace_of

DRAWS = 40
FEWEST_DRAWS = 5
FEWEST_OF_INTERVAL = 9
"""Fewer draws reach no quantile of the interval."""
INTERVAL = (0.1, 0.9)
"""Quantiles of the drawn starts: the interval is to have the start in four of five cases.

Fewer than nine draws reach no such quantile: the interval is then from the least to the most of them.
"""
_LONGEST_PAST = 500
"""Newest jobs from which those to come are drawn."""
_TO_COME = 100
_STREAM = 0x57A27
_LEAST_SECONDS = 1.0
_ATTAINED, _BELIEVED = _OF_THE_QUEUE = ("attained_gpu_seconds", "believed_seconds")
_LIMIT_LEFT = "limit_left_seconds"
_ASKED = (
    "user",
    "tenant",
    "partition",
    "qos",
    "constraint",
    "gpus",
    "nodes",
    "cpus",
    "memory_gb",
    "priority",
)
OF_A_LOG = Options(
    restart_cost_seconds=0.0, skip_impossible=True, knowledge="limit", end_at_limit=True, records=False
)
"""How the queue of a log goes on: under Slurm, which goes by time limits."""


@dataclass(frozen=True)
class QueueState:
    """A cluster at one moment. Tables have the native columns of a trace.

    Tables of jobs that run and wait may have columns more. `known_seconds` has how long a job takes from now on; where
    it is null, that is drawn. `limit_left_seconds` has how long a running job may still run, where that is not its
    limit without what it has run. `attained_gpu_seconds` has what jobs have had, `believed_seconds` how long schedulers
    take them to be where that does not follow from the options.
    """

    now: float
    running: pl.DataFrame
    places: tuple[Place, ...]
    """Of the running jobs: positions of their nodes in the cluster, or what they hold; empty where it is not known."""
    waiting: pl.DataFrame
    ended: pl.DataFrame
    """Before now: what durations and jobs to come are drawn from."""
    asked: Sequence[str] = _ASKED
    """Columns that say what jobs ask for."""
    least_past_seconds: float = _LEAST_SECONDS
    """Over which the rate of submissions is taken at least."""
    of: Collection[str] | None = None
    """The jobs that are asked about: a draw ends with them, so few take less time. None: all that run and wait."""

    @cached_property
    def past(self) -> PastDurations:
        """How long the jobs that ended took."""
        return PastDurations(self.ended)

    @property
    def has_unknown(self) -> bool:
        """Whether a duration has to be drawn."""
        return any(_known(jobs).null_count() > 0 for jobs in (self.running, self.waiting))

    @property
    def draws_differ(self) -> bool:
        """Whether anything is drawn: durations, or jobs that are yet to come."""
        return self.has_unknown or not self.ended.is_empty()


@dataclass(frozen=True)
class StartEstimate:
    """When a job is expected to start: seconds from now."""

    low: float
    median: float
    high: float
    draws: int

    def later(self, seconds: float) -> StartEstimate:
        """The same start, counted from a later moment."""
        low, median, high = (max(start - seconds, 0.0) for start in (self.low, self.median, self.high))
        return StartEstimate(low, median, high, self.draws)

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        return {
            "low_seconds": self.low,
            "median_seconds": self.median,
            "high_seconds": self.high,
            "draws": self.draws,
        }


@dataclass(frozen=True)
class ExpectedQueue:
    """What is expected of a queue; seconds from its moment."""

    starts: Mapping[str, StartEstimate]
    """Of each waiting job that starts in every draw."""
    ends: Mapping[str, float]
    """Of each job, running or waiting, that ends in every draw, the median."""
    draws: int
    """How many there were."""


def smaller_sizes(gpus: int) -> list[int]:
    """Half of so many GPUs, and so on down to one."""
    return [gpus >> times for times in range(1, gpus.bit_length())]


def state_at(jobs: pl.DataFrame, now: float, places: Callable[[str], Sequence[int]]) -> QueueState:
    """The state that a log had at a moment; `places` gives the positions of the nodes of a host list."""
    known = jobs.filter((pl.col("submit_seconds") <= now) & (pl.col("gpus") > 0))
    started = (pl.col("start_seconds") <= now).fill_null(value=False)
    ended = (pl.col("end_seconds") <= now).fill_null(value=False)
    running = known.filter(started & ~ended)
    return QueueState(
        now,
        running,
        tuple(places(text) for text in running["node_list"].to_list()),
        known.filter(~started & ~ended),
        known.filter(started & ended),
    )


def last_tick(now: float, period_seconds: float, phase_seconds: float = 0.0) -> float:
    """The newest moment up to now at which usage was charged and priorities were computed."""
    return float(np.floor((now - phase_seconds) / period_seconds) * period_seconds + phase_seconds)


def usage_at(
    state: QueueState, half_life_seconds: float, period_seconds: float, phase_seconds: float = 0.0
) -> dict[str, float]:
    """GPU-seconds of each user as of the last tick, decayed, as Slurm counts them.

    At each tick the jobs that run then are charged for their time since the tick before, which decays by all of it.
    Between its last tick and its end a job is free; so is one that lives between two ticks.
    """
    jobs = pl.concat(
        [one.select("user", "gpus", "start_seconds", "end_seconds") for one in (state.ended, state.running)]
    )
    if jobs.is_empty():
        return {}
    start = np.floor(jobs["start_seconds"].to_numpy())
    end = jobs["end_seconds"].fill_null(np.inf).to_numpy()
    gpus = jobs["gpus"].to_numpy()
    names, user = np.unique(jobs["user"].to_numpy(), return_inverse=True)
    keep = 1 - DECAY / half_life_seconds
    used, before = np.zeros(len(names)), -np.inf
    tick = last_tick(float(start.min()), period_seconds, phase_seconds)
    while tick <= state.now:
        moment = np.floor(tick)
        runs = (jobs["start_seconds"].to_numpy() <= tick) & (end > tick)
        since = np.where(runs, moment - np.maximum(start, before), 0.0)
        used *= keep ** (moment - before) if np.isfinite(before) else 1.0
        used += np.bincount(user, gpus * since * power(keep, since), minlength=len(names))
        before, tick = moment, tick + period_seconds
    return dict(zip(names.tolist(), used.tolist(), strict=True))


def estimate_starts(
    state: QueueState,
    cluster: Cluster,
    scheduler: Callable[[int], Scheduler],
    *,
    draws: Iterable[int] = range(DRAWS),
    seed: int = 0,
    tick: float | None = None,
    models: Mapping[str, Model] | None = None,
    options: Options = OF_A_LOG,
) -> ExpectedQueue:
    """When waiting jobs start and running ones end; `scheduler` makes the one of a draw.

    `draws` has the numbers of the draws, and may end early. `tick` is the last moment at which an order with ticks,
    whose usage is as of then, computed its priorities.
    InputError if nothing has ended from which durations could be drawn.
    """
    if state.ended.is_empty() and state.has_unknown:
        what = "no job with a time limit had ended by then, so that durations could be drawn"
        raise InputError(Problem("start estimate", what))
    starts: dict[str, list[float]] = {job: [] for job in state.waiting["job_id"].to_list()}
    ends: dict[str, list[float]] = {job: [] for job in [*state.running["job_id"].to_list(), *starts]}
    awaited = pl.Series(list(ends if state.of is None else state.of), dtype=pl.String)
    count = 0
    for draw in draws:
        count += 1
        random = np.random.default_rng([seed, _STREAM, draw])
        jobs, resumption = _drawn(state, random, tick)
        trace = trace_of(jobs.drop(*_OF_THE_QUEUE).to_dict(), "the queue", models)
        last = jobs["job_id"].is_in(awaited.implode()).to_numpy()
        continued = Continued(jobs[_ATTAINED].to_numpy(), jobs[_BELIEVED].to_numpy(), last)
        policy = ResumedScheduler(scheduler(draw), resumption)
        found = simulate(trace, cluster, policy, options, models=models, continued=continued).record.jobs
        for moments, column in ((starts, "start_seconds"), (ends, "finish_seconds")):
            for job, moment in found.select("job_id", column).drop_nulls().iter_rows():
                if job in moments:
                    moments[job].append(max(moment - state.now, 0.0))
    return ExpectedQueue(
        {job: _estimate(moments) for job, moments in starts.items() if len(moments) == count},
        {job: float(np.median(moments)) for job, moments in ends.items() if len(moments) == count},
        count,
    )


def _estimate(starts: Sequence[float]) -> StartEstimate:
    """The next start is below the k-th of n draws with probability k / (n + 1), which is what "weibull" goes by."""
    low, middle, high = np.quantile(starts, [INTERVAL[0], 0.5, INTERVAL[1]], method="weibull").tolist()
    return StartEstimate(low, middle, high, len(starts))


def _known(jobs: pl.DataFrame) -> pl.Series:
    """How long each job takes from now on, where that is known."""
    if "known_seconds" in jobs.columns:
        return jobs["known_seconds"]
    return pl.Series("known_seconds", [None] * jobs.height, dtype=pl.Float64)


def _drawn(
    state: QueueState, random: np.random.Generator, tick: float | None
) -> tuple[pl.DataFrame, Resumption]:
    """The present jobs and those to come by arrival, and where the running ones are."""
    running, waiting, to_come = state.running, state.waiting, _to_come(state, random)
    start = running["start_seconds"].to_numpy()
    began = np.maximum(start, state.now if tick is None else tick)
    before = began - start
    urns = DurationUrns(state.past, random)
    durations = _durations(running, state.now - start, urns)
    left = np.maximum(durations - before, state.now - began + _LEAST_SECONDS)
    left_of_limit = running["time_limit_seconds"] - pl.Series(before)
    limits = (running[_LIMIT_LEFT] if _LIMIT_LEFT in running.columns else left_of_limit).clip(_LEAST_SECONDS)
    parts = [
        _columns(state, running, left, limits),
        _columns(state, waiting, _durations(waiting, np.zeros(waiting.height), urns)),
        _columns(state, to_come, _durations(to_come, np.zeros(to_come.height), urns)),
    ]
    jobs = pl.concat(parts).with_row_index("place").sort("submit_seconds", maintain_order=True)
    places, moments = {}, {}
    for number, place in enumerate(jobs["place"].to_list()):
        if place < running.height:
            places[number], moments[number] = state.places[place], float(began[place])
    return jobs.drop("place"), Resumption(state.now, places, moments, tick)


def _columns(
    state: QueueState, jobs: pl.DataFrame, durations: Floats, limits: pl.Series | None = None
) -> pl.DataFrame:
    """What a simulation takes of jobs; no job does more than it can within its limit."""
    limit = (jobs["time_limit_seconds"] if limits is None else limits).cast(pl.Float64)
    # Rounding must not let a limit end what is to end by itself.
    longest = limit.clip(_LEAST_SECONDS) * _most_times(jobs)
    return jobs.select(
        "job_id",
        "submit_seconds",
        *state.asked,
        limit.alias("time_limit_seconds"),
        pl.min_horizontal(pl.Series(durations, dtype=pl.Float64), longest).alias("duration_seconds"),
        jobs[_ATTAINED] if _ATTAINED in jobs.columns else pl.lit(0.0).alias(_ATTAINED),
        jobs[_BELIEVED] if _BELIEVED in jobs.columns else pl.lit(None, pl.Float64).alias(_BELIEVED),
    )


def _most_times(jobs: pl.DataFrame) -> pl.Series:
    """The most GPUs of each job over those that it asks for."""
    if "max_gpus" not in jobs.columns:
        return pl.Series([1.0] * jobs.height, dtype=pl.Float64)
    return (jobs["max_gpus"] / jobs["gpus"]).fill_null(1.0)


def _durations(jobs: pl.DataFrame, ran: Floats, urns: DurationUrns) -> Floats:
    """A duration for each job: as known, else longer than it has run, and as ended jobs took."""
    known = _known(jobs)
    durations: Floats = ran + known.fill_null(0.0).to_numpy()
    unknown = np.flatnonzero(known.is_null().to_numpy())
    durations[unknown] = urns.draw(jobs[unknown.tolist()], ran[unknown])
    return durations


def _to_come(state: QueueState, random: np.random.Generator) -> pl.DataFrame:
    """Jobs of the recent past, drawn again, at its rate: enough to pass those that wait now."""
    known = [
        jobs.select("job_id", "submit_seconds", "time_limit_seconds", *state.asked)
        for jobs in (state.ended, state.running, state.waiting)
    ]
    past = pl.concat(known).sort("submit_seconds").tail(_LONGEST_PAST)
    if state.ended.is_empty():  # Nothing says how long they would take.
        return past.clear()
    count = _TO_COME + state.running.height + state.waiting.height
    since = state.now - float(past["submit_seconds"][0])
    gaps = random.exponential(max(since, state.least_past_seconds) / past.height, count)
    chosen: pl.DataFrame = past[random.integers(0, past.height, count).tolist()]
    names = pl.Series("job_id", [f"to come {number}" for number in range(count)], dtype=pl.String)
    drawn = chosen.with_columns(names, pl.Series("submit_seconds", state.now + np.cumsum(gaps)))
    if "deadline_seconds" not in state.asked:
        return drawn
    # As long after its submission as it was.
    return drawn.with_columns(
        pl.col("deadline_seconds") - chosen["submit_seconds"] + pl.col("submit_seconds")
    )
