"""Progressive filling against a linear program, closed forms and the properties of max-min fairness."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from muster.speed.network.contention import max_min_rates

Problem = tuple[list[float], list[list[int]], list[float], list[list[float]]]
amounts = st.integers(1, 40).map(lambda n: n / 4)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Flows on a tree: each over some machines of two racks, and over the racks' uplinks if it needs both."""
    demand, paths, parts = [], [], []
    for _ in range(draw(st.integers(1, 7))):
        machines = draw(st.lists(st.integers(0, 5), min_size=2, max_size=4, unique=True))
        racks = {machine // 3 for machine in machines}
        paths.append(machines + ([6 + rack for rack in sorted(racks)] if len(racks) > 1 else []))
        demand.append(draw(amounts))
        parts.append([1.0, *(draw(st.sampled_from([0.25, 2 / 3, 1.0])) for _ in paths[-1][1:])])
    return demand, paths, draw(st.lists(amounts, min_size=8, max_size=8)), parts


def rates(
    demand: list[float],
    paths: list[list[int]],
    capacity: list[float],
    parts: list[list[float]] | None = None,
) -> npt.NDArray[np.float64]:
    """Every link carries all of a flow where no parts are given."""
    first = np.cumsum([0, *map(len, paths)])
    links = np.array([link for path in paths for link in path], dtype=np.int64)
    carried = [1.0] * len(links) if parts is None else [part for of in parts for part in of]
    return max_min_rates(np.array(demand), first, links, np.array(capacity), np.array(carried))


def carried(link: int, path: list[int], parts: list[float]) -> float:
    """The part of a flow that a link carries; 0 where the flow does not cross it."""
    return parts[path.index(link)] if link in path else 0.0


def water_filling(
    demand: list[float], paths: list[list[int]], capacity: list[float], parts: list[list[float]]
) -> list[float]:
    """Raise the lowest rate as far as a linear program can, fix who cannot go higher, and again."""
    flows = len(demand)
    uses = np.array(
        [
            [carried(link, path, of) for path, of in zip(paths, parts, strict=True)]
            for link in range(len(capacity))
        ]
    )
    fixed: dict[int, float] = {}
    while len(fixed) < flows:
        rising = [flow for flow in range(flows) if flow not in fixed]
        level = _highest(uses, capacity, demand, fixed, rising, rising)
        for flow in rising:
            if _highest(uses, capacity, demand, fixed, [flow], rising, level) <= level + 1e-7:
                fixed[flow] = level
    return [fixed[flow] for flow in range(flows)]


def _highest(
    uses: npt.NDArray[np.float64],
    capacity: list[float],
    demand: list[float],
    fixed: dict[int, float],
    raised: list[int],
    rising: list[int],
    others_at_least: float = 0.0,
) -> float:
    """The highest common rate of `raised`, while all who still rise keep `others_at_least`."""
    flows = len(demand)
    above = np.zeros((len(raised), flows + 1))
    for row, flow in enumerate(raised):
        above[row, flow], above[row, flows] = -1.0, 1.0
    within = np.hstack([uses, np.zeros((len(capacity), 1))])
    slack = 1e-9
    bounds = [
        (fixed[flow], fixed[flow])
        if flow in fixed
        else (others_at_least - slack if flow in rising else 0.0, demand[flow])
        for flow in range(flows)
    ]
    answer = linprog(
        np.append(np.zeros(flows), -1.0),
        A_ub=np.vstack([above, within]),
        b_ub=np.append(np.zeros(len(raised)), np.array(capacity) + slack),
        bounds=[*((max(low, 0.0), high) for low, high in bounds), (0.0, None)],
        method="highs",
    )
    assert answer.x is not None
    return float(answer.x[-1])


@settings(max_examples=25, deadline=None)
@given(problems())
def test_is_the_water_filling_of_a_linear_program(problem: Problem) -> None:
    assert rates(*problem) == pytest.approx(water_filling(*problem), abs=1e-5)


@settings(deadline=None)
@given(problems())
def test_within_demand_and_capacity_and_no_gang_can_have_more(problem: Problem) -> None:
    demand, paths, capacity, parts = problem
    rate = rates(*problem)
    assert (rate <= np.array(demand) + 1e-9).all()
    load = [
        sum(r * carried(link, path, of) for r, path, of in zip(rate, paths, parts, strict=True))
        for link in range(len(capacity))
    ]
    assert all(used <= limit + 1e-9 for used, limit in zip(load, capacity, strict=True))
    for flow, path in enumerate(paths):
        stuck = any(
            load[link] >= capacity[link] - 1e-9
            and rate[flow] >= max(r for r, other in zip(rate, paths, strict=True) if link in other) - 1e-9
            for link in path
        )
        assert stuck or rate[flow] == pytest.approx(demand[flow])


@settings(deadline=None)
@given(problems(), st.randoms(use_true_random=False))
def test_the_order_of_flows_and_links_does_not_matter(problem: Problem, random: object) -> None:
    demand, paths, capacity, parts = problem
    order = list(range(len(demand)))
    random.shuffle(order)  # type: ignore[attr-defined]
    reversed_parts = [parts[i][::-1] for i in order]
    shuffled = rates([demand[i] for i in order], [paths[i][::-1] for i in order], capacity, reversed_parts)
    assert shuffled == pytest.approx(rates(*problem)[order], abs=1e-9)


@settings(deadline=None)
@given(amounts, st.floats(0.25, 10.0))
def test_alone_it_gets_all_that_the_narrowest_link_has(demand: float, narrow: float) -> None:
    assert rates([demand], [[0, 1, 2]], [20.0, narrow, 20.0])[0] == min(demand, narrow)


@settings(deadline=None)
@given(st.integers(1, 30), st.floats(1.0, 10.0))
def test_equal_flows_on_a_full_link_get_equal_parts(flows: int, capacity: float) -> None:
    assert rates([capacity] * flows, [[0]] * flows, [capacity]) == pytest.approx([capacity / flows] * flows)


def test_the_textbook_case() -> None:
    """A long flow over two links of 1 and 2, one short flow on each: 1/2, 1/2 and 3/2."""
    assert rates([9.0, 9.0, 9.0], [[0, 1], [0], [1]], [1.0, 2.0]).tolist() == [0.5, 0.5, 1.5]


def test_a_flow_that_crosses_nothing_gets_its_demand() -> None:
    assert rates([3.0, 9.0], [[], [0]], [1.0]).tolist() == [3.0, 1.0]
