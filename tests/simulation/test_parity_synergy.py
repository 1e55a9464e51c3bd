"""The published Synergy simulator on the same input: GPU-proportional FIFO, SRTF and LAS within 0.5 %."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from muster.cluster.shipped import parse_cluster
from muster.schedulers.registry import build
from muster.simulation import Options, rules_named, simulate
from muster.workload.trace import read_trace

ORIGINS: dict[str, float | str] = {
    "single_9perhour_20-70-10_12000.csv": 0.0,
    "static_60-30-10_100.csv": 1.0,
}
"""Where rounds start; the traces of a thousand jobs start at the first arrival rounded up (README there)."""


@pytest.mark.reference
@pytest.mark.parametrize("policy", ["FIFO", "SRTF", "LAS"])
@pytest.mark.parametrize(
    "trace",
    [
        "static_60-30-10_100.csv",
        "single_9perhour_20-70-10_1000.csv",
        "philly-sizes_5perhour_20-70-10_1000.csv",
        "multi_4perhour_33-33-33_1000.csv",
        "single_9perhour_20-70-10_12000.csv",
    ],
)
def test_proportional(reference: Path, trace: str, policy: str) -> None:
    folder = reference / "parity" / "synergy"
    rows = pl.read_csv(folder / "expected.csv").filter(
        (pl.col("trace") == trace) & (pl.col("policy") == policy) & (pl.col("mechanism") == "proportional")
    )
    if rows.is_empty():
        pytest.skip("the authors' figures have no such row")
    for row in rows.to_dicts():
        first, last = map(int, row["measured_ids"].split(":"))
        rules = rules_named("synergy-published")
        placement = {"first-fit": "first-fit", "consolidating": "pack"}[row["gpu_choice"]]
        result = simulate(
            read_trace(folder / trace),
            parse_cluster(f"synergy-{row['servers']}"),
            build(f"{policy.lower()}+proportional+{placement}", rules.settings),
            Options(
                round_seconds=300.0,
                round_origin=ORIGINS.get(trace, "first-arrival"),
                measure=(first, last),
                rules=rules,
            ),
        )
        measured = result.record.jobs.filter("measured")["jct_seconds"] / 3600
        assert len(measured) == last - first + 1
        assert measured.mean() == pytest.approx(row["mean_jct_hours"], rel=0.005)
        for name, quantile in (("p50_jct_hours", 0.5), ("p99_jct_hours", 0.99)):
            assert measured.quantile(quantile, "linear") == pytest.approx(row[name], rel=0.005)
