"""joint finds the nodes that a look at every node finds, and remembers nothing of them that no longer holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster.ledger_arrays import MICRO, Books, Bools, Floats, Ints
from muster.schedulers.allocation.gangs import Gangs, gangs_of
from muster.schedulers.allocation.placement_draft import PlacementDraft, open_draft
from muster.schedulers.allocation.worth import SPEED_ALONE, ForRunning
from muster.schedulers.allocation.worth_core import worth_of
from muster.schedulers.joint import joint
from muster.schedulers.joint.for_running import for_running
from muster.schedulers.joint.joint_core import place_jointly
from muster.simulation import Failures, Run
from tests.building import cluster_of, job, jobs_of, run
from tests.schedulers.synergy_cases import TYPES, round_of, typed
from tests.schedulers.test_joint import MODELS as SHARES_CORES
from tests.speed.random_models import monotone_models

Taken = dict[int, int]
Held = dict[int, list[tuple[int, ...]]]
MODELS = ("one", "two", "resnet18", "gnmt", "alexnet")


@dataclass(frozen=True)
class Problem:
    """Jobs that wait, the draft that they are placed on, and the ledger's arrays."""

    gangs: Gangs
    draft: PlacementDraft
    books: Books
    cost: Floats
    running: ForRunning
    splits_freely: bool


REQUESTS: st.SearchStrategy[dict[str, float]] = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {"cpus": st.sampled_from([0.5, 2.0, 4.0]), "memory_gb": st.sampled_from([10.0, 80.0])}
    ),
)
"""What jobs request beside each GPU."""


@st.composite
def problems(draw: st.DrawFn, most_nodes: int = 9) -> Problem:
    """Nodes of one kind or of several, some of each taken; jobs with constraints, homes, requests and weights."""
    count = draw(st.integers(1, most_nodes))
    sizes = draw(st.lists(st.sampled_from([1, 2, 4, 8]), min_size=count, max_size=count))
    cluster = cluster_of(*(sizes if draw(st.booleans()) else [4] * count))
    if draw(st.booleans()):
        cluster = typed(cluster, draw(st.lists(st.sampled_from(TYPES), min_size=count, max_size=count)))
    jobs = draw(
        st.lists(
            st.tuples(st.sampled_from([*MODELS, ""]), st.sampled_from([1, 1, 2, 3, 4, 6, 8, 13])),
            min_size=1,
            max_size=12,
        )
    )
    models = {name: draw(monotone_models()) for name in MODELS}
    per_gpu = draw(st.lists(REQUESTS, min_size=len(jobs), max_size=len(jobs)))
    asks = [
        {name: amount * gpus for name, amount in each.items()}
        for (_, gpus), each in zip(jobs, per_gpu, strict=True)
    ]
    case = round_of(cluster, jobs, models, asks=asks)
    with case.snapshot.transaction() as transaction:
        draft = open_draft(case.snapshot, transaction, case.ranked, case.chosen)
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    draft.home[:] = random.integers(-1, count, len(jobs))
    allowed = np.vstack([np.ones(count, np.bool_), random.random((2, count)) < 0.7])
    gangs = gangs_of(case.snapshot)._replace(
        constraint=random.choice([0, 0, 1, 2], len(jobs)),
        node_allowed=allowed,
        weight=random.choice([0.1, 0.5, 1.0, 2.0], len(jobs)) * [gpus for _, gpus in jobs],
    )
    take(draft, random, draw(st.sampled_from([0.0, 0.3, 0.8])))
    books, cost = case.snapshot.ledger.books, random.choice([0.0, 0.1, 0.9], len(jobs))
    return Problem(gangs, draft, books, cost, for_running(draw(st.booleans())), draw(st.booleans()))


def take(draft: PlacementDraft, random: np.random.Generator, most: float) -> None:
    """Jobs that the draft leaves alone take up to this part of each node, in any millionths of a CPU."""
    part = random.choice([0.0, most / 2, most], draft.free.shape) + random.choice(
        [0.0, 1e-6], draft.free.shape
    )
    draft.free[:] -= (draft.free * np.minimum(part, 1)).astype(np.int64)


