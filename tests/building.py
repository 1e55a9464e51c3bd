"""Small clusters, traces and runs for tests, in one line each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import polars as pl

from muster.cluster import Cluster, Node
from muster.cluster.ledger import Ledger, NodeAllocation
from muster.cluster.ledger_arrays import ENTRIES
from muster.schedulers.contract import Scheduler
from muster.schedulers.registry import build
from muster.simulation import Options, Run, simulate
from muster.speed.network.models import NetworkModel
from muster.speed.network.placement import Placements
from muster.workload.models import Model
from muster.workload.trace import Trace, trace_of


def cluster_of(
    *gpus: int, cpus_per_gpu: float = 3.0, memory_gb_per_gpu: float = 62.5, racks: int = 1
) -> Cluster:
    """A node for each number of GPUs, placed in the racks in turn."""
    nodes = tuple(
        Node(
            name=f"node{at}",
            type_name=f"{count}gpu",
            rack=at % racks,
            gpus=count,
            gpu_type="v100",
            gpus_per_island=min(4, count),
            cpus=count * cpus_per_gpu,
            memory_gb=count * memory_gb_per_gpu,
            storage_gb_per_s=count * 0.0625,
            nic_gb_per_s=1.25,
        )
        for at, count in enumerate(gpus)
    )
    return Cluster("test", nodes, tuple(f"rack{rack}" for rack in range(racks)))


def every_place(cluster: Cluster, gpus: int) -> Placements:
    """All ways to take so many GPUs of a small cluster, the first ones of each node, as if each were a job."""
    ways = [each for each in product(*(range(node.gpus + 1) for node in cluster.nodes)) if sum(each) == gpus]
    held = [(node, (1 << count) - 1) for way in ways for node, count in enumerate(way) if count]
    first = np.cumsum([0, *(sum(count > 0 for count in way) for way in ways)])
    return Placements(first, *np.array(held).T.copy())


def jobs_of(*rows: Mapping[str, Any]) -> Trace:
    """A trace from rows; ids count from 0, what is not said has the trace format's default."""
    columns = {key for row in rows for key in row}
    table = [
        {"job_id": str(number)} | {key: row.get(key) for key in columns} for number, row in enumerate(rows)
    ]
    return trace_of(pl.DataFrame(table, infer_schema_length=None).to_dict(), "test")


def job(submit: float, duration: float, gpus: int = 1, **more: Any) -> dict[str, Any]:
    """One row of `jobs_of`, given by its duration."""
    return {"submit_seconds": submit, "duration_seconds": duration, "gpus": gpus, **more}


def run(
    trace: Trace,
    cluster: Cluster,
    scheduler: str | Scheduler,
    settings: Mapping[str, str] | None = None,
    models: Mapping[str, Model] | None = None,
    layers: Mapping[str, NetworkModel] | None = None,
    **options: Any,
) -> Run:
    """A simulation by name and keyword; interruptions are free unless `restart_cost_seconds` is given."""
    made = build(scheduler, settings) if isinstance(scheduler, str) else scheduler
    chosen = Options(**{"restart_cost_seconds": 0.0} | options)
    return simulate(trace, cluster, made, chosen, models=models, layers=layers)


def hold(ledger: Ledger, job: int, allocations: Iterable[NodeAllocation]) -> None:
    """Give a job an allocation at once, outside any decision."""
    ledger.put(job, allocations)
    ledger.books.totals[ENTRIES] = 0


def finishes(result: Run) -> list[float | None]:
    """When each job was done, by number."""
    jobs = result.record.jobs.sort(pl.col("job_id").cast(pl.Int64))
    return jobs["finish_seconds"].to_list()


def column(result: Run, name: str) -> Sequence[Any]:
    """One column of the jobs, by number."""
    return result.record.jobs.sort(pl.col("job_id").cast(pl.Int64))[name].to_list()
