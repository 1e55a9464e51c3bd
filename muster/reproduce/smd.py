"""SMD (INFOCOM 2021, arXiv 2105.13855) and Optimus (EuroSys 2018): sizes by a knapsack, against the field.

SMD's own figures are not known to us, so nothing here repeats one: its claim is a direction (more utility than
Optimus and ESW), and every number is ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from math import ceil
from typing import Any

from muster.reproduce.experiment import Effort, Experiment, Findings, Paper, Result, Row, Verdict
from muster.sweep.page import Table
from muster.sweep.pieces import Piece
from muster.sweep.statistics import Estimate, estimate

FIELD = ("optimus", "equal-1to1", "first-fit-sized", "drf-1to1", "tetris-1to1", "oasis")
OBLIVIOUS = "smd without layers"
SECONDS_AN_HOUR = 3600.0
PER_HOUR = 6.0
"""Poisson arrivals: the batch's jobs come over some hours instead of at once."""
NODE = {"gpus": 8, "cpus": 64.0, "memory_gb": 256.0, "nic_gb_per_s": 1.25}


@dataclass(frozen=True)
class Cell:
    """One run: a trace of the generator, a cluster that holds a share of all its limits, a scheduler."""

    scheduler: str
    accounting: str
    jobs: int
    capacity: float
    per_hour: float | None
    seed: int

    def inputs(self) -> Mapping[str, Any]:
        """All that the result depends on."""
        return asdict(self)

    def run(self) -> Mapping[str, Any]:
        """Utility, its first bound, completion times."""
        from muster.report import summarise
        from muster.schedulers.catalogue import build
        from muster.simulation import Options, simulate
        from muster.workload.generators.smd import generate

        trace = generate(self.jobs, self.per_hour, seed=self.seed)
        settings = {"accounting": self.accounting} | (
            {"layers": "false"} if self.scheduler == OBLIVIOUS else {}
        )
        name = "smd" if self.scheduler == OBLIVIOUS else self.scheduler
        run = simulate(
            trace,
            cluster_for(trace.jobs, self.capacity),
            build(name, settings),
            Options(restart_cost_seconds=30.0, seed=self.seed),
        )
        summary = summarise(run.record)
        # All the worth there is: each job alone in the cluster at its best size.
        alone = _utility_alone(trace, run.record.jobs)
        return {
            "utility": summary["utility"]["total"] / alone,
            "on_target": summary["utility"]["on_target"],
            "jct_hours": summary["jct_seconds"]["mean"] / SECONDS_AN_HOUR,
            "makespan_hours": summary["makespan_seconds"] / SECONDS_AN_HOUR,
            "unfinished": summary["unfinished"],
        }


def cluster_for(jobs: Any, capacity: float) -> Any:
    """Machines of `NODE` that hold this share of what the owners' limits are in all, in GPUs, cores and GB."""
    from muster.cluster import Cluster, Node

    demand = {
        "gpus": float((jobs["max_workers"] * jobs["worker_gpus"]).sum()) / 2,
        "cpus": float(jobs["cpus"].sum()),
        "memory_gb": float(jobs["memory_gb"].sum()),
    }
    count = max(1, ceil(capacity * max(amount / NODE[name] for name, amount in demand.items())))
    nodes = tuple(
        Node(
            name=f"node{at}",
            type_name="node",
            rack=0,
            gpus=int(NODE["gpus"]),
            gpu_type="gpu",
            gpus_per_island=int(NODE["gpus"]),
            cpus=NODE["cpus"],
            memory_gb=NODE["memory_gb"],
            storage_gb_per_s=0.5,
            nic_gb_per_s=NODE["nic_gb_per_s"],
        )
        for at in range(count)
    )
    return Cluster(f"{count} machines", nodes, ("rack0",))


def _utility_alone(trace: Any, jobs: Any) -> float:
    """The sum of utilities if every job ran at its best size from its arrival on: a bound for every scheduler."""
    from muster.schedulers.allocation.worker_server import utility

    asked = trace.jobs.sort("submit_seconds", maintain_order=True)
    return float(
        utility(
            jobs["ideal_seconds"].to_numpy(),
            asked["utility_priority"].to_numpy(),
            asked["utility_urgency_per_hour"].to_numpy() / SECONDS_AN_HOUR,
            asked["utility_target_seconds"].to_numpy(),
        ).sum()
    )


