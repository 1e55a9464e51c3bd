"""The knapsack solver against enumeration, against another LP solver, and against its own certificate."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from muster.schedulers.admission.knapsack import (
    FAST,
    NOTHING,
    Columns,
    InfeasibleError,
    KnapsackChoice,
    SolverEffort,
    choose,
    prices_of,
)
from muster.schedulers.admission.knapsack.columns import tabulate
from muster.schedulers.admission.knapsack.relaxation import SAMPLE, SAMPLED_FROM, relax
from tests.schedulers.knapsack_cases import smd_columns, smd_jobs, synergy_shape

EXACT = SolverEffort(gap=0.0, nodes=100_000)
GOOD_ENOUGH = SolverEffort(gap=1e-3)
some = settings(max_examples=100, deadline=None)


def random_columns(
    rng: np.random.Generator, groups: int, most_columns: int, resources: int, must: float, whole: bool = True
) -> Columns:
    """Whole numbers make ties; groups that must choose may have columns at a loss."""
    sizes = rng.integers(1, most_columns + 1, groups)
    count = int(sizes.sum())
    usage = rng.integers(0, 8, (count, resources)) if whole else rng.uniform(0.1, 1, (count, resources))
    profit = usage.sum(axis=1) * rng.uniform(0.3, 1.5, count) + (
        rng.integers(-3, 9, count) if whole else rng.uniform(0, 1, count)
    )
    return Columns(
        np.repeat(np.arange(groups), sizes), profit, usage.astype(np.float64), rng.random(groups) < must
    )


def enumerated(columns: Columns, capacity: np.ndarray) -> float:
    """The best of all combinations; minus infinity if none fits."""
    ways = []
    for group, must in enumerate(columns.must_choose):
        own = np.flatnonzero(columns.group == group).tolist()
        ways.append(own if must else [NOTHING, *own])
    best = -np.inf
    for combination in itertools.product(*ways):
        taken = [column for column in combination if column != NOTHING]
        if np.all(columns.usage[taken].sum(axis=0) <= capacity + 1e-9):
            best = max(best, float(columns.profit[taken].sum()))
    return best


def assert_sound(selection: KnapsackChoice, columns: Columns, capacity: np.ndarray) -> None:
    taken = selection.chosen[selection.chosen != NOTHING]
    groups = np.flatnonzero(selection.chosen != NOTHING)
    np.testing.assert_array_equal(columns.group[taken], groups)
    assert set(np.flatnonzero(columns.must_choose)) <= set(groups)
    assert np.all(columns.usage[taken].sum(axis=0) <= capacity * (1 + 1e-9) + 1e-9)
    assert selection.value == pytest.approx(columns.profit[taken].sum(), abs=1e-9)
    assert selection.value <= selection.bound


@some
@given(st.integers(0, 10**6), st.integers(1, 16), st.integers(1, 4))
def test_one_column_a_job_is_the_best_of_all_subsets(seed: int, jobs: int, resources: int) -> None:
    rng = np.random.default_rng(seed)
    usage = rng.uniform(0, 1, (jobs, resources))
    profit = rng.uniform(0.1, 1, jobs) * usage.sum(axis=1)
    capacity = usage.sum(axis=0) * rng.uniform(0.2, 0.9)
    columns = Columns(np.arange(jobs), profit, usage, np.zeros(jobs, bool))
    subsets = (np.arange(2**jobs)[:, None] >> np.arange(jobs)) & 1
    fits = np.all(subsets @ usage <= capacity + 1e-9, axis=1)
    best = float((subsets @ profit)[fits].max())
    selection = choose(columns, capacity, EXACT)
    assert_sound(selection, columns, capacity)
    assert selection.value == pytest.approx(best, rel=1e-7, abs=1e-9)


@some
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 3), st.sampled_from([0.0, 0.5, 1.0]))
def test_multiple_choice_is_the_best_of_all_combinations(
    seed: int, groups: int, resources: int, must: float
) -> None:
    rng = np.random.default_rng(seed)
    columns = random_columns(rng, groups, 4, resources, must)
    capacity = rng.integers(0, 5 * groups, resources).astype(np.float64)
    best = enumerated(columns, capacity)
    if best == -np.inf:
        with pytest.raises(InfeasibleError):
            choose(columns, capacity, EXACT)
        return
    exact = choose(columns, capacity, EXACT)
    assert_sound(exact, columns, capacity)
    assert exact.value == pytest.approx(best, rel=1e-7, abs=1e-7)
    assert exact.bound == pytest.approx(best, rel=1e-6, abs=1e-6)
    try:
        fast = choose(columns, capacity, FAST)
    except InfeasibleError:
        # Without a search, rounding may miss the few choices that serve groups which must be served.
        assert columns.must_choose.any()
    else:
        assert_sound(fast, columns, capacity)
        assert fast.value <= best + 1e-7
        assert fast.bound >= best - 1e-7


@some
@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 4), st.sampled_from([0.0, 0.5, 1.0]))
def test_the_relaxation_is_the_linear_program(seed: int, groups: int, resources: int, must: float) -> None:
    rng = np.random.default_rng(seed)
    columns = random_columns(rng, groups, 12, resources, must, whole=False)
    assert_relaxed(columns, rng.uniform(0.2, 0.6, resources) * groups)
    assert_relaxed(columns, rng.uniform(0.4, 1.2, resources) * groups)


@pytest.mark.parametrize("must", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("heavier", [1.0, 4.0])
def test_many_groups_are_relaxed_from_a_sample(must: float, heavier: float) -> None:
    # Where the groups of the sample are the heavy ones, their cheapest ways do not fit in its part of the capacity.
    rng = np.random.default_rng(5)
    columns = random_columns(rng, 2 * SAMPLED_FROM, 6, 3, must, whole=False)
    columns.usage[columns.group % SAMPLE == 0] *= heavier
    assert_relaxed(columns, np.array([0.5, 0.45, 0.4]) * 2 * SAMPLED_FROM)


def assert_relaxed(columns: Columns, capacity: np.ndarray) -> None:
    """The bound is the best of the linear program, as another solver finds it."""
    groups = len(columns.must_choose)
    usable = np.all(columns.usage <= capacity, axis=1)
    members = (columns.group == np.arange(groups)[:, None]).astype(float) * usable
    optional = ~columns.must_choose
    answer = linprog(
        -columns.profit * usable,
        A_ub=np.vstack([columns.usage.T, members[optional]]),
        b_ub=np.concatenate([capacity, np.ones(optional.sum())]),
        A_eq=members[~optional],
        b_eq=np.ones((~optional).sum()),
    )
    if answer.status == 2:
        with pytest.raises(InfeasibleError):
            choose(columns, capacity, FAST)
        return
    table = tabulate(columns, capacity)
    relaxation = relax(table, np.zeros(0, np.int64))
    assert -relaxation.bound * table.profit_unit == pytest.approx(answer.fun, rel=1e-6)


@some
@given(st.integers(0, 10**6))
def test_the_bound_follows_from_the_prices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = random_columns(rng, 30, 10, 3, 0.5, whole=False)
    capacity = np.full(3, 20.0)
    selection = choose(columns, capacity, FAST)
    reduced = columns.profit - columns.usage @ selection.prices
    best = np.full(30, -np.inf)
    np.maximum.at(best, columns.group, reduced)
    best = np.where(columns.must_choose, best, np.maximum(best, 0))
    assert (selection.prices >= 0).all()
    assert selection.bound == pytest.approx(capacity @ selection.prices + best.sum(), rel=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_more_capacity_never_lowers_the_optimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = random_columns(rng, 8, 6, 2, 0.0)
    values = [choose(columns, capacity, EXACT).value for capacity in np.linspace([6, 4], [60, 50], 5)]
    assert values == sorted(values)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([FAST, SolverEffort(nodes=1)]))
def test_an_incumbent_is_never_made_worse(seed: int, effort: SolverEffort) -> None:
    rng = np.random.default_rng(seed)
    columns = random_columns(rng, 12, 6, 2, 0.3, whole=False)
    capacity = np.array([5.0, 5.0])
    best = choose(columns, capacity, EXACT)
    again = choose(columns, capacity, effort, incumbent=best.chosen)
    assert_sound(again, columns, capacity)
    assert again.value >= best.value - 1e-9


@pytest.mark.parametrize("must", [0.0, 0.5])
@pytest.mark.parametrize("is_near", [True, False])
def test_near_prices_are_used_where_they_are_near(is_near: bool, must: float) -> None:
    """A question of 400 groups, and the prices of 390 of them in as much of the capacity, or ten times as high."""
    columns = random_columns(np.random.default_rng(6), 400, 6, 2, must, whole=False)
    capacity = np.array([180.0, 170.0])
    fewer = columns.group < 390
    before = Columns(
        columns.group[fewer], columns.profit[fewer], columns.usage[fewer], columns.must_choose[:390]
    )
    near = prices_of(before, capacity * 390 / 400) * (1 if is_near else 10)
    selection = choose(columns, capacity, GOOD_ENOUGH, near=near)
    assert_sound(selection, columns, capacity)
    assert selection.gap <= GOOD_ENOUGH.gap
    assert (selection.prices == pytest.approx(near)) == is_near
    if is_near:
        best = choose(columns, capacity)
        again = choose(columns, capacity, GOOD_ENOUGH, best.chosen, near)
        assert again.value >= best.value > selection.value


@pytest.mark.parametrize("case", ["Synergy, exactly one", "Synergy, at most one", "SMD"])
def test_a_thousand_jobs_are_within_the_gap(case: str) -> None:
    if case == "SMD":
        columns, capacity = smd_columns(*smd_jobs(1000, most=6))
    else:
        columns, capacity = synergy_shape(1000, must_choose="exactly" in case)
    selection = choose(columns, capacity)
    assert_sound(selection, columns, capacity)
    assert selection.gap <= 1e-4
    fast = choose(columns, capacity, FAST)
    assert_sound(fast, columns, capacity)
    assert fast.gap <= 2e-3


def test_out_of_time_leaves_a_choice_with_its_gap() -> None:
    columns, capacity = synergy_shape(60, must_choose=False)
    selection = choose(columns, capacity, SolverEffort(gap=0.0, seconds=0.0))
    assert_sound(selection, columns, capacity)
    assert selection.value >= choose(columns, capacity, FAST).value
    assert selection.gap == pytest.approx(selection.bound / selection.value - 1)


def test_the_same_question_has_the_same_answer() -> None:
    columns, capacity = synergy_shape(128, False)
    first, second = (choose(columns, capacity) for _ in range(2))
    assert first.chosen.tobytes() == second.chosen.tobytes()
    assert (first.value, first.bound) == (second.value, second.bound)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_what_was_solved_before_changes_nothing(seed: int) -> None:
    """Solvers are used again: a program has the same prices to the last bit whichever came before it."""
    rng = np.random.default_rng(seed)
    shapes = [(int(rng.integers(2, 60)), int(rng.integers(1, 12))) for _ in range(8)]
    asked = [
        (random_columns(rng, groups, 6, resources, 0.0), np.full(resources, 2.0 * groups))
        for groups, resources in shapes
    ]
    there = [prices_of(columns, capacity).tobytes() for columns, capacity in asked]
    back = [prices_of(columns, capacity).tobytes() for columns, capacity in reversed(asked)]
    assert there == back[::-1]


def test_no_groups_and_no_capacity() -> None:
    none = Columns(np.zeros(0, np.int64), np.zeros(0), np.zeros((0, 2)), np.zeros(0, bool))
    assert choose(none, np.array([1.0, 1.0])).value == 0
    one = Columns(np.zeros(1, np.int64), np.ones(1), np.ones((1, 1)), np.zeros(1, bool))
    assert choose(one, np.zeros(1)).chosen.tolist() == [NOTHING]
    free = Columns(np.zeros(1, np.int64), np.ones(1), np.zeros((1, 1)), np.ones(1, bool))
    assert choose(free, np.zeros(1)).chosen.tolist() == [0]


def test_groups_that_cannot_be_served_are_refused() -> None:
    too_large = Columns(np.zeros(1, np.int64), np.ones(1), np.full((1, 1), 2.0), np.ones(1, bool))
    with pytest.raises(InfeasibleError, match="group 0 has no way"):
        choose(too_large, np.ones(1))
    without_columns = Columns(np.array([1]), np.ones(1), np.ones((1, 1)), np.ones(2, bool))
    with pytest.raises(InfeasibleError, match="group 0 has no way"):
        choose(without_columns, np.ones(1))
    together = Columns(np.arange(2), np.ones(2), np.full((2, 1), 0.6), np.ones(2, bool))
    with pytest.raises(InfeasibleError, match="even shares"):
        choose(together, np.ones(1))
    # Shares fit (0.9 of each knapsack), whole ways do not.
    parity = Columns(
        np.repeat(np.arange(3), 2), np.ones(6), np.tile([[0.6, 0.0], [0.0, 0.6]], (3, 1)), np.ones(3, bool)
    )
    with pytest.raises(InfeasibleError, match="no choice that serves"):
        choose(parity, np.ones(2))


@pytest.mark.parametrize("work", [500.0, 2000.0])
def test_a_limit_of_work_ends_the_search_the_same_each_time(work: float) -> None:
    columns, capacity = smd_columns(*smd_jobs(100, most=12))
    fast = choose(columns, capacity, FAST)
    limited, again = (
        choose(columns, capacity, SolverEffort(gap=0.0, nodes=10**6, work=work)) for _ in range(2)
    )
    best = choose(columns, capacity, SolverEffort(gap=0.0, nodes=10**6))
    assert best.gap <= 1e-9 < limited.gap
    assert_sound(limited, columns, capacity)
    assert fast.value <= limited.value <= best.value * (1 + 1e-9) <= limited.bound * (1 + 1e-8)
    assert limited.chosen.tobytes() == again.chosen.tobytes()
    assert not limited.out_of_time
