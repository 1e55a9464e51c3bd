"""What the order multifactor remembers where a daemon begins again without the jobs that have ended."""

from __future__ import annotations

import numpy as np
import pytest

from muster.schedulers.contract import Floats, Snapshot, State
from muster.schedulers.queue_order.multifactor import Charged, Multifactor
from muster.schedulers.registry import build_from
from muster.workload.trace import Trace
from tests.building import cluster_of, job, jobs_of, run


def asked_about(trace: Trace) -> list[tuple[Snapshot, State]]:
    """What the order is asked in a simulation."""
    seen: list[tuple[Snapshot, State]] = []

    class Watched(Multifactor):
        def keys(self, snapshot: Snapshot, state: State) -> tuple[Floats, State]:
            seen.append((snapshot, state))
            return super().keys(snapshot, state)

    run(trace, cluster_of(2), build_from(Watched))
    return seen


def usage_by_user(state: State) -> dict[str, float]:
    """By the last name of each association."""
    assert isinstance(state, Charged)
    return {
        one.path[-1]: usage for one, usage in zip(state.tree.associations, state.usage.tolist(), strict=True)
    }


@pytest.mark.parametrize("later", [[], [job(1000, 10, user="cem")], [job(1000, 10, user="cem")] * 4])
def test_usage_outlives_the_jobs_that_it_is_of(later: list[dict[str, object]]) -> None:
    """Bob's job goes on; of Ann's, which came after it and have ended, nothing is in the table any more."""
    bob = job(0, 4000, user="bob")
    before = asked_about(jobs_of(bob, job(0, 900, user="ann"), job(900, 10, user="ann")))[-1][1]
    snapshot = asked_about(jobs_of(bob, *later))[0][0]
    keys, after = Multifactor().keys(snapshot, before)
    assert len(keys) == len(snapshot.jobs)
    assert not np.isnan(keys).any()
    assert usage_by_user(after)["ann"] == usage_by_user(before)["ann"] > 0
    assert len(after.priorities) == len(snapshot.table)
