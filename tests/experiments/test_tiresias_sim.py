"""Tiresias' orders: the index by its definition, hand-worked queues, and its simulator's own runs row by row."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from muster.cluster import Cluster, Node
from muster.cluster.shipped import parse_cluster
from muster.problems import InputError
from muster.schedulers.queue_order.tiresias import gittins_index
from muster.schedulers.registry import build
from muster.workload.trace import read_trace
from tests.building import cluster_of, column, finishes, job, jobs_of, run

COLUMNS = {"submit_seconds": "submit_time", "gpus": "num_gpu", "duration_seconds": "duration"}
CLUSTERS = {"n15g4": "15x4gpu,40cpu,256gb", "n4g4": "4x4gpu,40cpu,256gb"}


def test_gittins_index_is_its_definition() -> None:
    services = np.sort(np.random.default_rng(3).lognormal(7, 2, 200))
    for attained in (0.0, 10.0, float(services[50]), 5000.0, float(services[-1]) + 1):
        alive = services[services > attained]
        if not len(alive):
            expected = 0.0
        else:
            soon = float((alive <= attained + 300.0).mean())
            expected = soon / float(np.minimum(alive - attained, 300.0).mean())
        assert gittins_index(services, np.array([attained]), 300.0)[0] == pytest.approx(expected)


def test_a_job_falls_at_its_threshold_and_not_before() -> None:
    # Two GPUs: job 0 has 100 GPU-seconds at 50 and falls behind job 1, which falls at 150; then job 0 started first.
    trace = jobs_of(job(0, 200, gpus=2), job(10, 200, gpus=2))
    result = run(trace, cluster_of(2), "2d-las", {"thresholds": "100"})
    assert json.dumps(result.record.run, allow_nan=False)
    held = result.record.allocations.sort("from_seconds")
    assert list(zip(held["job_id"], held["from_seconds"], held["to_seconds"], strict=True)) == [
        ("0", 0.0, 50.0),
        ("1", 50.0, 100.0),
        ("0", 100.0, 250.0),
        ("1", 250.0, 400.0),
    ]


def test_seconds_count_a_gang_once() -> None:
    trace = jobs_of(job(0, 200, gpus=2), job(10, 200, gpus=2))
    result = run(trace, cluster_of(2), "2d-las", {"thresholds": "100", "service": "seconds"})
    assert finishes(result) == [300, 400]


def test_who_waited_too_long_goes_back_to_the_first_queue() -> None:
    # Job 0 falls at 100 and would wait for all the short ones; after 1 x 100 s of waiting it is first again.
    shorts = [job(at, 60) for at in range(50, 600, 50)]
    trace = jobs_of(job(0, 150), *shorts)
    plain = run(trace, cluster_of(1), "2d-las", {"thresholds": "100"})
    promoted = run(trace, cluster_of(1), "2d-las", {"thresholds": "100", "promote_knob": "1"})
    assert column(plain, "finish_seconds")[0] == 150 + 60 * len(shorts)
    # At 200 it has waited as long as it ran.
    assert column(promoted, "finish_seconds")[0] == 200 + 50


@pytest.mark.parametrize(("model", "start"), [("alexnet", 100), ("bert-large", 1), ("unheard-of", 1)])
def test_only_skewed_models_are_kept_together(model: str, start: float) -> None:
    nodes = tuple(Node(kind, "t", 0, 2, kind, 2, 6, 100, 1.0, 1.0) for kind in ("a", "b"))
    held = [job(0, 100, constraint=f"gpu_type={kind}") for kind in ("a", "b")]
    trace = jobs_of(*held, job(1, 10, gpus=2, model=model))
    result = run(trace, Cluster("two", nodes, ("r",)), "fifo+proportional+skew", models={})
    assert column(result, "start_seconds") == [0, 0, start]


def test_unknown_schedules_are_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="tiresias-sim:dlas-gpu"):
        build("tiresias-sim:dlass")


@pytest.mark.reference
def test_every_row_of_their_simulator(unshipped_reference: Path) -> None:
    """All but three to the last digit printed, ends and preemptions with them.

    Equal remaining GPU times go another way on 60 jobs, equal Gittins indices on 480; in gandiva a job's end is
    ours to the second and theirs to the step of 10 s.
    """
    folder = unshipped_reference / "parity" / "tiresias"
    services = (folder / "yarn-gput1000.csv").read_text().split()[1:]
    off = {
        ("60_job.csv", "shortest-gpu"): 0.005,
        ("480_job.csv", "dlas-gpu-gittins"): 0.005,
        ("60_job.csv", "gandiva"): 0.025,
        ("480_job.csv", "gandiva"): 0.002,
    }
    rows = pl.read_csv(folder / "results_py3_runs.csv").filter(pl.col("note").is_null())
    checked = 0
    for row in rows.rows(named=True):
        schedule, yarn = row["schedule"], row["scheme"] == "yarn"
        if schedule == "lpjf" or (yarn and schedule not in ("fifo", "fjf")):
            continue  # a preemptive schedule packs again at every event: the scheme changes nothing there
        trace = read_trace(folder / row["trace"], kind="csv", mapping=COLUMNS)
        settings = {"services": ",".join(services)} if "gittins" in schedule else {}
        name = "gandiva-sim" if schedule == "gandiva" else f"tiresias-sim:{schedule}" + "-yarn" * yarn
        result = run(trace, parse_cluster(CLUSTERS[row["cluster_spec"]]), name, settings)
        mean = float(np.mean(column(result, "jct_seconds")))
        rounding = off.get((row["trace"], schedule))
        if rounding is None:
            assert mean == pytest.approx(row["avg_jct_s"], abs=0.051), row
            assert max(finishes(result)) == row["max_end_s"], row
            assert sum(column(result, "preemptions")) == row["preempts"], row
        else:
            assert mean == pytest.approx(row["avg_jct_s"], rel=rounding), row
        checked += 1
    assert checked == 26


@pytest.mark.parametrize(
    ("cluster", "row", "refusal"),
    [
        (cluster_of(4, 2), {}, "--scheduler: found 'test'; gandiva-sim needs nodes of one size"),
        (cluster_of(4, 4), {"gpu_milli": 500}, "gandiva-sim knows whole GPUs"),
        (cluster_of(4, 4), {"preemptible": False}, "gandiva-sim knows whole GPUs"),
    ],
)
def test_gandiva_sim_refuses_what_its_program_lacks(
    cluster: Cluster, row: dict[str, object], refusal: str
) -> None:
    with pytest.raises(InputError) as problem:
        run(jobs_of(job(0, 10, **row)), cluster, "gandiva-sim")
    assert refusal in str(problem.value)
