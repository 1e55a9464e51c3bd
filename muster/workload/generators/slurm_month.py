"""A month of a Slurm site: typed GPUs in two partitions, arrays, requeues, jobs cancelled, failed or ended by limit.

Sizes and durations are Philly's, scaled to the load; the rest is made up. What the site did with the jobs is for a
simulation to say: `sacct_lines` writes its starts and places as Slurm's accounting does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from muster.problems import InputError, Problem
from muster.workload.generators.draws import check_settings, drawn, streams
from muster.workload.generators.philly_like import durations_by_size, rhythmic_arrivals
from muster.workload.trace import Trace, trace_of

FIRST_DAY = datetime(2024, 3, 4)
"""Midnight before the first job: a Monday, as the rhythm begins with one."""
GPUS_PER_NODE, CPUS_PER_NODE, MIB_PER_NODE = 8, 96, 1_000_000
HEADER = (
    "JobID|User|Account|Partition|QOS|Priority|State|ExitCode|Submit|Start|End|Elapsed|Timelimit|NNodes|NodeList|"
    "Restarts|ReqTRES|AllocTRES|TotalCPU|TRESUsageInAve"
)

_DAYS = 30
_HOUR = 3600.0
_LONGEST = 7 * 24 * _HOUR
_ROUNDS_OF_SCALING = 20
_KINDS = ("h100", "a100")
_LARGER_SHARE = 0.7
"""Of nodes and jobs that the first kind has."""
_SIZES = {1: 70, 2: 10, 4: 9, 8: 8, 16: 2, 32: 0.8, 64: 0.2}
_STATES = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "PENDING")
_STATE_SHARES = (76, 12, 5, 5, 2)
"""The last: cancelled while waiting."""
_ARRAY_SHARE, _LONGEST_ARRAY = 0.3, 40
_REQUEUED_SHARE = 0.02
_USERS = 60
_FAILED_AFTER = timedelta(seconds=5)


@dataclass(frozen=True)
class SlurmMonth:
    """Jobs with GPUs as they came, and the site."""

    trace: Trace
    """Those that start; `requeues` and `status` are what the accounting is to say."""
    cancelled: Trace
    """Those that users cancel while they wait."""
    scontrol: str
    """What `scontrol show config` and `scontrol show node` print."""


def generate(jobs: int, gpus: int, load: float = 0.85, seed: int = 0) -> SlurmMonth:
    """So many jobs within 30 days that ask for `load` of the time of `gpus` GPUs."""
    check_settings(seed, {"jobs": jobs, "gpus": gpus}, {"load": load})
    nodes = gpus // GPUS_PER_NODE
    if nodes < 2 * len(_KINDS) or gpus % GPUS_PER_NODE:
        least = 2 * len(_KINDS) * GPUS_PER_NODE
        what = f"allowed: a multiple of {GPUS_PER_NODE} that is {least} or more"
        raise InputError(Problem("--gpus", what, found=gpus))
    arrivals, durations, sizes, kinds, ends, limits, names = streams(seed, 7)
    submit = rhythmic_arrivals(arrivals, jobs, jobs / (_DAYS * 24))
    ids, task_of = _arrays(names, jobs)
    # The tasks of an array come together and are of one size.
    submit, size = submit[task_of].round(), drawn(sizes, list(_SIZES), list(_SIZES.values()), jobs)[task_of]
    kind = (kinds.random(jobs) >= _LARGER_SHARE).astype(np.int64)[task_of]
    smaller = nodes - round(nodes * _LARGER_SHARE)
    size = np.minimum(size, smaller * GPUS_PER_NODE // 2)
    run = _scaled(durations_by_size(durations, size), size, load * nodes * GPUS_PER_NODE * _DAYS * 24 * _HOUR)
    state = drawn(ends, range(len(_STATES)), _STATE_SHARES, jobs)
    limit = np.ceil(run * (1 + 7 * limits.random(jobs)) / _HOUR) * _HOUR
    limit = np.where(state == _STATES.index("TIMEOUT"), np.ceil(run / 60) * 60, limit)
    user = drawn(names, range(1, _USERS + 1), [1 / rank for rank in range(1, _USERS + 1)], jobs)[task_of]
    requeued = (ends.random(jobs) < _REQUEUED_SHARE) & (ids["task"] < 0)
    columns = {
        "job_id": [_id(*one) for one in zip(ids["number"].tolist(), ids["task"].tolist(), strict=True)],
        "submit_seconds": submit,
        "gpus": size,
        "duration_seconds": np.where(state == _STATES.index("TIMEOUT"), limit, run),
        "time_limit_seconds": limit,
        "nodes": -(-size // GPUS_PER_NODE),
        "cpus": size * 8.0,
        "memory_gb": size * 64.0,
        "user": [f"u{one:02d}" for one in user],
        "tenant": [f"lab{one % 12:02d}" for one in user],
        "partition": [_KINDS[one] for one in kind],
        "constraint": [f"gpu_type={_KINDS[one]}" for one in kind],
        "requeues": requeued.astype(np.int64),
        "status": [_STATES[one] for one in state],
    }
    every = trace_of(columns, f"slurm-month generator: {jobs} jobs, {gpus} GPUs, load {load:g}, seed {seed}")
    waits = every.jobs["status"] == "PENDING"
    ran, gone = (Trace(every.jobs.filter(mask), every.source) for mask in (~waits, waits))
    return SlurmMonth(ran, gone, _scontrol(nodes - smaller, smaller))


def _scaled(run: NDArray[np.float64], gpus: NDArray[np.int64], gpu_seconds: float) -> NDArray[np.float64]:
    """Whole seconds of at most a week that together ask for so many GPU-seconds, as far as a week allows it."""
    for _ in range(_ROUNDS_OF_SCALING):
        run = np.clip(run * gpu_seconds / (run * gpus).sum(), 1.0, _LONGEST)
    whole: NDArray[np.float64] = run.round()
    return whole


def _arrays(
    random: np.random.Generator, jobs: int
) -> tuple[Mapping[str, NDArray[np.int64]], NDArray[np.int64]]:
    """Job number and task (-1: no array) of each job, and the job whose submission it shares."""
    lengths = np.where(
        random.random(jobs) < _ARRAY_SHARE / (_LONGEST_ARRAY / 2), random.integers(2, _LONGEST_ARRAY, jobs), 1
    )
    firsts = np.concatenate(([0], np.cumsum(lengths)))
    of = np.searchsorted(firsts, np.arange(jobs), side="right") - 1
    task = np.where(lengths[of] > 1, np.arange(jobs) - firsts[of], -1)
    return {"number": 1000 + firsts[of], "task": task}, firsts[of]


def _id(number: int, task: int) -> str:
    return f"{number}_{task}" if task >= 0 else f"{number}"


def _scontrol(first: int, second: int) -> str:
    lines = [
        "ClusterName             = month",
        "PriorityType            = priority/basic",
        "SchedulerParameters     = bf_interval=60,bf_window=20160,bf_continue",
        "SchedulerType           = sched/backfill",
        "SelectType              = select/cons_tres",
        "",
    ]
    for kind, count in zip(_KINDS, (first, second), strict=True):
        lines += [
            f"NodeName={kind}-{at:03d} CPUTot={CPUS_PER_NODE} Gres=gpu:{kind}:{GPUS_PER_NODE} "
            f"RealMemory={MIB_PER_NODE} State=IDLE Partitions={kind}"
            for at in range(count)
        ]
    return "\n".join(lines) + "\n"


def sacct_lines(
    month: SlurmMonth, starts: Mapping[str, float], nodes: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """The lines of `sacct -a -P`: a header, and for each job what the accounting says when all have ended.

    `starts` are seconds by job, `nodes` the nodes that each was on.
    """
    yield HEADER
    for row in month.trace.jobs.iter_rows(named=True):
        yield from _lines_of(row, starts[row["job_id"]], nodes[row["job_id"]])
    for row in month.cancelled.jobs.iter_rows(named=True):
        end = _moment(row["submit_seconds"] + row["duration_seconds"] / 10)
        times = (_text(_moment(row["submit_seconds"])), "None", _text(end), "00:00:00")
        yield _line(row, "CANCELLED by 1000", "0:0", times, (), _Use())


@dataclass(frozen=True)
class _Use:
    """What the accounting says of a job's use."""

    restarts: int = 0
    allocated: bool = False
    cpu: str = "00:00:00"


