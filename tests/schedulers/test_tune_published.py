"""The published tune places jobs again in the order of the policy, so a change of that order alone is an event."""

from __future__ import annotations

import numpy as np
import pytest

from muster.simulation import Options
from tests.building import cluster_of, finishes, job
from tests.simulation.cases import AskedEveryRound, Case, simulated


@pytest.mark.parametrize("allocation", ["tune-published", "greedy"])
def test_no_round_is_skipped_while_order_decides_places(allocation: str) -> None:
    """Attained service changes the order of running jobs in every round, and with it their CPUs."""
    rng = np.random.default_rng(1)
    rows = []
    for number in range(8):
        submit, duration = float(rng.integers(0, 100)), float(rng.integers(20, 120))
        gpus, model = int(rng.choice([1, 1, 2])), str(rng.choice(["gnmt", "resnet18", "m5"]))
        rows.append({"job_id": str(number)} | job(submit, duration, gpus, model=model))
    options = Options(round_seconds=10.0)
    case = Case(cluster_of(2, 2), rows, f"las+{allocation}", {"quantum_seconds": "10"}, options)
    assert finishes(simulated(case)) == finishes(simulated(case, AskedEveryRound))
