"""What ended long ago goes, whole, and nothing else does."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from muster.cluster.ledger import NodeAllocation
from muster.runtime.records import DECISIONS
from muster.service import prune as pruning
from muster.service.home import WHOSE, job_folder
from muster.service.prune import Pruned, prune
from muster.service.store import Store
from muster.service.store.rows import (
    AllocationInterval,
    PendingInterval,
    State,
    StepsDone,
    StoreChanges,
    Submission,
)

from ..serving import Serving, a_request
from .conftest import Muster

DAY = 86_400.0
OLD, LATELY, LIVING = [1, 2], [3], [4, 5]
NOTHING = dict.fromkeys(set(DECISIONS) - {"time_seconds", "running", "value", "bound"}, 0.0)


def fill(store: Store, home: Path) -> float:
    """Jobs that ended 40 days ago, one of yesterday, and two that live; the moment of today."""
    now = store.now()
    submissions = [Submission("ann", a_request())] * 5
    assert store.submit(submissions) == [*OLD, *LATELY, *LIVING]
    changes = StoreChanges(
        decisions=[{"time_seconds": now - 40 * DAY, "running": 1} | NOTHING for _ in range(3)]
    )
    changes.decisions.append({"time_seconds": now - DAY, "running": 2} | NOTHING)
    for job in range(1, 6):
        ended = now - (40 * DAY if job in OLD else DAY)
        changes.opened.append(
            AllocationInterval(job, 1, NodeAllocation("n", (0,), 1.0, 1.0, 0.0), since=ended - 1)
        )
        changes.pending.append(PendingInterval(job, "no_gpus", {}, ended - 3, ended - 2))
        changes.event(job, ended, "completed")
        changes.steps.append(StepsDone(job, 1, ended, 100.0))
        if job in LIVING:
            changes.job(job, last_stop=ended)
        else:
            changes.job(job, state=State.COMPLETED, finished=ended)
        output = job_folder(home, job) / "output"
        output.mkdir(parents=True)
        (output / "0.log").write_bytes(b"x" * 1000)
    store.commit(changes)
    return now


def there(store: Store, home: Path) -> list[int]:
    """The jobs of which something is known, if it is all that there was."""
    jobs = [row.id for row in store.jobs()]
    assert (
        [one.job for one in store.allocation_intervals()]
        == [one.job for one in store.pending_intervals()]
        == jobs
    )
    assert [job for job in range(1, 6) if len(store.events(job)) == 2] == jobs
    assert [job for job in range(1, 6) if store.steps_done(job)] == jobs
    assert sorted(int(folder.name) for folder in (home / "jobs").iterdir()) == jobs
    return jobs


def test_prune_removes_all_traces_of_jobs_that_ended_before(api: Serving, muster: Muster) -> None:
    fill(api.store, api.home)
    tried = muster("prune", "--before", "30d", "--dry-run")
    assert tried.status == 0
    assert tried.out.startswith("2 jobs that ended before ")
    assert tried.out.endswith(" would go, with 2.00 kB in their folders.\n")
    assert there(api.store, api.home) == [*OLD, *LATELY, *LIVING]

    done = json.loads(muster("prune", "--before", "30d", "--json").out)
    assert (done["jobs"], done["bytes"], done["kept"], done["dry_run"]) == (2, 2000, [], False)
    assert done["before"] == pytest.approx(time.time() - 30 * DAY, abs=60)
    assert there(api.store, api.home) == [*LATELY, *LIVING]
    assert [row["running"] for row in api.store.decisions()] == [2]

    assert muster("prune", "--before", "0s").out.startswith("Pruned 1 job that ended before ")
    assert there(api.store, api.home) == LIVING
    assert muster("prune", "--before", "0s").out.endswith(", with 0 bytes in their folders.\n")
    assert muster("status", 1).err == "there is no job 1\n"
    assert api.store.submit([Submission("ann", a_request())]) == [6]


def test_it_is_for_operators_and_takes_a_time(api: Serving, muster: Muster) -> None:
    assert "--before: found 'long'; allowed: a time" in muster("prune", "--before", "long").err
    for without_unit in ("30", "1e3", " 0"):
        refused = muster("prune", "--before", without_unit)
        said = f"--before: found {without_unit!r}; allowed: a time with its unit, as 30d or 12h\n"
        assert (refused.status, refused.err) == (2, said)
    assert muster("prune").status == 2
    operator = api.ask("POST", "/v1/tokens", {"user": "me", "role": "operator"}).json["token"]
    user = api.ask("POST", "/v1/tokens", {"user": "ann"}, operator).json["token"]
    fill(api.store, api.home)
    assert api.ask("POST", "/v1/jobs:prune", {"before": time.time()}, user).status == 403
    assert api.ask("POST", "/v1/jobs:prune", {"before": "then"}, operator).status == 422
    assert there(api.store, api.home) == [*OLD, *LATELY, *LIVING]
    assert api.ask("POST", "/v1/jobs:prune", {"before": time.time()}, operator).json["jobs"] == 3


def test_what_is_not_a_jobs_folder_stays(api: Serving, muster: Muster) -> None:
    fill(api.store, api.home)
    folder = job_folder(api.home, 1)
    folder.rename(api.home / "elsewhere")
    folder.write_text("no folder")
    (api.home / "jobs" / "2" / WHOSE).write_text("bob 1.0")  # A job of another store.
    assert muster("prune", "--before", "30d").out.endswith(", with 0 bytes in their folders.\n")
    assert [row.id for row in api.store.jobs()] == [*LATELY, *LIVING]
    assert folder.read_text() == "no folder"
    assert (api.home / "jobs" / "2" / "output" / "0.log").exists()


def test_links_of_a_job_are_neither_counted_nor_followed(api: Serving, muster: Muster) -> None:
    fill(api.store, api.home)
    elsewhere = api.home / "data"
    elsewhere.mkdir()
    (elsewhere / "set").write_bytes(b"x" * 5000)
    output = job_folder(api.home, 1) / "output"
    (output / "data").symlink_to(elsewhere)
    (output / "set").symlink_to(elsewhere / "set")
    assert muster("prune", "--before", "30d").out.endswith(", with 2.00 kB in their folders.\n")
    assert not output.exists()
    assert (elsewhere / "set").stat().st_size == 5000


def test_the_daemon_dies_between_folder_and_row(api: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    now = fill(api.store, api.home)

    def dies(_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as dying:
        dying.setattr(api.store, "forget", dies)
        with pytest.raises(SystemExit):
            prune(api.store, api.home, now - 30 * DAY)
    assert not any(job_folder(api.home, job).exists() for job in OLD)
    assert [row.id for row in api.store.jobs()] == [*OLD, *LATELY, *LIVING]
    assert prune(api.store, api.home, now - 30 * DAY) == Pruned(jobs=2, next=2)
    assert there(api.store, api.home) == [*LATELY, *LIVING]


def test_it_goes_on_piece_by_piece(api: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    now = fill(api.store, api.home)
    monkeypatch.setattr(pruning, "_SECONDS", 0.0)
    monkeypatch.setattr(pruning, "_MOST_DECISIONS", 2)
    pieces: list[tuple[int, int | None]] = []
    after: int | None = 0
    while after is not None:
        piece = prune(api.store, api.home, now, after)
        pieces.append((piece.jobs, piece.next))
        after = piece.next
    assert pieces == [(1, 1), (1, 2), (1, 3), (0, 3), (0, 3), (0, None)]
    assert there(api.store, api.home) == LIVING
    assert list(api.store.decisions()) == []


def test_a_job_whose_folder_cannot_be_removed_is_kept(
    api: Serving, muster: Muster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(api.store, api.home)

    def refuses(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as refusing, capture_logs():
        refusing.setattr(shutil, "rmtree", refuses)
        done = muster("prune", "--before", "30d")
    assert done.status == 1
    assert "Job 2 stays: " in done.err
    assert "cannot be removed: Permission denied" in done.err
    assert there(api.store, api.home) == [*OLD, *LATELY, *LIVING]
