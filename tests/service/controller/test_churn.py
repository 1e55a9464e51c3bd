"""Where an engine cannot resize, jobs start hardly more often than where it can."""

from pathlib import Path

import pytest

from muster.service.engines.fake import FakeEngine
from tests.service.controller.churn import SCHEDULERS, StiffFakeEngine, outcome_of, starts_of

JOBS = 16


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_an_engine_without_resizing_churns_no_more(tmp_path: Path, scheduler: str) -> None:
    resizing, stiff = (
        outcome_of(tmp_path / engine.__name__, scheduler, engine, JOBS, seed=0)
        for engine in (FakeEngine, StiffFakeEngine)
    )
    assert starts_of(stiff) <= 1.1 * starts_of(resizing)
    if scheduler == "fifo+tune":
        assert [row.epoch for row in stiff] == [1] * JOBS
