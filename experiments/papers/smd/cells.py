"""One run of SMD's workload: a trace of the generator on machines that hold a share of its demand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

import numpy as np

FIELD = ("optimus", "equal-1to1", "first-fit-sized", "density-first-fit", "drf-1to1", "tetris-1to1", "oasis")
OBLIVIOUS = "smd without layers"
PUBLISHED = "smd with the published objective"
SECONDS_AN_HOUR = 3600.0
NODE = {"gpus": 8, "cpus": 64.0, "memory_gb": 256.0, "nic_gb_per_s": 1.25}


@dataclass(frozen=True)
class Cell:
    """One run: a trace of the generator, a cluster that holds a share of all its limits, a scheduler."""

    scheduler: str
    accounting: str
    jobs: int
    capacity: float
    per_hour: float | None
    """Poisson arrivals; None: all at once."""
    seed: int
    certify: bool = False
    """Whether each decision is set beside the best possible one."""

    def inputs(self) -> Mapping[str, Any]:
        """All that the result depends on."""
        return asdict(self)

    def run(self) -> Mapping[str, Any]:
        """Utility as a share of what the jobs would be worth alone, completion times."""
        from muster.report import summarise
        from muster.simulation import Options, simulate
        from muster.workload.generators.smd import generate

        trace = generate(self.jobs, self.per_hour, seed=self.seed)
        run = simulate(
            trace,
            cluster_for(trace.jobs, self.capacity),
            scheduler_named(self.scheduler, self.accounting),
            Options(restart_cost_seconds=30.0, seed=self.seed, certify=self.certify),
        )
        summary = summarise(run.record)
        return {
            "utility": summary["utility"]["total"]
            / utility_alone(trace, run.record.jobs["ideal_seconds"].to_numpy()),
            "on_target": summary["utility"]["on_target"],
            "jct_hours": summary["jct_seconds"]["mean"] / SECONDS_AN_HOUR,
            "makespan_hours": summary["makespan_seconds"] / SECONDS_AN_HOUR,
            "unfinished": summary["unfinished"],
            "below_bound": _below_bound(run.record.decisions) if self.certify else None,
        }


def scheduler_named(name: str, accounting: str) -> Any:
    """The scheduler under an accounting; `OBLIVIOUS` is smd that plans with M0."""
    from muster.schedulers.registry import build

    variants = {OBLIVIOUS: {"layers": "false"}, PUBLISHED: {"objective": "published"}}
    return build("smd" if name in variants else name, {"accounting": accounting} | variants.get(name, {}))


def cluster_for(jobs: Any, capacity: float) -> Any:
    """Machines of `NODE` that hold this share of what the owners' limits are in all, in GPUs, cores and GB."""
    demand = {
        "gpus": float((jobs["max_workers"] * jobs["worker_gpus"]).sum()) / 2,
        "cpus": float(jobs["cpus"].sum()),
        "memory_gb": float(jobs["memory_gb"].sum()),
    }
    return machines(max(1, ceil(capacity * max(amount / NODE[name] for name, amount in demand.items()))))


def machines(count: int) -> Any:
    """So many of `NODE`, in one rack."""
    from muster.cluster import Cluster, Node

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


def first_question(trace: Any, cluster: Any, scheduler: Any, *, layers_known: bool) -> Any:
    """What a scheduler is asked at time 0 about all jobs of a trace, in an empty cluster."""
    from muster.cluster.ledger import Ledger
    from muster.schedulers.contract import Jobs, Snapshot, Trigger
    from muster.simulation.sizes import with_sizes
    from muster.speed.demands import ResourceProfiles
    from muster.speed.input_pipeline import model_table
    from muster.workload.jobs import WAITING, job_table

    table = with_sizes(job_table(trace, cluster, {}, {}), cluster, trace.source)
    table.facts["state"] = WAITING
    ledger = Ledger(cluster, len(table))
    resource_profiles = ResourceProfiles(model_table(table.models), ledger.books.nodes)
    snapshot = Snapshot(
        0.0, Trigger.ARRIVAL, Jobs(table, np.arange(len(table)), 0.0), table, ledger, resource_profiles
    )
    return scheduler.question(snapshot, layers_known)


def _below_bound(decisions: Any) -> float:
    """What the plans of all intervals together leave out of their bounds together, as a share."""
    return float(1 - decisions["value"].sum() / decisions["bound"].sum())


def utility_alone(trace: Any, seconds: Any) -> float:
    """The sum of utilities if every job took so many seconds from its arrival on: a bound for every scheduler."""
    from muster.schedulers.workers_and_servers.sizes import utility

    asked = trace.jobs.sort("submit_seconds", maintain_order=True)
    return float(
        utility(
            seconds,
            asked["utility_priority"].to_numpy(),
            asked["utility_urgency_per_hour"].to_numpy() / SECONDS_AN_HOUR,
            asked["utility_target_seconds"].to_numpy(),
        ).sum()
    )
