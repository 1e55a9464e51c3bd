"""Start estimates where durations follow from the history, and where nodes decide."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from muster.cluster.ledger import NodeAllocation
from muster.cluster.shipped import parse_cluster
from muster.problems import InputError
from muster.schedulers.contract import Decision, Scheduler, Snapshot, State
from muster.schedulers.queue_order.multifactor import Charged
from muster.schedulers.registry import build
from muster.simulation import Options, simulate
from muster.simulation.start_estimates import (
    QueueState,
    StartEstimate,
    estimate_starts,
    smaller_sizes,
    usage_at,
)
from muster.workload.generators import mixed

NOW = 1000.0
LIMIT = 100.0


def jobs(*rows: tuple[str, float, int, float | None, float | None]) -> pl.DataFrame:
    """Jobs of one user: id, submission, GPUs, start, end."""
    names = ("job_id", "submit_seconds", "gpus", "start_seconds", "end_seconds")
    kinds = (pl.String, pl.Float64, pl.Int64, pl.Float64, pl.Float64)
    frame = pl.DataFrame(list(rows), schema=dict(zip(names, kinds, strict=True)), orient="row")
    texts = [pl.lit(value).alias(name) for name, value in (("user", "ann"), *((one, "") for one in EMPTY))]
    numbers = [pl.lit(None, pl.Float64).alias(name) for name in ("nodes", "cpus", "memory_gb")]
    return frame.with_columns(
        *texts, *numbers, pl.lit(0.0).alias("priority"), pl.lit(LIMIT).alias("time_limit_seconds")
    )


EMPTY = ("tenant", "partition", "qos", "constraint")


def ended(*shares: float) -> pl.DataFrame:
    """Jobs that took these shares of their limits, submitted so rarely that none is to come soon."""
    return jobs(*((f"e{at}", float(at), 1, 10.0, 10.0 + share * LIMIT) for at, share in enumerate(shares)))


class Watched:
    """A scheduler whose decisions are noted by their moments."""

    def __init__(self, scheduler: Scheduler, moments: list[float]) -> None:
        self.scheduler, self.moments = scheduler, moments

    def __getattr__(self, name: str) -> Any:
        return getattr(self.scheduler, name)

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        self.moments.append(snapshot.now)
        return self.scheduler.decide(snapshot, state)


def fifo(_draw: int) -> Scheduler:
    return build("fifo+requested")


def start_of(state: QueueState, cluster: str = "1x4gpu,8cpu,100gb", draws: int = 30) -> StartEstimate:
    return estimate_starts(state, parse_cluster(cluster), fifo, draws=range(draws)).starts["w"]


def test_a_job_starts_when_the_one_before_it_ends_as_all_did() -> None:
    # All took half of their limit: the running one, 20 s old, has 30 s left.
    state = QueueState(
        NOW, jobs(("r", 970, 4, 980, None)), ((0,),), jobs(("w", 990, 4, None, None)), ended(0.5, 0.5)
    )
    found = start_of(state)
    assert (found.low, found.median, found.high) == pytest.approx((30.0, 30.0, 30.0), abs=0.1)


def test_a_running_job_lasts_longer_than_it_has_run() -> None:
    # Shares 0.1 to 1: of a job that has run for 50 s, 60 to 100 s are left to draw from, 10 to 50 from now.
    shares = [at / 10 for at in range(1, 11)]
    state = QueueState(
        NOW, jobs(("r", 940, 4, 950, None)), ((0,),), jobs(("w", 990, 4, None, None)), ended(*shares)
    )
    found = start_of(state, draws=200)
    assert found.low == pytest.approx(10.0, abs=0.1)
    assert found.high == pytest.approx(50.0, abs=0.1)
    assert found.median == pytest.approx(30.0, abs=10.1)


def test_jobs_to_come_have_as_long_until_their_deadlines() -> None:
    # All that ended had 600 s for it; drawn again from NOW on, their deadlines would lie before their submissions.
    asked = (*QueueState.asked, "deadline_seconds")
    past, waiting = ended(0.5, 0.5), jobs(("w", 990, 4, None, None))
    state = QueueState(
        NOW,
        jobs().with_columns(deadline_seconds=pl.lit(None, pl.Float64)),
        (),
        waiting.with_columns(deadline_seconds=pl.lit(None, pl.Float64)),
        past.with_columns(deadline_seconds=pl.col("submit_seconds") + 600.0),
        asked=asked,
    )
    assert start_of(state).median == pytest.approx(0.0, abs=0.1)


def test_a_free_cluster_starts_a_job_at_once() -> None:
    state = QueueState(NOW, jobs(), (), jobs(("w", 1000, 4, None, None)), ended(0.5))
    assert start_of(state).high < 0.1


def test_running_jobs_stay_on_their_nodes() -> None:
    running = jobs(("r1", 970, 2, 980, None), ("r2", 970, 2, 980, None))
    waiting = jobs(("w", 990, 4, None, None))
    cluster = "2x4gpu,8cpu,100gb"
    apart = QueueState(NOW, running, ((0,), (1,)), waiting, ended(0.5))
    together = QueueState(NOW, running, ((0,), (0,)), waiting, ended(0.5))
    unknown = QueueState(NOW, running, ((), ()), waiting, ended(0.5))

    def start(state: QueueState) -> float:
        policy = lambda _: build("fifo+requested+consolidate")  # noqa: E731
        return estimate_starts(state, parse_cluster(cluster), policy, draws=range(5)).starts["w"].median

    assert start(apart) == pytest.approx(30.0, abs=0.1)
    assert start(together) < 0.1
    assert start(unknown) < 0.1


def test_the_same_seed_gives_the_same_estimate() -> None:
    shares = [at / 10 for at in range(1, 11)]
    state = QueueState(
        NOW, jobs(("r", 940, 4, 950, None)), ((0,),), jobs(("w", 990, 4, None, None)), ended(*shares)
    )
    assert start_of(state) == start_of(state)


def test_a_draw_ends_with_the_jobs_that_are_asked_about() -> None:
    waiting = jobs(("w", 990, 4, None, None), ("x", 995, 4, None, None))
    all_of_them = QueueState(NOW, jobs(("r", 970, 4, 980, None)), ((0,),), waiting, ended(0.1, 0.5, 0.9))
    answers, counts = [], []
    for state in (all_of_them, replace(all_of_them, of=("w",))):
        moments: list[float] = []
        policy = lambda _, seen=moments: Watched(build("fifo+requested"), seen)  # noqa: E731
        found = estimate_starts(state, parse_cluster("1x4gpu,8cpu,100gb"), policy, draws=range(5))
        answers.append(found.starts["w"])
        counts.append(len(moments))
    assert answers[0] == answers[1]
    assert counts[1] < counts[0]


def test_without_history_there_is_no_estimate() -> None:
    state = QueueState(NOW, jobs(), (), jobs(("w", 990, 4, None, None)), ended())
    with pytest.raises(InputError, match="no job with a time limit had ended"):
        start_of(state)


def test_usage_is_charged_at_ticks_and_decays() -> None:
    # Ticks each 60 s. The first job is charged from 10 to 60 s, the second lives between two ticks.
    done = jobs(("a", 0, 2, 10.0, 100.0), ("b", 0, 4, 70.0, 110.0))
    state = QueueState(150.0, jobs(), (), jobs(), done)
    keep = 1 - 0.693 / 600.0
    assert usage_at(state, 600.0, 60.0) == pytest.approx({"ann": 2 * 50.0 * keep**50 * keep**60})


def test_usage_is_what_the_order_itself_charges() -> None:
    """The order's memory after a run, at its last tick, against the same from the log of the run."""
    trace = mixed.generate(30, gpus=16, load=1.5, seed=2)
    settings = {"weight_fair_share": "1000", "half_life_seconds": "7200", "calc_period_seconds": "600"}
    memories: list[Charged] = []

    class Remembering:
        def __init__(self, scheduler: Scheduler) -> None:
            self.scheduler = scheduler

        def __getattr__(self, name: str) -> Any:
            return getattr(self.scheduler, name)

        def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
            decision, after = self.scheduler.decide(snapshot, state)
            memories.append(after["order"])
            return decision, after

    policy = Remembering(build("multifactor+easy", settings))
    options = Options(restart_cost_seconds=0.0)
    run = simulate(trace, parse_cluster("2x8gpu"), policy, options)
    known = run.record.jobs.rename({"finish_seconds": "end_seconds"}).with_columns(
        pl.lit("ann").alias("user")
    )
    for memory in memories[5::20]:
        state = state_at_tick(known, memory.tick)
        assert usage_at(state, 7200.0, 600.0).get("ann", 0.0) == pytest.approx(memory.usage.sum())


