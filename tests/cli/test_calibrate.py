"""`muster calibrate`, and the recorded history as a row of `muster compare`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Outcome

Muster = Callable[..., Outcome]
# One GPU. The log lets job 2 pass job 1, which fifo does not: its starts are 0, 10, 15.
LOG = """job_id,submit_seconds,gpus,duration_seconds,start_seconds,end_seconds
0,0,1,10,0,10
1,1,1,5,13,18
2,2,1,3,10,13
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(LOG)
    return path


def test_calibrate_sets_a_scheduler_beside_the_log(muster: Muster, log: Path) -> None:
    found = muster("calibrate", str(log), "--cluster", "1x1gpu", "--scheduler", "fifo", "--json")
    figures = json.loads(found.out)
    assert (figures["jobs"], figures["runs"]) == (3, 1)
    assert figures["recorded_wait_seconds"]["mean"] == pytest.approx((0 + 12 + 8) / 3)
    assert figures["simulated_wait_seconds"]["mean"] == pytest.approx((0 + 9 + 13) / 3)
    assert figures["recorded_overtakes"] == pytest.approx(1 / 3)
    assert figures["simulated_overtakes"] == 0
    # |0 - 0|, |10 - 13|, |15 - 10|
    assert figures["start_error_p50_seconds"] == pytest.approx(3)
    assert figures["start_order_correlation"] == pytest.approx(0.5)


def test_a_difference_of_almost_nothing_has_no_minus(muster: Muster, tmp_path: Path) -> None:
    rows = "0,0,1,100000,0,100000\n1,0,1,5,100001,100006\n"
    (tmp_path / "log.csv").write_text(LOG.partition("\n")[0] + "\n" + rows)
    found = muster("calibrate", tmp_path / "log.csv", "--cluster", "1x1gpu", "--scheduler", "fifo")
    assert (found.out.count("+0.0%"), "-0.0%" in found.out) == (5, False), found.out


