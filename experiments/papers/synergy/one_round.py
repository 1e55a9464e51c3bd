"""One round with every GPU taken: the total speed of a plan against the best that a pooled cluster could do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from scipy.optimize import linprog

from experiments.papers.experiment import Effort, Experiment, Findings, Result, Row, Verdict
from muster.cluster.shipped import parse_cluster
from muster.schedulers.registry import build
from muster.simulation import Options, simulate
from muster.speed.input_pipeline import model_table
from muster.speed.input_stage import relative_speed
from muster.sweep.page import Table
from muster.sweep.pieces import Piece
from muster.workload.generators.synergy import generate
from muster.workload.models import Model, synergy_models

ALLOCATIONS = ("proportional", "tune-published", "tune", "tune-plus", "opt")
SPLITS = ((20, 70, 10), (33, 33, 33))
SERVERS = (4, 16, 64)
QUICK_SERVERS = (16,)
PUBLISHED = {
    (16, (20, 70, 10), "tune-published"): 1 - 160.44 / 170.09,
    (16, (33, 33, 33), "tune-published"): 1 - 142.95 / 161.24,
}
"""Below the optimum, on 128 jobs of the authors' generator (their program and an integer program, run by us)."""
CLAIM = 0.10


@dataclass(frozen=True)
class OneRound:
    """A job of one GPU for every GPU, all there at once; what the first round gives them."""

    servers: int
    split: tuple[int, int, int]
    allocation: str

    def inputs(self) -> Mapping[str, Any]:
        """All that the result depends on."""
        return {"servers": self.servers, "split": list(self.split), "allocation": self.allocation}

    def run(self) -> Mapping[str, Any]:
        """Total speed, in GPUs at their fair share, and the bound on it."""
        cluster = parse_cluster(f"{self.servers}x8gpu,24cpu,500gb,0.5gb/s")
        trace = generate(int(cluster.total_gpus), split=self.split, static=True)
        run = simulate(
            trace,
            cluster,
            build(f"fifo+{self.allocation}"),
            Options(round_seconds=300.0, restart_cost_seconds=0.0),
        )
        held = run.record.allocations.filter(pl.col("from_seconds") == 0.0)
        models = synergy_models()
        names = list(models)
        table = model_table([models[name] for name in names])
        model_of = dict(zip(trace.jobs["job_id"], trace.jobs["model"], strict=True))
        speeds = [
            relative_speed(table, names.index(model_of[job]), cpus, memory, storage)
            for job, cpus, memory, storage in held.select(
                "job_id", "cpus", "memory_gb", "storage_gb_per_s"
            ).rows()
        ]
        counts = trace.jobs["model"].value_counts()
        bound = pooled_bound(
            {models[name]: count for name, count in counts.rows()},
            cluster.total_cpus,
            cluster.total_memory_gb,
        )
        return {"jobs": len(speeds), "speed": float(np.sum(speeds)), "bound": bound}


def pooled_bound(jobs: Mapping[Model, int], cpus: float, memory_gb: float) -> float:
    """The most total speed on one ideal machine, no job below the fair share (opt, stage 1, relaxed; §4.1).

    Every measured point at least as fast as the fair one is a column; a mix of points is allowed, so that it
    bounds what is interpolated between them, too.
    """
    gpus = sum(jobs.values())
    fair = cpus / gpus, memory_gb / gpus
    gain, used_cpus, used_memory, group = [], [], [], []
    models = list(jobs)
    table = model_table(models)
    for number, model in enumerate(models):
        fair_speed = relative_speed(table, number, *fair, np.inf)
        points = {(c, m) for c in (*model.cpus_per_gpu, fair[0]) for m in (*model.memory_gb_per_gpu, fair[1])}
        for c, m in sorted(points):
            speed = relative_speed(table, number, c, m, np.inf)
            if speed >= fair_speed - 1e-12:
                gain.append(speed)
                used_cpus.append(c)
                used_memory.append(m)
                group.append(number)
    member = (np.arange(len(models))[:, None] == np.array(group)).astype(float)
    answer = linprog(
        -np.array(gain),
        A_ub=[used_cpus, used_memory],
        b_ub=[cpus, memory_gb],
        A_eq=member,
        b_eq=list(jobs.values()),
        method="highs",
    )
    assert answer.fun is not None, "the fair share of every job is a solution"
    return -answer.fun


def _cases(effort: Effort) -> list[OneRound]:
    servers = QUICK_SERVERS if effort.quick else SERVERS
    return [OneRound(size, split, name) for size in servers for split in SPLITS for name in ALLOCATIONS]


def _pieces(effort: Effort) -> Sequence[Piece]:
    return _cases(effort)


def _read(effort: Effort, results: Sequence[Result]) -> Findings:
    cases = _cases(effort)
    below = {
        case: max(0.0, 1 - result["speed"] / result["bound"])
        for case, result in zip(cases, results, strict=True)
    }
    rows = []
    for case in cases:
        if case.allocation == "proportional":
            continue
        published = PUBLISHED.get((case.servers, case.split, case.allocation))
        claimed = case.allocation in ("tune", "tune-published")
        verdict = Verdict.OTHER_SETTING
        if claimed:
            verdict = Verdict.REACHED if below[case] <= CLAIM else Verdict.NOT_REACHED
        rows.append(
            Row(
                f"{case.allocation} below the bound, {8 * case.servers} GPUs, {_words(case.split)}",
                "within 10 %" if claimed else "",
                "" if published is None else f"{100 * published:.1f} %",
                f"{100 * below[case]:.1f} %",
                verdict,
                "" if claimed else "the paper has no such figure",
            )
        )
    table = [
        (
            f"{8 * case.servers} GPUs, {_words(case.split)}",
            case.allocation,
            f"{result['jobs']}",
            f"{result['speed']:.2f}",
            f"{result['bound']:.2f}",
        )
        for case, result in zip(cases, results, strict=True)
    ]
    header = ("Round", "Allocation", "Jobs placed", "Total speed", "Bound")
    return Findings(rows, tables=[Table("Total speed, in GPUs at their fair share", header, table)])


def _words(split: Sequence[int]) -> str:
    return ",".join(map(str, split))


ONE_ROUND = Experiment(
    "one-round",
    "Tune against the optimum, in one round",
    "The paper: tune is within 10 % of opt. Here: a job of one GPU for every GPU, all there at once; total speed "
    "of the first round against the relaxed optimum of one ideal machine.",
    _pieces,
    _read,
)