def state_at_tick(known: pl.DataFrame, tick: float) -> QueueState:
    began = known.filter(pl.col("start_seconds") <= tick)
    return QueueState(
        tick,
        began.filter(pl.col("end_seconds") > tick),
        (),
        known.clear(),
        began.filter(pl.col("end_seconds") <= tick),
    )


def test_priorities_are_those_of_the_last_tick() -> None:
    """Between ticks age stands still: by their ages now the small job would go first."""
    running = jobs(("r", 900, 4, 915, None))
    waiting = jobs(("small", 940, 1, None, None), ("large", 995, 4, None, None))
    state = QueueState(NOW, running, ((0,),), waiting, ended(0.9, 0.9))
    settings = {
        "weight_age": "1000",
        "max_age_seconds": "600",
        "calc_period_seconds": "60",
        "weight_job_size": "0",
    }
    settings |= {"weight_fair_share": "0", "weight_partition": "0", "weight_tres": "gpu:60"}

    def policy(_: int) -> Scheduler:
        return build("multifactor+easy", settings)

    cluster = parse_cluster("1x4gpu,8cpu,100gb")
    # At the tick of 960 s the small job had 33 points of age and 15 of size; the large one has 60 since it came.
    found = estimate_starts(state, cluster, policy, draws=range(3), tick=960.0).starts
    assert found["large"].median < found["small"].median


