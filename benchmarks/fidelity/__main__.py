"""Runs the scenario for real, then in the simulator from what its record says, and prints both side by side."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from multiprocessing.pool import ThreadPool
from pathlib import Path
from statistics import median

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.fidelity.scenario import Ask, Place, Real, run_for_real, scenario, this_machine
from muster.cluster.shipped import parse_cluster
from muster.schedulers.presets import DEFAULT_SCHEDULER
from muster.service.live_scheduler import live_scheduler
from muster.simulation import Options, simulate
from muster.workload.trace import trace_of
from tests.slurm.cluster import GPUS, SlurmCluster, slurm_cluster


def simulated(
    asks: Sequence[Ask], real: Real, scheduler: str, place: Place, round_seconds: float
) -> dict[str, list[float]]:
    """First start and end of each job by the simulator, which is given arrivals, work, solo rates and costs."""
    trace = trace_of(
        {
            "job_id": [str(number) for number in range(len(asks))],
            "submit_seconds": [job.submitted for job in real.jobs],
            "gpus": [place.gpus_a_job] * len(asks),
            "model": [""] * len(asks),
            "duration_seconds": [
                real.startup_seconds + ask.steps * job.step_seconds
                for ask, job in zip(asks, real.jobs, strict=True)
            ],
        },
        "the record",
    )
    options = Options(
        restart_cost_seconds=real.startup_seconds, release_seconds_per_gpu=real.stop_seconds, knowledge="none"
    )
    run = simulate(trace, parse_cluster(place.cluster), live_scheduler(scheduler, {}, round_seconds), options)
    jobs = run.record.jobs
    return {
        "start": jobs["start_seconds"].to_list(),
        "finish": jobs["finish_seconds"].to_list(),
        "preemptions": jobs["preemptions"].to_list(),
    }


def of_slurm(slurm: SlurmCluster) -> Place:
    """The partition of a Slurm; each job takes a node."""
    flags = ["--engine", "slurm", "--partition", "train"]
    return Place(f"{len(slurm.nodes)}x{GPUS}gpu,24cpu,500gb", flags, GPUS, slurm.environment)


def main() -> None:
    """The table of docs/results/fidelity.md."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fidelity")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--at-once", type=int, default=1, help="runs side by side, each with a daemon of its own"
    )
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--slurm",
        action="store_true",
        help="on a real Slurm of nodes with 8 GPUs, a node a job (default: on this machine)",
    )
    parser.add_argument("--gpus", type=int, default=2, help="of this machine; with --slurm, nodes")
    parser.add_argument("--scheduler", default=DEFAULT_SCHEDULER)
    parser.add_argument("--round", type=float, default=60.0)
    parser.add_argument("--start-up", type=float, default=30.0, help="seconds that each start takes")
    parser.add_argument("--gap", type=float, default=60.0, help="mean seconds between submissions")
    parser.add_argument(
        "--lengths", type=float, nargs=2, default=(60.0, 900.0), help="shortest and longest, seconds"
    )
    chosen = parser.parse_args()
    asks = scenario(chosen.jobs, chosen.seed, chosen.gap, tuple(chosen.lengths), chosen.start_up)
    errors_jct, errors_makespan = [], []
    where = "nodes of Slurm" if chosen.slurm else "GPUs"
    table = Table(title=f"{chosen.jobs} jobs on {chosen.gpus} {where} under {chosen.scheduler}")
    for name in ("run", "", "mean JCT", "makespan", "started again", "order of ends"):
        table.add_column(name)
    with (
        tempfile.TemporaryDirectory(prefix="muster-fidelity-") as folder,
        ThreadPool(chosen.at_once) as side_by_side,
        ExitStack() as stack,
    ):
        Path(folder).chmod(0o711)  # A daemon of root serves only where others can pass.
        place = this_machine(chosen.gpus)
        if chosen.slurm:
            place = of_slurm(stack.enter_context(slurm_cluster(Path(folder) / "slurm", chosen.gpus)))

        def run(number: int) -> Real:
            return run_for_real(asks, Path(folder) / str(number), chosen.scheduler, place, chosen.round)

        runs = side_by_side.imap(run, range(chosen.runs))
        bar = track(runs, "running for real", total=chosen.runs, console=Console(stderr=True))
        for number, real in enumerate(bar, 1):
            predicted = simulated(asks, real, chosen.scheduler, place, chosen.round)
            submitted = np.array([job.submitted for job in real.jobs])
            finish = np.array(predicted["finish"])
            jct, makespan = float(np.mean(finish - submitted)), float(finish.max() - submitted.min())
            errors_jct.append(jct / real.mean_jct - 1)
            errors_makespan.append(makespan / real.makespan - 1)
            really = np.array([job.finished for job in real.jobs])
            again = str(sum(job.starts - 1 for job in real.jobs))
            seen = f"{real.mean_jct:.1f} s", f"{real.makespan:.1f} s", again, _order(really)
            table.add_row(str(number), "real", *seen)
            table.add_row(
                "",
                "simulated",
                f"{jct:.1f} s ({errors_jct[-1]:+.1%})",
                f"{makespan:.1f} s ({errors_makespan[-1]:+.1%})",
                str(int(sum(predicted["preemptions"]))),
                _order(finish),
            )
            costs = f"start-up {real.startup_seconds:.2f} s, stop {real.stop_seconds:.2f} s"
            table.add_row("", costs, "", "", "", "", end_section=True)
    Console(width=120).print(table)
    print(
        f"median of {chosen.runs} runs: mean JCT {median(map(abs, errors_jct)):.1%} off, "
        f"makespan {median(map(abs, errors_makespan)):.1%} off"
    )


def _order(ends: np.ndarray) -> str:
    return " ".join(str(job + 1) for job in np.argsort(ends, kind="stable"))


if __name__ == "__main__":
    main()
