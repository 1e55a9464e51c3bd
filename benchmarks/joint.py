"""CPU seconds of single decisions of ORDER+joint on large full clusters: `python -m benchmarks.joint [PREFIX]`.

As many jobs run as fill all GPUs. Then the others arrive at once and wait: the first decision. Then one job arrives at
a time: the next ones. The longest is that of all decisions, also those that the order asks for, when many jobs change.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.cases import dally_trace
from muster.cluster import Cluster
from muster.cluster.cluster_file import cluster_from_toml
from muster.cluster.shipped import parse_cluster
from muster.schedulers.contract import Decision, Scheduler, Snapshot, State, Trigger
from muster.schedulers.registry import build
from muster.simulation import Options, simulate
from muster.workload.models import synergy_models
from muster.workload.trace import Trace, trace_of

SIZES = {1: 0.1, 2: 0.15, 4: 0.2, 8: 0.25, 16: 0.3}
"""How often jobs have so many GPUs; 8 in the mean, so that a job for each node fills the cluster."""
NODES = {1_000: (1_000, 50.0, 5.0), 10_000: (5_000, 500.0, None)}
"""Nodes of 8 GPUs: the jobs that wait, and the milliseconds asked for of the first decision and of the next."""
ORDERS = ("fifo", "las", "gittins")
ARRIVALS = 40
_RACKS = Path(__file__).parent / "dally-32x8x8.toml"


class _Enough(Exception):
    """All decisions that are timed were taken."""


@dataclass
class Timed:
    """A scheduler that measures its decisions and ends the run after those of so many moments with arrivals."""

    scheduler: Scheduler
    until: int
    after_arrival: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    running: int = 0

    @property
    def name(self) -> str:
        """That of the scheduler."""
        return self.scheduler.name

    def describe(self) -> dict[str, Any]:
        """What the scheduler says of itself."""
        return self.scheduler.describe()

    def initial(self, cluster: Cluster) -> State:
        """The state of the scheduler before its first decision."""
        return self.scheduler.initial(cluster)

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        """Decide, and measure how long that takes."""
        if len(self.after_arrival) == self.until:
            raise _Enough
        self.running = int(snapshot.jobs.running.sum())
        began = time.process_time()
        decided = self.scheduler.decide(snapshot, state)
        self.seconds.append(time.process_time() - began)
        if snapshot.triggers & Trigger.ARRIVAL:
            self.after_arrival.append(self.seconds[-1])
        return decided


def columns(arrivals: Mapping[float, int], rng: np.random.Generator) -> dict[str, Any]:
    """Jobs that last a day; `arrivals` says how many come when."""
    count = sum(arrivals.values())
    return {
        "submit_seconds": np.repeat(list(arrivals), list(arrivals.values())),
        "duration_seconds": np.full(count, 86_400.0),
        "gpus": rng.choice(list(SIZES), count, p=list(SIZES.values())),
    }


def on_servers(nodes: int, arrivals: Mapping[float, int]) -> tuple[Trace, Cluster]:
    """Synergy's models and servers, three cores for each GPU; every place is as fast as any other."""
    rng = np.random.default_rng(0)
    jobs = columns(arrivals, rng)
    count = len(jobs["gpus"])
    models = rng.choice(sorted(synergy_models()), count)
    trace = trace_of({"job_id": np.arange(count), **jobs, "model": models}, "a full cluster")
    return trace, parse_cluster(f"{nodes}x8gpu,24cpu,500gb")


