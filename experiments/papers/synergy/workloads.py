"""The workloads, clusters and schedulers of Synergy's experiments, as sweeps; full and quick."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments.papers.experiment import Effort
from experiments.papers.sweeps import sweep_of
from muster.sweep.sweep_file import SweepFile

ROUND_SECONDS = 300
PREEMPTIVE = {"preemptive": True}
"""In the paper every job competes again each round, under FIFO too."""
LISTED = {"listed": True}
"""How their program has LAS with tune."""
ASSIGNED = {"exact_variables": 0}
"""In whole queues opt assigns its points: an integer program at every decision would take hours."""

ORDERS = ("fifo", "srtf", "las")
ALLOCATIONS = ("proportional", "tune-published", "tune", "tune-plus")
SEEDS = 5
FULL = {"jobs": 4000, "measure": "2000:2999"}
QUICK = {"jobs": 1000, "measure": "400:799"}

STATIC_TRACE = "parity/synergy/static_60-30-10_100.csv"
BIG_DATA = ("greedy", "tune", "tune-plus")


def settings_of(order: str, allocation: str) -> dict[str, Any]:
    """What a scheduler needs to be as in the paper."""
    if allocation == "opt":
        return PREEMPTIVE | ASSIGNED
    return PREEMPTIVE | (LISTED if (order, allocation) == ("las", "tune-published") else {})


def _schedulers(orders: Sequence[str], allocations: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {
            "name": f"{order}+{allocation}",
            "label": f"{order}+{allocation}",
            "settings": settings_of(order, allocation),
        }
        for order in orders
        for allocation in allocations
    ]


def _dynamic(
    effort: Effort,
    loads: Sequence[float],
    schedulers: list[dict[str, Any]],
    clusters: Sequence[str] = ("synergy-16",),
    **workload: Any,
) -> SweepFile:
    size = QUICK if effort.quick else FULL
    return sweep_of(
        schedulers=schedulers,
        clusters=list(clusters),
        seeds=2 if effort.quick else SEEDS,
        synergy=[{"jobs": size["jobs"], "loads": list(loads), **workload}],
        options=[{"round_seconds": ROUND_SECONDS, "restart_cost_seconds": 0.0, "measure": size["measure"]}],
    )


def single_gpu(effort: Effort) -> SweepFile:
    """Jobs of one GPU, load by load."""
    if effort.quick:
        return _dynamic(effort, [6.0, 9.0], _schedulers(["fifo", "las"], ALLOCATIONS))
    return _dynamic(effort, [1.0, 4.0, 7.0, 8.0, 9.0, 10.0], _schedulers(ORDERS, ALLOCATIONS))


def splits(effort: Effort) -> SweepFile:
    """More jobs that are sensitive to CPU and memory."""
    loads = [9.0] if effort.quick else [7.0, 9.0]
    orders = ["fifo"] if effort.quick else ORDERS
    return _dynamic(effort, loads, _schedulers(orders, ALLOCATIONS), splits=["33,33,33", "50,0,50"])


def multi_gpu(effort: Effort) -> SweepFile:
    """Philly's mix of 1 to 16 GPUs, load by load."""
    if effort.quick:
        return _dynamic(effort, [5.0], _schedulers(["fifo"], ALLOCATIONS), multi_gpu=True)
    return _dynamic(effort, [4.0, 5.0, 6.0], _schedulers(ORDERS, ALLOCATIONS), multi_gpu=True)


def fairness(effort: Effort) -> SweepFile:
    """Finish-time fairness as the order, which their program has upside down."""
    loads = [6.0] if effort.quick else [7.0, 9.0]
    return _dynamic(effort, loads, _schedulers(["ftf"], ALLOCATIONS))


def servers(effort: Effort) -> SweepFile:
    """Servers with 3 to 6 CPUs a GPU."""
    cpus = (24, 48) if effort.quick else (24, 32, 40, 48)
    clusters = [f"16x8gpu,{count}cpu,500gb" for count in cpus]
    return _dynamic(effort, [9.0], _schedulers(["fifo"], ALLOCATIONS), clusters)


def big_data(effort: Effort) -> SweepFile:
    """DRF and Tetris, with fixed demands and with tune."""
    orders = ["drf-static"] if effort.quick else ["drf-static", "tetris"]
    return _dynamic(effort, [9.0], _schedulers(orders, BIG_DATA))


def four_servers(effort: Effort) -> SweepFile:
    """Jobs that arrive over time on the paper's real cluster."""
    loads = [2.0] if effort.quick else [1.5, 2.0, 2.25]
    orders = ["fifo"] if effort.quick else ["fifo", "srtf", "las"]
    return sweep_of(
        schedulers=_schedulers(orders, (*ALLOCATIONS, "opt")),
        clusters=["synergy-4"],
        seeds=2 if effort.quick else SEEDS,
        synergy=[{"jobs": 400, "loads": loads, "splits": ["60,30,10"]}],
        options=[{"round_seconds": ROUND_SECONDS, "restart_cost_seconds": 0.0, "measure": "100:299"}],
    )


def static(effort: Effort) -> SweepFile:
    """The published list of jobs, where it is at hand, and our own of the same kind."""
    published = [str(effort.reference / STATIC_TRACE)] if effort.reference else []
    return sweep_of(
        schedulers=_schedulers(["fifo", "srtf", "las"], (*ALLOCATIONS, "opt")),
        clusters=["synergy-4"],
        seeds=2 if effort.quick else SEEDS,
        traces=published,
        synergy=[{"jobs": 100, "static": True, "splits": ["60,30,10"]}],
        options=[{"round_seconds": ROUND_SECONDS, "restart_cost_seconds": 0.0}],
    )
