"""Options that cannot change a run: refused where that is sure before it, else named in a note."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.building import cluster_of, job, jobs_of, run

from .conftest import Outcome

Muster = Callable[..., Outcome]
HEADER = "job_id,submit_seconds,gpus,duration_seconds,model,time_limit_seconds"
PLAIN = ("1,0,8,600,,", "2,10,4,300,,")
LIMITED = ("1,0,8,600,,900", "2,10,4,300,,")
TALKING = ("1,0,8,600,resnet50,", "2,10,4,300,,")
ALONE = ("1,0,1,600,resnet50,", "2,10,4,300,,")
NETWORK = "no effect: no job depends on the network of this run"
LIMIT = "--end-at-limit has no effect: no job states a time limit"


@pytest.mark.parametrize(
    ("jobs", "flags", "said"),
    [
        (PLAIN, ("--end-at-limit",), LIMIT),
        (LIMITED, ("--end-at-limit",), ""),
        (PLAIN, ("--contention",), f"--contention has {NETWORK}"),
        (
            PLAIN,
            ("--network", "astra", "--congestion", "0.5", "--contention"),
            f"--network astra, --congestion 0.5 and --contention have {NETWORK}",
        ),
        (TALKING, ("--network", "astra", "--congestion", "0.5", "--contention"), ""),
        (TALKING, ("--congestion", "0.5"), f"--congestion 0.5 has {NETWORK}"),
        (ALONE, ("--network", "physical"), f"--network physical has {NETWORK}"),
        (PLAIN, ("--network", "none"), ""),
        (PLAIN, (), ""),
    ],
)
def test_what_has_no_effect_on_these_jobs_is_named(
    muster: Muster, tmp_path: Path, jobs: tuple[str, ...], flags: tuple[str, ...], said: str
) -> None:
    (tmp_path / "trace.csv").write_text("\n".join([HEADER, *jobs, ""]))
    given = ("--cluster", "2x8gpu", "--scheduler", "fifo", "--out", tmp_path / "out", *flags)
    done = muster("simulate", tmp_path / "trace.csv", *given)
    assert done.status == 0
    assert [line for line in done.err.splitlines() if "no effect" in line] == ([said] if said else [])


RIGID_AMOUNTS = ("las", "las+requested+spread", "fifo+easy", "slurm", "dally", "las+least-loss")
KNOWS = "this scheduler ignores --knowledge limit, as durations do not count there"


@pytest.mark.parametrize(("scheduler", "said"), [("gittins+joint", KNOWS), ("fifo", KNOWS), ("srtf", "")])
def test_schedulers_that_go_by_no_durations_ignore_what_is_known(
    muster: Muster, tmp_path: Path, scheduler: str, said: str
) -> None:
    (tmp_path / "trace.csv").write_text("\n".join([HEADER, *LIMITED, ""]))
    given = (
        "--cluster",
        "2x8gpu",
        "--scheduler",
        scheduler,
        "--knowledge",
        "limit",
        "--out",
        tmp_path / "out",
    )
    done = muster("simulate", tmp_path / "trace.csv", *given)
    assert done.status == 0
    assert [line for line in done.err.splitlines() if "knowledge" in line] == ([said] if said else [])


def test_resize_restarts_are_named_where_no_job_is_resized() -> None:
    """With and without them a run is then the same, and only then is it said."""
    trace = jobs_of(
        *(
            job(60 * at, 3000 - 100 * (at % 7), 1 + at % 3, model=("resnet18", "m5", "gnmt")[at % 3])
            for at in range(40)
        )
    )
    said = {}
    for name in (*RIGID_AMOUNTS, "las+tune", "srtf+tune-plus", "gittins+joint", "dally-tune"):
        runs = [run(trace, cluster_of(4, 4), name, resize_restarts=restarts) for restarts in (False, True)]
        one, other = (ran.record.jobs.drop("measured") for ran in runs)
        said[name] = any(
            "--resize-restarts has no effect" in note for note in runs[1].record.run["trace"]["notes"]
        )
        assert said[name] <= one.equals(other), name
        assert not any("--resize-restarts" in note for note in runs[0].record.run["trace"]["notes"])
    assert said == {name: name in RIGID_AMOUNTS for name in said}


def test_tenants_of_a_quota_without_jobs_are_named(muster: Muster, tmp_path: Path) -> None:
    rows = ("job_id,submit_seconds,gpus,duration_seconds,tenant", "1,0,8,600,vision", "2,10,4,300,speech", "")
    (tmp_path / "trace.csv").write_text("\n".join(rows))
    given = ("--cluster", "2x8gpu", "--scheduler", "quota+fifo", "--out", tmp_path / "out")
    limits = ("--set", "limits=vision:8,speeech:4", "--set", "weights=vision:2")
    done = muster("simulate", tmp_path / "trace.csv", *given, *limits)
    assert done.status == 0
    noted = [line for line in done.err.splitlines() if "quota" in line]
    assert noted == ["quota.limits has no effect for speeech: no job is of that tenant"]


def test_checkpoints_without_failures_are_noted(muster: Muster, tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text("\n".join([HEADER, *PLAIN, ""]))
    given = ("simulate", tmp_path / "trace.csv", "--cluster", "2x8gpu", "--out", tmp_path / "out")
    alone = muster(*given, "--checkpoint", "60")
    assert (alone.status, "--checkpoint 60 has no effect: no node fails" in alone.err) == (0, True)
    both = muster(*given, "--checkpoint", "60", "--failures", "30d:2h", "--overwrite")
    assert (both.status, "no effect" in both.err) == (0, False)
