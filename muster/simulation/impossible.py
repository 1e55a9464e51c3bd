"""Jobs that no empty cluster could hold: the trace is refused because of them, or they are left out in the open."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from muster.cluster import Cluster
from muster.problems import BadInput, Problem
from muster.simulation.options import Options
from muster.words import counted
from muster.workload.jobs import REFUSED, JobTable
from muster.workload.sized import RIGID
from muster.workload.trace import Trace
from muster.workload.traces.columns import LINE

NAMED_AT_MOST = 5


def set_impossible_aside(
    table: JobTable, cluster: Cluster, trace: Trace, options: Options
) -> tuple[str, ...]:
    """Set aside the jobs that no empty cluster could hold, or refuse the trace because of them."""
    gpus = np.array([node.gpus for node in cluster.nodes])
    room = (table.node_allowed * gpus).sum(axis=1)[table.asked["constraint"]]
    impossible = np.flatnonzero(table.asked["min_gpus"] > room)
    if len(impossible) and not options.skip_impossible:
        lines = _lines(trace)
        raise BadInput(
            *(
                Problem(
                    trace.source,
                    f"job {table.ids[job]} can never run: cluster {cluster.name} has {int(room[job])} GPUs that it "
                    "may use; leave such jobs out with --skip-impossible",
                    row=None if lines is None else lines[job],
                    column=_column_of_size(table.asked[job], trace),
                    found=int(table.asked["min_gpus"][job]),
                )
                for job in impossible.tolist()
            )
        )
    table.facts["state"][impossible] = REFUSED
    return tuple(table.ids.gather(impossible).to_list())


def told_left_out(refused: Sequence[str], cluster: Cluster) -> list[str]:
    """How many jobs no empty cluster could hold, and the first of them."""
    if not refused:
        return []
    more = len(refused) - NAMED_AT_MOST
    named = ", ".join(refused[:NAMED_AT_MOST]) + (f" and {more:,} more" if more > 0 else "")
    count = counted(len(refused), "job")
    return [f"left out {count} that cluster {cluster.name} could never hold: {named}"]


def _lines(trace: Trace) -> pl.Series | None:
    """The line of the file of each job, in the order of the job table."""
    if trace.lines is None:
        return None
    beside = trace.jobs.select("submit_seconds").with_columns(trace.lines.alias(LINE))
    return beside.sort("submit_seconds", maintain_order=True)[LINE]


def _column_of_size(asked: np.void, trace: Trace) -> str:
    """The column of the file that says how many GPUs the job needs at least."""
    smaller = asked["min_gpus"] < asked["gpus"]
    column = "gpus" if not smaller else "min_gpus" if asked["sync"] == RIGID else "min_workers"
    return trace.names.get(column, column)