def _places(effort: Effort) -> list[tuple[str, int, float, float | None]]:
    """Accounting, jobs, capacity, arrivals an hour."""
    jobs = (30,) if effort.quick else (20, 100, 200)
    capacities = (0.3, 0.9) if effort.quick else (0.3, 0.6, 0.9)
    return list(product(("usage", "reservation"), jobs, capacities, (None, PER_HOUR)))


def _seeds(effort: Effort) -> range:
    return range(3 if effort.quick else 10)


def _schedulers(accounting: str) -> tuple[str, ...]:
    return ("smd", OBLIVIOUS, *FIELD) if accounting == "usage" else ("smd", *FIELD)


def _pieces(effort: Effort) -> Sequence[Piece]:
    return [
        Cell(scheduler, accounting, jobs, capacity, per_hour, seed)
        for accounting, jobs, capacity, per_hour in _places(effort)
        for scheduler in _schedulers(accounting)
        for seed in _seeds(effort)
    ]


def _read(effort: Effort, results: Sequence[Result]) -> Findings:
    left = iter(results)
    rows, tables = [], []
    for accounting, jobs, capacity, per_hour in _places(effort):
        found = {name: [next(left) for _ in _seeds(effort)] for name in _schedulers(accounting)}
        when = "all at once" if per_hour is None else f"{per_hour:g} an hour"
        where = f"{accounting}, {jobs} jobs, capacity {capacity:g}, {when}"
        rows += [_row(where, name, found) for name in found if name != "smd"]
        tables.append(
            Table(
                where,
                ("Scheduler", "Utility", "On target", "Mean JCT, h", "Makespan, h", "Unfinished"),
                [_line(name, runs) for name, runs in found.items()],
            )
        )
    return Findings(rows, tables=tables)


def _row(where: str, other: str, found: Mapping[str, Sequence[Result]]) -> Row:
    """How many times the other's utility SMD's is: a ratio a seed."""
    ratio = estimate([a["utility"] / b["utility"] for a, b in zip(found["smd"], found[other], strict=True)])
    claimed = other in ("optimus", "equal-1to1")
    better = ratio.mean - (ratio.half_width or 0.0) > 1.0
    remark = "" if better else "the 95 % interval holds 1, or lies below"
    told = Verdict.REACHED if better else Verdict.NOT_REACHED
    return Row(
        f"utility over {other}: {where}",
        "more than 1" if claimed else "not told",
        "not published",
        shown(ratio),
        told if claimed else Verdict.OTHER_SETTING,
        remark,
    )


def _line(name: str, runs: Sequence[Result]) -> list[str]:
    figures = ("utility", "on_target", "jct_hours", "makespan_hours", "unfinished")
    return [name, *(shown(estimate([run[figure] for run in runs])) for figure in figures)]


def shown(value: Estimate) -> str:
    """`1.93 ± 0.12`, the interval of the mean over seeds."""
    return f"{value.mean:.2f}" + ("" if value.half_width is None else f" ± {value.half_width:.2f}")


UTILITY = Experiment(
    "utility",
    "Utility under one accounting at a time",
    "SMD says that it gains more utility than Optimus and ESW; by how much is not known to us. Utility is given as a "
    "share of what all jobs would be worth alone in the cluster, which bounds every scheduler.",
    _pieces,
    _read,
)

PAPER = Paper(
    "smd",
    "SMD: sum-of-ratios multi-dimensional knapsack",
    "Yu et al., INFOCOM 2021, arXiv 2105.13855; Optimus: Peng et al., EuroSys 2018; equations and workload are ours",
    (UTILITY,),
    (
        "`equal-1to1` stands for ESW: the mapping is a guess. OASiS turns jobs away for good; they count as worth "
        "nothing and are left out of its mean JCT.",
        "Decisions every 600 s, restarts cost 30 s, durations known, true speeds layered (M1).",
    ),
)
