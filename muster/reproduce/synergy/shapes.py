"""The paper's simulated and real clusters as sweeps: loads, splits, gangs, servers, orders, a static trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from muster.cluster.shipped import parse_cluster
from muster.reproduce.experiment import Effort, Experiment, Findings, Row, Verdict, at_least
from muster.reproduce.sweeps import Ratio, jct_chart, pieces_of, ratios, sweep_of, table_of
from muster.sweep.page import Table
from muster.sweep.sweep_file import SweepFile

ROUND_SECONDS = 300
PREEMPTIVE = {"preemptive": True}
"""In the paper everybody competes anew each round, under FIFO too."""

ORDERS = ("fifo", "srtf", "las", "ftf")
ALLOCATIONS = ("proportional", "tune", "tune-plus")
FULL = {"jobs": 4000, "measure": "2000:2999"}
QUICK = {"jobs": 1000, "measure": "400:799"}

STATIC_TRACE = "parity/synergy/static_60-30-10_100.csv"
BIG_DATA = ("greedy", "tune", "tune-plus")
CLAIM = 3.4
"""Times shorter mean completion time (paper, abstract)."""

MakeSweep = Callable[[Effort], SweepFile]
Read = Callable[[pl.DataFrame], Findings]


def _schedulers(orders: Sequence[str], allocations: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {"name": f"{order}+{allocation}", "label": f"{order}+{allocation}", "settings": PREEMPTIVE}
        for order in orders
        for allocation in allocations
    ]


def _pairs(
    orders: Sequence[str], allocations: Sequence[str], base: str = "proportional"
) -> Mapping[str, str]:
    """Each better scheduler with its base."""
    return {f"{order}+{name}": f"{order}+{base}" for order in orders for name in allocations if name != base}


def _dynamic(
    effort: Effort,
    loads: Sequence[float],
    schedulers: list[dict[str, Any]],
    seeds: int,
    clusters: Sequence[str] = ("synergy-16",),
    **workload: Any,
) -> SweepFile:
    size = QUICK if effort.quick else FULL
    return sweep_of(
        schedulers=schedulers,
        clusters=list(clusters),
        seeds=2 if effort.quick else seeds,
        synergy=[{"jobs": size["jobs"], "loads": list(loads), **workload}],
        options=[{"round_seconds": ROUND_SECONDS, "measure": size["measure"]}],
    )


def _single_gpu(effort: Effort) -> SweepFile:
    if effort.quick:
        return _dynamic(effort, [6.0, 9.0], _schedulers(["fifo", "las"], ALLOCATIONS), 2)
    return _dynamic(effort, [6.0, 8.0, 9.0, 10.0], _schedulers(ORDERS, ALLOCATIONS), 3)


def _splits(effort: Effort) -> SweepFile:
    loads = [9.0] if effort.quick else [8.0, 9.0]
    orders = ["fifo"] if effort.quick else ["fifo", "las"]
    return _dynamic(effort, loads, _schedulers(orders, ALLOCATIONS), 3, splits=["33,33,33", "50,0,50"])


def _multi_gpu(effort: Effort) -> SweepFile:
    if effort.quick:
        return _dynamic(effort, [5.0], _schedulers(["fifo"], ALLOCATIONS), 2, multi_gpu=True)
    return _dynamic(effort, [4.0, 5.0, 6.0], _schedulers(ORDERS, ALLOCATIONS), 3, multi_gpu=True)


def _servers(effort: Effort) -> SweepFile:
    cpus = (24, 48) if effort.quick else (24, 32, 40, 48)
    clusters = [f"16x8gpu,{count}cpu,500gb" for count in cpus]
    return _dynamic(effort, [9.0], _schedulers(["fifo"], ALLOCATIONS), 3, clusters)


def _big_data(effort: Effort) -> SweepFile:
    orders = ["drf-static"] if effort.quick else ["drf-static", "tetris"]
    return _dynamic(effort, [9.0], _schedulers(orders, BIG_DATA), 3)


def _four_servers(effort: Effort) -> SweepFile:
    loads = [2.0] if effort.quick else [1.5, 2.0, 2.25]
    orders = ["fifo"] if effort.quick else ["fifo", "srtf", "las"]
    return sweep_of(
        schedulers=_schedulers(orders, (*ALLOCATIONS, "opt")),
        clusters=["synergy-4"],
        seeds=2 if effort.quick else 3,
        synergy=[{"jobs": 400, "loads": loads, "splits": ["60,30,10"]}],
        options=[{"round_seconds": ROUND_SECONDS, "measure": "100:299"}],
    )


def _static(effort: Effort) -> SweepFile:
    """The published list of jobs, where it is at hand, and our own of the same kind."""
    published = [str(effort.reference / STATIC_TRACE)] if effort.reference else []
    return sweep_of(
        schedulers=_schedulers(["fifo", "srtf", "las"], (*ALLOCATIONS, "opt")),
        clusters=["synergy-4"],
        seeds=2 if effort.quick else 3,
        traces=published,
        synergy=[{"jobs": 100, "static": True, "splits": ["60,30,10"]}],
        options=[{"round_seconds": ROUND_SECONDS}],
    )


def _experiment(name: str, title: str, claim: str, sweep: MakeSweep, read: Read) -> Experiment:
    return Experiment(
        name,
        title,
        claim,
        lambda effort: pieces_of(sweep(effort)),
        lambda effort, results: read(table_of(sweep(effort), results)),
    )


def _best_by(found: Sequence[Ratio]) -> list[Ratio]:
    """The greatest ratio of each better scheduler."""
    best: dict[str, Ratio] = {}
    for ratio in found:
        if ratio.better not in best or ratio.value.mean > best[ratio.better].value.mean:
            best[ratio.better] = ratio
    return list(best.values())


def _jct_table(cells: pl.DataFrame) -> Table:
    """Mean completion time and the ratio to the base, every place of the sweep."""
    where = ["workload", "cluster", "load"]
    means = cells.group_by([*where, "scheduler"], maintain_order=True).agg(
        pl.col("jct_mean_seconds").mean() / 3600
    )
    schedulers = list(dict.fromkeys(cells["scheduler"]))
    rows = []
    for place, group in means.group_by(where, maintain_order=True):
        values = dict(zip(group["scheduler"], group["jct_mean_seconds"], strict=True))
        workload, cluster, load = place
        words = [str(workload), *([str(cluster)] if cells["cluster"].n_unique() > 1 else [])]
        if load is not None:
            words.append(f"{load:g} jobs/h")
        rows.append((" · ".join(words), *(f"{values[scheduler]:.2f}" for scheduler in schedulers)))
    return Table("Mean completion time in hours", ("Setting", *schedulers), rows)


def _read_loads(name: str, published: Mapping[str, str]) -> Read:
    """The greatest ratio of each scheduler to its base against the claim of 3.4; a chart a workload."""

    def read(cells: pl.DataFrame) -> Findings:
        pairs = _pairs(_orders(cells), ALLOCATIONS)
        rows: list[Row] = []
        charts = []
        for at, (workload, here) in enumerate(_by(cells, "workload")):
            called = _split_and_sizes(workload)
            rows += [
                Row(
                    f"mean JCT, proportional / {ratio.better}, greatest, {called}",
                    "up to 3.4×",
                    published.get(ratio.better, ""),
                    f"{ratio}× at {ratio.load:g} jobs/h",
                    at_least(ratio.value.mean, CLAIM),
                )
                for ratio in _best_by(ratios(here, "jct_mean_seconds", pairs))
            ]
            charts.append(jct_chart(f"{name}-{at + 1}", f"Mean completion time, {called}", here))
        return Findings(rows, charts, [_jct_table(cells)])

    return read


def _read_servers(cells: pl.DataFrame) -> Findings:
    found = ratios(cells, "jct_mean_seconds", _pairs(["fifo"], ALLOCATIONS))
    rows = [
        Row(
            f"mean JCT, proportional / {ratio.better}, {_cpus_per_gpu(ratio.cluster)} CPUs a GPU",
            "",
            "",
            f"{ratio}×",
            Verdict.OTHER_SETTING,
            "the shipped sensitivity is that of 3 CPUs a GPU",
        )
        for ratio in found
    ]
    chart = jct_chart("servers", "Mean completion time by CPUs a GPU, 9 jobs/h", cells, _cluster_words(cells))
    return Findings(rows, [chart], [_jct_table(cells)])


def _read_big_data(cells: pl.DataFrame) -> Findings:
    found = ratios(cells, "jct_mean_seconds", _pairs(_orders(cells), BIG_DATA, "greedy"))
    published = {"drf-static+tune": "1.08× (1000 jobs)", "tetris+tune": "1.00× (1000 jobs)"}
    rows = [
        Row(
            f"mean JCT, {ratio.base} / {ratio.better}, 9 jobs/h",
            "tune better",
            published.get(ratio.better, ""),
            f"{ratio}×",
            at_least(ratio.value.mean, 1.0),
        )
        for ratio in found
    ]
    chart = jct_chart("big-data", "DRF and Tetris with fixed demands and with tune, 9 jobs/h", cells)
    return Findings(rows, [chart], [_jct_table(cells)])


def _read_four_servers(cells: pl.DataFrame) -> Findings:
    best = _best_by(ratios(cells, "jct_mean_seconds", _pairs(_orders(cells), (*ALLOCATIONS, "opt"))))
    rows = [
        Row(
            f"mean JCT, proportional / {ratio.better}, 4 servers, greatest",
            "1.5×",
            "",
            f"{ratio}× at {ratio.load:g} jobs/h",
            at_least(ratio.value.mean, 1.5),
            "real servers there, their load is not told",
        )
        for ratio in best
    ]
    return Findings(
        rows, [jct_chart("four-servers", "Mean completion time on 4 servers", cells)], [_jct_table(cells)]
    )


def _read_static(cells: pl.DataFrame) -> Findings:
    published = {
        "fifo+tune": 15.250278 / 11.000278,
        "srtf+tune": 14.083611 / 12.916944,
        "las+tune": 11.416944 / 10.666944,
    }
    found = ratios(cells, "makespan_seconds", _pairs(_orders(cells), (*ALLOCATIONS, "opt")))
    rows = [
        Row(
            f"makespan, proportional / {ratio.better}, 100 jobs on 4 servers",
            "1.4×",
            f"{published[ratio.better]:.2f}×" if ratio.better in published else "",
            f"{ratio}×",
            at_least(ratio.value.mean, 1.4),
            "real servers there"
            if ratio.better not in published
            else "published: one list of jobs, simulated",
        )
        for ratio in found
    ]
    chart = jct_chart("static", "Makespan of the static trace", cells, figure="makespan_seconds")
    return Findings(rows, [chart])


def _orders(cells: pl.DataFrame) -> list[str]:
    return list(dict.fromkeys(scheduler.partition("+")[0] for scheduler in cells["scheduler"]))


def _by(cells: pl.DataFrame, column: str) -> list[tuple[str, pl.DataFrame]]:
    return [(str(value), rows) for (value,), rows in cells.group_by(column, maintain_order=True)]


def _cpus_per_gpu(cluster: str) -> str:
    machines = parse_cluster(cluster)
    return f"{machines.total_cpus / machines.total_gpus:g}"


def _cluster_words(cells: pl.DataFrame) -> Mapping[str, str]:
    return {
        cluster: f"{_cpus_per_gpu(cluster)} CPUs a GPU"
        for cluster in cells["cluster"].unique(maintain_order=True)
    }


def _split_and_sizes(workload: str) -> str:
    """`20,70,10, 1 GPU`: a workload of a sweep without its number of jobs."""
    return workload.partition(", ")[2]


SHAPES = (
    _experiment(
        "static",
        "Static trace on 4 servers",
        "The paper: on 4 real servers, 100 jobs at once, tune shortens the makespan 1.4×. "
        "Here: simulated, split 60,30,10.",
        _static,
        _read_static,
    ),
    _experiment(
        "four-servers",
        "Dynamic trace on 4 servers",
        "The paper: on 4 real servers jobs that arrive over time finish 1.5× sooner on average under tune. Here: "
        "simulated, split 60,30,10, over a range of loads.",
        _four_servers,
        _read_four_servers,
    ),
    _experiment(
        "single-gpu",
        "Load, jobs of one GPU, 128 GPUs",
        "The paper: up to 3.4 times shorter mean completion time than with GPU-proportional shares. Published "
        "program at 9 jobs/h under FIFO: 81.1 h to 21.9 h (ids 4000 to 4999).",
        _single_gpu,
        _read_loads("single-gpu", {"fifo+tune": "3.71× at 9 jobs/h"}),
    ),
    _experiment(
        "splits",
        "Load, other splits of the workload",
        "The same with more jobs that are sensitive to CPU and memory: splits 33,33,33 and 50,0,50.",
        _splits,
        _read_loads("splits", {}),
    ),
    _experiment(
        "multi-gpu",
        "Load, jobs of 1 to 16 GPUs, 128 GPUs",
        "The paper repeats the load sweep with Philly's mix of sizes.",
        _multi_gpu,
        _read_loads("multi-gpu", {}),
    ),
    _experiment(
        "servers",
        "Servers with more CPUs",
        "The paper varies the CPUs of its servers from 3 to 6 a GPU: the proportional share grows, less is to gain.",
        _servers,
        _read_servers,
    ),
    _experiment(
        "big-data",
        "Schedulers of big-data clusters",
        "DRF and Tetris with the whole best-case demand or nothing (greedy), and with tune.",
        _big_data,
        _read_big_data,
    ),
)
