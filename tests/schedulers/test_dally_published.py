"""Dally's timers on the authors' inputs, beside their repaired program run by run."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from muster.cluster.shipped import parse_cluster
from muster.simulation import rules_named
from muster.speed.network.layers import read_layers
from muster.workload.trace import Trace, read_trace
from tests.building import run

SCALES = {
    "VGG": 0.01549,
    "AlexNet": 0.0199,
    "MobileNetV3": 0.00639,
    "ResNet18": 0.001223,
    "ResNet50": 0.03395,
    "BERT": 0.0001121,
}
"""The compute scales of Dally's authors."""
MANUAL = {"machine_leases": "6", "rack_leases": "12"}, {"machine_leases": "12", "rack_leases": "24"}
WITHIN = {
    "Dally-manual6-12": ("dally-manual", MANUAL[0], 0.05, 0.05),
    "Dally-manual12-24": ("dally-manual", MANUAL[1], 0.05, 0.05),
    "Dally-auto24": ("dally", {}, 0.08, 0.05),
    "Dally-fullyConsolidated": ("dally-consolidated", {}, 0.05, 0.08),
}
"""How far makespan and mean JCT may be off; `docs/dally.md` has every row and the reasons."""


def batch(reference: Path) -> Trace:
    mapping = {"submit_seconds": "arrival_s", "gpu_work_seconds": "trace_duration_s"}
    file = "sense_500jobs_0start0arrival-withBert.csv"
    return read_trace(reference / "parity/dally" / file, kind="csv", mapping=mapping)


@pytest.mark.reference
@pytest.mark.parametrize("policy", WITHIN)
def test_batch_trace_beside_the_authors_program(reference: Path, policy: str) -> None:
    """500 jobs at once on 128 GPUs, compute ten times the authors' scale."""
    layers = read_layers(reference / "parity/dally/layers.csv")
    scaled = {name: layers[name].scaled(10 * scale) for name, scale in SCALES.items()}
    theirs = pl.read_csv(reference / "parity/dally/authors_program_runs.csv").row(
        by_predicate=(pl.col("trace") == "batch500_x10") & (pl.col("policy") == policy), named=True
    )
    preset, timers, makespan, mean = WITHIN[policy]
    rules = rules_named("dally-published")
    settings = {**rules.settings, **timers}
    result = run(batch(reference), parse_cluster("dally-2x8x8"), preset, settings, layers=scaled, rules=rules)
    jobs = result.record.jobs
    assert result.unfinished == 0
    assert jobs["finish_seconds"].max() == pytest.approx(theirs["makespan_s"], rel=makespan)
    assert jobs["jct_seconds"].mean() == pytest.approx(theirs["avg_jct_s"], rel=mean)
