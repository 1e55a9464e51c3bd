"""The inner problem against brute force, against a certified bound, and against the joint problem."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from muster.problems import InputError
from muster.schedulers.admission.knapsack import Columns, SolverEffort, choose
from muster.schedulers.workers_and_servers.frontier import frontier, frontier_and_held
from muster.schedulers.workers_and_servers.frontier_core import fastest_of
from muster.schedulers.workers_and_servers.sizes import (
    Demands,
    Sizes,
    continuous,
    epsilon_grid,
    exact,
    rounded,
    surface,
    utility,
)
from muster.speed.parameter_server import Layers, StepTime, asynchronous, layered, stack

EXACT = SolverEffort(gap=0.0, nodes=100_000)
some = settings(max_examples=60, deadline=None)
RESOURCES = ["GPU", "CPU", "GB"]


def random_step(rng: np.random.Generator, may_be_asynchronous: bool = True) -> StepTime:
    if may_be_asynchronous and rng.random() < 0.25:
        return asynchronous(*rng.uniform(0, [5.0, 5.0, 0.1, 0.1]))
    count = int(rng.integers(1, 20))
    layers = Layers.checked(
        rng.uniform(0, 1e-3, count), rng.uniform(0, 0.1, count), rng.lognormal(-4, 1.5, count)
    )
    overheads = rng.choice([0.0, 1.0]) * rng.uniform(0, 0.02, 2)
    return layered(layers, float(rng.integers(16, 1024)), float(rng.uniform(0.1, 5)), *overheads)


def random_demands(rng: np.random.Generator, jobs: int, most: int) -> Demands:
    worker = np.column_stack([np.ones(jobs), rng.integers(1, 9, jobs), rng.uniform(0.5, 16, jobs)])
    server = np.column_stack([np.zeros(jobs), rng.integers(1, 9, jobs), rng.uniform(0.5, 16, jobs)])
    times = rng.integers(1, most + 1, (jobs, 1))
    return Demands.checked(
        worker, server, (worker + server) * times, RESOURCES, [f"job {job}" for job in range(jobs)]
    )


def brute_force(step: StepTime, demands: Demands) -> tuple[int, int, float]:
    """All pairs of one job, in plain loops."""
    best = (0, 0, math.inf)
    worker, server, limit = demands.worker[0], demands.server[0], demands.limit[0]
    for w in range(1, 200):
        if np.any(w * worker + server > limit * (1 + 1e-9)):
            break
        for p in range(1, 400):
            if np.any(w * worker + p * server > limit * (1 + 1e-9)):
                break
            seconds = float(step.iteration_seconds(w, p))
            if seconds < best[2]:
                best = (w, p, seconds)
    return best


def one(demands: Demands, job: int) -> Demands:
    return Demands(demands.worker[job : job + 1], demands.server[job : job + 1], demands.limit[job : job + 1])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_exact_is_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    steps, demands = [random_step(rng) for _ in range(3)], random_demands(rng, 3, 20)
    sizes = exact(stack(steps), demands)
    for job, step in enumerate(steps):
        w, p, seconds = brute_force(step, one(demands, job))
        assert (sizes.workers[job], sizes.servers[job]) == (w, p)
        assert sizes.seconds[job] == pytest.approx(seconds, rel=1e-12)


def test_exact_reaches_sixty_of_each() -> None:
    step = random_step(np.random.default_rng(3), may_be_asynchronous=False)
    limit = [[60.0, 60.0]]
    demands = Demands.checked([[1.0, 0.0]], [[0.0, 1.0]], limit, ["GPU", "server"], ["job"])
    assert surface(stack([step]), demands).shape == (1, 60, 60)
    w, p, seconds = brute_force(step, demands)
    sizes = exact(stack([step]), demands)
    assert (sizes.workers[0], sizes.servers[0]) == (w, p)
    assert sizes.seconds[0] == pytest.approx(seconds, rel=1e-12)


def certified_bound(step: StepTime, demands: Demands) -> float:
    """The least step over real w, p >= 1 from below: the program is convex in x = ln w, y = ln p, z = ln t.

    Posynomials below a bound are log-sum-exp below a number; each is held only at tangent planes, so every answer
    of the linear program is a bound.
    """
    worker, server, limit = demands.worker[0], demands.server[0], demands.limit[0]
    capacity = [
        [(o / v, 1, 0, 0), (g / v, 0, 1, 0)] for o, g, v in zip(worker, server, limit, strict=True) if v
    ]
    overheads = [(float(step.per_worker_seconds), 1, 0, -1), (float(step.per_server_seconds), 0, 1, -1)]
    time = [[(a, -1, 0, -1), (b, 0, 0, -1), (c, 1, -1, -1), *overheads] for a, b, c in step.terms]
    posynomials = [
        [(math.log(m), np.array(powers, float)) for m, *powers in terms if m > 0] for terms in capacity + time
    ]
    box = [(0, 10), (0, 10), (-30, 30)]
    rows, sides = [], []
    point, bound = np.zeros(3), -math.inf
    for _ in range(60):
        for terms in filter(None, posynomials):
            exponents = np.array([log + powers @ point for log, powers in terms])
            weights = np.exp(exponents - exponents.max())
            height = exponents.max() + math.log(weights.sum())
            slope = (weights / weights.sum()) @ np.array([powers for _, powers in terms])
            rows.append(slope)
            sides.append(slope @ point - height)
        answer = linprog([0, 0, 1], A_ub=np.array(rows), b_ub=np.array(sides) + 1e-9, bounds=box)
        assert answer.x is not None
        if answer.x[2] < bound + 1e-7:
            break
        point, bound = answer.x, float(answer.x[2])
    return math.exp(bound - 1e-6)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.02, 0.2]))
def test_bound_grid_exact_and_rounding_stand_in_order(seed: int, epsilon: float) -> None:
    rng = np.random.default_rng(seed)
    step, demands = random_step(rng, may_be_asynchronous=False), random_demands(rng, 1, 20)
    steps = stack([step])
    bound = certified_bound(step, demands)
    best = exact(steps, demands).seconds[0]
    grid = continuous(steps, demands, epsilon)
    assert bound <= best * (1 + 1e-9)
    assert bound <= grid.seconds[0] <= (1 + epsilon) * bound * (1 + 1e-3)
    whole = rounded(steps, demands, grid)
    floor = step.iteration_seconds(np.floor(grid.workers[0]), np.floor(grid.servers[0]))
    fewest = min(np.floor(grid.workers[0]), np.floor(grid.servers[0]))
    assert best <= whole.seconds[0] * (1 + 1e-12)
    assert whole.seconds[0] <= floor * (1 + 1e-12)
    assert floor <= (1 + 1 / fewest) * grid.seconds[0] * (1 + 1e-9)
    assert np.all(demands.usage(whole.workers, whole.servers) <= demands.limit * (1 + 1e-9))


@some
@given(st.integers(0, 10**6))
def test_the_asynchronous_grid_keeps_its_wider_promise(seed: int) -> None:
    rng = np.random.default_rng(seed)
    steps = stack([asynchronous(*rng.uniform(0, [5.0, 5.0, 0.1, 0.1]))])
    demands, epsilon = random_demands(rng, 1, 10), 0.1
    # Whole pairs are real pairs: their best is no less than the real best.
    assert continuous(steps, demands, epsilon).seconds[0] <= (1 + epsilon) ** 2 * exact(
        steps, demands
    ).seconds[0] * (1 + 1e-9)


@some
@given(st.integers(0, 10**6))
def test_a_higher_limit_never_slows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    steps, demands = stack([random_step(rng) for _ in range(2)]), random_demands(rng, 2, 8)
    more = Demands(demands.worker, demands.server, demands.limit * rng.uniform(1, 2))
    assert np.all(exact(steps, more).seconds <= exact(steps, demands).seconds)


@some
@given(st.integers(0, 10**6))
def test_the_frontier_holds_all_that_is_worth_paying_for(seed: int) -> None:
    rng = np.random.default_rng(seed)
    steps, demands = stack([random_step(rng) for _ in range(3)]), random_demands(rng, 3, 6)
    job, sizes = frontier(steps, demands)
    grids = surface(steps, demands)
    for i in range(3):
        own = set(zip(sizes.workers[job == i], sizes.servers[job == i], strict=True))
        for w, p in itertools.product(range(grids.shape[1]), range(grids.shape[2])):
            rivals = grids[i, : w + 1, : p + 1].copy()
            rivals[w, p] = math.inf
            worth_it = bool(grids[i, w, p] < rivals.min())
            assert ((w + 1, p + 1) in own) == worth_it
    best = exact(steps, demands).seconds
    assert [sizes.seconds[job == i].min() for i in range(3)] == best.tolist()


@some
@given(st.integers(0, 10**6))
def test_what_a_job_holds_is_one_of_its_sizes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    steps, demands = stack([random_step(rng) for _ in range(4)]), random_demands(rng, 4, 6)
    workers, servers = rng.integers(0, 8, 4), rng.integers(1, 8, 4)
    job, sizes = frontier(steps, demands)
    pairs = set(zip(job.tolist(), sizes.workers.tolist(), sizes.servers.tolist(), strict=True))
    pairs |= {(one, workers[one], servers[one]) for one in np.flatnonzero(workers).tolist()}
    of, *both, seconds = frontier_and_held(steps, demands, np.ones(4, np.int64), workers, servers)
    assert list(zip(of.tolist(), *(count.tolist() for count in both), strict=True)) == sorted(pairs)
    assert seconds.tolist() == [
        steps[one].iteration_seconds(w, p) for one, w, p in zip(of, *both, strict=True)
    ]
    assert fastest_of(of, seconds).tolist() == [
        int(np.flatnonzero(of == one)[seconds[of == one].argmin()]) for one in np.unique(of)
    ]


def worth(rng: np.random.Generator, jobs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return rng.uniform(1, 100, jobs), rng.choice([0.0, 0.5, 5.0], jobs), rng.uniform(1, 15, jobs)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_decomposition_is_optimal_under_both_accountings(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs = int(rng.integers(2, 5))
    steps, demands = stack([random_step(rng) for _ in range(jobs)]), random_demands(rng, jobs, 3)
    capacity = demands.limit.sum(axis=0) * rng.uniform(0.2, 0.8)
    unit = exact(steps, demands).seconds.mean() / 6
    priority, urgency, target = worth(rng, jobs)
    grids = surface(steps, demands)
    pairs = [[None, *(tuple(pair) for pair in np.argwhere(np.isfinite(grids[i])))] for i in range(jobs)]

    # All pairs of all jobs at once, each job charged what it uses, or its limit.
    most = {"usage": 0.0, "reservation": 0.0}
    for choice in itertools.product(*pairs):
        used, reserved, total = np.zeros(3), np.zeros(3), 0.0
        for i, pair in enumerate(choice):
            if pair is not None:
                used = used + (pair[0] + 1) * demands.worker[i] + (pair[1] + 1) * demands.server[i]
                reserved = reserved + demands.limit[i]
                total += float(utility(grids[i][pair] / unit, priority[i], urgency[i], target[i]))
        for accounting, held in (("usage", used), ("reservation", reserved)):
            if np.all(held <= capacity + 1e-9):
                most[accounting] = max(most[accounting], total)

    best = exact(steps, demands)
    reservation = choose(
        Columns(
            np.arange(jobs),
            utility(best.seconds / unit, priority, urgency, target),
            demands.limit,
            np.zeros(jobs, bool),
        ),
        capacity,
        EXACT,
    )
    usage = by_usage(steps, demands, capacity, unit, (priority, urgency, target))
    assert reservation.value == pytest.approx(most["reservation"], rel=1e-7, abs=1e-9)
    assert usage == pytest.approx(most["usage"], rel=1e-7, abs=1e-9)
    assert usage >= reservation.value * (1 - 1e-7)


def by_usage(
    steps: StepTime,
    demands: Demands,
    capacity: np.ndarray,
    unit: float,
    worths: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> float:
    job, sizes = frontier(steps, demands)
    held = sizes.workers[:, None] * demands.worker[job] + sizes.servers[:, None] * demands.server[job]
    profit = utility(sizes.seconds / unit, *(column[job] for column in worths))
    return choose(Columns(job, profit, held, np.zeros(len(demands), bool)), capacity, EXACT).value


def test_epsilon_grid_is_near_the_exact_answer() -> None:
    rng = np.random.default_rng(5)
    steps, demands = stack([random_step(rng) for _ in range(100)]), random_demands(rng, 100, 30)
    ratio = epsilon_grid(steps, demands).seconds / exact(steps, demands).seconds
    assert ratio.min() >= 1 - 1e-12
    assert ratio.mean() < 1.01


def test_rounding_tries_the_four_neighbours() -> None:
    steps = stack([asynchronous(0.0, 1.0, 0.0, 0.0)])  # 1 / p: more servers are better
    demands = Demands.checked([[1.0, 1.0]], [[0.0, 1.0]], [[4.0, 9.0]], ["GPU", "CPU"], ["job"])
    found = rounded(steps, demands, Sizes(np.array([2.5]), np.array([5.5]), np.zeros(1)))
    assert (found.workers[0], found.servers[0]) == (2, 6)


def test_utility_is_a_fading_worth() -> None:
    assert utility(7.0, 40.0, 2.0, 7.0) == pytest.approx(20.0)
    assert utility(1e9, 40.0, 0.0, 7.0) == pytest.approx(20.0)
    assert utility(1e9, 40.0, 6.0, 7.0) == pytest.approx(0.0, abs=1e-200)
    assert np.all(np.diff(utility(np.arange(20.0), 10.0, 0.5, 8.0)) < 0)


def test_impossible_demands_are_named_together() -> None:
    with pytest.raises(InputError) as raised:
        Demands.checked(
            [[1, 4, 8.0], [1, 4, 8.0], [1, -1, 8.0], [0, 0, 0.0]],
            [[0, 4, 8.0], [0, 4, 8.0], [0, 4, float("nan")], [0, 1, 0.0]],
            [[1, 8, 16.0], [1, 7, 15.0], [1, 8, 16.0], [1, 8, 16.0]],
            RESOURCES,
            ["fits", "large", "odd", "free"],
        )
    reply = str(raised.value)
    assert "fits" not in reply
    assert "large: found 7.0; one worker and one server need 8 CPU, more than the limit" in reply
    assert "large: found 15.0; one worker and one server need 16 GB" in reply
    assert "odd: found -1.0; the CPU of a worker must be" in reply
    assert "odd: found nan; the GB of a server must be" in reply
    assert "free: a worker and a server must each need some of a limited resource" in reply
    with pytest.raises(InputError, match="epsilon: found 0"):
        continuous(stack([asynchronous(1, 1, 0, 0)]), random_demands(np.random.default_rng(0), 1, 2), 0)
