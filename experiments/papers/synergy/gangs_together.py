"""Full clusters of gangs drawn at random against a bound that keeps gangs together.

On the one pooled machine of stage 1 a gang of 8 that wants 8 cores leaves the other 16 of its machine to somebody; on
real machines no job can join them, since all their GPUs are taken. Here gangs of whole machines are taken out with
their machines, at the speed of their share, and only the others share a pooled machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from experiments.papers.experiment import Effort, Experiment, Findings, Result, Row, Verdict
from experiments.papers.synergy.random_mixes import (
    GANGS,
    MEAN_GOAL,
    P99_GOAL,
    all_at_once,
    random_mix,
    servers_of,
)
from muster.schedulers.certify import bound_of_plan, speed_of_plan
from muster.schedulers.registry import build
from muster.sweep.pieces import Piece
from muster.workload.trace import Trace, trace_of

MACHINE = 8
"""GPUs; the share of one of them is the reference, at which every model has speed 1."""


@dataclass(frozen=True)
class GangsTogether:
    """The random mixes of gangs, under tune-plus."""

    servers: int
    mixes: int

    def inputs(self) -> Mapping[str, Any]:
        """All that the result depends on."""
        return {"servers": self.servers, "mixes": self.mixes, "gangs": "together"}

    def run(self) -> Mapping[str, Any]:
        """Total speed of every mix, and both bounds."""
        cluster = servers_of(self.servers)
        scheduler = build("fifo+tune-plus", {"preemptive": "true"})
        found: dict[str, list[float]] = {"tune-plus": [], "pooled": [], "together": []}
        for mix in range(self.mixes):
            trace = random_mix(MACHINE * self.servers, GANGS, np.random.default_rng([self.servers, mix]))
            view = all_at_once(trace, cluster)
            scheduler.decide(view, scheduler.initial(cluster))
            found["tune-plus"].append(speed_of_plan(view))
            found["pooled"].append(bound_of_plan(view))
            found["together"].append(bound_together(trace, self.servers))
        return found


def bound_together(trace: Trace, servers: int) -> float:
    """The most that any plan could reach in which gangs of whole machines have them to themselves."""
    gpus = pl.col("gpus")
    whole = int(trace.jobs.filter(gpus >= MACHINE)["gpus"].sum()) // MACHINE
    # The last gang of a mix is cut to the GPUs that were left: what it has beyond whole machines is among the others.
    beside = pl.when(gpus >= MACHINE).then(gpus % MACHINE).otherwise(gpus)
    others = trace.jobs.with_columns(beside.alias("gpus")).filter(gpus > 0)
    if others.is_empty():
        return float(MACHINE * whole)
    kept = others.select("job_id", "submit_seconds", "duration_seconds", "gpus", "model")
    view = all_at_once(trace_of(kept.to_dict(), trace.source), servers_of(servers - whole))
    return MACHINE * whole + bound_of_plan(view)


def _cases(effort: Effort) -> list[GangsTogether]:
    return [GangsTogether(16, 50)] if effort.quick else [GangsTogether(16, 200), GangsTogether(64, 200)]


def _pieces(effort: Effort) -> Sequence[Piece]:
    return _cases(effort)


def _read(effort: Effort, results: Sequence[Result]) -> Findings:
    rows = []
    for case, result in zip(_cases(effort), results, strict=True):
        pooled, together = (
            1 - np.array(result["tune-plus"]) / np.array(result[name]) for name in ("pooled", "together")
        )
        mean, p99 = float(together.mean()), float(np.quantile(together, 0.99))
        good = mean <= MEAN_GOAL and p99 <= P99_GOAL
        rows.append(
            Row(
                f"tune-plus below the best with gangs together, {MACHINE * case.servers} GPUs",
                "",
                "",
                f"{100 * mean:.2f} %, p99 {100 * p99:.2f} %",
                Verdict.REACHED if good else Verdict.NOT_REACHED,
                f"below the pooled bound: {100 * pooled.mean():.2f} %; goal of our own: 2 % and 4 %",
            )
        )
    return Findings(rows)


GANGS_TOGETHER = Experiment(
    "gangs-together",
    "Random mixes of gangs: how much of the distance is the bound's",
    "Not in the paper. Jobs of 1 to 16 GPUs. Gangs of 8 and 16 fill machines, so what they leave of CPU and memory is "
    "of no use to others, though the pooled bound counts it; here it is not counted.",
    _pieces,
    _read,
)
