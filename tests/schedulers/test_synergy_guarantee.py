"""Nobody runs below the GPU-proportional speed, gangs are whole, the ledger balances: one round and whole runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from muster.schedulers.allocation.tune import Tune
from muster.schedulers.parts import Allotment
from muster.schedulers.reasons import PLACED
from tests.schedulers.synergy_cases import Round, allot, fair_speeds, random_round, speeds

GUARANTEED: list[Allotment] = [Tune()]


@pytest.mark.parametrize("allotment", GUARANTEED, ids=lambda part: part.name)
@settings(max_examples=150, deadline=None)
@given(case=random_round())
def test_nobody_below_the_proportional_speed(allotment: Allotment, case: Round) -> None:
    plan = allot(allotment, case)
    ledger = case.view.ledger
    held = np.array([sum(share.gpus for share in ledger.holding(at)) for at in range(len(case.view.jobs))])
    assert (ledger.balance() == 0).all()
    # Every chosen gang is whole and runs; nobody else holds a part of one.
    assert (held[case.chosen] == case.view.jobs.gpus[case.chosen]).all()
    assert set(held[~case.chosen]) <= {0.0}
    assert ((plan.reasons == PLACED) == (held > 0)).all()
    placed = held > 0
    assert (speeds(case)[placed] >= fair_speeds(case)[placed] * (1 - 1e-6)).all()
