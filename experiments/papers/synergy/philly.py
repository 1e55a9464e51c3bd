"""Microsoft's Philly trace on 512 GPUs: its arrivals, sizes and durations, with Synergy's models given to its jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.papers.experiment import Effort, Experiment, Findings, Result, Row, Verdict
from experiments.papers.synergy.workloads import ALLOCATIONS, ORDERS, ROUND_SECONDS, settings_of
from muster import formatting
from muster.simulation import Options
from muster.sweep.cell import Cell, FromFile
from muster.sweep.page import Table
from muster.sweep.pieces import Piece
from muster.workload.generators.synergy import models_in_turn
from muster.workload.trace import Trace, trace_of

TRACE = "data/traces/philly.csv.xz"
SPLIT = (20, 70, 10)
FIRST, LAST = 2000, 4999
"""Jobs by arrival: they keep 512 GPUs busy beyond what those can do, as the paper's own use of the trace does."""


@dataclass(frozen=True)
class PhillyJobs:
    """The jobs between two places in the order of arrival, models in turn."""

    path: Path
    first: int
    last: int

    def inputs(self) -> Mapping[str, Any]:
        """What determines the trace."""
        return {**FromFile(self.path).inputs(), "first": self.first, "last": self.last, "split": list(SPLIT)}

    def trace(self) -> Trace:
        """As it is, but for the models, which the trace does not state."""
        whole = FromFile(self.path).trace().jobs.sort("submit_seconds", maintain_order=True)
        jobs = whole[self.first : self.last + 1].select("submit_seconds", "gpus", "duration_seconds")
        models = models_in_turn(SPLIT)
        columns = {
            "job_id": np.arange(self.first, self.first + len(jobs)),
            "submit_seconds": jobs["submit_seconds"] - jobs["submit_seconds"][0],
            "gpus": jobs["gpus"],
            "duration_seconds": jobs["duration_seconds"],
            "model": [next(models) for _ in range(len(jobs))],
        }
        return trace_of(
            columns, f"Philly, jobs {self.first} to {self.last} by arrival, Synergy's models in turn"
        )


def _cells(effort: Effort) -> list[Cell]:
    if effort.reference is None or effort.quick:
        return []
    jobs = PhillyJobs(effort.reference / TRACE, FIRST, LAST)
    options = Options(round_seconds=float(ROUND_SECONDS), restart_cost_seconds=0.0)
    return [
        Cell(
            jobs,
            "synergy-64",
            f"{order}+{name}",
            options,
            {setting: str(value).lower() for setting, value in settings_of(order, name).items()},
        )
        for order in ORDERS
        for name in ALLOCATIONS
    ]


def _pieces(effort: Effort) -> Sequence[Piece]:
    return _cells(effort)


def _read(effort: Effort, results: Sequence[Result]) -> Findings:
    cells = _cells(effort)
    if not cells:
        remark = "with the whole run only, and where MUSTER_REFERENCE names the folder of the trace"
        return Findings([Row("Philly's jobs on 512 GPUs", "", "", "", Verdict.NOT_RUN, remark)])
    by_name = {cell.scheduler: result for cell, result in zip(cells, results, strict=True)}
    rows, table = [], []
    for name, result in by_name.items():
        base = by_name[f"{name.partition('+')[0]}+proportional"]
        mean, p99 = (result["jct_seconds"][key] for key in ("mean", "p99"))
        ratio = base["jct_seconds"]["mean"] / mean
        table.append((name, formatting.duration(mean), formatting.duration(p99), f"{ratio:.2f}×"))
        if not name.endswith("+proportional"):
            rows.append(Row(name, "", "", f"{ratio:.2f}×", Verdict.OTHER_SETTING))
    header = ("Scheduler", "Mean JCT", "p99", "Proportional's mean over it")
    return Findings(rows, tables=[Table("Completion times", header, table)])


PHILLY = Experiment(
    "philly",
    "The Philly trace on 512 GPUs",
    f"The paper replays Philly's trace on 512 GPUs and shows curves. Here: jobs {FIRST} to {LAST} by arrival, as they "
    "are; the trace does not state models, so Synergy's ten come in turn, 20,70,10. A fixed list has no seeds.",
    _pieces,
    _read,
)
