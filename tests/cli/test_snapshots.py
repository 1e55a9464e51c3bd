"""`muster simulate --snapshot-at` and `muster replay`, and files that cannot be replayed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muster.cluster.resources import RESOURCE_COUNT
from muster.problems import InputError
from muster.runtime.snapshots.file import read_snapshot
from muster.runtime.snapshots.replay import replay
from tests.cli.conftest import Outcome

Muster = Callable[..., Outcome]

TRACE = "job_id,submit_seconds,gpus,duration_seconds\n" + "".join(
    f"{number},{number * 10},{2 + number % 3},{900 - 100 * number}\n" for number in range(8)
)
SIMULATE = ("simulate", "t.csv", "--cluster", "1x8gpu", "--scheduler", "fifo", "--out", "run")


@pytest.fixture
def snapshot(muster: Muster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a queue in which sooner and later jobs wait."""
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(TRACE)
    done = muster(*SIMULATE, "--snapshot-at", "75s")
    assert done.status == 0, done.err
    assert "muster replay run/snapshot.json" in done.out
    return tmp_path / "run/snapshot.json"


def test_the_same_scheduler_decides_the_same(muster: Muster, snapshot: Path) -> None:
    done = muster("replay", snapshot)
    assert done.status == 0, done.err
    assert "The same decision: " in done.out
    answer = json.loads(muster("replay", snapshot, "--json").out)
    assert answer["same"] is True
    assert answer["replayed"]["remembers"] is True
    assert answer["differences"] == []


def test_another_scheduler_differs_action_by_action(muster: Muster, snapshot: Path) -> None:
    answer = json.loads(muster("replay", snapshot, "--scheduler", "srtf", "--json").out)
    assert answer["same"] is False
    assert answer["replayed"]["remembers"] is False
    by_job = {one["job"]: (one["first"]["action"], one["second"]["action"]) for one in answer["differences"]}
    assert by_job["7"] == (None, "start")  # The shortest job is the last one.
    text = muster("replay", snapshot, "--scheduler", "srtf").out
    assert "begins without a memory" in text
    assert "start on node-0" in text


