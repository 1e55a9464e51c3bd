"""What knowing the layers is worth to one job: sizes chosen by M0, time taken by M1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from experiments.papers.experiment import Effort, Experiment, Findings, Result, Row, Verdict
from muster.sweep.page import Table

JOBS = 400
BANDWIDTHS = (None, 0.125, 0.3125, 0.625, 1.25)
"""Of a server in GB/s; None: as the generator draws it."""


@dataclass(frozen=True)
class Alone:
    """Jobs of the generator, each at the best size of its own limit, chosen with and without its layers."""

    nic_gb_per_s: float | None
    jobs: int

    def inputs(self) -> Mapping[str, Any]:
        """All that the result depends on."""
        return asdict(self)

    def run(self) -> Mapping[str, Any]:
        """How much longer jobs take that were sized without their layers."""
        from dataclasses import replace

        import numpy as np
        import polars as pl

        from experiments.papers.smd.cells import machines
        from muster.schedulers.workers_and_servers.sizes import exact
        from muster.schedulers.workers_and_servers.sizing_problem import demands_of
        from muster.simulation.sizes import with_sizes
        from muster.speed.parameter_server.of_jobs import steps_of
        from muster.workload.generators.smd import generate
        from muster.workload.jobs import job_table

        trace = generate(self.jobs, seed=0)
        if self.nic_gb_per_s is not None:
            trace = replace(trace, jobs=trace.jobs.with_columns(nic_gb_per_s=pl.lit(self.nic_gb_per_s)))
        cluster = machines(1)
        table = with_sizes(job_table(trace, cluster, {}, {}), cluster, trace.source)
        index = np.arange(len(table))
        demands = demands_of(table, index)
        true = steps_of(table, index)
        oblivious = exact(steps_of(table, index, layers_known=False), demands)
        loss = true.iteration_seconds(oblivious.workers, oblivious.servers) / exact(true, demands).seconds - 1
        return {
            "mean": float(loss.mean()),
            "worst": float(loss.max()),
            "differ": float((loss > 1e-9).mean()),
        }


def _pieces(effort: Effort) -> Sequence[Alone]:
    return [Alone(nic, 100 if effort.quick else JOBS) for nic in BANDWIDTHS]


def _read(effort: Effort, results: Sequence[Result]) -> Findings:
    lines = [
        [
            "as drawn" if piece.nic_gb_per_s is None else f"{piece.nic_gb_per_s:g}",
            f"{result['mean']:.2%}",
            f"{result['worst']:.2%}",
            f"{result['differ']:.0%}",
        ]
        for piece, result in zip(_pieces(effort), results, strict=True)
    ]
    drawn = results[0]
    row = Row(
        f"longer without layers, {_pieces(effort)[0].jobs} jobs",
        "",
        "",
        f"{drawn['mean']:.2%} in the mean, {drawn['worst']:.2%} at worst",
        Verdict.OTHER_SETTING,
        "a prototype of ours on random layers: 5.6 % and 29 %",
    )
    header = ("GB/s of a server", "Longer, mean", "Longer, worst", "Jobs with another size")
    return Findings([row], tables=[Table("By the bandwidth of a server", header, lines)])


LAYERS = Experiment(
    "layers",
    "What knowing the layers is worth",
    "SMD's model knows which traffic hides behind the backward pass of other layers. Each job alone: its best size "
    "by the model without layers (M0, Optimus'), run under the layered one (M1), against its best size by M1.",
    _pieces,
    _read,
)
