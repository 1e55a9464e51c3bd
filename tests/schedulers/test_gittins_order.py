"""The order gittins: its index against brute force, and what it learns from ended jobs."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster.ledger_arrays import Floats
from muster.cluster.structured import zero_records
from muster.problems import InputError
from muster.runtime.scheduler_memory import from_bytes, to_bytes
from muster.schedulers.contract import Snapshot, State
from muster.schedulers.queue_order import lengths_by_kind
from muster.schedulers.queue_order.gittins import Gittins
from muster.schedulers.queue_order.keys import best_rates
from muster.schedulers.queue_order.lengths_by_kind import EDGES, KnownLengths
from muster.schedulers.queue_order.lengths_by_kind_core import chances_to_end, number_kinds
from muster.schedulers.registry import build, build_from
from muster.workload.jobs import ASKED, AskedArray
from tests.building import cluster_of, column, finishes, job, jobs_of, run

CLASSES = len(EDGES) + 1
STARTS = np.append(0.0, EDGES)
ENDS = np.append(EDGES, 2 * EDGES[-1])
NO_JOBS = np.zeros(0, np.int64)
ALL_JOBS = np.zeros(1, np.int64)
NO_PRIOR = np.zeros(CLASSES)


def by_enumeration(ended: list[int], age: int, start_up: float) -> float:
    """The largest P(end by j) / (E[service until then] + start-up), each ended job of the class's age or more alike."""
    lengths = [at for at, count in enumerate(ended) for _ in range(count) if at >= age]
    best = 0.0
    for last in range(age, CLASSES):
        soon = sum(at <= last for at in lengths) / len(lengths)
        spent = [((STARTS[at] + ENDS[at]) / 2 if at <= last else ENDS[last]) - STARTS[age] for at in lengths]
        best = max(best, soon / (sum(spent) / len(lengths) + start_up))
    return best


@settings(deadline=None)
@given(
    ended=st.lists(st.integers(0, 5), min_size=CLASSES, max_size=CLASSES).filter(any),
    age=st.integers(0, CLASSES - 1),
    start_up=st.sampled_from([0.0, 30.0, 600.0]),
)
def test_the_index_is_the_best_rate_over_all_moments(ended: list[int], age: int, start_up: float) -> None:
    if not any(ended[age:]):
        return
    chances = chances_to_end(np.array([ended]), NO_PRIOR, ALL_JOBS, NO_JOBS, NO_JOBS, 2.0)
    found = best_rates(EDGES, chances, np.array([0]), np.array([age]), np.array([start_up]))[0]
    assert found == pytest.approx(by_enumeration(ended, age, start_up))


def test_jobs_still_running_count_as_not_ended_early() -> None:
    ended = np.zeros((1, CLASSES), np.int64)
    ended[0, 2] = 4
    alone = chances_to_end(ended, NO_PRIOR, ALL_JOBS, NO_JOBS, NO_JOBS, 2.0)
    twelve_passed = np.full(12, 3)  # Twelve jobs have attained more than class 2.
    among = chances_to_end(ended, NO_PRIOR, ALL_JOBS, np.zeros(12, np.int64), twelve_passed, 2.0)
    assert (alone[0, 2], among[0, 2]) == (1.0, 0.25)


KINDS = st.lists(st.tuples(*[st.integers(0, 2)] * 4), min_size=1, max_size=12)


def kinds_by_definition(traits: list[tuple[int, ...]]) -> dict[tuple[int, ...], list[int]]:
    """The jobs of each kind, in any order."""
    kinds: dict[tuple[int, ...], list[int]] = {}
    for at, own in enumerate(traits):
        for count in range(5):
            kinds.setdefault(own[:count], []).append(at)
    return kinds


def table_of(traits: list[tuple[int, ...]]) -> AskedArray:
    """Jobs of these models, tenants, users and numbers of GPUs."""
    asked = zero_records(len(traits), ASKED)
    for trait, values in zip(("model", "tenant", "user", "gpus"), zip(*traits, strict=True), strict=True):
        asked[trait] = values
    return cast(AskedArray, asked)


@settings(deadline=None)
@given(traits=KINDS)
def test_a_kind_holds_the_jobs_that_share_its_traits(traits: list[tuple[int, ...]]) -> None:
    narrowest, wider, counts, examples = number_kinds(table_of(traits), np.arange(len(traits)))
    found: dict[tuple[int, ...], list[int]] = {}
    for at, kind in enumerate(narrowest.tolist()):
        while True:
            found.setdefault(traits[int(examples[kind])][: int(counts[kind])], []).append(at)
            if kind == 0:
                break
            kind = int(wider[kind])
    assert found == kinds_by_definition(traits)


@settings(deadline=None)
@given(
    traits=KINDS,
    data=st.data(),
)
def test_a_kind_fares_as_its_own_jobs_and_two_of_the_wider(
    traits: list[tuple[int, ...]], data: st.DataObject
) -> None:
    classes = st.integers(0, CLASSES - 1)
    ages = data.draw(st.lists(classes, min_size=len(traits), max_size=len(traits)))
    lengths = data.draw(st.lists(classes, min_size=len(traits), max_size=len(traits)))
    kinds, wider, counts, examples = number_kinds(table_of(traits), np.arange(len(traits)))
    jobs = kinds_by_definition(traits)
    # Every job also ended once, with its traits.
    names = [traits[int(example)][: int(count)] for example, count in zip(examples, counts, strict=True)]
    ended = np.array([np.bincount([lengths[at] for at in jobs[name]], minlength=CLASSES) for name in names])
    prior = np.ones(CLASSES)
    found = chances_to_end(ended, prior, wider, kinds, np.array(ages), 2.0)
    for kind, name in enumerate(names):
        for at in range(CLASSES):
            passed = sum(ages[each] > at for each in jobs[name])
            came, here = int(ended[kind, at:].sum()) + passed, int(ended[kind, at])
            if kind == 0:
                expected = (here + 1) / (came + CLASSES - at)
            elif len(jobs[name]) == len(jobs[name[:-1]]):
                expected = found[wider[kind], at]
            else:
                expected = (here + 2 * found[wider[kind], at]) / (came + 2)
            assert found[kind, at] == pytest.approx(expected)


