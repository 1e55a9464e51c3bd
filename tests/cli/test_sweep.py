"""`muster sweep`: every cell is the run alone, nothing finished is lost or done twice, mistakes are explained."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from muster.cli.progress import DRAWING
from muster.cluster.shipped import parse_cluster
from muster.report import summarise
from muster.schedulers.registry import build
from muster.simulation import Options, simulate
from muster.sweep.grid import points_of
from muster.sweep.pieces import name_of
from muster.sweep.results import means_of
from muster.sweep.show import sections_of
from muster.sweep.statistics import estimate, relative_difference
from muster.sweep.sweep_file import read_sweep_file
from muster.workload.generators.synergy import generate

from .conftest import TRACE, Outcome, muster_process

Muster = Callable[..., Outcome]

SWEEP = """\
title = "A small sweep"
schedulers = [
  "fifo+proportional",
  "srtf+proportional",
  { name = "las", label = "LAS", settings = { quantum_seconds = 600 } },
]
clusters = "1x8gpu"
seeds = 3

[[synergy]]
jobs = 30
loads = [0.5, 2]
"""

STOPPING = """\
import os
import signal
from pathlib import Path

from muster.schedulers.parts import Order

class Stopping(Order):
    name = "stopping"

    def key(self, jobs):
        armed = Path("armed")
        if armed.exists():
            how = int(armed.read_text())
            armed.unlink()
            os.killpg(os.getpgrp(), how)
            signal.pause()
        return jobs.arrival
