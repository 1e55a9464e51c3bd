"""The real traces, read whole: counts and sums as their list (`data/README.md`) states them, and the time."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from muster.cluster.cluster_file import write_cluster_file
from muster.cluster.shipped import parse_cluster
from muster.workload.trace import read_trace, write_trace
from muster.workload.traces.mapped import parse_mapping
from muster.workload.traces.openb_nodes import read_nodes

pytestmark = pytest.mark.reference


def test_philly_with_sizes(reference: Path) -> None:
    trace = read_trace(reference / "data" / "traces" / "philly.csv.xz")
    jobs = trace.jobs
    assert jobs.height == 111_549
    assert trace.notes == ("set 10 durations of 0 s to 1 s",)
    by_size = dict(jobs["gpus"].value_counts().iter_rows())
    assert [by_size[size] for size in (1, 2, 4, 8, 16)] == [96_662, 2_522, 5_487, 5_716, 852]
    assert jobs["gpus"].max() == 128
    durations = jobs["duration_seconds"]
    assert durations.quantile(0.5, "linear") == 1_321
    assert durations.quantile(0.9, "linear") == pytest.approx(33_474, rel=1e-3)
    assert durations.quantile(0.99, "linear") == pytest.approx(755_541, rel=1e-3)
    assert durations.max() == 5_196_151
    gpu_time = jobs.group_by("gpus").agg((pl.col("gpus") * pl.col("duration_seconds")).sum().alias("time"))
    eight = gpu_time.filter(pl.col("gpus") == 8)["time"].item()
    assert eight / gpu_time["time"].sum() == pytest.approx(0.487, abs=5e-4)
    assert jobs["submit_seconds"][0] == 0.0


def test_philly_with_tenants(reference: Path) -> None:
    trace = read_trace(reference / "data" / "traces" / "philly_with_tenants.csv.xz")
    assert trace.notes == ("dropped 65 of 82,247 rows: the same as an earlier row in every cell",)
    assert trace.jobs.height == 82_247 - 65
    assert trace.jobs["tenant"].n_unique() == 15
    assert trace.jobs["submit_seconds"].min() == 0.0
    assert not trace.jobs["submit_seconds"].is_sorted()


def test_openb_pods(unshipped_reference: Path) -> None:
    trace = read_trace(unshipped_reference / "data" / "traces" / "alibaba_openb_pods.csv.xz")
    # 8,152 pods, of which 1,088 ask for no GPU; of the 897 pending ones 36 are among those.
    assert trace.notes == (
        "dropped 1,088 of 8,152 rows: no GPU asked for",
        "dropped 861 of 7,064 rows: never scheduled",
    )
    assert trace.jobs.height == 6_203
    shared = trace.jobs.filter(pl.col("gpu_milli") < 1000)
    assert shared.height > 0
    assert shared["gpus"].unique().to_list() == [1]


def test_openb_nodes_come_back_from_a_cluster_file(unshipped_reference: Path, tmp_path: Path) -> None:
    cluster = read_nodes(unshipped_reference / "data" / "clusters" / "alibaba_openb_gpu_nodes.csv.xz")
    assert (len(cluster.nodes), cluster.total_gpus) == (1_213, 6_212)
    write_cluster_file(cluster, tmp_path / "cluster.toml")
    assert parse_cluster(str(tmp_path / "cluster.toml")) == cluster


@pytest.mark.parametrize("name", ["synergy/single_9perhour_20-70-10_12000", "fifo/mixed_512gpus_1000"])
def test_native_lists(reference: Path, tmp_path: Path, name: str) -> None:
    trace = read_trace(reference / "parity" / f"{name}.csv")
    raw = pl.read_csv(reference / "parity" / f"{name}.csv")
    assert trace.jobs.height == raw.height
    for column in raw.columns[1:]:
        assert trace.jobs[column].to_list() == raw[column].to_list()
    write_trace(trace, tmp_path / "trace.parquet")
    assert read_trace(tmp_path / "trace.parquet").jobs.equals(trace.jobs)


def test_tiresias_through_a_mapping(unshipped_reference: Path) -> None:
    mapping = parse_mapping("submit=submit_time,gpus=num_gpu,duration=duration,model=model_name")
    trace = read_trace(unshipped_reference / "parity" / "tiresias" / "480_job.csv", mapping=mapping)
    raw = pl.read_csv(unshipped_reference / "parity" / "tiresias" / "480_job.csv")
    assert trace.jobs["duration_seconds"].to_list() == raw["duration"].to_list()
    assert trace.jobs["submit_seconds"].to_list() == raw["submit_time"].to_list()
    assert trace.jobs["gpus"].to_list() == raw["num_gpu"].to_list()
    assert trace.jobs["iterations"].null_count() == 480
    assert trace.notes == ("left out column iterations: another one was mapped to say how long a job is",)
