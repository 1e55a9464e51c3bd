"""Rules of a simulation and the schedulers that they set."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from muster.problems import InputError
from muster.simulation import Rules
from tests.building import cluster_of, job, jobs_of, run

PUBLISHED = Rules("published", "As another simulator.", settings={"preemptive": "true"})


def test_rules_refuse_a_scheduler_without_their_settings() -> None:
    """The user has typed no --set that could be wrong."""
    assert PUBLISHED.settings_for("fifo+tune") == {"preemptive": "true"}
    found = "--scheduler: found 'fifo+easy'; --rules published sets preemptive, which this scheduler does not have"
    with pytest.raises(InputError, match=f"^{re.escape(found)}$"):
        PUBLISHED.settings_for("fifo+easy")


def test_whole_iterations_need_rounds_that_hold_one() -> None:
    """A job of which no iteration fits in a round never gets on; one of no known model takes a second."""
    rules, trace = replace(PUBLISHED, whole_iterations=True), jobs_of(job(0, 10), job(0, 20))
    found = "--round: found 0.7; --rules published count whole iterations, and one of job 0 takes longer; allowed: 1 s"
    with pytest.raises(InputError, match=f"^{re.escape(found)} or more$"):
        run(trace, cluster_of(2), "fifo", rules=rules, round_seconds=0.7)
    assert run(trace, cluster_of(2), "fifo", rules=rules, round_seconds=1.0).unfinished == 0
