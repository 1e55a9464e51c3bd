"""How long a decision of `smd` and `optimus` takes: `python -m tests.schedulers.smd_speed`, a row a size.

The first decision of an empty cluster, everything placed; then a second one with everything running.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import polars as pl

from muster.cluster import Cluster
from muster.cluster.ledger import Ledger
from muster.schedulers.catalogue import build
from muster.schedulers.contract import Jobs, Trigger, View
from muster.simulation.sizes import with_sizes
from muster.speed.demands import DemandBook
from muster.speed.input_pipeline import model_table
from muster.workload.generators.smd import generate
from muster.workload.jobs import RUNNING, WAITING, job_table
from muster.workload.trace import Trace
from tests.schedulers.smd_cases import machines

SIZES = ((1000, 2000), (4000, 16_000))
"""Jobs and nodes."""


def large_trace(jobs: int) -> Trace:
    """Jobs of SMD's generator whose limits allow up to 48 workers and 48 servers."""
    made = generate(jobs, seed=1)
    tripled = {name: 3 * pl.col(name) for name in ("cpus", "memory_gb", "gpus", "max_workers", "servers")}
    return replace(made, jobs=made.jobs.with_columns(**tripled))


def decisions(name: str, trace: Trace, cluster: Cluster) -> tuple[list[float], int]:
    """Seconds of the first and the second decision, and the workers and servers seated."""
    table = with_sizes(job_table(trace, cluster, {}, {}), cluster, "trace")
    models = model_table(table.models)
    ledger = Ledger(cluster, len(table))
    scheduler = build(name)
    index, facts = np.arange(len(table)), table.facts
    facts["state"] = WAITING
    state, seconds, tasks = scheduler.initial(cluster), [], 0
    for now in (0.0, 600.0):
        view = View(
            now, Trigger.TIMER, Jobs(table, index, now), table, ledger, DemandBook(models, ledger.books.nodes)
        )
        began = time.perf_counter()
        _, state = scheduler.decide(view, state)
        seconds.append(time.perf_counter() - began)
        ledger.books.totals[6] = 0
        facts["state"] = np.where(ledger.books.heads >= 0, RUNNING, WAITING)
        held = [ledger.holding(job) for job in index.tolist()]
        sized = table.sized
        tasks = round(
            sum(
                share.gpus / sized["worker"][job, 0] + share.role * share.cpus / sized["server"][job, 1]
                for job, shares in enumerate(held)
                for share in shares
            )
        )
    return seconds, tasks


def main() -> None:
    """Print a row a scheduler and size, the compiling left out."""
    print("| scheduler | jobs | nodes | workers and servers seated | first decision | second |")
    print("|---|---|---|---|---|---|")
    for name in ("smd", "smd-reservation", "optimus", "drf-1to1"):
        decisions(name, large_trace(20), machines(20, gpus=8, cpus=64))
        for jobs, nodes in SIZES:
            (first, second), tasks = decisions(name, large_trace(jobs), machines(nodes, gpus=8, cpus=64))
            print(
                f"| `{name}` | {jobs:,} | {nodes:,} | {tasks:,} | {first:.2f} s | {second:.2f} s |",
                flush=True,
            )


if __name__ == "__main__":
    main()
