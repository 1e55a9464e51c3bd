"""An export of a history that is read in pieces."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from muster.cluster.ledger import NodeAllocation
from muster.service import export
from muster.service.api import record
from muster.service.client import UnixConnection
from muster.service.export import record_and_trace
from muster.service.home import socket_path
from muster.service.store import Store, store
from muster.service.store.rows import AllocationInterval, PendingInterval, State, StoreChanges, Submission

from .serving import a_request, a_status, serving

JOBS = 23


def a_history(url: str) -> Store:
    """Jobs that ended, run and wait; only some of the last ones state CPUs, a tenant and a model."""
    made = Store.open(url)
    requests = [
        a_request(name=f"job{at}", gpus=at % 3 + 1, **({"cpus": 2.5, "tenant": "é"} if at > 15 else {}))
        for at in range(JOBS)
    ]
    made.submit([Submission(f"user{at % 2}", one) for at, one in enumerate(requests)])
    changes = StoreChanges()
    for job in range(1, JOBS + 1):
        state = list(State)[job % 7]
        ended = state not in (State.QUEUED, State.RUNNING, State.HELD)
        times = {"finished": job + 9.5, "run_seconds": 5.0, "restart_seconds": 0.25} if ended else {}
        reason = {"reason": "no_gpus", "reason_parameters": {"needs": 2.0, "free": 0.1 * job}}
        changes.job(job, state=state, **times, **(reason if state is State.QUEUED else {}))
        changes.pending.append(
            PendingInterval(job, "no_gpus", {"needs": 1.0, "free": job / 3}, 0.5, job + 0.5)
        )
        held = NodeAllocation(f"node-{job % 2}", tuple(range(job % 4)), 1.0, 2.0, 0.0)
        changes.opened.append(AllocationInterval(job, 1, held, job + 0.5, job + 9.5 if ended else None))
        figures = {"running": job, "waiting": 0, "started": job % 2, "stopped": 0, "changed": job % 3}
        free = dict.fromkeys(("free_gpus", "free_cpus", "free_memory_gb", "free_storage_gb_per_s"), 0.5)
        changes.decisions.append({"time_seconds": job * 1.0, "value": None, "bound": None} | figures | free)
    made.commit(changes)
    return made


def exported(history: Store, folder: Path) -> dict[str, bytes]:
    folder.mkdir()
    found, trace = record_and_trace(history, a_status(folder.parent))
    found.write(folder)
    trace.write_csv(folder / export.TRACE)
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_pieces_make_the_files_of_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = a_history(f"sqlite:///{tmp_path}/history.db")
    now = history.now()
    monkeypatch.setattr(history, "now", lambda: now)
    whole = exported(history, tmp_path / "whole")
    monkeypatch.setattr(export, "_PIECE", 4)
    monkeypatch.setattr(store, "_PIECE", 3)
    assert exported(history, tmp_path / "pieces") == whole
    assert len(whole["trace.csv"].splitlines()) == 1 + sum(
        row.state is State.COMPLETED for row in history.jobs()
    )
    history.close()


def test_the_record_has_every_decision_that_changes_jobs(tmp_path: Path) -> None:
    history = a_history(f"sqlite:///{tmp_path}/history.db")
    found, _ = record_and_trace(history, a_status(tmp_path))
    every = [row for row in history.decisions() if row["started"] or row["stopped"] or row["changed"]]
    assert found.decisions.rows(named=True) == every
    assert len(found.jobs) == len(found.allocations) == JOBS
    queued = sum(row.state is State.QUEUED for row in history.jobs())
    assert len(found.reasons) == JOBS + queued > JOBS
    history.close()


def test_a_client_that_hangs_up_leaves_no_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def open_files() -> list[str]:
        found = [str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
        return [each for each in found if "(deleted)" in each]

    monkeypatch.setattr(record, "_PIECE", 64)
    a_history(f"sqlite:///{tmp_path}/muster.db").close()
    before = open_files()
    with serving(tmp_path) as api:
        for _ in range(3):
            connection = UnixConnection(socket_path(api.home))
            connection.request("GET", "/v1/export")
            connection.getresponse().read(1)
            connection.close()
        give_up = time.monotonic() + 10.0
        while len(open_files()) > len(before) and time.monotonic() < give_up:
            time.sleep(0.05)
        assert open_files() == before
        assert api.ask("GET", "/v1/export").status == 200
