"""How busy CPUs are at low load: those that jobs hold, and those that they can use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.papers.experiment import Effort, Experiment, Findings, Result, Row, Verdict
from muster.cluster.shipped import parse_cluster
from muster.schedulers.registry import build
from muster.simulation import Options, simulate
from muster.speed.input_pipeline import model_table
from muster.speed.input_stage import relative_speed
from muster.sweep.page import Table
from muster.sweep.pieces import Piece
from muster.workload.generators.synergy import generate
from muster.workload.models import synergy_models

ALLOCATIONS = ("proportional", "tune", "tune-plus")
SPLITS = ((20, 70, 10), (33, 33, 33), (50, 0, 50))
LOAD = 3.0
"""Jobs an hour: with proportional shares 40 % of 128 GPUs are busy."""
JOBS, QUICK_JOBS = 1000, 300
CLAIM = 1.5


@dataclass(frozen=True)
class CpuUse:
    """One run at low load."""

    jobs: int
    split: tuple[int, int, int]
    allocation: str

    def inputs(self) -> Mapping[str, Any]:
        """All that the result depends on."""
        return {"jobs": self.jobs, "split": list(self.split), "allocation": self.allocation, "load": LOAD}

    def run(self) -> Mapping[str, Any]:
        """Shares of the cluster's CPUs over the time in which jobs arrive: held by jobs, and usable by them."""
        cluster = parse_cluster("synergy-16")
        trace = generate(self.jobs, LOAD, self.split)
        run = simulate(
            trace,
            cluster,
            build(f"fifo+{self.allocation}"),
            Options(round_seconds=300.0, restart_cost_seconds=0.0),
        )
        held = run.record.allocations.join(run.record.jobs.select("job_id", "model"), on="job_id", how="left")
        last_arrival = float(np.max(trace.jobs["submit_seconds"].to_numpy()))
        end = held["to_seconds"].to_numpy().clip(max=last_arrival)
        seconds = (end - held["from_seconds"].to_numpy()).clip(min=0.0)
        usable = {
            kind: _usable(*kind) for kind in set(held.select("model", "gpus", "cpus", "memory_gb").rows())
        }
        used = np.array([usable[kind] for kind in held.select("model", "gpus", "cpus", "memory_gb").rows()])
        capacity = cluster.total_cpus * last_arrival
        return {
            "held": float(np.sum(held["cpus"].to_numpy() * seconds)) / capacity,
            "used": float(np.sum(used * seconds)) / capacity,
        }


def _usable(name: str, gpus: float, cpus: float, memory_gb: float) -> float:
    """The fewest CPUs, at most those held, that make the job as fast as it is."""
    model = synergy_models()[name]
    table = model_table([model])

    def speed(cpus_per_gpu: float) -> float:
        return float(relative_speed(table, 0, cpus_per_gpu, memory_gb / gpus, np.inf))

    enough = [point for point in model.cpus_per_gpu if speed(point) >= speed(cpus / gpus) - 1e-9]
    return min(cpus, *(point * gpus for point in enough))


def _cases(effort: Effort) -> list[CpuUse]:
    jobs = QUICK_JOBS if effort.quick else JOBS
    splits = SPLITS[:1] if effort.quick else SPLITS
    return [CpuUse(jobs, split, name) for split in splits for name in ALLOCATIONS]


def _pieces(effort: Effort) -> Sequence[Piece]:
    return _cases(effort)


def _read(effort: Effort, results: Sequence[Result]) -> Findings:
    found = {
        (case.split, case.allocation): result for case, result in zip(_cases(effort), results, strict=True)
    }
    rows = []
    for (split, allocation), result in found.items():
        if allocation == "proportional":
            continue
        base = found[split, "proportional"]
        ratio = result["used"] / base["used"]
        rows.append(
            Row(
                f"CPUs used, {allocation} / proportional, {','.join(map(str, split))}",
                "1.5×",
                "",
                f"{ratio:.2f}×",
                Verdict.REACHED if ratio >= CLAIM else Verdict.NOT_REACHED,
                f"held: {result['held'] / base['held']:.2f}×",
            )
        )
    shares = [
        (
            f"{allocation}, {','.join(map(str, split))}",
            f"{100 * result['held']:.1f} %",
            f"{100 * result['used']:.1f} %",
        )
        for (split, allocation), result in found.items()
    ]
    note = "Used: the fewest CPUs, of those held, that make the jobs as fast as they are."
    return Findings(
        rows, tables=[Table("Share of all CPUs", ("Allocation, split", "Held", "Used"), shares, note)]
    )


LOW_LOAD = Experiment(
    "low-load",
    "CPU use at low load",
    f"The paper: at low load CPUs are used 1.5 times as much under tune as under GPU-proportional shares. Here: FIFO, "
    f"{LOAD:g} jobs of one GPU an hour on 128 GPUs.",
    _pieces,
    _read,
)
