"""The published tune places jobs again in the order of the policy, so a change of that order alone is an event."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from experiments.published.tune_published import TunePublished
from muster.schedulers.allocation.greedy import Greedy
from muster.simulation import Options
from tests.building import cluster_of, finishes, job
from tests.simulation.cases import AskedEveryRound, Case, simulated


@pytest.mark.parametrize(
    ("part", "models", "seeds"),
    [
        (TunePublished, ["alexnet"], (0, 1, 2, 3)),
        (TunePublished, ["alexnet", "resnet18", "gnmt"], (4, 8)),
        (Greedy, ["alexnet", "resnet18", "gnmt"], (1, 10)),
    ],
)
def test_no_round_is_skipped_while_order_decides_places(
    monkeypatch: pytest.MonkeyPatch,
    part: type[TunePublished | Greedy],
    models: Sequence[str],
    seeds: Sequence[int],
) -> None:
    """Remaining times change the order of running jobs in every round, and with it their CPUs."""
    cases = [_crowd(seed, models, f"srtf+{part.name}") for seed in seeds]
    every_round = [finishes(simulated(case, AskedEveryRound)) for case in cases]
    assert [finishes(simulated(case)) for case in cases] == every_round
    monkeypatch.setattr(part, "by_order", False)
    assert [finishes(simulated(case)) for case in cases] != every_round, "in these cases no round matters"


def _crowd(seed: int, models: Sequence[str], scheduler: str) -> Case:
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(12):
        submit, duration = float(rng.integers(0, 60)), float(rng.integers(60, 200))
        gpus, model = int(rng.choice([1, 1, 2])), str(rng.choice(models))
        rows.append({"job_id": str(number)} | job(submit, duration, gpus, model=model))
    return Case(cluster_of(4, 4), rows, scheduler, {}, Options(round_seconds=10.0, restart_cost_seconds=0.0))
