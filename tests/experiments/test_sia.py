"""Sia's policy: its sizes, its program against all possible answers, its speeds, and its whole run."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from experiments.elastic.ground import FIXED_BATCH, ROUND_SECONDS, sia_cell
from experiments.elastic.speed_fits import Observation, SpeedModel, fitted
from experiments.elastic.worlds import sia_world
from experiments.published.sia import UNSERVED, Choice, Configuration, _solved, sizes


def test_sizes_double_within_a_node_and_then_are_whole_nodes() -> None:
    assert sizes(4, 16) == [1, 2, 4, 8, 12, 16]
    assert sizes(8, 24) == [1, 2, 4, 8, 16, 24]


@pytest.mark.parametrize("seed", range(30))
def test_the_program_is_as_good_as_the_best_of_all_answers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    types = ["a", "b"]
    free = {gpu_type: int(rng.integers(0, 7)) for gpu_type in types}
    choices = [
        Choice(job, Configuration(gpu_type, gpus), round(float(rng.uniform(0.2, UNSERVED)), 2))
        for job in range(4)
        for gpu_type in types
        for gpus in (1, 2, 4)
        if rng.random() < 0.5
    ]
    of_job = [[None, *(choice for choice in choices if choice.job == job)] for job in range(4)]

    def cost(answer: tuple[Choice | None, ...]) -> float:
        held = dict.fromkeys(types, 0)
        for choice in filter(None, answer):
            held[choice.configuration.gpu_type] += choice.configuration.gpus
        if any(held[gpu_type] > free[gpu_type] for gpu_type in types):
            return np.inf
        return sum(UNSERVED if choice is None else choice.cost for choice in answer)

    best = min(cost(answer) for answer in product(*of_job))
    taken = _solved(choices, free)
    by_configuration = {(choice.job, choice.configuration): choice for choice in choices}
    mine = tuple(by_configuration[job, taken[job]] if job in taken else None for job in range(4))
    assert cost(mine) == pytest.approx(best)


def test_a_model_fitted_to_its_own_steps_predicts_others() -> None:
    truth = SpeedModel(0.05, 0.002, 0.06, 0.001, 0.02, 0.0005, 1.3)

    def observed(nodes: int, gpus: int, batch: int) -> Observation:
        sizes_of = np.array([float(nodes)]), np.array([float(gpus)]), np.array([float(batch)])
        compute, step = truth.compute_seconds(sizes_of[2]), truth.step_seconds(*sizes_of)
        return Observation(nodes, gpus, batch, float(compute[0]), float(step[0]))

    seen = [observed(*size) for size in ((1, 1, 32), (1, 2, 64), (1, 4, 16), (2, 8, 32), (4, 16, 16))]
    model = fitted(seen)
    for size in ((1, 3, 48), (3, 12, 24)):
        new = observed(*size)
        step = model.step_seconds(*(np.array([float(number)]) for number in size))
        assert float(step[0]) == pytest.approx(new.step_seconds, rel=0.05)


def test_a_network_that_was_not_seen_costs_nothing() -> None:
    model = fitted([Observation(1, 1, 32, 0.5, 0.5), Observation(1, 1, 64, 0.9, 0.9)])
    step = model.step_seconds(np.array([4.0]), np.array([16.0]), np.array([64.0]))
    assert float(step[0]) == pytest.approx(0.9, rel=1e-3)


@pytest.mark.long
@pytest.mark.reference
def test_a_fixed_batch_gives_the_recorded_mean(reference: Path) -> None:
    cell = sia_cell(reference, sia_world(reference, ROUND_SECONDS), "pollux-1", "homog", FIXED_BATCH)
    (theirs,) = cell.recorded
    ours = cell.run("sia")
    assert ours.mean_jct == pytest.approx(theirs.mean_jct, rel=0.02)
    assert ours.p99_jct == pytest.approx(theirs.p99_jct, rel=0.05)
    assert ours.makespan == pytest.approx(theirs.makespan, rel=0.03)