"""

TWO_CELLS = """\
schedulers = ["fifo", "mine.py:Stopping"]
clusters = "1x8gpu"
traces = "trace.csv"
"""

NEEDED = ('schedulers = ["fifo"]', 'clusters = "1x8gpu"')
WORKLOAD = ("[[synergy]]", "jobs = 3")

WRITTEN = ("cells.csv", "cells.parquet", "means.csv", "report.html", "sweep.json")


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """A folder in which a small sweep was made, and what the command answered."""
    folder = tmp_path_factory.mktemp("swept")
    (folder / "sweep.toml").write_text(SWEEP)
    return folder, muster_process("sweep", "sweep.toml", "--out", "out", "--workers", "2", folder=folder)


def test_everything_is_written(swept: tuple[Path, Outcome]) -> None:
    folder, done = swept
    *progress, note = done.err.splitlines()
    assert all(line.endswith("of 18 runs done") for line in progress if line != DRAWING)
    assert (done.status, "cluster 1x8gpu does not state all resources of its nodes" in note) == (0, True)
    assert "The page with charts: out/report.html" in done.out
    assert [name for name in WRITTEN if (folder / "out" / name).exists()] == list(WRITTEN)
    assert len(list((folder / "out" / "cells").glob("*.json"))) == 18
    charts = {path.stem for path in (folder / "out" / "charts").glob("*.png")}
    assert charts == {"mean-jct", "mean-jct-vs-first", "p99-jct", "makespan", "mean-wait"}
    page = (folder / "out" / "report.html").read_text()
    assert "http" not in page.replace("http://www.w3.org", "").replace("http-equiv", "")
    assert "A small sweep" in page


def test_what_was_cleaned_and_left_out_is_printed_once(muster: Muster, tmp_path: Path) -> None:
    log = tmp_path / "sacct.txt"
    moments = "2024-01-01T00:00:00|2024-01-01T00:00:00|2024-01-01T00:01:00|00:01:00"
    rows = [f"1|{moments}|gres/gpu=1", f"2|{moments}|gres/gpu=99", f"3|{moments}|cpu=1"]
    log.write_text("\n".join(["JobID|Submit|Start|End|Elapsed|ReqTRES", *rows]) + "\n")
    lines = ('schedulers = ["fifo", "sjf"]', f'traces = "{log}"', "[[options]]", "skip_impossible = true")
    (tmp_path / "sweep.toml").write_text("\n".join(('clusters = "1x8gpu"', *lines)) + "\n")
    done = muster("sweep", tmp_path / "sweep.toml", "--out", tmp_path / "out", "--workers", "1")
    assert done.status == 0, done.err
    assert done.err.count("sacct.txt: dropped 1 of 3 rows: no GPU asked for\n") == 1
    assert done.err.count("sacct.txt: left out 1 job that cluster 1x8gpu could never hold: 2\n") == 1


def test_jobs_that_do_not_complete_are_counted_by_kind(muster: Muster, tmp_path: Path) -> None:
    """Under las jobs 1 and 2 take turns, and restarts bring one to its limit: its mean is of two jobs alone."""
    head, out = "job_id,submit_seconds,gpus,duration_seconds,time_limit_seconds", tmp_path / "out"
    rows = ["1,0,8,36000,36000", "2,0,8,3000,3600", "3,10,8,600,3600"]
    (tmp_path / "trace.csv").write_text("\n".join([head, *rows]) + "\n")
    lines = (
        f'traces = "{tmp_path / "trace.csv"}"',
        'clusters = "1x8gpu"',
        "options = [{ end_at_limit = true }]",
    )
    (tmp_path / "sweep.toml").write_text("\n".join(['schedulers = ["fifo", "las"]', *lines]) + "\n")
    done = muster("sweep", tmp_path / "sweep.toml", "--out", out, "--workers", "1")
    note = "las: 1 timed out; these jobs are not in the figures."
    assert note in done.out, done.err
    assert (out / "report.html").read_text().count(note) == 2
    cells = pl.read_csv(out / "cells.csv")
    assert cells.select("completed", "timed_out", "cancelled").rows() == [(3, 0, 0), (2, 1, 0)]
    means = json.loads((out / "sweep.json").read_text())["means"]
    assert [mean["not_completed"]["timed_out"] for mean in means] == [0, 1]


def test_a_note_names_the_schedulers_that_it_is_about(muster: Muster, tmp_path: Path) -> None:
    trace = tmp_path / "deadlines.csv"
    trace.write_text(
        "job_id,submit_seconds,duration_seconds,gpus,deadline_seconds\n1,0,60,1,600\n2,0,60,1,\n"
    )
    schedulers = '["edf", "fifo", { name = "las", label = "Least" }]'
    (tmp_path / "sweep.toml").write_text(
        f'clusters = "1x8gpu"\nschedulers = {schedulers}\ntraces = "{trace}"\n'
    )
    done = muster("sweep", tmp_path / "sweep.toml", "--out", tmp_path / "out", "--workers", "1")
    assert done.status == 0, done.err
    said = "deadlines.csv: fifo and Least ignore deadline_seconds, which 1 job of 2 state\n"
    assert done.err.count("ignore") == done.err.count(said) == 1


def test_a_cell_is_the_run_alone(swept: tuple[Path, Outcome]) -> None:
    folder, _ = swept
    cells = pl.read_parquet(folder / "out" / "cells.parquet")
    assert cells.height == 18
    row = cells.row(
        by_predicate=(pl.col("load") == 2) & (pl.col("seed") == 1) & (pl.col("scheduler") == "LAS"),
        named=True,
    )
    trace = generate(30, 2.0, (20, 70, 10), seed=1)
    scheduler = build("las", {"quantum_seconds": "600"})
    summary = summarise(simulate(trace, parse_cluster("1x8gpu"), scheduler, Options(seed=1)).record)
    assert row["jct_mean_seconds"] == summary["jct_seconds"]["mean"]
    assert row["wait_p99_seconds"] == summary["wait_seconds"]["p99"]
    assert row["makespan_seconds"] == summary["makespan_seconds"]
    assert row["cpu_use"] == summary["utilization"]["cpu"]


def test_neither_place_nor_number_of_workers_shows(swept: tuple[Path, Outcome], tmp_path: Path) -> None:
    folder, _ = swept
    (tmp_path / "sweep.toml").write_text(SWEEP)
    assert (
        muster_process("sweep", "sweep.toml", "--out", "out", "--workers", "1", folder=tmp_path).status == 0
    )
    for path in (folder / "out").rglob("*"):
        if path.is_file():
            assert (tmp_path / "out" / path.relative_to(folder / "out")).read_bytes() == path.read_bytes(), (
                path
            )


def test_nothing_finished_is_done_again(swept: tuple[Path, Outcome], muster: Muster, tmp_path: Path) -> None:
    """One cell is lost, one damaged; a seed is added: the rest keep their files."""
    folder, _ = swept
    sweep = tmp_path / "more.toml"
    sweep.write_text(SWEEP.replace("seeds = 3", "seeds = 4"))
    cells = folder / "out" / "cells"
    lost, damaged, *kept = sorted(cells.glob("*.json"))
    whole = lost.read_bytes(), damaged.read_bytes()
    lost.unlink()
    damaged.write_text('{"inputs": {')
    before = {path: path.stat().st_mtime_ns for path in kept}
    again = muster("sweep", sweep, "--out", folder / "out", "--json")
    assert again.status == 0
    shown = json.loads(again.out)
    written = json.loads((folder / "out" / "sweep.json").read_text())
    assert (shown["cells"], shown["means"]) == (24, written["means"])
    assert (lost.read_bytes(), damaged.read_bytes()) == whole
    assert {path: path.stat().st_mtime_ns for path in kept} == before
    assert len(list(cells.glob("*.json"))) == 24


@pytest.mark.parametrize("signal_number", [9, 2])
def test_a_stop_loses_only_what_was_running(tmp_path: Path, signal_number: int) -> None:
    (tmp_path / "trace.csv").write_text(TRACE)
    (tmp_path / "mine.py").write_text(STOPPING)
    (tmp_path / "sweep.toml").write_text(TWO_CELLS)
    (tmp_path / "armed").write_text(str(signal_number))
    command = ("sweep", "sweep.toml", "--out", "out", "--workers", "1")
    stopped = muster_process(*command, folder=tmp_path)
    cells = tmp_path / "out" / "cells"
    if signal_number == 2:
        assert (stopped.status, stopped.out) == (130, "")
        assert "1 of 2 runs is done and kept in out" in stopped.err
        assert not list(cells.glob(".muster*"))
    else:
        assert stopped.status == -9
    (finished,) = cells.glob("*.json")
    stamp = finished.stat().st_mtime_ns
    assert not (tmp_path / "out" / "sweep.json").exists()
    resumed = muster_process(*command, folder=tmp_path)
    assert resumed.status == 0, resumed.err
    assert finished.stat().st_mtime_ns == stamp
    assert pl.read_parquet(tmp_path / "out" / "cells.parquet").height == 2


def test_a_changed_policy_or_trace_is_another_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from muster.sweep import cell

    monkeypatch.chdir(tmp_path)
    sweep = tmp_path / "sweep.toml"
    sweep.write_text(TWO_CELLS)
    names = set()
    for trace, policy in ((TRACE, STOPPING), (TRACE + "6,1,1,1,a\n", STOPPING), (TRACE, STOPPING + "\n")):
        Path("trace.csv").write_text(trace)
        Path("mine.py").write_text(policy)
        cell._sha256_of.cache_clear()
        names |= {name_of(point.cell) for point in points_of(read_sweep_file(sweep))}
    assert len(names) == 5  # the second policy text changes one of the two cells only


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "schedulers: this field is missing"),
        ("seeds = 0", ":1: seeds: found 0; allowed: a number of seeds from 1 to 10,000"),
        ("seeds = [1, 1]", "1 stands twice; each value once"),
        ("scheduler = 1", "Hint: did you mean schedulers?"),
        ('schedulers = "fifo"', "schedulers: found 'fifo'; allowed: a list in [ ]"),
        (
            'schedulers = ["fifo", "fivo"]',
            ":1: schedulers.2.name: found 'fivo'; no such part or preset",
        ),
        (
            'schedulers = [{ name = "fifo", label = " " }]',
            "label: found ' '; allowed: text that is not only spaces",
        ),
        ('schedulers = ["fifo", "fifo"]', "another one is called the same; give each a label"),
        ('schedulers = [{ name = "las", settings = { quanta = 3 } }]', "las has no such setting"),
        ('clusters = ["1x0gpu"]', "clusters.1: found '1x0gpu'; allowed: 1 to "),
        ('clusters = ["nowhere"]', "clusters.1: found 'nowhere'; "),
        ("[[synergy]]\njobs = 0", ":4: synergy.1.jobs: found 0; allowed: 1 or more"),
        (
            "[[synergy]]\njobs = 5\nloads = [1, -2]",
            ":5: synergy.1.loads.2: found -2; allowed: more than 0",
        ),
        ("[[synergy]]\njobs = 5\nloads = []", "synergy.1.loads: allowed: at least one entry"),
        (
            '[[synergy]]\njobs = 5\nsplits = ["1,2"]',
            "three whole numbers (image, language, speech), not all 0",
        ),
        ("[[synergy]]\nload = 5", "Hint: did you mean loads?"),
        ("[[mixed]]\njobs = 5", "mixed.1.gpus: this field is missing"),
        ('[[options]]\nrules = "guessed"', "options.1.rules: found 'guessed'; allowed: exact"),
        ("[[options]]\nround_seconds = -1", ":4: options.1.round_seconds"),
        ('[[options]]\nmeasure = "5"', "allowed: two job ids, as '4000:4999'"),
        ('[[options]]\nmeasure = "9:5"', "FIRST:LAST needs FIRST <= LAST"),
        ('[[options]]\nround_origin = "noon"', "allowed: 'first-arrival' or a number of seconds"),
        ('[[options]]\nfailures = "often"', "options.1.failures: found 'often'"),
        (
            '[[options]]\nfailures = "10h"',
            "options.1.failures: found '10h'; allowed: BETWEEN:REPAIR with two times, as 30d:2h",
        ),
        ('traces = ["absent.csv"]', "there is no such file"),
        ("seeds = ", "this is not TOML"),
    ],
)
def test_a_wrong_file_is_explained(muster: Muster, tmp_path: Path, text: str, said: str) -> None:
    """Each text stands in a sweep file that is right but for it."""
    lines = text.splitlines()
    own = {line.partition(" ")[0] for line in lines}
    needed = [line for line in NEEDED if text and line.partition(" ")[0] not in own]
    path = tmp_path / "sweep.toml"
    if text.startswith("[["):
        path.write_text("\n".join([*needed, *lines, *([] if "synergy" in text else WORKLOAD)]))
    else:
        path.write_text("\n".join([*lines, *needed, *(WORKLOAD if "traces" not in text else [])]))
    refused = muster("sweep", path, "--out", tmp_path / "out")
    assert refused.status == 2, refused.err
    assert "Traceback" not in refused.err
    assert said in refused.err
    assert not (tmp_path / "out").exists()


def test_a_folder_of_something_else_is_refused(muster: Muster, tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_text(SWEEP)
    refused = muster("sweep", tmp_path / "sweep.toml", "--out", tmp_path)
    assert refused.status == 2
    assert "holds no sweep to go on with" in refused.err


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=12))
def test_an_interval_is_students(values: list[float]) -> None:
    found = estimate(values)
    oracle = stats.ttest_1samp(values, 0.0).confidence_interval(0.95) if len(set(values)) > 1 else None
    assert found.half_width is not None
    if oracle is not None:
        assert math.isclose(found.mean - found.half_width, oracle.low, rel_tol=1e-9, abs_tol=1e-6)
        assert math.isclose(found.mean + found.half_width, oracle.high, rel_tol=1e-9, abs_tol=1e-6)
    else:
        assert found.half_width == pytest.approx(0.0, abs=1e-9 * max(map(abs, values)))


def test_an_interval_by_hand_and_of_one_seed() -> None:
    """t(2 degrees, 97.5 %) = 4.3027, from any table."""
    assert estimate([1, 2, 3]).half_width == pytest.approx(4.3027 / 3**0.5, rel=1e-4)
    assert estimate([7]).half_width is None


def test_differences_are_taken_seed_by_seed(swept: tuple[Path, Outcome]) -> None:
    """What a seed does to both is out: a scheduler that always takes 10 % longer has no interval at all."""
    longer = relative_difference([11.0, 22.0, 55.0], [10.0, 20.0, 50.0])
    assert longer is not None
    assert longer.mean == pytest.approx(0.1)
    assert longer.half_width == pytest.approx(0.0, abs=1e-12)
    assert relative_difference([1.0], [0.0]) is None
    folder, _ = swept
    cells = pl.read_parquet(folder / "out" / "cells.parquet").filter(pl.col("load") == 2)
    of = {name: rows["jct_mean_seconds"].to_numpy() for (name,), rows in cells.group_by("scheduler")}
    (mean,) = (mean for mean in means_of(cells) if mean.scheduler == "LAS")
    against = mean.against_first["jct_mean_seconds"]
    assert against is not None
    assert against.mean == pytest.approx((of["LAS"] / of["fifo+proportional"] - 1).mean())
    content = json.loads((folder / "out" / "sweep.json").read_text())
    assert content["first_scheduler"] == "fifo+proportional"


def test_differences_are_of_the_same_jobs(swept: tuple[Path, Outcome]) -> None:
    """With one seed of LAS that leaves a job unfinished, its times are of other jobs; its use of GPUs is not."""
    folder, _ = swept
    cells = pl.read_parquet(folder / "out" / "cells.parquet").filter(pl.col("load") == 2)
    one = (pl.col("scheduler") == "LAS") & (pl.col("seed") == cells["seed"].min())
    (whole,) = (mean for mean in means_of(cells) if mean.scheduler == "LAS")
    for kind, times in (
        ("unfinished", False),
        ("timed_out", False),
        ("refused", False),
        ("preemptions", True),
    ):
        changed = cells.with_columns(pl.when(one).then(pl.col(kind) + 1).otherwise(kind).alias(kind))
        (mean,) = (mean for mean in means_of(changed) if mean.scheduler == "LAS")
        known = {name for name, entry in mean.against_first.items() if entry is not None}
        before = {name for name, entry in whole.against_first.items() if entry is not None}
        of_jobs = {name for name in before if name.startswith(("jct", "wait", "makespan", "slowdown", "rho"))}
        assert {"jct_mean_seconds", "wait_mean_seconds", "makespan_seconds"} <= of_jobs
        assert known - {"preemptions"} == (before if times else before - of_jobs) - {"preemptions"}, kind
        assert mean.figures == whole.figures or kind == "preemptions"
        page = "".join(" ".join(section.paragraphs) for section in sections_of(means_of(changed)))
        assert ("There is none where a seed has a job" in page) != times


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--on", "slurm", "--address", "a:1"], "--address: found 'a:1'; allowed with --on ray only\n"),
        (["--on", "ray", "--partition", "a"], "--partition: found 'a'; allowed with --on slurm only\n"),
        (["--on", "slurms"], "--on: found 'slurms'; allowed: ray, slurm\n"),
        (["--address", "a:1"], "--on: allowed: ray, slurm\n"),
        (["--partition", "a"], "--on: allowed: ray, slurm\n"),
    ],
)
def test_a_place_must_be_named_with_its_own_flag(
    muster: Muster, tmp_path: Path, flags: list[str], message: str
) -> None:
    (tmp_path / "sweep.toml").write_text(SWEEP)
    refused = muster("sweep", tmp_path / "sweep.toml", "--out", tmp_path / "out", *flags)
    assert (refused.status, refused.out, refused.err) == (2, "", message)
    assert not (tmp_path / "out").exists()
