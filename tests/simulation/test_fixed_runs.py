"""The records of a fixed set of runs over all schedulers stay the same."""

from __future__ import annotations

import json

import pytest

from tests.simulation.fixed_runs import DIGESTS, RUNS, FixedRun, digest


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_record_is_as_it_was(run: FixedRun) -> None:
    assert digest(run.simulated()) == json.loads(DIGESTS.read_text())[run.name]


def test_no_digest_is_left_of_a_run_that_is_gone() -> None:
    assert set(json.loads(DIGESTS.read_text())) == {run.name for run in RUNS}