def test_starts_all_at_once_have_no_rank_correlation(muster: Muster, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    rows = "".join(f"{name},{name},1,10,9\n" for name in range(3))
    log.write_text(f"job_id,submit_seconds,gpus,duration_seconds,start_seconds\n{rows}")
    command = ("calibrate", str(log), "--cluster", "1x1gpu", "--scheduler", "fifo")
    assert json.loads(muster(*command, "--json").out)["start_order_correlation"] is None
    assert "rank correlation of starts –\n" in muster(*command).out


def test_calibrate_names_the_first_divergence(muster: Muster, log: Path) -> None:
    """Job 1 starts at 10 s here, where the log starts job 2, which comes at 2 s while job 0 runs."""
    command = ("calibrate", str(log), "--cluster", "1x1gpu", "--scheduler")
    figures = json.loads(muster(*command, "fifo", "--json").out)
    assert figures["first_divergence"] == {
        "job_id": "1",
        "gpus": 1.0,
        "submit_seconds": 1.0,
        "recorded_wait_seconds": 12.0,
        "simulated_wait_seconds": 9.0,
        "gpus_held": 1.0,
    }
    assert (figures["most_gpus_held"], figures["gpus"]) == (1.0, 1)
    said = " ".join(muster(*command, "fifo").out.split())
    assert "First divergence: job 1 of 1 GPU waited 12.0 s in the log and waits 9.00 s here" in said
    same = json.loads(muster(*command, "sjf", "--json").out)
    assert same["first_divergence"] is None


def test_calibrate_names_the_jobs_that_it_leaves_out(muster: Muster, log: Path) -> None:
    log.write_text(LOG + "3,3,64,1,20,21\n")
    command = (
        "calibrate",
        str(log),
        "--cluster",
        "1x1gpu",
        "--scheduler",
        "fifo",
        "--skip-impossible",
        "--json",
    )
    found = muster(*command)
    assert "left out 1 job that cluster 1x1gpu could never hold: 3" in found.err
    figures = json.loads(found.out)
    assert (figures["jobs"], figures["recorded_wait_seconds"]["max"]) == (3, 12.0)


def test_calibrate_runs_slurm_with_several_phases(muster: Muster, log: Path) -> None:
    found = muster("calibrate", str(log), "--cluster", "1x1gpu", "--phases", "3", "--json")
    assert json.loads(found.out)["runs"] == 3
    fixed = muster("calibrate", str(log), "--cluster", "1x1gpu", "--set", "bf_phase=0", "--json")
    assert json.loads(fixed.out)["runs"] == 1


def test_calibrate_says_how_far_apart_the_phases_are(muster: Muster, log: Path) -> None:
    """The one GPU is free at once, so that the first job waits for the first look of the main loop or of backfill."""
    command = ("calibrate", str(log), "--cluster", "1x1gpu", "--phases", "3")
    figures = json.loads(muster(*command, "--json").out)
    mean = figures["simulated_wait_seconds"]
    lowest, highest = figures["lowest_wait_seconds"], figures["highest_wait_seconds"]
    assert all(lowest[name] <= mean[name] <= highest[name] for name in mean)
    assert lowest["mean"] < mean["mean"] < highest["mean"]
    assert "lowest    highest" in muster(*command).out
    alone = muster("calibrate", str(log), "--cluster", "1x1gpu", "--scheduler", "fifo").out
    assert "lowest" not in alone


def test_calibrate_takes_the_settings_of_a_site(muster: Muster, log: Path, tmp_path: Path) -> None:
    config = tmp_path / "slurm.conf"
    config.write_text("ClusterName=c\nSchedulerParameters=bf_interval=7,bf_busy_nodes\n")
    command = ("calibrate", str(log), "--cluster", "1x1gpu", "--phases", "1", "--slurm-config", str(config))
    found = muster(*command)
    assert found.status == 0
    assert "The same settings elsewhere: --set bf_interval=7\n" in found.out
    assert "SchedulerParameters that are not simulated: bf_busy_nodes" in found.err
    own = ("--set", "bf_interval=5", "--set", "priority_tier=hi:10")
    said = muster(*command, *own).out.splitlines()[-1]
    assert said == "The same settings elsewhere: --set bf_interval=5 --set priority_tier=hi:10"
    settings = json.loads(muster(*command, *own, "--json").out)["settings"]
    assert settings == {"bf_interval": "5", "priority_tier": "hi:10"}


@pytest.mark.parametrize(
    ("parameters", "flags", "said"),
    [
        (
            "bf_interval=7,bf_window=9",
            "--scheduler fifo",
            "--slurm-config: found 'slurm.conf'; fifo has no setting bf_interval, bf_window_seconds; "
            "add --scheduler slurm, or leave the file out\n",
        ),
        ("bf_interval=0", "", "slurm.conf: found '0'; bf_interval: allowed: a number of seconds above 0\n"),
        (
            "bf_interval=7",
            "--scheduler fifo --set bf_interval=5",
            "--set bf_interval: found '5'; fifo has no such setting; allowed: ",
        ),
        ("bf_interval=7", "--scheduler fifa", "--scheduler: found 'fifa'; "),
    ],
)
def test_settings_of_a_site_are_refused_by_its_file(
    muster: Muster,
    log: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    parameters: str,
    flags: str,
    said: str,
) -> None:
    monkeypatch.chdir(log.parent)
    Path("slurm.conf").write_text(f"ClusterName=c\nSchedulerParameters={parameters}\n")
    command = ("calibrate", "log.csv", "--cluster", "1x1gpu", "--slurm-config", "slurm.conf")
    refused = muster(*command, *flags.split())
    assert refused.status == 2
    assert refused.err.startswith(said)


def test_calibrate_misses_no_settings_that_it_reads(muster: Muster, log: Path, tmp_path: Path) -> None:
    site = tmp_path / "site.txt"
    site.write_text(
        "ClusterName = c\nSchedulerParameters = bf_interval=7\n\n"
        "NodeName=n1 CPUTot=8 Gres=gpu:1 RealMemory=100000 State=IDLE Partitions=gpu\n"
    )
    command = ("calibrate", str(log), "--cluster", str(site), "--phases", "1")
    assert "Hint: muster calibrate --slurm-config" in muster(*command).err
    found = muster(*command, "--slurm-config", str(site))
    assert (found.status, "--set bf_interval=7" in found.out) == (0, True)
    assert "Hint: muster calibrate --slurm-config" not in found.err


def test_calibrate_counts_measured_jobs_alone(muster: Muster, log: Path) -> None:
    """Jobs 0 and 2 waited 0 s and 8 s, and wait 0 s and 13 s here; job 7, the first to diverge, is not measured."""
    text = log.read_text().replace("1,1,1,5", "7,1,1,5")
    log.write_text(text)
    command = ("calibrate", str(log), "--cluster", "1x1gpu", "--scheduler", "fifo", "--measure", "0:2")
    figures = json.loads(muster(*command, "--json").out)
    assert (figures["jobs"], figures["jobs_in_log"]) == (2, 2)
    assert figures["recorded_wait_seconds"]["mean"] == pytest.approx(4)
    assert figures["simulated_wait_seconds"]["mean"] == pytest.approx(6.5)
    assert figures["start_error_p50_seconds"] == pytest.approx(2.5)
    assert figures["first_divergence"]["job_id"] == "2"
    assert figures["first_divergence"]["gpus_held"] == figures["most_gpus_held"] == 1


def test_calibrate_needs_recorded_starts(muster: Muster, tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("job_id,submit_seconds,gpus,duration_seconds\n0,0,1,10\n")
    refused = muster("calibrate", str(trace), "--cluster", "1x1gpu")
    assert refused.status == 2
    assert "no job has a start in this log" in refused.err


def test_calibrate_compares_no_jobs_with_nothing(muster: Muster, tmp_path: Path) -> None:
    # The only job that the log started is too large for the cluster.
    lines = LOG.splitlines()
    log = tmp_path / "log.csv"
    log.write_text("\n".join([lines[0], "0,0,2,10,0,10", "1,1,1,5,,"]) + "\n")
    options = ("--cluster", "1x1gpu", "--scheduler", "fifo", "--skip-impossible")
    refused = muster("calibrate", str(log), *options)
    assert refused.status == 2
    assert "starts in the simulation too: there is nothing to compare" in refused.err


def test_compare_measures_the_same_jobs_of_the_log(muster: Muster, log: Path, tmp_path: Path) -> None:
    """Jobs 1 and 2 waited 12 s and 8 s in the log, and 9 s and 13 s under fifo; job 0 did not wait."""
    out = tmp_path / "out"
    flags = ("--cluster", "1x1gpu", "--scheduler", "fifo", "--measure", "1:2", "--out", str(out), "--json")
    content = json.loads(muster("compare", str(log), *flags).out)
    recorded, (fifo,) = content["recorded"], content["summaries"]
    assert recorded["jobs"] == fifo["jobs"] == 2
    assert recorded["wait_seconds"]["mean"] == pytest.approx(10)
    assert fifo["wait_seconds"]["mean"] == pytest.approx(11)
    assert "mean wait 10.0 s in the log and 11.0 s under fifo" in (out / "report.html").read_text()


def test_a_job_that_ends_without_a_start_did_not_run(muster: Muster, tmp_path: Path) -> None:
    # Job 3 was cancelled while it waited.
    log = tmp_path / "log.csv"
    log.write_text(f"{LOG}3,2,1,10,,7\n")
    out = tmp_path / "out"
    found = muster(
        "compare", str(log), "--cluster", "1x1gpu", "--scheduler", "fifo", "--out", str(out), "--json"
    )
    assert found.status == 0, found.err
    recorded = json.loads(found.out)["recorded"]
    assert (recorded["completed"], recorded["unfinished"]) == (3, 1)
    assert recorded["jct_seconds"]["mean"] == pytest.approx((10 + 17 + 11) / 3)
    assert recorded["utilization"]["gpu"] == pytest.approx(1.0)


def test_compare_shows_the_recorded_history_first(muster: Muster, log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = muster(
        "compare", str(log), "--cluster", "1x1gpu", "--scheduler", "fifo", "--out", str(out), "--json"
    )
    content = json.loads(found.out)
    recorded, (fifo,) = content["recorded"], content["summaries"]
    assert recorded["scheduler"] == "recorded"
    assert recorded["wait_seconds"]["mean"] == pytest.approx(20 / 3)
    assert recorded["makespan_seconds"] == fifo["makespan_seconds"] == pytest.approx(18)
    assert recorded["utilization"]["gpu"] == pytest.approx(1.0)
    assert json.loads((out / "comparison.json").read_text())["recorded"]["completed"] == 3
    page = (out / "report.html").read_text()
    assert "mean wait 6.67 s in the log and" in page
    assert '<span class="chip chip-2"></span>recorded' in page
