"""How long a job is believed to take, before and after it has reported its speed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from muster.cluster.ledger import NodeAllocation
from muster.cluster.shipped import parse_cluster
from muster.schedulers.contract import Jobs
from muster.schedulers.queue_order.srtf import Srtf
from muster.service.controller.columns import LiveColumns
from muster.service.request import JobRequest
from muster.service.store.rows import JobRow
from muster.workload.models import synergy_models

CLUSTER = parse_cluster("1x2gpu,8cpu,100gb")
MODELS = {name.lower(): model for name, model in synergy_models().items()}
KNOWN, UNKNOWN, UNSAID = 1, 2, 3
STEPS = 1000


def row(job: int, **fields: object) -> JobRow:
    request = JobRequest(name="job", command=("true",), directory="/", **fields)  # type: ignore[arg-type]
    return JobRow(job, "ann", request, 0.0)


ROWS = [row(KNOWN, model="resnet18", steps=STEPS), row(UNKNOWN, steps=STEPS), row(UNSAID)]


def columns(rows: list[JobRow] = ROWS) -> LiveColumns:
    made = LiveColumns(CLUSTER, lambda: MODELS)
    made.admit(rows)
    return made


def remaining(of: LiveColumns, job: int, now: float = 0.0) -> float:
    return float(Jobs(of.table, np.array([job]), now).estimated_remaining[0])


def began(of: LiveColumns, job: int, now: float, cpus: float = 4.0) -> None:
    of.place(job, [NodeAllocation(CLUSTER.nodes[0].name, (job - 1,), cpus, 50.0, 0.1)], now)
    of.began(ROWS[job - 1], now)


def reported(of: LiveColumns, job: int, steps: float, steps_per_second: float, now: float) -> None:
    of.reported(replace(ROWS[job - 1], steps_done=steps, steps_per_second=steps_per_second), now)


def served(of: LiveColumns, now: float = 0.0) -> list[int]:
    index = np.array([KNOWN, UNKNOWN])
    keys = Srtf().key(Jobs(of.table, index, now))
    order: list[int] = index[np.argsort(keys, kind="stable")].tolist()
    return order


def test_srtf_serves_unknown_speeds_first_then_goes_by_seconds() -> None:
    """Not by a guess: 1,000 steps may be a second or a month."""
    jobs = columns()
    assert remaining(jobs, KNOWN) > 0
    assert np.isnan([remaining(jobs, UNKNOWN), remaining(jobs, UNSAID)]).all()
    assert served(jobs) == [UNKNOWN, KNOWN]
    for steps_per_second, first in ((1e-3, KNOWN), (1e6, UNKNOWN)):
        jobs = columns()
        began(jobs, UNKNOWN, 0.0)
        assert served(jobs, 3.0)[0] == UNKNOWN, "it is still coming up"
        reported(jobs, UNKNOWN, 1, steps_per_second, 5.0)
        assert remaining(jobs, UNKNOWN, 5.0) == pytest.approx((STEPS - 1) / steps_per_second)
        assert served(jobs, 5.0)[0] == first


@pytest.mark.parametrize("job", [KNOWN, UNKNOWN])
def test_the_last_report_alone_decides_the_estimated_rest(job: int) -> None:
    """The same report after many others, other grants and starts says the same as it does alone."""
    alone, much_before = columns(), columns()
    began(alone, job, 0.0)
    reported(alone, job, 400, 2.5, 100.0)
    began(much_before, job, 0.0, cpus=1.0)
    for at, speed in enumerate((40.0, 0.1, 7.0), start=1):
        reported(much_before, job, 100 * at, speed, 10.0 * at)
    much_before.waiting(job, 40.0)
    began(much_before, job, 50.0)
    reported(much_before, job, 400, 2.5, 100.0)
    assert remaining(much_before, job, 100.0) == pytest.approx(remaining(alone, job, 100.0))


def test_a_measured_job_is_known_to_the_next_daemon_too() -> None:
    """By the mean of what it did: 300 steps in 60 s of work."""
    before = replace(ROWS[1], steps_done=300.0, run_seconds=70.0, restart_seconds=10.0)
    assert remaining(columns([before]), UNKNOWN) == pytest.approx(700 * 60 / 300)
    without_steps = replace(ROWS[2], steps_done=300.0, run_seconds=70.0)
    assert np.isnan(remaining(columns([without_steps]), UNSAID))