def test_slurm_says_why_each_job_of_another_waits(
    muster: Muster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its loops are due at the moment of the snapshot: it starts what fits, and reserves for the others."""
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(
        "job_id,submit_seconds,gpus,duration_seconds,time_limit_seconds\n"
        "0,0,6,900,1000\n1,10,8,900,1000\n2,20,2,90,100\n3,20,1,9000,9000\n"
    )
    assert muster(*SIMULATE, "--snapshot-at", "20s").status == 0
    done = muster("replay", "run/snapshot.json", "--scheduler", "slurm", "--json")
    decision = json.loads(done.out)["replayed"]
    assert [(one["job"], one["action"]) for one in decision["actions"]] == [("2", "start")]
    waits = {one["job"]: (one["reason"], one["parameters"]) for one in decision["pending"]}
    # Job 0 ends at 1000 s by its limit. Job 1 has all GPUs after it until 2000 s, rounded down to a multiple of 60.
    assert waits == {"1": ("reserved", {"seconds": 980.0}), "3": ("reserved", {"seconds": 1960.0})}


def test_one_job_differs(muster: Muster, snapshot: Path) -> None:
    file = json.loads(snapshot.read_text())
    file["decision"]["pending"][0]["reason"] = "held"
    snapshot.write_text(json.dumps(file))
    assert "1 job differs; of " in muster("replay", snapshot).out
    file["decision"]["pending"][1]["reason"] = "held"
    snapshot.write_text(json.dumps(file))
    assert "2 jobs differ; of " in muster("replay", snapshot).out


def test_settings_change_the_decision(muster: Muster, snapshot: Path) -> None:
    answer = json.loads(muster("replay", snapshot, "--set", "preemptive=true", "--json").out)
    assert answer["replayed"]["remembers"] is False
    assert muster("replay", snapshot, "--set", "nonsense=1").status == 2


def test_a_snapshot_does_not_say_how_long_jobs_take(muster: Muster, snapshot: Path) -> None:
    assert muster(*SIMULATE, "--overwrite", "--snapshot-at", "75", "--knowledge", "none").status == 0
    jobs = json.loads(snapshot.read_text())["jobs"]
    assert "iterations" not in jobs["spec"]
    assert "finish" not in jobs["status"]
    assert set(jobs["spec"]["believed"]) == {"nan"}
    assert set(jobs["spec"]["ideal"]) == {1.0}


def test_no_decision_after_the_time_writes_nothing(muster: Muster, snapshot: Path) -> None:
    done = muster(*SIMULATE[:-1], "other", "--snapshot-at", "90d")
    assert done.status == 2
    assert "--snapshot-at: found" in done.err
    assert not Path("other").exists()


NO_AMOUNTS = [0] * RESOURCE_COUNT
ACTION = {"job": "0", "action": "preempt", "allocations": [], "others": []}
BROKEN: list[tuple[str, Callable[[Any], object]]] = [
    ("version: found 2", lambda file: file.update(version=2)),
    ("jobs.number", lambda file: file["jobs"]["number"].__setitem__(0, 10**6)),
    ("jobs.spec.constraint", lambda file: file["jobs"]["spec"]["constraint"].__setitem__(0, 99)),
    ("jobs.spec.gpus", lambda file: file["jobs"]["spec"]["gpus"].append(1)),
    ("jobs.spec.model", lambda file: file["jobs"]["spec"]["model"].__setitem__(0, "x")),
    ("nodes.down", lambda file: file["nodes"]["down"].append("nowhere")),
    ("gpu_ids", lambda file: next(iter(file["holds"].values()))[0]["gpu_ids"].append(60)),
    ("holds.", lambda file: next(iter(file["holds"].values()))[0].update(cpus=1e6)),
    ("scheduler.state", lambda file: file["scheduler"].update(state="AAAA")),
    ("base 64", lambda file: file["scheduler"].update(state="?")),
    ("classes.sizes", lambda file: file["classes"]["sizes"].append([99, 1, 1])),
    ("classes.classes", lambda file: file["classes"]["classes"].append([0, 1])),
    ("GPUs up to 9", lambda file: file["classes"]["classes"].append([0, 10, *NO_AMOUNTS])),
    ("classes.below_share", lambda file: file["classes"]["below_share"].append([99, 1, *NO_AMOUNTS])),
    ("time", lambda file: file.pop("time")),
    ("time: Input should be greater", lambda file: file.update(time=-1)),
    ("time: Input should be a finite", lambda file: file.update(time=float("nan"))),
    ("time: Input should be a finite number", lambda file: file.update(time=float("inf"))),
    ("0.memory_gb", lambda file: next(iter(file["holds"].values()))[0].update(memory_gb=2**63)),
    ("cluster.nodes", lambda file: file["cluster"]["nodes"][0].update(memory_gb=-1)),
    ("decision.pending.0.job", lambda file: file["decision"]["pending"][0].pop("job")),
    ("decision.pending.1.reason", lambda file: file["decision"]["pending"][1].update(reason=[])),
    (
        "allocations.0.gpu_ids",
        lambda file: file["decision"]["actions"].append({**ACTION, "allocations": [{}]}),
    ),
    ("decision.actions.1.action", lambda file: file["decision"]["actions"].append({**ACTION, "action": 1})),
    ("jobs.others", lambda file: file["jobs"]["others"].pop("user")),
]


@pytest.mark.parametrize(("field", "spoil"), BROKEN, ids=[field for field, _ in BROKEN])
def test_a_broken_snapshot_is_refused_by_its_field(
    snapshot: Path, field: str, spoil: Callable[[Any], object]
) -> None:
    content = json.loads(snapshot.read_text())
    spoil(content)
    snapshot.write_text(json.dumps(content))
    with pytest.raises(InputError) as bad:
        replay(read_snapshot(snapshot), str(snapshot))
    assert field in str(bad.value)
    assert "snapshot.json" in str(bad.value)


def test_a_file_of_another_kind_is_refused(muster: Muster, snapshot: Path) -> None:
    assert "allowed: a file" in muster("replay", snapshot.parent / "run.json").err
    assert muster("replay", "t.csv").status == 2
    assert muster("replay", "nothing.json").status == 2
