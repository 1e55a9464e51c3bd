"""The order gittins: its index against brute force, and what it learns from ended jobs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.problems import InputError
from muster.schedulers.queue_order.gittins import _EDGES
from muster.schedulers.queue_order.keys import best_rates, prospects
from muster.schedulers.registry import build
from tests.building import cluster_of, column, finishes, job, jobs_of, run

CLASSES = len(_EDGES) + 1
STARTS = np.append(0.0, _EDGES)
ENDS = np.append(_EDGES, 2 * _EDGES[-1])


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
    soon, spent = prospects(_EDGES, np.array(ended, float), np.zeros(CLASSES))
    found = best_rates(soon, spent, np.array([age]), np.array([start_up]))[0]
    assert found == pytest.approx(by_enumeration(ended, age, start_up))


def test_jobs_still_running_count_as_not_ended_early() -> None:
    ended = np.zeros(CLASSES)
    ended[2] = 4.0
    alone, _ = prospects(_EDGES, ended, np.zeros(CLASSES))
    survivors = np.zeros(CLASSES)
    survivors[:3] = 12.0  # Twelve jobs have attained more than class 2.
    among, _ = prospects(_EDGES, ended, survivors)
    assert (alone[0, 2], among[0, 2]) == (1.0, 0.25)


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


@pytest.mark.parametrize("setting", ["learn_from=0", "quantum_seconds=0", "quantum_seconds=-1"])
def test_settings_that_make_no_sense_are_refused(setting: str) -> None:
    name, _, value = setting.partition("=")
    with pytest.raises(InputError, match=name):
        build("gittins", {name: value})
