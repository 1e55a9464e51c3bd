"""A scheduler goes on with what it remembers where a daemon begins again: the table has the living jobs alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from muster.cluster.ledger import Ledger
from muster.runtime.scheduler_memory import from_bytes, to_bytes
from muster.schedulers.contract import Decision, Jobs, Scheduler, Snapshot, State
from muster.schedulers.registry import build, parts, presets
from tests.building import cluster_of, job, jobs_of, run

SCHEDULERS = sorted(
    {preset.name for preset in presets() if ":" not in preset.name}
    | {part.name for part in parts() if part.slot == "queue_order" and not part.name.endswith("-sim")}
    | {"las+joint", "gittins+quota", "fifo+easy", "fifo+conservative", "gandiva", "smd", "optimus", "oasis"}
)


def begun_again(snapshot: Snapshot, living: np.ndarray) -> Snapshot:
    """What a daemon shows that has begun again with these jobs; a job's number stays the same."""
    table, count = snapshot.table, int(living.max(initial=-1)) + 1
    columns = {}
    for name in ("asked", "facts", "sized"):
        columns[name] = np.zeros_like(getattr(table, name)[:count])
        columns[name][living] = getattr(table, name)[living]
    shorter = replace(table, **columns, ids=table.ids.head(count))
    ledger = snapshot.ledger if len(living) else Ledger(snapshot.cluster, 0)
    return replace(snapshot, table=shorter, jobs=Jobs(shorter, living, snapshot.now), ledger=ledger)


def with_restarts(scheduler: Scheduler) -> Scheduler:
    """The same scheduler, which is asked again after each decision, and as after a restart: it must decide alike."""
    decide = scheduler.decide

    def checked(snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        decision, after = decide(snapshot, state)
        expected, _ = decide(snapshot, after)
        memory = to_bytes(after, scheduler.name)
        for living in (snapshot.jobs.index, np.zeros(0, np.int64)):
            remembered = from_bytes(memory, scheduler.name, scheduler.initial(snapshot.cluster))
            again, _ = decide(begun_again(snapshot, living), remembered)
            if len(living):
                assert again.reasons.tolist() == expected.reasons.tolist()
                assert again.changes.jobs.tolist() == expected.changes.jobs.tolist()
        return decision, after

    object.__setattr__(scheduler, "decide", checked)
    return scheduler


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_scheduler_goes_on_with_the_living_jobs(name: str) -> None:
    trace = jobs_of(
        *(
            job(100 * at, 300 + 460 * (5 * at % 7), gpus=1 + at % 4, user=f"u{at % 3}", tenant=f"t{at % 2}")
            for at in range(24)
        )
    )
    scheduler = with_restarts(build(name))
    assert run(trace, cluster_of(4, 4), scheduler, restart_cost_seconds=1.0).unfinished == 0