def need_on(gangs: Gangs, demand: Ints, at: int, node: int) -> Ints:
    """What a job needs beside each of its GPUs on a node."""
    need: Ints = demand[gangs.classes[at], gangs.kind_of_node[node]]
    return need


def fit(problem: Problem, at: int, node: int, demand: Ints | None) -> int:
    """How many GPUs of a node a job can have with a demand, or without one."""
    gangs, left = problem.gangs, problem.draft.free[node]
    if not gangs.node_allowed[gangs.constraint[at], node]:
        return 0
    most = int(left[0])
    for resource in range(1, len(left) if demand is not None else 1):
        assert demand is not None
        per = int(need_on(gangs, demand, at, node)[resource])
        if per > 0:
            most = min(most, int(left[resource]) // per)
    return max(most, 0)


def tightest(problem: Problem, at: int, gpus: int, demand: Ints | None, others: Taken) -> int | None:
    """The node with the fewest free GPUs, CPUs and memory that has room for so many GPUs; of equals home."""
    free, home = problem.draft.free, problem.draft.home[at]
    room = [
        node for node in range(len(free)) if node not in others and fit(problem, at, node, demand) >= gpus
    ]
    return min(room, key=lambda node: (*free[node][:3], node != home, node), default=None)


def fewest(problem: Problem, at: int, demand: Ints | None) -> Taken:
    """The emptiest nodes, the last of them by best fit; none without a place."""
    left, taken = int(problem.gangs.gpus[at]), Taken()
    while left > 0:
        last = tightest(problem, at, left, demand, taken)
        if last is not None:
            taken[last] = left
            break
        room = [
            (-fit(problem, at, node, demand), node)
            for node in range(len(problem.draft.free))
            if node not in taken
        ]
        most, node = min(room, default=(0, -1))
        if most == 0:
            return {}
        taken[node] = -most
        left += most
    return taken


def expected(problem: Problem, at: int) -> Taken | None:
    """Where a job comes that is alone, found by a look at all nodes; None: not one of the cases written down here."""
    gangs, gpus = problem.gangs, int(problem.gangs.gpus[at])
    best, fair = gangs.demands.best, gangs.demands.fair
    if len(set(gangs.demands.best_speed[gangs.classes[at]])) > 1:
        return None  # it goes where it is fast
    if (problem.draft.free[:, 0] >= gpus).any():
        node = tightest(problem, at, gpus, best, {}) if len(gangs.kinds) == 1 else None
        return None if node is None else {node: gpus}
    as_few, as_best = fewest(problem, at, None), fewest(problem, at, best)
    if not as_few or len(as_best) == len(as_few):
        return as_few and as_best
    if all(fit(problem, at, node, fair) >= count for node, count in as_few.items()):
        return as_few
    return as_best or fewest(problem, at, fair)


def held(draft: PlacementDraft) -> Held:
    """By job, what it has: node, GPUs and amounts, by node."""
    parts = draft.node_parts[: int(draft.used[0])]
    found = Held()
    for part in parts:
        found.setdefault(int(part["at"]), []).append(
            (int(part["node"]), int(part["gpus"]), *part["amount"][1:])
        )
    return {at: sorted(rows) for at, rows in sorted(found.items())}


@given(problems())
@settings(deadline=None, max_examples=150)
def test_a_job_comes_where_a_look_at_all_nodes_puts_it(problem: Problem) -> None:
    """Each job alone, on the nodes as they are then; what it takes stays taken."""
    for at in range(len(problem.gangs.gpus)):
        where = expected(problem, at)
        draft = problem.draft.copy()
        place_jointly(
            draft, problem.gangs, np.array([at]), problem.cost, problem.running, problem.splits_freely
        )
        if where is not None:
            assert {node: gpus for node, gpus, *_ in held(draft).get(at, [])} == where
        problem.draft.free[:] = draft.free


def test_a_gang_that_takes_a_fair_share_is_placed_once() -> None:
    """The first two nodes have a core for each GPU; with the two cores that it can use it fits on the other three."""
    case = round_of(cluster_of(8, 8, 8, 8, 8, cpus_per_gpu=1.0), [("shared", 3)], SHARES_CORES)
    with case.snapshot.transaction() as transaction:
        draft = open_draft(case.snapshot, transaction, case.ranked, case.chosen)
    draft.free[:, 0] = [2, 1, 1, 1, 1]
    draft.free[:, 1] = [2 * MICRO, 1 * MICRO, 2 * MICRO, 2 * MICRO, 2 * MICRO]
    place_jointly(draft, gangs_of(case.snapshot), np.array([0]), np.zeros(1), for_running(True), True)
    assert [(node, gpus) for node, gpus, *_ in held(draft)[0]] == [(0, 2), (1, 1)]


@given(st.permutations([1.0, 0.9, 0.8, 0.7]), st.booleans())
@settings(deadline=None)
def test_of_alike_nodes_the_jobs_worth_least_make_room(weights: list[float], stops: bool) -> None:
    """Each of four nodes has a job of this weight on all its cores; the last job needs some of them."""
    case = round_of(cluster_of(*[2] * 4, cpus_per_gpu=1.0), [("shared", 1)] * 5, SHARES_CORES)
    with case.snapshot.transaction() as transaction:
        draft = open_draft(case.snapshot, transaction, case.ranked, case.chosen)
    gangs = gangs_of(case.snapshot)._replace(weight=np.array([*weights, 0.7]))
    place_jointly(draft, gangs, np.arange(5), np.zeros(5), for_running(stops), False)
    node_of = {at: node for at, ((node, *_),) in held(draft).items()}
    assert sorted(node_of[at] for at in range(4)) == [0, 1, 2, 3]
    assert node_of[4] == node_of[weights.index(0.7)]


def test_a_job_worth_little_leaves_where_others_are_worth_more() -> None:
    """Three nodes of three GPUs and cores have two jobs of one GPU each, alike but for their weights."""
    weights = np.array([1.0, 0.1, 1.0, 0.9, 0.45, 0.45, 0.3])
    case = round_of(cluster_of(*[3] * 3, cpus_per_gpu=1.0), [("shared", 1)] * 7, SHARES_CORES)
    with case.snapshot.transaction() as transaction:
        draft = open_draft(case.snapshot, transaction, case.ranked, case.chosen)
    gangs = gangs_of(case.snapshot)._replace(
        weight=weights,
        constraint=np.array([1, 1, 2, 2, 3, 3, 0]),
        node_allowed=np.vstack([np.ones(3, np.bool_), np.eye(3, dtype=np.bool_)]),
    )
    place_jointly(draft, gangs, np.arange(7), np.zeros(7), for_running(True), False)
    assert {node: gpus for node, gpus, *_ in held(draft)[6]} == {0: 1}


def speed_of(problem: Problem, draft: PlacementDraft, at: int) -> float:
    """The speed of one job of a draft."""
    weight = np.zeros(len(problem.gangs.gpus))
    weight[at] = 1.0
    gangs, index = problem.gangs._replace(weight=weight), np.arange(len(weight))
    nothing = np.zeros(len(weight))
    return worth_of(problem.books, index, gangs, draft, nothing, True, SPEED_ALONE)


def counted(running: ForRunning, speed: float) -> float:
    """What the speed of a job counts, and that it runs."""
    return speed + running.worth * min(speed / running.up_to, 1.0)


def in_steps(problem: Problem, order: Sequence[int]) -> None:
    """Place the jobs of an order as `place_jointly` does, each by a search that knows nothing from the ones before.

    No other job may be anywhere then, so that those that leave wait for the end. If some left, those without a place
    that find a node with room come once more.
    """
    gangs, draft, queue, lost = problem.gangs, problem.draft, list(order), set[int]()
    again = False
    nowhere = np.zeros((1, gangs.node_allowed.shape[1]), np.bool_)
    for tried, at in enumerate(queue, 1):
        if draft.first[at] < 0 and (not again or has_free_node(problem, at)):
            constraint = np.full(len(gangs.gpus), len(gangs.node_allowed))
            constraint[at] = gangs.constraint[at]
            alone = gangs._replace(
                constraint=constraint, node_allowed=np.vstack([gangs.node_allowed, nowhere])
            )
            before = draft.copy()
            place_jointly(draft, alone, np.array([at]), problem.cost, problem.running, problem.splits_freely)
            left = np.flatnonzero((before.first >= 0) & (draft.first < 0)).tolist()
            worth = {
                other: gangs.weight[other]
                * counted(problem.running, speed_of(problem, before, other))
                / gangs.gpus[other]
                for other in left
            }
            queue += [
                other for other in sorted(left, key=lambda other: (worth[other], other)) if other not in lost
            ]
            lost.update(left)
        if tried == len(queue) and lost and not again:
            again = True
            queue += order


def has_free_node(problem: Problem, at: int) -> bool:
    """Whether a node has the least that a job needs."""
    gangs = problem.gangs
    fits = (fit(problem, at, node, gangs.demands.fair) for node in range(len(problem.draft.free)))
    return any(count >= gangs.gpus[at] for count in fits)


@given(problems(), st.data())
@settings(deadline=None, max_examples=150)
def test_a_plan_is_that_of_searches_that_remember_nothing(problem: Problem, data: st.DataObject) -> None:
    """Some jobs are placed and some of those fixed; then the others come, and displace some."""
    count = len(problem.gangs.gpus)
    order = data.draw(st.permutations(range(count)))
    first = data.draw(st.integers(0, count))
    place_jointly(
        problem.draft,
        problem.gangs,
        np.array(order[:first], np.int64),
        problem.cost,
        problem.running,
        problem.splits_freely,
    )
    fixed: Bools = (problem.draft.first >= 0) & (np.arange(count) % 3 == 0)
    problem.draft.movable[fixed] = False
    at_once = problem.draft.copy()
    place_jointly(
        at_once,
        problem.gangs,
        np.array(order, np.int64),
        problem.cost,
        problem.running,
        problem.splits_freely,
    )
    in_steps(problem, order)
    assert held(at_once) == held(problem.draft)


@given(st.integers(0, 2**32), st.sampled_from(["fifo", "las", "srtf"]))
@settings(deadline=None, max_examples=25)
def test_runs_are_those_of_searches_that_remember_nothing(seed: int, order: str) -> None:
    """Arrivals, ends and failures of nodes; jobs are stopped and moved."""
    random = np.random.default_rng(seed)
    rows = [
        job(
            float(random.integers(0, 400)),
            float(random.integers(50, 900)),
            gpus=int(random.choice([1, 2, 3, 4, 8])),
            model=str(random.choice(["resnet18", "gnmt", "alexnet", "bert-base"])),
        )
        for _ in range(14)
    ]
    rows.sort(key=lambda row: row["submit_seconds"])
    cluster = cluster_of(*random.choice([2, 4, 4], 4).tolist(), memory_gb_per_gpu=30.0)

    def simulated() -> Run:
        return run(
            jobs_of(*rows),
            cluster,
            f"{order}+joint",
            restart_cost_seconds=20.0,
            failures=Failures(600.0, 60.0),
            seed=seed % 100,
            skip_impossible=True,
        )

    def slowly(
        draft: PlacementDraft,
        gangs: Gangs,
        order: Ints,
        cost: Floats,
        running: ForRunning,
        splits_freely: bool,
    ) -> None:
        in_steps(Problem(gangs, draft, books, cost, running, splits_freely), order.tolist())

    books = round_of(cluster, [("", 1)] * len(rows)).snapshot.ledger.books
    with_memory = simulated()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joint, "place_jointly", slowly)
        without = simulated()
    for one, other in (
        (with_memory.record.jobs, without.record.jobs),
        (with_memory.record.allocations, without.record.allocations),
        (with_memory.record.reasons, without.record.reasons),
    ):
        assert one.equals(other)
