"""Hold start estimates against generated logs, of which there can be many: jobs alone, or arrays of jobs alike.

python -m experiments.slurm.generated_queues arrays --logs 12
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import polars as pl

from muster.cluster import Cluster
from muster.cluster.shipped import parse_cluster
from muster.schedulers.contract import Scheduler
from muster.schedulers.registry import build
from muster.simulation import simulate
from muster.simulation.start_estimates import OF_A_LOG, estimate_starts, state_at
from muster.workload.trace import trace_of

CLUSTER = "8x8gpu,48cpu,500gb"
JOBS = 300
USERS = 3
LOAD = 1.1
LEAST_ENDED = 20
MOMENTS = (0.2, 0.4, 0.6, 0.8)
"""Parts of the time in which jobs are submitted."""
_MEAN_ARRAY = {"alone": 1.0, "arrays": 6.0}
_SIZES = (1, 1, 1, 2, 4, 8, 16, 32)
_SIZES_OF_ARRAYS = (1, 1, 2, 4)
_STREAM = 0x6E4


def generated(kind: str, seed: int) -> pl.DataFrame:
    """Jobs as in the logged runs: seconds to minutes long, limits of whole minutes, the same for all of an array."""
    random = np.random.default_rng([seed, _STREAM])
    rows: list[tuple[float, str, int, float, float]] = []
    now = 0.0
    while len(rows) < JOBS:
        count = min(int(random.geometric(1 / _MEAN_ARRAY[kind])), JOBS - len(rows))
        user = f"u{random.integers(USERS)}"
        gpus = int(random.choice(_SIZES if count == 1 else _SIZES_OF_ARRAYS))
        typical = np.exp(random.normal(np.log(17.0), 0.7))
        lengths = np.clip(typical * np.exp(random.normal(0, 0.5, count)), 6, 240)
        limit = float(np.ceil(typical * random.uniform(2, 8) / 60) * 60)
        now += random.exponential(count)
        rows += [(now, user, gpus, min(float(length), limit), limit) for length in lengths]
    names = ("submit_seconds", "user", "gpus", "duration_seconds", "time_limit_seconds")
    jobs = pl.DataFrame(rows, schema=names, orient="row")
    total = sum(node.gpus for node in parse_cluster(CLUSTER).nodes)
    seconds = float(jobs["gpus"].to_numpy() @ jobs["duration_seconds"].to_numpy()) / (LOAD * total)
    return jobs.with_columns(
        pl.Series("job_id", [str(number) for number in range(JOBS)]),
        pl.col("submit_seconds") * (seconds / now),
        pl.lit(0.0).alias("priority"),
        *[pl.lit("").alias(name) for name in ("tenant", "partition", "qos", "constraint", "node_list")],
        *[pl.lit(None, pl.Float64).alias(name) for name in ("nodes", "cpus", "memory_gb")],
    )


def scheduler(_draw: int = 0) -> Scheduler:
    """Of the generated site."""
    return build("fifo+easy+consolidate")


def logged(jobs: pl.DataFrame, cluster: Cluster) -> pl.DataFrame:
    """The jobs with their starts, ends and nodes, as a site's log has them."""
    trace = trace_of(jobs.drop("node_list").to_dict(), "generated")
    record = simulate(trace, cluster, scheduler(), replace(OF_A_LOG, records=True)).record
    times = record.jobs.select("job_id", "start_seconds", end_seconds="finish_seconds")
    nodes = record.allocations.group_by("job_id").agg(node_list=pl.col("node").unique().sort().str.join(","))
    log = jobs.drop("node_list").join(times, on="job_id", how="left", maintain_order="left")
    return log.join(nodes, on="job_id", how="left", maintain_order="left")


def answers(kind: str, seed: int, draws: int) -> pl.DataFrame:
    """A row a waiting job and moment of one log: its real start and the interval, in seconds from then."""
    jobs = generated(kind, seed)
    cluster = parse_cluster(CLUSTER)
    log = logged(jobs, cluster)
    starts = dict(log.select("job_id", "start_seconds").iter_rows())
    rows = []
    for part in MOMENTS:
        now = part * float(jobs["submit_seconds"][-1])
        state = state_at(log, now, lambda text: [cluster.node_index[name] for name in text.split(",")])
        if state.ended.height >= LEAST_ENDED and state.waiting.height:
            expected = estimate_starts(state, cluster, scheduler, draws=range(draws), seed=seed).starts
            rows += [(starts[job] - now, one.low, one.median, one.high) for job, one in expected.items()]
    names = ("real", "low", "median", "high")
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Float64), orient="row")


def figures(kind: str, logs: int, draws: int) -> Mapping[str, float]:
    """Means over logs, each of which counts once."""
    real, low, high = pl.col("real"), pl.col("low") - 0.5, pl.col("high") + 0.5
    each = pl.concat(
        answers(kind, seed, draws).select(
            real.is_between(low, high).mean().alias("inside the interval"),
            (real < low).mean().alias("earlier than it"),
            (real > high).mean().alias("later than it"),
            (pl.col("high") - pl.col("low")).median().alias("median width, s"),
            (pl.col("median") - real).abs().median().alias("median error, s"),
        )
        for seed in range(logs)
    ).drop_nulls()
    error = each["inside the interval"].to_numpy().std(ddof=1) / np.sqrt(each.height)
    return {"logs": each.height, **each.mean().row(0, named=True), "standard error of inside": error}


def main() -> None:
    """Print the figures of generated logs."""
    parser = argparse.ArgumentParser(prog="python -m experiments.slurm.generated_queues", description=__doc__)
    parser.add_argument("kind", choices=tuple(_MEAN_ARRAY), help="Jobs alone, or arrays of six in the mean.")
    parser.add_argument("--logs", type=int, default=12, metavar="N", help="Logs to generate (default: 12).")
    parser.add_argument(
        "--draws", type=int, default=16, metavar="N", help="Simulations for each moment (default: 16)."
    )
    arguments = parser.parse_args()
    for name, value in figures(arguments.kind, arguments.logs, arguments.draws).items():
        print(f"{name:<26}{value:>10.3g}")


if __name__ == "__main__":
    main()
