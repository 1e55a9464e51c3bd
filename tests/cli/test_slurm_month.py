"""The generated month of a Slurm site, read back from its two files as a real site's are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from muster.cluster.shipped import parse_cluster
from muster.workload.site_log import read_site_log
from tests.building import run

from .conftest import Outcome

Muster = Callable[..., Outcome]


@pytest.fixture
def site(muster: Muster, tmp_path: Path) -> Path:
    done = muster("generate", "slurm-month", "--jobs", "700", "--gpus", "64", "-o", tmp_path / "site")
    assert (done.status, done.out) == (0, f"700 jobs on 64 GPUs in {tmp_path / 'site'}\n")
    return tmp_path / "site"


def test_a_month_has_what_real_logs_have(site: Path) -> None:
    lines = [line.split("|") for line in (site / "sacct.txt").read_text().splitlines()[1:]]
    jobs = [line for line in lines if "." not in line[0]]
    states = Counter(line[6] for line in jobs)
    assert {"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED by 1000", "NODE_FAIL"} == set(states)
    assert sum("_" in line[0] for line in jobs) > 100
    assert sum(line[9] == "None" for line in jobs) > 5
    assert states["NODE_FAIL"] == sum(line[15] == "1" for line in jobs) > 0
    log = read_site_log(site / "sacct.txt")
    assert set(log.trace.jobs["constraint"]) == {"gpu_type=h100", "gpu_type=a100"}
    assert log.trace.jobs.height == 700 - sum(line[9] == "None" for line in jobs)
    assert (log.trace.jobs["time_limit_seconds"] >= log.trace.jobs["duration_seconds"]).all()


def test_a_month_has_the_nodes_that_are_documented(site: Path) -> None:
    nodes = parse_cluster(str(site / "scontrol.txt")).nodes
    counts = Counter((node.gpu_type, node.gpus, node.cpus, node.memory_gb) for node in nodes)
    assert counts == {("h100", 8, 96.0, 1048.576): 6, ("a100", 8, 96.0, 1048.576): 2}


def test_the_tasks_of_an_array_are_counted_from_0(site: Path) -> None:
    ids = [line.split("|")[0] for line in (site / "sacct.txt").read_text().splitlines()[1:]]
    tasks: dict[str, set[int]] = {}
    for array, task in (one.split("_") for one in ids if "_" in one and "." not in one):
        tasks.setdefault(array, set()).add(int(task))
    assert len(tasks) > 5
    assert all(found == set(range(len(found))) for found in tasks.values())


def test_no_node_of_a_month_has_more_than_its_gpus(site: Path) -> None:
    ran = read_site_log(site / "sacct.txt").trace.jobs.filter(~pl.col("node_list").str.contains(","))
    changes: dict[str, list[tuple[float, int]]] = {}
    for node, start, end, gpus in ran.select("node_list", "start_seconds", "end_seconds", "gpus").iter_rows():
        changes.setdefault(node, []).extend([(start, gpus), (end, -gpus)])
    for moments in changes.values():
        held = 0
        for _, change in sorted(moments):
            held += change
            assert 0 <= held <= 8
    assert len(changes) == 8


def test_the_scheduler_that_made_a_month_repeats_its_starts(site: Path) -> None:
    trace = read_site_log(site / "sacct.txt").trace
    again = run(trace, parse_cluster(str(site / "scontrol.txt")), "fifo+easy+requested").record.jobs
    recorded = dict(trace.jobs.select("job_id", "start_seconds").iter_rows())
    assert max(recorded.values()) > 0
    assert dict(again.select("job_id", "start_seconds").iter_rows()) == recorded
    assert (trace.jobs["start_seconds"] > trace.jobs["submit_seconds"]).sum() > 20


def test_the_seed_decides_a_month(site: Path, muster: Muster, tmp_path: Path) -> None:
    for seed, name in (("0", "same"), ("1", "other")):
        muster(
            "generate", "slurm-month", "--jobs", "700", "--gpus", "64", "--seed", seed, "-o", tmp_path / name
        )
    texts = [(tmp_path / name / "sacct.txt").read_bytes() for name in ("site", "same", "other")]
    assert texts[0] == texts[1] != texts[2]


def test_a_month_is_replaced_only_on_demand(muster: Muster, tmp_path: Path) -> None:
    words = ("generate", "slurm-month", "--jobs", "5", "-o", tmp_path / "site")
    assert muster(*words).status == 0
    found = muster(*words, "--seed", "1")
    assert (found.status, "say --overwrite" in found.err) == (2, True)
    assert muster(*words, "--seed", "1", "--overwrite").status == 0


@pytest.mark.parametrize("gpus", ["24", "33"])
def test_a_site_too_small_or_with_half_a_node_is_refused(muster: Muster, tmp_path: Path, gpus: str) -> None:
    refused = muster("generate", "slurm-month", "--jobs", "5", "--gpus", gpus, "-o", tmp_path / "site")
    assert refused.status == 2
    assert f"--gpus: found {gpus}; allowed: a multiple of 8 that is 32 or more" in refused.err
    assert not list(tmp_path.iterdir())
