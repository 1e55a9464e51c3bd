"""Optimus against DRF and Tetris where it was measured: nine models on 13 servers, as near as is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import log10
from typing import Any

from experiments.papers.experiment import Effort, Experiment, Findings, Result, Row, Verdict
from experiments.papers.smd.cells import SECONDS_AN_HOUR
from muster.sweep.page import Table
from muster.sweep.statistics import Estimate, estimate

MODELS = (
    "alexnet",
    "vgg11",
    "vgg16",
    "resnet18",
    "resnet50",
    "resnet101",
    "resnet152",
    "bert-base",
    "bert-large",
)
ARRIVE_WITHIN_SECONDS = 12_000.0
HOURS_ALONE = (1.0, 6.0)
"""Of a job with one worker and one server, by powers of ten."""
SCHEDULERS = ("optimus", "drf-1to1", "tetris-1to1")
REPORTED = {"drf-1to1": ("2.39", "1.63"), "tetris-1to1": ("1.74", "1.22")}
"""JCT and makespan over Optimus' (EuroSys 2018, testbed)."""
NICS = (0.125, 0.3125, 1.25)
"""GB/s of a server; the paper's traffic is not known to us."""


@dataclass(frozen=True)
class Testbed:
    """Nine jobs under one scheduler."""

    scheduler: str
    nic_gb_per_s: float
    seed: int

    def inputs(self) -> Mapping[str, Any]:
        """All that the result depends on."""
        return asdict(self)

    def run(self) -> Mapping[str, Any]:
        """Mean completion time and makespan, in hours."""
        from muster.report import summarise
        from muster.schedulers.registry import build
        from muster.simulation import Options, simulate

        options = Options(restart_cost_seconds=30.0, seed=self.seed)
        trace = _nine_jobs(self.nic_gb_per_s, self.seed)
        run = simulate(trace, _servers(self.nic_gb_per_s), build(self.scheduler, {}), options)
        summary = summarise(run.record)
        return {
            "jct": summary["jct_seconds"]["mean"] / SECONDS_AN_HOUR,
            "makespan": summary["makespan_seconds"] / SECONDS_AN_HOUR,
        }


def _nine_jobs(nic_gb_per_s: float, seed: int) -> Any:
    """One job a model, at random moments; its work takes `HOURS_ALONE` with a worker and a server."""
    import numpy as np

    from muster.speed.parameter_server.architectures import estimated_layers
    from muster.speed.parameter_server.of_jobs import GPU_TFLOPS
    from muster.speed.parameter_server.step_time import layered
    from muster.workload.trace import trace_of

    rng = np.random.default_rng(seed)
    jobs, batch = len(MODELS), 256
    shortest, longest = map(log10, HOURS_ALONE)
    seconds = SECONDS_AN_HOUR * 10 ** rng.uniform(shortest, longest, jobs)
    alone = [
        float(layered(estimated_layers(name, GPU_TFLOPS), batch, nic_gb_per_s).iteration_seconds(1, 1))
        for name in MODELS
    ]
    columns = {
        "job_id": np.arange(jobs),
        "submit_seconds": rng.uniform(0, ARRIVE_WITHIN_SECONDS, jobs),
        "gpus": np.full(jobs, 2),
        "model": np.array(MODELS),
        "iterations": np.maximum(1.0, np.round(seconds / alone)),
        "sync": np.full(jobs, "ps"),
        "max_workers": np.full(jobs, 4),
        "servers": np.full(jobs, 6),
        "worker_gpus": np.full(jobs, 1),
        "worker_cpus": np.full(jobs, 3.0),
        "worker_memory_gb": np.full(jobs, 10.0),
        "server_cpus": np.full(jobs, 5.0),
        "server_memory_gb": np.full(jobs, 10.0),
        "nic_gb_per_s": np.full(jobs, nic_gb_per_s),
        "batch": np.full(jobs, batch),
    }
    return trace_of(columns, f"nine models, seed {seed}")


def _servers(nic_gb_per_s: float) -> Any:
    """Seven servers without GPU and six with two each."""
    from muster.cluster import Cluster, Node

    # Three parameter servers fit a machine's 16 cores: its card is no narrower than they need.
    cards = max(3 * nic_gb_per_s, 1.25)
    without = [
        Node(f"cpu{at}", "cpu", 0, 0, "none", 1, 16.0, 80.0, 0.5, cards)  # no GPU
        for at in range(7)
    ]
    with_two = [Node(f"gpu{at}", "gpu", 0, 2, "gpu", 2, 8.0, 48.0, 0.5, cards) for at in range(6)]
    return Cluster("13 servers", (*without, *with_two), ("rack0",))


def _pieces(effort: Effort) -> Sequence[Testbed]:
    return [
        Testbed(name, nic, seed)
        for nic in NICS
        for name in SCHEDULERS
        for seed in range(3 if effort.quick else 10)
    ]


def _read(effort: Effort, results: Sequence[Result]) -> Findings:
    seeds = 3 if effort.quick else 10
    left = iter(results)
    rows, lines = [], []
    for nic in NICS:
        found = {name: [next(left) for _ in range(seeds)] for name in SCHEDULERS}
        lines += [
            [
                f"{nic:g}",
                name,
                *(f"{estimate([run[figure] for run in runs]).mean:.2f}" for figure in ("jct", "makespan")),
            ]
            for name, runs in found.items()
        ]
        for other, reported in REPORTED.items():
            for figure, claim in zip(("jct", "makespan"), reported, strict=True):
                pairs = zip(found[other], found["optimus"], strict=True)
                ratio = estimate([theirs[figure] / own[figure] for theirs, own in pairs])
                rows.append(_row(f"{figure} of {other} over optimus, {nic:g} GB/s", claim, ratio))
    table = Table("Hours", ("GB/s of a server", "Scheduler", "Mean JCT", "Makespan"), lines)
    return Findings(rows, tables=[table])


def _row(what: str, claim: str, ratio: Estimate) -> Row:
    width = "" if ratio.half_width is None else f" ± {ratio.half_width:.2f}"
    remark = "models, traffic and work are not the paper's"
    return Row(what, claim, "", f"{ratio.mean:.2f}{width}", Verdict.OTHER_SETTING, remark)


OPTIMUS = Experiment(
    "optimus",
    "Optimus against DRF and Tetris, nine models on 13 servers",
    "Reported on a testbed of seven CPU servers and six GPU servers with nine jobs: DRF's mean completion time is 2.39 "
    "and its makespan 1.63 times Optimus', Tetris' 1.74 and 1.22. Here nine models whose layers are known, a job "
    "each, arriving within 12,000 s, one to six hours long with a worker and a server; sizes of machines, workers and "
    "servers are ours, so are limits of four workers and six servers a job, and the traffic: three bandwidths.",
    _pieces,
    _read,
)
