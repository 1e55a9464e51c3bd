"""Jobs that no empty cluster could hold: the trace is refused because of them, or they are left out in the open."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from muster.cluster import Cluster
from muster.cluster.distinct_rows import distinct_rows
from muster.cluster.equal_parts import fewest_equal_parts
from muster.cluster.ledger_arrays import GPU, MICRO, WHOLE, Bools, Floats, Ints
from muster.cluster.resources import RESOURCES
from muster.formatting import counted
from muster.problems import InputError, Problem
from muster.schedulers.honours import FEWER_GPUS, NODES, REQUESTS, WORKERS_AND_SERVERS
from muster.simulation.options import Options
from muster.workload.jobs import REFUSED, JobTable
from muster.workload.sized import PS, RIGID
from muster.workload.trace import Trace
from muster.workload.traces.columns import LINE

NAMED_AT_MOST = 5
_ROUNDING = 1e-9
_OF_WORKERS = 3
"""GPUs, CPUs and memory: what workers and servers need of a node."""


def set_impossible_aside(
    table: JobTable, cluster: Cluster, trace: Trace, options: Options, honours: frozenset[str]
) -> tuple[str, ...]:
    """Set aside the jobs that no empty cluster could hold, or refuse the trace because of them.

    What jobs request beside GPUs counts where the scheduler honours requests. A job that a scheduler sizes needs its
    smallest size, another one the GPUs that it asks for.
    """
    asked = table.asked
    needed = _least_gpus(table, honours)
    gpus = np.array([node.gpus for node in cluster.nodes])
    room = (table.node_allowed * gpus).sum(axis=1)[asked["constraint"]]
    nowhere = np.isin(asked["constraint"], list(table.unmet))
    if nowhere.any() and not options.skip_impossible:
        raise InputError(*_unmet_places(table, trace))
    problems = {
        int(job): _Impossible(
            f"cluster {cluster.name} has {counted(int(room[job]), 'GPU')} that it may use",
            _column_of_size(asked[job], int(needed[job])),
            int(needed[job]),
        )
        for job in np.flatnonzero((needed > room) | nowhere)
    }
    if REQUESTS in honours:
        whole: Bools = (asked["sync"] == RIGID) | (WORKERS_AND_SERVERS not in honours)
        problems |= _too_large_requests(table, cluster, needed, whole.nonzero()[0], problems)
    if NODES in honours:
        problems |= _too_many_nodes(table, cluster, problems)
    if WORKERS_AND_SERVERS in honours:
        problems |= _too_large_workers(table, cluster, problems)
    without_a_node = np.flatnonzero(table.facts["state"] == REFUSED)
    impossible = np.union1d(np.array(sorted(problems), np.int64), without_a_node)
    if len(impossible) and not options.skip_impossible:
        hint = "leave such jobs out with --skip-impossible"
        refused = {
            job: Problem(
                trace.source,
                f"job {table.ids[job]} can never run: {problems[job].why}; {hint}",
                column=problems[job].column,
                found=problems[job].found,
            )
            for job in impossible.tolist()
        }
        raise at_their_lines(trace, refused)
    table.facts["state"][impossible] = REFUSED
    return tuple(table.ids.gather(impossible).to_list())


def _least_gpus(table: JobTable, honours: frozenset[str]) -> Ints:
    """The fewest GPUs on which each job can run under a scheduler that honours this."""
    asked = table.asked
    may_shrink: Bools = (asked["sync"] != RIGID) & (WORKERS_AND_SERVERS in honours)
    if FEWER_GPUS in honours:
        may_shrink |= (asked["milli"] == WHOLE) & (asked["gpus"] > 0)
    least: Ints = np.where(may_shrink, asked["min_gpus"], asked["gpus"])
    return least


def _unmet_places(table: JobTable, trace: Trace) -> Iterator[Problem]:
    """A problem for each constraint or partition that no node meets, at the first of its jobs."""
    lines = _lines(trace)
    for number, problem in table.unmet.items():
        jobs = np.flatnonzero(table.asked["constraint"] == number)
        column = problem.column or "constraint"
        more = f", and {len(jobs) - 1:,} more" if len(jobs) > 1 else ""
        who = f"job {table.ids[int(jobs[0])]}{more}"
        yield replace(
            problem,
            row=None if lines is None else lines[int(jobs[0])],
            column=trace.names.get(column, column),
            what=f"{problem.what}; {who} can never run; leave such jobs out with --skip-impossible",
        )


@dataclass(frozen=True)
class _Impossible:
    """Why a job can never run, and the column that says so."""

    why: str
    column: str
    found: float


def _too_large_requests(
    table: JobTable, cluster: Cluster, needed: Ints, whole: Ints, known: Collection[int]
) -> dict[int, _Impossible]:
    """Those of the `whole` jobs, which are not sized, whose `needed` GPUs fit, but not with what they request."""
    asked = table.asked
    rows = np.column_stack([asked["constraint"], asked["gpus"], needed, asked["requested"]])
    states = whole[(asked["requested"][whole] > 0).any(axis=1)]
    requesting = np.setdiff1d(states, np.array(sorted(known), np.int64))
    found: dict[int, _Impossible] = {}
    if not len(requesting):
        return found
    distinct, which = distinct_rows(rows[requesting])
    for number, (constraint, gpus, least, *requested) in enumerate(distinct.tolist()):
        nodes = cluster.amounts[table.node_allowed[constraint]]
        column = _too_large(nodes, gpus, least, requested)
        if column is None:
            continue
        resource = RESOURCES[column]
        most = nodes[:, column].max()
        why = f"no machine that it may use has room for so much; the largest has {most:g} {resource.unit}"
        stated = requested[column] / MICRO / (gpus if resource.per_gpu else 1)
        for job in requesting[which == number].tolist():
            found[job] = _Impossible(why, resource.name, stated)
    return found


def _too_large(nodes: Floats, gpus: int, least: int, requested: Sequence[int]) -> int | None:
    """The resource whose request keeps a job from every place on these empty nodes; None: it has a place.

    A job without GPUs, or with a share of one, needs one node. Others divide what they request over their GPUs, and
    with their least GPUs have so much less.
    """
    together = np.ones(len(nodes)) * np.inf
    for resource, wanted in enumerate(requested):
        if wanted <= 0:
            continue
        together = np.minimum(together, nodes[:, resource] / (wanted / MICRO) * max(gpus, 1) + _ROUNDING)
        places = np.floor(together) if gpus == 0 else np.minimum(np.floor(together), nodes[:, 0])
        if places.sum() < max(least, 1):
            return resource
    return None


def _too_many_nodes(table: JobTable, cluster: Cluster, known: Collection[int]) -> dict[int, _Impossible]:
    """Jobs that find too few nodes with their part of the GPUs and of what they request."""
    asked, found = table.asked, {}
    amounts = cluster.amounts * MICRO
    columns = [asked["constraint"], asked["nodes"], asked["gpus"], np.maximum(asked["requested"], 0)]
    distinct, which = distinct_rows(np.column_stack(columns))
    for number, (constraint, stated, gpus, *needs) in enumerate(distinct.tolist()):
        usable = amounts[table.node_allowed[constraint]]
        per_node = (usable[:, GPU] // MICRO).astype(np.int64)
        nodes = max(min(stated, gpus), 1) if stated else fewest_equal_parts(per_node, gpus)
        part = -(-gpus // nodes)
        each = -(-np.array(needs) // nodes)
        each[GPU] = part * MICRO
        fit = int((usable >= each - 1).all(axis=1).sum())
        if fit >= nodes:
            continue
        needed = f"{counted(nodes, 'node')} with {counted(part, 'GPU')} and what else is its part"
        why = f"it needs {needed}, and may use {fit}"
        for job in np.setdiff1d(np.flatnonzero(which == number), list(known)).tolist():
            found[job] = _Impossible(why, "nodes" if stated else "gpus", stated or gpus)
    return found


def _too_large_workers(table: JobTable, cluster: Cluster, known: Collection[int]) -> dict[int, _Impossible]:
    """Jobs whose least workers, with a server if they have any, are on no nodes of the empty cluster together."""
    asked, sized = table.asked, table.sized
    amounts = cluster.amounts[:, :_OF_WORKERS]
    sized_jobs = np.setdiff1d(np.flatnonzero(asked["sync"] != RIGID), np.array(sorted(known), np.int64))
    found: dict[int, _Impossible] = {}
    for constraint in np.unique(asked["constraint"][sized_jobs]).tolist():
        jobs = sized_jobs[asked["constraint"][sized_jobs] == constraint]
        kinds, counts = np.unique(amounts[table.node_allowed[constraint]], axis=0, return_counts=True)
        worker, server = (sized[role][jobs][:, :_OF_WORKERS] for role in ("worker", "server"))
        least = sized["min_workers"][jobs]
        room = np.array([_how_many(kind, worker) for kind in kinds]).reshape(len(kinds), len(jobs))
        most = counts @ room
        has_servers = asked["sync"][jobs] == PS
        most_beside = np.full(len(jobs), -1.0)
        for kind, alone in zip(kinds, room, strict=True):
            beside = most - alone + _how_many(kind - server, worker)
            fits = (server <= kind + _ROUNDING).all(axis=1)
            most_beside = np.where(fits, np.maximum(most_beside, beside), most_beside)
        for at in np.flatnonzero(np.where(has_servers, most_beside, most) < least).tolist():
            together = (
                "one worker and one server" if has_servers[at] and least[at] == 1 else "so many workers"
            )
            beside = " beside a server" if has_servers[at] and least[at] > 1 else ""
            why = f"no nodes that it may use have room for {together}{beside}"
            found[int(jobs[at])] = _Impossible(why, "min_workers", int(least[at]))
    return found


def _how_many(room: Floats, worker: Floats) -> Floats:
    """How many workers of each job fit into this room of a node, which may be below 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(worker > 0, (room + _ROUNDING) / worker, np.inf)
    workers: Floats = np.maximum(np.floor(each.min(axis=1)), 0.0)
    return workers