@settings(max_examples=30, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 600), st.integers(1, 7200)), min_size=1, max_size=9),
    cost=st.sampled_from([0.0, 20.0]),
    round_seconds=st.sampled_from([None, 60.0]),
)
def test_it_serves_by_arrival_until_it_has_learned(
    rows: list[tuple[int, int]], cost: float, round_seconds: float | None
) -> None:
    trace = jobs_of(*(job(submit, seconds) for submit, seconds in rows))
    runs = [
        run(trace, cluster_of(2), order, round_seconds=round_seconds, restart_cost_seconds=cost)
        for order in ("gittins", "fifo")
    ]
    assert finishes(runs[0]) == finishes(runs[1])


def after_history(lengths: list[float]) -> list[int]:
    """Preemptions of a job of 5 hours that meets a new job after two, when jobs of these lengths have ended."""
    history = [job(0, seconds) for seconds in lengths]
    meets = sum(lengths) + 2 * 3600
    rows = [*history, job(1, 5 * 3600), job(meets, 300)]
    done = run(jobs_of(*rows), cluster_of(1), "gittins", restart_cost_seconds=60.0)
    return list(column(done, "preemptions"))


def test_a_long_job_makes_room_where_most_jobs_were_short() -> None:
    assert after_history([300.0] * 12) == [0] * 12 + [1, 0]


def test_a_long_job_goes_on_where_jobs_were_as_long() -> None:
    assert after_history([5 * 3600.0] * 12) == [0] * 14


def test_a_long_job_goes_on_before_anything_is_known() -> None:
    assert after_history([300.0] * 3) == [0] * 5


def stops_after_both_lengths(trait: str, like: str) -> list[int]:
    """Preemptions when a long job meets another one like those that were long before, or like those that were short."""
    lengths = [5 * 3600.0] * 30 + [300.0] * 30
    history = [job(0, seconds) | {trait: "short" if seconds == 300 else "long"} for seconds in lengths]
    long = job(sum(lengths), 5 * 3600) | {trait: "long"}
    other = job(sum(lengths) + 3 * 3600, 300) | {trait: like}
    done = run(jobs_of(*history, long, other), cluster_of(1), "gittins", restart_cost_seconds=300.0)
    return list(column(done, "preemptions"))


@pytest.mark.parametrize("trait", ["model", "tenant", "user"])
@pytest.mark.parametrize(("like", "stops"), [("short", 1), ("long", 0)])
def test_lengths_are_learned_for_each_kind_of_job(trait: str, like: str, stops: int) -> None:
    assert stops_after_both_lengths(trait, like) == [0] * 60 + [stops, 0]


def test_kinds_whose_jobs_ended_long_ago_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        lengths_by_kind, "_MOST_KINDS", 5
    )  # All jobs, and the kinds of the last one that ended.
    assert stops_after_both_lengths("model", "long")[-2] == 1


def test_what_was_learned_outlives_a_daemon() -> None:
    """Also where jobs that it saw last are no longer in the table."""
    seen: list[tuple[Snapshot, State]] = []

    class Watched(Gittins):
        def keys(self, snapshot: Snapshot, state: State) -> tuple[Floats, State]:
            seen.append((snapshot, state))
            return super().keys(snapshot, state)

    jobs = jobs_of(*[job(0, 300.0, model="a")] * 12, job(1, 10, model="b"))
    run(jobs, cluster_of(1), build_from(Watched), restart_cost_seconds=60.0)
    snapshot, state = seen[-1]
    kept = from_bytes(to_bytes(state, "gittins"), "gittins", None)
    assert kept["lengths"] == state["lengths"] != KnownLengths()
    kept["seen"] = np.append(kept["seen"], len(snapshot.table))
    assert (Gittins().keys(snapshot, kept)[0] == Gittins().keys(snapshot, state)[0]).all()


@pytest.mark.parametrize(("sizes", "times"), [({}, 2.0), ({"min_gpus": 1, "max_gpus": 2}, 1.0)])
def test_a_waiting_job_needs_twice_the_index_of_a_rigid_one(sizes: dict[str, int], times: float) -> None:
    """Twelve jobs of 300 s have ended; two of the same kind and age, where a start-up takes no time."""
    seen: dict[float, list[float]] = {}

    class Watched(Gittins):
        def keys(self, snapshot: Snapshot, state: State) -> tuple[Floats, State]:
            keys, after = super().keys(snapshot, state)
            seen[snapshot.now] = keys.tolist()
            return keys, after

    run(
        jobs_of(*[job(0, 300.0)] * 12, job(4_000, 50, **sizes), job(4_010, 50)),
        cluster_of(1),
        build_from(Watched),
    )
    running, waiting = seen[4_010]
    assert running == pytest.approx(times * waiting)


@pytest.mark.parametrize("setting", ["learn_from=0", "quantum_seconds=0", "quantum_seconds=-1"])
def test_settings_that_make_no_sense_are_refused(setting: str) -> None:
    name, _, value = setting.partition("=")
    with pytest.raises(InputError, match=name):
        build("gittins", {name: value})
