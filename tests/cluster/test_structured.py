"""Structured arrays: their types name the columns that they have, and a misspelt one fails in mypy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from muster.cluster import ledger_arrays
from muster.runtime import allocation_lifecycle
from muster.speed import input_pipeline
from muster.speed.network import placement
from muster.speed.network import speed as network_speed
from muster.workload import jobs, sized

ROOT = Path(__file__).parents[2]
TYPES = [
    (ledger_arrays.NODE, ledger_arrays.NodeArray),
    (ledger_arrays.DEVICE, ledger_arrays.DeviceArray),
    (ledger_arrays.ROW, ledger_arrays.RowArray),
    (ledger_arrays.ENTRY, ledger_arrays.JournalArray),
    (jobs.ASKED, jobs.AskedArray),
    (jobs.FACTS, jobs.FactArray),
    (sized.SIZED, sized.SizedArray),
    (allocation_lifecycle.HELD, allocation_lifecycle.HeldArray),
    (allocation_lifecycle.PENDING_INTERVAL, allocation_lifecycle.PendingArray),
    (allocation_lifecycle.RESTART_MODEL, allocation_lifecycle.RestartModel),
    (input_pipeline.MODEL_DTYPE, input_pipeline.ModelTable),
    (network_speed.MODEL_DTYPE, network_speed.NetworkModelArray),
    (network_speed.STAGE_DTYPE, network_speed.StageArray),
    (placement.SHAPE_DTYPE, placement.Shapes),
]

PLANTED = """
from muster.cluster.ledger import Ledger
from muster.cluster.ledger_arrays import Books
from muster.cluster.ledger_steps import new_row
from muster.runtime.allocation_lifecycle import LifecycleReport
from muster.schedulers.contract import Snapshot
from muster.speed.input_pipeline import ModelTable
from muster.workload.jobs import JobTable

def of_snapshot(snapshot: Snapshot, job: int) -> None:
    snapshot.table.asked["{submit}"]
    snapshot.table.facts[job]["{attained}"] += 1.0

def of_table(table: JobTable) -> None:
    for fact in table.facts:
        fact["{state}"] = 1
    table.sized["{batch}"][0] = 3.0

def in_kernel(books: Books, job: int, models: ModelTable, outcome: LifecycleReport) -> int:
    row = books.heads[job]
    node = books.rows[row]["{node}"]
    for gpu in range(books.nodes[node]["{gpus}"]):
        books.devices[node, gpu]["{holders}"] += 1
    models[0]["{n_cpus}"] = 1
    outcome.held[0]["{from}"] = 0.0
    return new_row(books) + books.rows[books.rows[row]["{next}"]]["{mask}"]

def of_ledger(ledger: Ledger) -> None:
    ledger.books.nodes["{free}"][:, 0].sum()
    ledger.books.journal[0]["{kind}"]
"""
COLUMNS = [
    *("submit", "attained", "state", "batch", "node", "gpus", "holders"),
    *("n_cpus", "from", "next", "mask", "free", "kind"),
]


@pytest.mark.parametrize(("layout", "typed"), TYPES)
def test_the_type_of_an_array_names_the_columns_of_its_layout(layout: np.dtype[Any], typed: Any) -> None:
    (columns,) = get_args(typed)
    assert get_args(columns) == layout.names


def test_a_misspelt_column_fails_in_mypy(tmp_path: Path) -> None:
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(PLANTED.format(**{name: name for name in COLUMNS}))
    wrong.write_text(PLANTED.format(**{name: f"{name}s" for name in COLUMNS}))
    cache = os.environ.get("MYPY_CACHE_DIR", str(ROOT / ".mypy_cache"))
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache, str(right), str(wrong)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    failures = [line for line in checked.stdout.splitlines() if ": error: Invalid index type" in line]
    assert all(f"{wrong.name}:" in line for line in failures), checked.stdout
    assert len(failures) == len(COLUMNS), checked.stdout
    for name in COLUMNS:
        assert any(f"\"Literal['{name}s']\"" in line for line in failures), (name, checked.stdout)