def _lines_of(row: Mapping[str, object], start: float, nodes: Sequence[str]) -> Iterator[str]:
    """The lines of a job that ran: its failed first run if it was requeued, its last run, its batch step."""
    submit, begin = (_moment(float(str(one))) for one in (row["submit_seconds"], start))
    seconds, gpus = float(str(row["duration_seconds"])), int(str(row["gpus"]))
    state, code = str(row["status"]), "1:0" if row["status"] == "FAILED" else "0:0"
    if row["requeues"]:
        first = submit - _FAILED_AFTER
        times = (_text(first), _text(first), _text(submit), "00:00:05")
        yield _line(row, "NODE_FAIL", "1:0", times, nodes, _Use(allocated=True))
    times = (_text(submit), _text(begin), _text(begin + timedelta(seconds=seconds)), _clock(seconds))
    use = _Use(int(bool(row["requeues"])), allocated=True, cpu=_clock(seconds * gpus * 4))
    yield _line(row, "CANCELLED by 1000" if state == "CANCELLED" else state, code, times, nodes, use)
    step = [f"{row['job_id']}.batch", "", row["tenant"], "", "", "", state, code, *times, "", len(nodes)]
    busy = f"gres/gpuutil={40 + int(seconds) % 60}"
    yield "|".join(map(str, [*step, ",".join(nodes), "", "", "", use.cpu, busy]))


def _line(
    row: Mapping[str, object], state: str, code: str, times: Sequence[str], nodes: Sequence[str], use: _Use
) -> str:
    gpus, kind, count = row["gpus"], row["partition"], len(nodes) or row["nodes"]
    amounts = f"gres/gpu={gpus},gres/gpu:{kind}={gpus},mem={64 * int(str(gpus))}G,node={count}"
    tres = f"billing={gpus},cpu={8 * int(str(gpus))},{amounts}"
    limit = _clock(float(str(row["time_limit_seconds"])))
    cells = [
        row["job_id"],
        row["user"],
        row["tenant"],
        kind,
        "normal",
        1000,
        state,
        code,
        *times,
        limit,
        count,
    ]
    cells += [
        ",".join(nodes) or "None assigned",
        use.restarts,
        tres,
        tres if use.allocated else "",
        use.cpu,
        "",
    ]
    return "|".join(map(str, cells))


def _moment(seconds: float) -> datetime:
    return FIRST_DAY + timedelta(seconds=round(seconds))


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S")


def _clock(seconds: float) -> str:
    """Days, hours, minutes and seconds as Slurm writes them."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days}-{hours:02d}:{minutes:02d}:{rest:02d}" if days else f"{hours:02d}:{minutes:02d}:{rest:02d}"
