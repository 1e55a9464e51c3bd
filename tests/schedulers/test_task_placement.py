"""Placing workers and servers: what a job that was stopped gets back."""

from __future__ import annotations

import numpy as np
import pytest

from muster.cluster.ledger import Ledger, NodeAllocation
from muster.cluster.ledger_arrays import MICRO, SERVER
from muster.schedulers.placement.job_columns import JobColumns
from muster.schedulers.workers_and_servers.task_placement import held_sizes, place_tasks
from muster.schedulers.workers_and_servers.tasks import NetworkCards, Tasks
from muster.workload.jobs import job_table
from tests.building import jobs_of
from tests.schedulers.smd_cases import machines, sized_job

WORKER, PARAMETER_SERVER = [1.0, 2.0, 4.0, 0.0], [0.0, 3.0, 5.0, 0.5]
"""What one of each needs: GPUs, CPU cores, GB, GB/s of a network card."""


@pytest.mark.parametrize(("nic_gb_per_s", "workers"), [(0.5, [0, 1]), (0.75, [0, 1]), (1.0, [1, 1])])
def test_a_stopped_job_gets_back_what_has_bandwidth(nic_gb_per_s: float, workers: list[int]) -> None:
    cluster = machines(1, gpus=4, cpus=64.0, nic_gb_per_s=nic_gb_per_s)
    table = job_table(jobs_of(sized_job(), sized_job()), cluster, {}, {})
    ledger, index = Ledger(cluster, 2), np.arange(2)
    ledger.put(0, [NodeAllocation(0, (3,), 2.0, 4.0), NodeAllocation(0, (), 3.0, 5.0, role=SERVER)])
    tasks = Tasks(
        workers=np.array([5, 1]),  # more than the machine has GPUs, and no fewer will do
        servers=np.array([1, 1]),
        least_workers=np.array([5, 1]),
        needs=np.rint(np.array([[WORKER, PARAMETER_SERVER]] * 2) * MICRO).astype(np.int64),
        in_ring=np.zeros(2, bool),
        settled=np.zeros(2, bool),
    )
    cards = NetworkCards(np.array([round(nic_gb_per_s * MICRO)]), np.zeros(1, np.int64))
    books = ledger.reserve(16, 8)
    jobs = JobColumns(table.asked, index, table.node_allowed)
    place_tasks(books, jobs, np.array([1, 0]), tasks, cards)
    held = held_sizes(books, table.asked, index)
    assert [one.tolist() for one in held] == [workers, workers]