def elastic(nodes: int, arrivals: Mapping[float, int]) -> tuple[Trace, Cluster]:
    """The same, and a fifth of the jobs may have a quarter of their GPUs to twice as many."""
    trace, cluster = on_servers(nodes, arrivals)
    gpus = pl.col("gpus")
    varies = pl.int_range(pl.len()) % 5 == 0
    least = pl.when(varies).then(gpus // 4).otherwise(gpus).clip(1)
    most = pl.when(varies).then(gpus * 2).otherwise(gpus)
    return replace(trace, jobs=trace.jobs.with_columns(min_gpus=least, max_gpus=most)), cluster


def on_types(nodes: int, arrivals: Mapping[float, int]) -> tuple[Trace, Cluster]:
    """Synergy's models, each 1.2 to 3 times as fast on the nodes of one half as on those of the other."""
    rng = np.random.default_rng(0)
    jobs = columns(arrivals, rng)
    models = dict(synergy_models())
    for nth, (name, model) in enumerate(sorted(models.items())):
        faster = tuple(tuple(speed * (1.2 + 0.2 * nth) for speed in row) for row in model.speed)
        models[name] = replace(model, gpu_type="v100", on_gpu_type=(("a100", faster),))
    named = rng.choice(sorted(models), len(jobs["gpus"]))
    trace = trace_of({"job_id": np.arange(len(named)), **jobs, "model": named}, "a full cluster", models)
    return trace, parse_cluster(f"{nodes // 2}x8v100,24cpu,500gb+{nodes // 2}x8a100,32cpu,500gb")


def requesting(nodes: int, arrivals: Mapping[float, int]) -> tuple[Trace, Cluster]:
    """Jobs of no model as in the logs of real sites: each states CPUs and memory of its own, and GPUs are idle."""
    rng = np.random.default_rng(0)
    jobs = columns(arrivals, rng)
    gpus = jobs["gpus"]
    amounts = {
        "cpus": (rng.uniform(2, 8, len(gpus)) * gpus).round(3),
        "memory_gb": (rng.uniform(10, 60, len(gpus)) * gpus).round(3),
    }
    trace = trace_of({"job_id": np.arange(len(gpus)), **jobs, **amounts}, "a full cluster")
    return trace, parse_cluster(f"{nodes}x8gpu,48cpu,400gb")


def on_network(nodes: int, arrivals: Mapping[float, int]) -> tuple[Trace, Cluster]:
    """Dally's models, links and racks of eight machines."""
    jobs = columns(arrivals, np.random.default_rng(0))
    trace = dally_trace("Poisson", len(jobs["gpus"]), 400.0)()
    changed = trace.jobs.with_columns(pl.Series(name, values) for name, values in jobs.items())
    machines = _RACKS.read_text().replace("count = 256", f"count = {nodes}")
    return replace(trace, jobs=changed), cluster_from_toml(
        machines, where=str(_RACKS), name=f"{nodes} machines"
    )


WORLDS = {
    "servers": on_servers,
    "types": on_types,
    "requests": requesting,
    "elastic": elastic,
    "network": on_network,
    "uplinks": on_network,
}
"""On `uplinks` jobs on the same links slow each other."""


def main() -> None:
    """All cases, or those whose names begin with the argument."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    for nodes, (waiting, first_goal, next_goal) in NODES.items():
        arrivals = {0.0: nodes, 610.0: waiting} | {1210.0 + 60 * at: 1 for at in range(ARRIVALS + 1)}
        for world, order in product(WORLDS, ORDERS):
            name = f"{world}-{nodes}-{order}+joint"
            if not name.startswith(wanted):
                continue
            timed = Timed(build(f"{order}+joint"), ARRIVALS + 2)
            with suppress(_Enough):
                simulate(*WORLDS[world](nodes, arrivals), timed, Options(contention=world == "uplinks"))
            first, *others = timed.after_arrival[1:]
            asked = f" (asked {next_goal:g})" if next_goal else ""
            print(
                f"{name}: {timed.running:,} run; first {1e3 * first:.1f} ms (asked {first_goal:g}), "
                f"after one arrival {1e3 * float(np.median(others)):.1f} ms{asked}, "
                f"longest {1e3 * max(timed.seconds[1:]):.1f} ms",
                flush=True,
            )


if __name__ == "__main__":
    main()
