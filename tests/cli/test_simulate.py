"""`muster simulate`: what it writes, what it says, and that a wrong input writes nothing."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest

from muster.report.notes import command
from muster.schedulers.presets import DEFAULT_SCHEDULER

from .conftest import GPUS_ALONE, MUSTER, Outcome, muster_process

Muster = Callable[..., Outcome]

TWO_RACKS = """\
machines_per_rack = 1

[types.small]
gpus = 4
cpus = 8
memory_gb = 100

[[nodes]]
type = "small"
count = 2
"""

SLOW_ON_FEW_CPUS = """\
name = "slow"
family = "image"
batch = 64
seconds_per_iteration = 0.5
source = "made up"
licence = "none"
reference_cpus_per_gpu = 2
reference_memory_gb_per_gpu = 25
cpus_per_gpu = [1, 2, 4]
memory_gb_per_gpu = [25]
speed = [[0.6], [1.0], [1.5]]
"""

BROKEN = """\
from muster.schedulers.parts import Order

class Broken(Order):
    name = "broken"

    def key(self, jobs):
        raise ZeroDivisionError("on purpose")
"""


def test_the_record_is_whole_and_the_figures_are_those_of_hand(
    muster: Muster, trace: Path, tmp_path: Path
) -> None:
    out = tmp_path / "new" / "run"
    done = muster("simulate", trace, "--cluster", "1x8gpu", "--scheduler", "fifo", "--out", out, "--json")
    assert (done.status, done.err) == (0, GPUS_ALONE)
    assert {path.name for path in out.iterdir()} == {
        *("summary.json", "run.json", "jobs.parquet", "allocations.parquet"),
        *("decisions.parquet", "reasons.parquet"),
    }
    summary = json.loads((out / "summary.json").read_text())
    assert json.loads(done.out) == {"out": str(out), "summary": summary}
    # One server of 8: job 1 to 600; 2 and 3 side by side, 600 to 900 and 1500; 4 in 2's place; 5 at once.
    finish = dict(pl.read_parquet(out / "jobs.parquet").select("job_id", "finish_seconds").iter_rows())
    assert finish == {"1": 600.0, "2": 900.0, "3": 1500.0, "4": 960.0, "5": 4100.0}
    waits = [0.0, 590.0, 580.0, 870.0, 0.0]
    assert summary["wait_seconds"]["mean"] == pytest.approx(sum(waits) / 5)
    assert summary["completed"] == 5


def test_the_same_input_gives_the_same_bytes(muster: Muster, trace: Path, tmp_path: Path) -> None:
    flags = (
        "--cluster",
        "1x8gpu",
        "--scheduler",
        "las",
        "--round",
        "5min",
        "--seed",
        "3",
        "--knowledge",
        "noisy:1",
    )
    for name in ("a", "b"):
        assert muster("simulate", trace, *flags, "--out", tmp_path / name).status == 0
    for path in (tmp_path / "a").iterdir():
        one, other = path.read_bytes(), (tmp_path / "b" / path.name).read_bytes()
        if path.name == "summary.json":
            one, other = (
                json.dumps({**json.loads(text), "measured": None}).encode() for text in (one, other)
            )
        assert one == other, path.name


def test_the_command_in_the_record_makes_the_same_record_again(
    muster: Muster, trace: Path, tmp_path: Path
) -> None:
    cluster, models = tmp_path / "two racks.toml", tmp_path / "models"
    cluster.write_text(TWO_RACKS)
    models.mkdir()
    (models / "slow.toml").write_text(SLOW_ON_FEW_CPUS)
    first_line, *jobs = trace.read_text().splitlines()
    trace.write_text("\n".join([f"{first_line},model", *(f"{job},slow" for job in jobs)]) + "\n")
    first, again = tmp_path / "first", tmp_path / "again"
    flags = (
        "--scheduler",
        "las+tune",
        "--models",
        models,
        "--set",
        "quantum_seconds=120",
        "--restart-cost",
        "7",
    )
    done = muster("simulate", trace, "--cluster", cluster, *flags, "--out", first)
    assert done.status == 0, done.err
    typed = shlex.split(command([json.loads((first / "run.json").read_text())]).replace("\\\n", ""))
    assert typed[0] == "muster"
    assert typed[-2:] == ["--out", "out"]
    assert muster(*typed[1:-1], again).status == 0
    for table in ("jobs", "allocations", "decisions", "reasons"):
        assert (first / f"{table}.parquet").read_bytes() == (again / f"{table}.parquet").read_bytes()


def test_all_problems_are_reported_and_nothing_is_written(muster: Muster, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("job_id,submit_seconds,gpus,duration_seconds\n1,0,-1,5\n2,x,1,5\n")
    refused = muster(
        *("simulate", tmp_path / "bad.csv", "--cluster", "philli", "--scheduler", "laz", "--round", "-3"),
        *("--measure", "5", "--knowledge", "some", "--failures", "3", "--rules", "mine", "--set", "a"),
        *("--restart-cost", "much", "--round-origin", "noon", "--out", tmp_path / "out"),
    )
    assert (refused.status, refused.out) == (2, "")
    for said in (
        *(":2: gpus: found '-1'", ":3: submit_seconds: found 'x'"),
        *("Hint: did you mean philly?", "found 'laz'; no such part or preset. Hint: did you mean las"),
        *(
            "--round: found '-3'",
            "--measure: found '5'",
            "--knowledge: found 'some'",
            "--failures: found '3'",
        ),
        *("--rules: found 'mine'", "--set: found 'a'", "--restart-cost: found 'much'"),
        "--round-origin: found 'noon'",
    ):
        assert said in refused.err
    assert [path.name for path in tmp_path.iterdir()] == ["bad.csv"]


def test_with_json_a_refusal_is_an_object(muster: Muster, tmp_path: Path) -> None:
    refused = muster("simulate", tmp_path / "absent.csv", "--cluster", "1x8gpu", "--json")
    assert (refused.status, refused.err) == (2, "")
    error = json.loads(refused.out)["error"]
    assert error["status"] == 2
    assert error["problems"][0]["what"] == "there is no such file"
    usage = muster("simulate", "--json")
    assert "Missing argument" in json.loads(usage.out)["error"]["message"]


def test_a_folder_with_something_in_it_is_left_alone_unless_said(
    muster: Muster, trace: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("keep")
    flags = ("simulate", trace, "--cluster", "1x8gpu", "--out", out)
    refused = muster(*flags)
    assert refused.status == 2
    assert "--overwrite" in refused.err
    assert [path.name for path in out.iterdir()] == ["mine.txt"]
    (out / "mine.txt").unlink()
    assert muster(*flags).status == 0
    assert muster(*flags).status == 2
    (out / "summary.json").write_text("older")
    assert muster(*flags, "--overwrite").status == 0
    assert (out / "summary.json").read_text() != "older"


def test_a_share_of_a_gpu_is_refused_at_its_line(muster: Muster, tmp_path: Path) -> None:
    path = tmp_path / "shares.csv"
    path.write_text("job_id,submit_seconds,gpus,duration_seconds,gpu_milli\nlate,9,1,60,250\nearly,0,1,60,\n")
    flags = ("--cluster", "1x8gpu", "--scheduler", "slurm", "--out", tmp_path / "out")
    refused = muster("simulate", path, *flags)
    assert refused.status == 2
    assert refused.err == (
        f"{path}:2: gpu_milli: found 250; allowed: 1000, a whole GPU; job late asks for a share, and scheduler slurm "
        "gives whole GPUs alone\n"
    )


def test_a_job_that_can_never_run_is_named_or_left_out(muster: Muster, trace: Path, tmp_path: Path) -> None:
    flags = ("simulate", trace, "--cluster", "1x4gpu", "--out", tmp_path / "out")
    refused = muster(*flags)
    assert refused.status == 2
    assert "trace.csv:2: gpus: found 8; job 1 can never run" in refused.err
    assert "trace.csv:6: gpus: found 8; job 5 can never run" in refused.err
    assert not (tmp_path / "out").exists()
    done = muster(*flags, "--skip-impossible", "--json")
    summary = json.loads(done.out)["summary"]
    assert (summary["completed"], summary["refused"], summary["jobs_in_record"]) == (3, 2, 5)
    assert done.err == "left out 2 jobs that cluster 1x4gpu could never hold: 1, 5\n" + GPUS_ALONE
    assert "2 refused of 5 jobs, not in the figures" in muster(*flags, "--skip-impossible", "--overwrite").out


def test_a_job_that_can_never_run_is_found_in_any_order_and_form(muster: Muster, tmp_path: Path) -> None:
    (tmp_path / "helios.csv").write_text(
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
        "late,u,v,16,8,2,COMPLETED,2020-04-02 00:00:00,2020-04-02 00:00:00,2020-04-02 00:01:00,60,0\n"
        "none,u,v,0,8,1,COMPLETED,2020-04-01 06:00:00,2020-04-01 06:00:00,2020-04-01 06:01:00,60,0\n"
        "early,u,v,9,8,2,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:00,2020-04-01 00:01:00,60,0\n"
    )
    flags = ("simulate", tmp_path / "helios.csv", "--cluster", "1x8gpu", "--out", tmp_path / "out")
    refused = muster(*flags)
    assert "helios.csv:2: gpu_num: found 16; job late can never run" in refused.err
    assert "helios.csv:4: gpu_num: found 9; job early can never run" in refused.err
    assert "none" not in refused.err


def test_only_the_measured_jobs_count(muster: Muster, trace: Path, tmp_path: Path) -> None:
    flags = ("simulate", trace, "--cluster", "1x8gpu", "--json")
    done = muster(*flags, "--measure", "2:3", "--out", tmp_path / "out")
    assert json.loads(done.out)["summary"]["jobs"] == 2
    empty = muster(*flags, "--measure", "70:80", "--out", tmp_path / "other")
    assert empty.status == 2
    assert not (tmp_path / "other").exists()


def test_an_error_of_a_policy_ends_with_2_and_leaves_nothing(
    muster: Muster, trace: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(BROKEN)
    scheduler = f"{tmp_path / 'mine.py'}:Broken"
    flags = ("simulate", trace, "--cluster", "1x8gpu", "--scheduler", scheduler, "--out", tmp_path / "out")
    failed = muster(*flags)
    assert failed.status == 2
    where = f"{tmp_path / 'mine.py'}:7: in key"
    assert failed.err == f"{where}: ZeroDivisionError: on purpose; MUSTER_DEBUG=1 shows the traceback\n"
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["mine.py", "trace.csv"]
    assert not (tmp_path / "out").exists()


def test_a_failure_is_shown_in_full_where_asked_for(
    muster: Muster, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(BROKEN)
    monkeypatch.setenv("MUSTER_DEBUG", "1")
    scheduler = f"{tmp_path / 'mine.py'}:Broken"
    failed = muster(
        "simulate", trace, "--cluster", "1x8gpu", "--scheduler", scheduler, "--out", tmp_path / "out"
    )
    assert "mine.py" in failed.err
    assert "Traceback" in failed.err


def test_a_table_without_a_bar_goes_into_a_pipe(trace: Path, tmp_path: Path) -> None:
    done = muster_process("simulate", trace, "--cluster", "1x8gpu", folder=tmp_path)
    assert (done.status, done.err) == (0, GPUS_ALONE)
    assert "gittins" in done.out
    assert "\x1b" not in done.out
    assert (tmp_path / "muster-run" / "summary.json").exists()


def test_a_bar_with_what_is_left_is_shown_on_a_terminal(trace: Path, tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    command = [*MUSTER, "simulate", str(trace), "--cluster", "1x8gpu"]
    # Into a file, as the terminal alone has to be read while the command runs: it holds a few kB only.
    with (tmp_path / "stdout").open("w") as stdout:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=stdout, stderr=theirs)
    os.close(theirs)
    shown = ""
    with suppress(OSError):  # A terminal whose other end is closed ends so.
        while more := os.read(ours, 4096):
            shown += more.decode(errors="replace")
    os.close(ours)
    assert process.wait() == 0
    assert DEFAULT_SCHEDULER in shown
    assert "5/5" in shown
    assert "\x1b" not in (tmp_path / "stdout").read_text()


def test_a_terminal_of_no_width_gets_the_table(
    muster: Muster, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    done = muster("simulate", trace, "--cluster", "1x8gpu", "--scheduler", "fifo", "--out", tmp_path / "out")
    assert done.status == 0
    assert re.search(r"^ fifo", done.out, re.MULTILINE)