def left_out_note(refused: Sequence[str], cluster: Cluster) -> list[str]:
    """How many jobs no empty cluster could hold, and the first of them."""
    if not refused:
        return []
    more = len(refused) - NAMED_AT_MOST
    named = ", ".join(refused[:NAMED_AT_MOST]) + (f" and {more:,} more" if more > 0 else "")
    count = counted(len(refused), "job")
    return [f"left out {count} that cluster {cluster.name} could never hold: {named}"]


def at_their_lines(trace: Trace, problems: Mapping[int, Problem]) -> InputError:
    """Return the error for some jobs of a trace: each problem at its job's line, with the column as the file has it."""
    lines = _lines(trace)
    rows = {job: None if lines is None else lines[job] for job in problems}
    return InputError(
        *(
            replace(problem, row=rows[job], column=trace.names.get(problem.column or "", problem.column))
            for job, problem in problems.items()
        )
    )


def _lines(trace: Trace) -> pl.Series | None:
    """The line of the file of each job, in the order of the job table."""
    if trace.lines is None:
        return None
    beside = trace.jobs.select("submit_seconds").with_columns(trace.lines.alias(LINE))
    return beside.sort("submit_seconds", maintain_order=True)[LINE]


def _column_of_size(asked: np.void, least: int) -> str:
    """The column that says how many GPUs the job needs at least."""
    if least == asked["gpus"]:
        return "gpus"
    return "min_gpus" if asked["sync"] == RIGID else "min_workers"