def test_known_seconds_are_taken_and_others_are_drawn() -> None:
    """Without time limits: the running job of known length leaves room at 40 s, the other one as those that ended."""
    known = pl.Series("known_seconds", [40.0, None], pl.Float64)
    running = unlimited(jobs(("r1", 970, 2, 980, None), ("r2", 970, 2, 980, None))).with_columns(known)
    waiting = jobs(("w1", 990, 2, None, None), ("w2", 991, 2, None, None))
    queued = unlimited(waiting).with_columns(pl.Series("known_seconds", [500.0, 1.0]))
    state = QueueState(NOW, running, ((0,), (0,)), queued, unlimited(ended(0.7, 0.7)))
    expected = estimate_starts(state, parse_cluster("1x4gpu,8cpu,100gb"), fifo, draws=range(5))
    found = expected.starts
    assert (found["w1"].low, found["w1"].high) == pytest.approx((40.0, 40.0), abs=0.1)
    assert (found["w2"].low, found["w2"].high) == pytest.approx((50.0, 50.0), abs=0.1)
    assert expected.ends == pytest.approx({"r1": 40.0, "r2": 50.0, "w1": 540.0, "w2": 51.0}, abs=0.1)


def test_a_running_job_keeps_exactly_what_it_holds() -> None:
    """It holds three GPUs of one node and one of the other, so only a node's three are free for another."""
    held = (NodeAllocation(0, (0, 1, 2), cpus=1.0), NodeAllocation(1, (3,), cpus=1.0))
    running = jobs(("r", 970, 4, 980, None))
    waiting = jobs(("w3", 990, 3, None, None), ("w2", 991, 2, None, None))
    state = QueueState(NOW, running, (held,), waiting, ended(0.5))
    policy = lambda _: build("fifo+requested+consolidate")  # noqa: E731
    found = estimate_starts(state, parse_cluster("2x4gpu,8cpu,100gb"), policy, draws=range(5)).starts
    assert found["w3"].high < 0.1
    assert found["w2"].median == pytest.approx(30.0, abs=0.1)


def test_half_a_gpu_is_held_where_the_place_is_unknown() -> None:
    """As of a job on a node that is drained: another half beside it starts at once, a whole one waits."""
    halves = [pl.lit(500, pl.Int32).alias("gpu_milli"), pl.lit("").alias("constraint")]
    running = jobs(("r", 970, 1, 980, None)).with_columns(halves)
    waiting = jobs(("w", 990, 1, None, None), ("whole", 991, 1, None, None)).with_columns(halves)
    waiting = waiting.with_columns(pl.Series("gpu_milli", [500, 1000], pl.Int32))
    done = ended(0.5).with_columns(halves)
    state = QueueState(NOW, running, ((),), waiting, done, asked=["user", "gpus", "gpu_milli", "constraint"])
    found = estimate_starts(state, parse_cluster("1x1gpu,8cpu,100gb"), fifo, draws=range(5)).starts
    assert found["w"].high < 0.1
    assert found["whole"].low > 40.0


def unlimited(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.lit(None, pl.Float64).alias("time_limit_seconds"))


def test_smaller_sizes_are_halves() -> None:
    assert smaller_sizes(16) == [8, 4, 2, 1]
    assert smaller_sizes(7) == [3, 1]
    assert smaller_sizes(1) == smaller_sizes(0) == []


def test_intervals_end_at_starts_that_were_drawn() -> None:
    """Of nine draws the tenth start is below the least, or above the most, once in ten times each."""
    shares = [at / 100 for at in range(21, 100)]
    running, waiting = jobs(("r", 970, 4, 980, None)), jobs(("w", 990, 4, None, None))
    state = QueueState(NOW, running, ((0,),), waiting, ended(*shares))
    few, most = start_of(state, draws=9), start_of(state, draws=5)
    for start in (few.low, few.high, most.low, most.high):
        assert start == pytest.approx(round(start), abs=0.01)
    assert few.low <= most.low <= most.high <= few.high
