"""How long SMD's solvers and a whole interval's decision take, in CPU seconds: `python -m benchmarks.smd`."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import product
from math import log2, nan

import numpy as np
import polars as pl

from experiments.papers.smd.cells import cluster_for, first_question
from muster.cluster import Cluster
from muster.cluster.ledger import Ledger
from muster.cluster.ledger_arrays import ENTRIES
from muster.schedulers.admission.knapsack import FAST, THOROUGH, choose
from muster.schedulers.contract import Jobs, Snapshot, Trigger
from muster.schedulers.registry import build
from muster.schedulers.workers_and_servers.frontier import frontier
from muster.schedulers.workers_and_servers.sizes import epsilon_grid, exact
from muster.schedulers.workers_and_servers.sizing_problem import SizingProblem
from muster.schedulers.workers_and_servers.smd import (
    Objective,
    Smd,
    SmdReservation,
)
from muster.simulation.sizes import with_sizes
from muster.speed.demands import ResourceProfiles
from muster.speed.input_pipeline import model_table
from muster.workload.generators.smd import generate
from muster.workload.jobs import RUNNING, WAITING, job_table
from muster.workload.trace import Trace
from tests.schedulers.knapsack_cases import smd_columns, smd_jobs, synergy_shape
from tests.schedulers.smd_cases import machines

SIZES = ((1000, 2000, 3), (4000, 16_000, 5), (6000, 16_000, 5))
"""Jobs, nodes, how many times the generator's limits."""
SCHEDULERS = ("smd", "smd-reservation", "optimus", "drf-1to1", "tetris-1to1", "equal-1to1")


def large_trace(jobs: int, times: int) -> Trace:
    """Jobs of SMD's generator with larger limits: 3 times are up to 48 workers and 48 servers a job."""
    made = generate(jobs, seed=1)
    larger = {name: times * pl.col(name) for name in ("cpus", "memory_gb", "gpus", "max_workers", "servers")}
    return replace(made, jobs=made.jobs.with_columns(**larger))


def decisions(name: str, trace: Trace, cluster: Cluster) -> tuple[list[float], int]:
    """CPU seconds of the first decision, which places all jobs, and of the next; workers and servers first placed."""
    table = with_sizes(job_table(trace, cluster, {}, {}), cluster, "trace")
    models = model_table(table.models)
    ledger = Ledger(cluster, len(table))
    scheduler = build(name)
    index, facts = np.arange(len(table)), table.facts
    facts["state"] = WAITING
    state, seconds, tasks = scheduler.initial(cluster), [], []
    for now in (0.0, 600.0):
        jobs = Jobs(table, index, now)
        snapshot = Snapshot(
            now, Trigger.TIMER, jobs, table, ledger, ResourceProfiles(models, ledger.books.nodes)
        )
        began = time.process_time()
        decision, state = scheduler.decide(snapshot, state)
        seconds.append(time.process_time() - began)
        ledger.carry_out(decision.changes)
        ledger.books.totals[ENTRIES] = 0
        facts["state"] = np.where(ledger.books.heads >= 0, RUNNING, WAITING)
        tasks.append(
            sum(
                share.gpus / worker[0] + share.role * share.cpus / server[1]
                for job, worker, server in zip(
                    index.tolist(), table.sized["worker"], table.sized["server"], strict=True
                )
                for share in ledger.holding(job)
            )
        )
    return seconds, round(tasks[0])


def show_decisions() -> None:
    """A row a scheduler and size."""
    print("| scheduler | jobs | nodes | workers and servers placed | first decision | next |")
    print("|---|---|---|---|---|---|")
    for name in SCHEDULERS:
        decisions(name, large_trace(20, 3), machines(20, gpus=8, cpus=64))
        for jobs, nodes, times in SIZES:
            cluster = machines(nodes, gpus=8, cpus=64)
            (first, following), tasks = decisions(name, large_trace(jobs, times), cluster)
            cells = f"{jobs:,} | {nodes:,} | {tasks:,} | {first:.2f} s | {following:.2f} s"
            print(f"| `{name}` | {cells} |", flush=True)


