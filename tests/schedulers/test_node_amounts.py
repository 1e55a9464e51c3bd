"""CPU and memory of one node among its jobs, against brute force and against cases worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster.ledger_arrays import CPU, MICRO
from muster.schedulers.allocation.drafting import add_part, per_gpu, set_amounts
from muster.schedulers.allocation.gangs import Gangs, gangs_of
from muster.schedulers.allocation.newcomers import place_newcomers
from muster.schedulers.allocation.placement_draft import PlacementDraft, open_draft
from muster.schedulers.allocation.resource_fill import fill_node
from muster.speed.points import speed_at
from muster.workload.models import Model
from tests.building import cluster_of
from tests.schedulers.synergy_cases import Round, round_of


def by_cpus(name: str, speed: Mapping[float, float]) -> Model:
    """A model with a speed for each number of CPU cores beside a GPU, which needs 1 GB of memory."""
    cpus, rows = tuple(speed), tuple((value,) for value in speed.values())
    return Model(name, "image", 32, 1.0, cpus[-1], 1.0, cpus, (1.0,), rows, source="a test", licence="none")


def shared_out(case: Round) -> tuple[Gangs, PlacementDraft]:
    """All jobs on the first node, which is then shared out."""
    gangs = gangs_of(case.snapshot)
    with case.snapshot.transaction() as transaction:
        draft = open_draft(case.snapshot, transaction, case.ranked, case.chosen)
    for job in case.ranked.tolist():
        add_part(draft, job, 0, int(gangs.gpus[job]))
    fill_node(draft, gangs, 0)
    assert (draft.free[0] >= 0).all()
    return gangs, draft


def cpus_per_gpu(models: Sequence[Model]) -> list[float]:
    """What jobs of one GPU each get of a node with five GPUs and two cores for each of them."""
    known = {model.name: model for model in models}
    case = round_of(cluster_of(5, cpus_per_gpu=2.0), [(model.name, 1) for model in models], known)
    _, draft = shared_out(case)
    return [float(draft.node_parts[number]["amount"][CPU]) / MICRO for number in draft.first.tolist()]


IDLE = by_cpus("idle", {1: 1.0})
"""One core is all that it uses: two such jobs leave two of their four cores to the others."""


def test_the_most_speed_for_its_cores_comes_first() -> None:
    """0.4 for two cores in two steps is more than 0.3 in one, whatever the speed before the step."""
    fast, slow = by_cpus("fast", {2: 0.6, 4: 0.9}), by_cpus("slow", {2: 0.2, 3: 0.4})
    assert cpus_per_gpu([fast, slow, slow, IDLE, IDLE]) == [2, 3, 3, 1, 1]
    assert cpus_per_gpu([slow, IDLE, slow, IDLE, fast]) == [3, 1, 3, 1, 2]


def test_of_equal_exchanges_the_first_job_steps_up() -> None:
    """The best rate is 0.3 for one core; 0.5 for two is more in all, and two jobs could have it."""
    small, large = by_cpus("small", {2: 0.3, 3: 0.6}), by_cpus("large", {2: 0.5, 4: 1.0})
    assert cpus_per_gpu([large, large, small, IDLE, IDLE]) == [4, 2, 2, 1, 1]
    assert cpus_per_gpu([small, IDLE, large, large, IDLE]) == [2, 1, 4, 2, 1]


@pytest.mark.parametrize(("third", "over"), [("large", 2), ("idle", 1)])
def test_an_overdrawn_node_is_not_kept_as_it_was(third: str, over: int) -> None:
    """Two jobs hold all ten cores: with a third, what was there is faster, but it is more than there is.

    Beside an idle one all jobs are as fast as can be.
    """
    known = {"large": by_cpus("large", {2: 0.5, 5: 1.0}), "idle": IDLE}
    case = round_of(cluster_of(5, cpus_per_gpu=2.0), [("large", 1), ("large", 1), (third, 1)], known)
    gangs = gangs_of(case.snapshot)
    with case.snapshot.transaction() as transaction:
        draft = open_draft(case.snapshot, transaction, case.ranked, case.chosen)
    for job in (0, 1):
        add_part(draft, job, 0, 1)
    fill_node(draft, gangs, 0)
    add_part(draft, 2, 0, 1)
    set_amounts(draft, 2, gangs.demands.fair[gangs.classes[2], 0])
    assert draft.free[0, CPU] == -over * MICRO
    fill_node(draft, gangs, 0)
    assert draft.free[0, CPU] >= 0


@st.composite
def cpu_models(draw: st.DrawFn, name: str) -> Model:
    """Models whose speed rises at some of one to eight cores."""
    cpus = draw(st.lists(st.integers(1, 8), min_size=1, max_size=4, unique=True).map(sorted))
    rises = draw(st.lists(st.integers(0, 9), min_size=len(cpus), max_size=len(cpus)))
    return by_cpus(name, dict(zip(map(float, cpus), (np.cumsum(rises) + 1.0) / 10, strict=True)))


@given(
    cpu_models("one"),
    cpu_models("two"),
    st.sampled_from([(1, 1), (1, 2), (2, 1), (1, 3), (2, 2)]),
    st.sampled_from([1.0, 2.0, 3.5]),
)
@settings(max_examples=60, deadline=None)
def test_two_jobs_share_a_node_as_well_as_can_be(
    one: Model, two: Model, gpus: tuple[int, int], cpus: float
) -> None:
    """No pair of choices that fits is faster in all, and neither job is slower than with its share."""
    jobs = [("one", gpus[0]), ("two", gpus[1])]
    case = round_of(cluster_of(4, cpus_per_gpu=cpus), jobs, {"one": one, "two": two})
    gangs, draft = shared_out(case)
    demands, models, capacity = (
        gangs.demands,
        case.snapshot.resource_profiles.models,
        gangs.kinds[0]["capacity"],
    )
    held = [draft.node_parts[number] for number in draft.first.tolist()]
    speeds = [
        speed_at(models, gangs.model[at], part["amount"] // part["gpus"]) for at, part in enumerate(held)
    ]
    assert all(
        speed >= demands.fair_speed[kind, 0] - 1e-9
        for speed, kind in zip(speeds, gangs.classes.tolist(), strict=True)
    )
    choices = [range(*demands.first_choice[[kind, kind + 1]].tolist()) for kind in gangs.classes.tolist()]
    best = max(
        float(np.dot(gpus, demands.choice_speed[list(pair)]))
        for pair in product(*choices)
        if (gpus @ demands.choice[list(pair)] <= capacity)[1:].all()
    )
    assert np.dot(gpus, speeds) >= best - 1e-9


def test_newcomers_get_a_place_with_all_their_demand() -> None:
    """Two nodes of one kind have room for four of five jobs of one GPU; each has what makes it fastest."""
    case = round_of(cluster_of(2, 2), [("one", 1)] * 5, {"one": by_cpus("one", {1: 0.5, 3: 1.0})})
    gangs = gangs_of(case.snapshot)
    with case.snapshot.transaction() as transaction:
        draft = open_draft(case.snapshot, transaction, case.ranked, case.chosen)
    place_newcomers(draft, gangs, np.flatnonzero(case.chosen), case.ranked)
    places = [draft.node_parts[number] for number in draft.first.tolist() if number >= 0]
    assert (draft.first >= 0).tolist() == [True] * 4 + [False]
    assert sorted(int(place["node"]) for place in places) == [0, 0, 1, 1]
    assert [float(place["amount"][CPU]) / MICRO for place in places] == [3.0] * 4


def test_amounts_beside_a_gpu_leave_the_gpu_entry_alone() -> None:
    case = round_of(cluster_of(3, cpus_per_gpu=2.0), [("one", 3)], {"one": by_cpus("one", {2: 1.0})})
    _, draft = shared_out(case)
    amounts = np.full(4, 7)
    per_gpu(draft, int(draft.first[0]), amounts)
    assert amounts[:2].tolist() == [7, 2 * MICRO]
    assert (3 * amounts[1:] == draft.node_parts[draft.first[0]]["amount"][1:]).all()


def test_amounts_below_nothing_are_rounded_down() -> None:
    """A node part may owe something where a draft is overdrawn: two GPUs that owe 3 owe 2 each, not 1."""
    case = round_of(cluster_of(3, cpus_per_gpu=2.0), [("one", 2)], {"one": by_cpus("one", {2: 1.0})})
    _, draft = shared_out(case)
    draft.node_parts["amount"][draft.first[0], CPU] = -3
    amounts = np.zeros(4, np.int64)
    per_gpu(draft, int(draft.first[0]), amounts)
    assert amounts[CPU] == -2
