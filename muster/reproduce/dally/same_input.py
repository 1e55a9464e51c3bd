"""The authors' inputs beside their repaired program, run by run (needs the reference folder)."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from muster.reproduce.experiment import Effort, Experiment, Findings, Result, Row, Verdict, within
from muster.simulation import Options, rules_named
from muster.sweep.page import Table
from muster.sweep.pieces import Piece
from muster.workload.trace import Trace

CLUSTER = "dally-2x8x8"
RULES = "dally-published"
TOLERANCE = 0.05
SCALES = {
    "VGG": 0.01549,
    "AlexNet": 0.0199,
    "MobileNetV3": 0.00639,
    "ResNet18": 0.001223,
    "ResNet50": 0.03395,
    "BERT": 0.0001121,
}
"""The compute scales of Dally's authors."""
POLICIES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "Dally-auto24": ("dally", {}),
    "Dally-noWait": ("dally-nowait", {}),
    "Dally-manual6-12": ("dally-manual", {"machine_leases": "6", "rack_leases": "12"}),
    "Dally-manual12-24": ("dally-manual", {"machine_leases": "12", "rack_leases": "24"}),
    "Dally-fullyConsolidated": ("dally-consolidated", {}),
}
RIVALS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "Tiresias": ("tiresias-dally", {}),
    "Gandiva": ("gandiva-dally", {}),
}
"""Theirs are further from the papers than ours; for information."""
TRACES = {
    "batch500": "sense_500jobs_0start0arrival-withBert.csv",
    "poisson411": "sense_500jobs_poisson_1proc-week.csv",
}


@dataclass(frozen=True)
class Twin:
    """One of the authors' runs, done by us."""

    folder: Path
    trace: str
    """`batch500_x10`: which jobs, and how many times the authors' compute scale."""
    policy: str
    makespan: float
    jct: float
    fit: str = "first"
    """Which place of a level is taken; theirs takes the first, in an order that we do not know."""
    shifted: int = 0
    """Seed of shifts below a second of all arrivals; 0: none."""

    def inputs(self) -> Mapping[str, Any]:
        """All that the result depends on."""
        return {**asdict(self), "folder": str(self.folder)}

    def run(self) -> Mapping[str, Any]:
        """Makespan and mean completion time, in seconds."""
        from muster.cluster.shipped import parse_cluster
        from muster.schedulers.catalogue import build
        from muster.simulation import simulate
        from muster.speed.network.layers import read_layers
        from muster.workload.trace import read_trace

        jobs, _, times = self.trace.partition("_x")
        layers = read_layers(self.folder / "layers.csv")
        scaled = {name: layers[name].scaled(float(times) * scale) for name, scale in SCALES.items()}
        mapping = {"submit_seconds": "arrival_s", "gpu_work_seconds": "trace_duration_s"}
        trace = read_trace(self.folder / TRACES[jobs], kind="csv", mapping=mapping)
        if self.shifted:
            trace = _shifted(trace, self.shifted)
        rules = rules_named(RULES)
        preset, timers = {**POLICIES, **RIVALS}[self.policy]
        imposed = {
            key: self.fit if key == "fit" else value for key, value in rules.settings_for(preset).items()
        }
        scheduler = build(preset, {**imposed, **timers})
        # Their jobs have no input stage: no models of CPU and memory.
        options = Options(rules=rules)
        result = simulate(trace, parse_cluster(CLUSTER), scheduler, options, models={}, layers=scaled)
        done = result.record.jobs
        return {"makespan": done["finish_seconds"].max(), "jct": done["jct_seconds"].mean()}


def _shifted(trace: Trace, seed: int) -> Trace:
    """Every arrival up to a second later."""
    later = np.random.default_rng(seed).uniform(0.0, 1.0, len(trace.jobs))
    jobs = trace.jobs.with_columns(submit_seconds=pl.col("submit_seconds") + pl.Series(later))
    return replace(trace, jobs=jobs)


def twins(folder: Path, policies: Iterable[str] = POLICIES) -> list[Twin]:
    """The authors' runs of these policies."""
    with (folder / "authors_program_runs.csv").open(encoding="utf-8") as file:
        return [
            Twin(folder, row["trace"], row["policy"], float(row["makespan_s"]), float(row["avg_jct_s"]))
            for row in csv.DictReader(file)
            if row["policy"] in policies
        ]


def _twins(effort: Effort) -> list[Twin]:
    if not effort.reference:
        return []
    folder = effort.reference / "parity" / "dally"
    return [*twins(folder), *twins(folder, RIVALS)]


def _pieces(effort: Effort) -> Sequence[Piece]:
    return _twins(effort)


def _read(effort: Effort, results: Sequence[Result]) -> Findings:
    rows = _twins(effort)
    if not rows:
        remark = "the authors' inputs are not on this machine; MUSTER_REFERENCE names their folder"
        return Findings([Row("the authors' program on the same input", "", "", "", Verdict.NOT_RUN, remark)])
    lines = []
    asked = sum(row.policy in POLICIES for row in rows)
    good = {"makespan": 0, "jct": 0}
    for row, result in zip(rows, results, strict=True):
        line = [row.policy, row.trace]
        for figure, theirs in (("makespan", row.makespan), ("jct", row.jct)):
            ours = float(result[figure])
            if row.policy in POLICIES:
                good[figure] += within(ours, theirs, TOLERANCE) is Verdict.REACHED
            line += [f"{theirs:,.0f}", f"{ours:,.0f}", f"{100 * (ours / theirs - 1):+.1f} %"]
        lines.append(line)
    counted = [
        Row(
            f"same input: {what} within {100 * TOLERANCE:g} %",
            "",
            f"{asked} runs of Dally",
            f"{good[figure]} of {asked}",
            Verdict.REACHED if good[figure] == asked else Verdict.NOT_REACHED,
        )
        for figure, what in (("makespan", "makespan"), ("jct", "mean JCT"))
    ]
    header = ("Policy", "Trace", "Makespan, theirs (s)", "ours", "off", "Mean JCT, theirs (s)", "ours", "off")
    note = (
        f"Under `--rules {RULES}`; x1 and x10 are times the authors' compute scales. The next section says how much "
        "of it is the draw. Tiresias and Gandiva are `tiresias-dally` and `gandiva-dally`, for information."
    )
    return Findings(counted, tables=[Table("Run by run", header, lines, note)])


SAME_INPUT = Experiment(
    "same-input",
    "Same input as the authors' program",
    "The authors' simulator, its leak repaired and its network model replaced by the closed form, and Muster under its "
    "rules, on the same jobs.",
    _pieces,
    _read,
)