def show_queue() -> None:
    """A row for each length of the queue before 40 nodes, with the growth since the row before."""
    print(
        "\n| `smd`, 40 nodes, waiting jobs | first decision | next | exponent of the growth |\n|---|---|---|---|"
    )
    cluster, before = machines(40, gpus=8, cpus=64), nan
    for jobs in (250, 500, 1000, 2000, 4000):
        (first, following), _ = decisions("smd", generate(jobs, seed=1), cluster)
        print(
            f"| {jobs:,} | {first:.3f} s | {following:.3f} s | {log2(following / before):.2f} |", flush=True
        )
        before = following


def show_inner() -> None:
    """Milliseconds a job of the inner solvers, where limits allow 60 of each."""
    steps, demands = smd_jobs(1000, most=60)
    print("\n| inner solver, 1,000 jobs at once, up to 60 + 60 | ms a job |\n|---|---|")
    for search in (exact, frontier, epsilon_grid):
        search(*smd_jobs(2, most=60))
        began = time.process_time()
        search(steps, demands)
        # Seconds for 1,000 jobs are milliseconds for one.
        print(f"| `{search.__name__}` | {time.process_time() - began:.3f} |", flush=True)


def show_outer() -> None:
    """Seconds and gaps of the knapsack on its two shapes."""
    print("\n| outer problem | jobs | columns | effort | seconds | gap |\n|---|---|---|---|---|---|")
    for jobs in (100, 1000, 4000):
        cases = {
            "Synergy, one of 204 a job": synergy_shape(jobs, must_choose=True),
            "SMD, pairs up to 12 + 12": smd_columns(*smd_jobs(jobs, most=12)),
        }
        for shape, (columns, capacity) in cases.items():
            for name, effort in (("fast", FAST), ("thorough", THOROUGH)):
                began = time.process_time()
                gap = choose(columns, capacity, effort).gap
                seconds = time.process_time() - began
                count = columns.group.size
                print(f"| {shape} | {jobs:,} | {count:,} | {name} | {seconds:.3f} | {gap:.4%} |", flush=True)


def exact_decisions(scheduler: Smd, jobs: int) -> tuple[list[float], int]:
    """CPU milliseconds that branch and bound adds to first decisions, and how many of these are proven optimal."""
    milliseconds, proven = [], 0
    for seed, share in product(range(10), (0.3, 0.5, 0.8)):
        trace = generate(jobs, seed=seed)
        question = first_question(trace, cluster_for(trace.jobs, share), scheduler, layers_known=True)
        with_search, notes = decided(scheduler, question)
        without, _ = decided(replace(scheduler, nodes=0), question)
        milliseconds.append(1000 * (with_search - without))
        proven += not notes
    return milliseconds, proven


def decided(scheduler: Smd, question: SizingProblem) -> tuple[float, tuple[str, ...]]:
    """CPU seconds of a decision, the least of three times, and its notes."""
    seconds: list[float] = []
    notes: tuple[str, ...] = ()
    for _ in range(3):
        began = time.process_time()
        notes = scheduler.answer(question, None).notes
        seconds.append(time.process_time() - began)
    return min(seconds), notes


def show_exact() -> None:
    """Milliseconds of branch and bound by default."""
    print(
        "\n| branch and bound | jobs | decisions | exact | median, ms | 95 % | worst |\n|---|---|---|---|---|---|---|"
    )
    objectives: tuple[Objective, ...] = ("waiting", "published")
    for scheduler, objective, jobs in product((Smd, SmdReservation), objectives, (20, 60, 100, 300)):
        milliseconds, proven = exact_decisions(scheduler(objective=objective), jobs)
        middle, most, worst = np.quantile(milliseconds, [0.5, 0.95, 1.0])
        print(
            f"| `{scheduler.name}`, `{objective}` | {jobs} | {len(milliseconds)} | {proven} | "
            f"{middle:.0f} | {most:.0f} | {worst:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    show_decisions()
    show_queue()
    show_inner()
    show_outer()
    show_exact()
