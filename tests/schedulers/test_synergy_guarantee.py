"""Promises of tune, tune-plus and opt: no job below the GPU-proportional speed, gangs whole, the ledger balanced.

That of whole runs: `tests/runtime/test_slowest.py`.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from muster.schedulers.allocation.opt import Opt
from muster.schedulers.allocation.tune import Tune
from muster.schedulers.allocation.tune_plus import TunePlus
from muster.schedulers.certify import bound_of_plan
from muster.schedulers.parts import GangAllocator
from muster.schedulers.reasons import PLACED
from muster.workload.generators.synergy import generate
from tests.building import column, finishes, job, jobs_of, run
from tests.schedulers.synergy_cases import (
    Round,
    fair_speeds,
    random_round,
    servers,
    speeds,
    total_speed,
    tried,
)

GUARANTEED: list[GangAllocator] = [Tune(), TunePlus(), Opt(exact_variables=300, nodes=20)]


@settings(max_examples=60, deadline=None)
@given(case=random_round())
def test_promises_of_one_round(case: Round) -> None:
    """Total speed besides: opt >= tune-plus >= tune >= proportional, on the same runnable jobs.

    The bound is one for gangs on as few machines as can be, so not for opt, which spreads them where that is faster.
    """
    totals = []
    for allocator in GUARANTEED:
        with tried(allocator, case) as plan:
            check_round(case, plan.reasons)
            proportional = float((fair_speeds(case) * case.snapshot.jobs.gpus).sum())
            totals.append(total_speed(case))
            assert totals[-1] >= proportional * (1 - 1e-6)
            if not isinstance(allocator, Opt):
                assert bound_of_plan(case.snapshot) >= totals[-1] * (1 - 1e-6)
    assert totals == pytest.approx(sorted(totals), rel=1e-6)


def check_round(case: Round, reasons: np.ndarray) -> None:
    ledger = case.snapshot.ledger
    held = np.array(
        [sum(share.gpus for share in ledger.holding(at)) for at in range(len(case.snapshot.jobs))]
    )
    assert (ledger.balance() == 0).all()
    assert (ledger.books.nodes["free"] >= 0).all()
    assert (held[case.chosen] == case.snapshot.jobs.gpus[case.chosen]).all()
    assert set(held[~case.chosen]) <= {0.0}
    assert ((reasons == PLACED) == (held > 0)).all()
    placed = held > 0
    assert (speeds(case)[placed] >= fair_speeds(case)[placed] * (1 - 1e-6)).all()


@pytest.mark.parametrize("allocator", ["greedy", "tune", "tune-published", "tune-plus"])
def test_a_job_that_keeps_its_machine_is_not_restarted(allocator: str) -> None:
    """With a restart cost, a lone pair on one machine is done exactly when its speed says."""
    pair = jobs_of(job(0, 1200, model="alexnet"), job(0, 1200, model="gnmt"))
    result = run(
        pair,
        servers(1),
        f"fifo+{allocator}",
        {"preemptive": "true"},
        round_seconds=300.0,
        restart_cost_seconds=60,
    )
    assert finishes(result) == pytest.approx([1200 / 2.94, 1200])
    assert column(result, "moves") == [0, 0]


@pytest.mark.parametrize("order", ["fifo", "srtf-speed", "las", "tetris", "drf-static"])
@pytest.mark.parametrize("allocator", ["greedy", "tune", "tune-published", "tune-plus"])
def test_skipped_rounds_change_nothing(order: str, allocator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked at every round or only when the plan says so: the same times."""
    from muster.simulation import engine

    trace = generate(40, load_per_hour=3.0, split=(33, 33, 33), multi_gpu=True, seed=8)
    settings_ = {"preemptive": "true"}
    skipping = finishes(run(trace, servers(2), f"{order}+{allocator}", settings_, round_seconds=300.0))
    plain = engine.SimulationEngine.__init__

    def every_round(self: engine.SimulationEngine, *given: object, **named: object) -> None:
        plain(self, *given, **{**named, "ask_every_round": True})  # type: ignore[arg-type]

    monkeypatch.setattr(engine.SimulationEngine, "__init__", every_round)
    asked = finishes(run(trace, servers(2), f"{order}+{allocator}", settings_, round_seconds=300.0))
    assert skipping == pytest.approx(asked, rel=1e-9)
