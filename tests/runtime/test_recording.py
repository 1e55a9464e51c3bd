"""The record's tables against one made row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from muster.cluster.ledger import gpu_ids
from muster.cluster.ledger_arrays import MICRO, ROLES, WHOLE
from muster.cluster.shipped import parse_cluster
from muster.runtime.allocation_lifecycle import HELD, PENDING_INTERVAL
from muster.runtime.recording import allocations_table, reasons_table
from muster.runtime.records import ALLOCATIONS, REASONS
from muster.schedulers.reasons import REASONS as CODES
from muster.schedulers.reasons import reason
from muster.workload.jobs import JobTable, job_table
from tests.building import job, jobs_of

CLUSTER = parse_cluster("3x8gpu,24cpu,500gb")


@pytest.fixture(scope="module")
def table() -> JobTable:
    return job_table(jobs_of(*(job(0, 60) for _ in range(5))), CLUSTER, {}, {}, 0.0)


@pytest.mark.parametrize("rows", [0, 1, 400])
def test_reasons_are_those_of_each_row(rows: int, table: JobTable) -> None:
    random = np.random.default_rng(rows)
    numbers = np.array([0.0, 1.0, 2.5, 1e6, np.inf, np.nan, -1.0])
    pending: Any = np.zeros(rows, PENDING_INTERVAL)
    pending["job"] = random.integers(0, 5, rows)
    pending["code"] = random.integers(0, len(CODES), rows)
    pending["a"], pending["b"] = random.choice(numbers, rows), random.choice(numbers, rows)
    pending["from"] = random.uniform(0, 100, rows)
    pending["to"] = pending["from"] + random.uniform(0, 100, rows)
    expected = [
        (
            table.ids[int(row["job"])],
            kind.name,
            kind.to_json(float(row["a"]), float(row["b"])),
            row["from"],
            row["to"],
        )
        for row in pending
        for kind in [reason(int(row["code"]))]
    ]
    assert (
        reasons_table(pending, table).expanded().equals(pl.DataFrame(expected, schema=REASONS, orient="row"))
    )


@pytest.mark.parametrize("rows", [0, 1, 400])
def test_allocations_are_those_of_each_row(rows: int, table: JobTable) -> None:
    random = np.random.default_rng(rows)
    held: Any = np.zeros(rows, HELD)
    held["job"], held["node"] = random.integers(0, 5, rows), random.integers(0, 3, rows)
    held["mask"] = random.integers(0, 256, rows)
    held["milli"] = random.choice([WHOLE, 250], rows)
    held["amount"] = random.integers(0, 10**9, held["amount"].shape)
    held["role"], held["group"] = random.integers(0, len(ROLES), rows), random.integers(-1, 3, rows)
    held["from"], held["to"] = random.uniform(0, 100, rows), random.uniform(100, 200, rows)
    frame = allocations_table(held, table, CLUSTER).expanded()
    assert dict(frame.schema) == ALLOCATIONS
    for row, made in zip(held, frame.iter_rows(named=True), strict=True):
        ids = list(gpu_ids(int(row["mask"])))
        assert made["job_id"] == table.ids[int(row["job"])]
        assert made["node"] == CLUSTER.nodes[row["node"]].name
        assert made["role"] == ROLES[row["role"]]
        assert made["gpu_ids"] == ids
        assert made["gpus"] == len(ids) * row["milli"] / WHOLE
        assert [made[name] for name in ("cpus", "memory_gb", "storage_gb_per_s")] == list(
            row["amount"][1:4] / MICRO
        )
        assert made["slice_group"] == (None if row["group"] < 0 else row["group"])
        assert (made["from_seconds"], made["to_seconds"]) == (row["from"], row["to"])
