"""Failures so frequent that a job hardly ever reaches a checkpoint: its simulation would not end."""

from __future__ import annotations

from math import ceil, floor, log

import numpy as np

from muster.cluster import Cluster
from muster.cluster.ledger_arrays import Bools
from muster.problems import InputError, Problem
from muster.simulation.options import Options
from muster.workload.jobs import JobTable
from muster.workload.sized import RIGID

_FASTER_AT_MOST = 10.0
"""Than with a proportional share: what CPU cores, memory or a better place may bring a job whose model is known."""
_MOST_STARTS = 1000
"""Expected from one checkpoint to the next. Each failure is a decision or two."""


def refuse_unsurvivable(table: JobTable, measured: Bools, cluster: Cluster, options: Options) -> None:
    """InputError where failures let a measured job survive from checkpoint to checkpoint in too few of its starts.

    Nodes fail after exponential times, so a job on so many nodes survives so many seconds with probability
    exp(-nodes * seconds / mean). Each job counts with the fewest nodes and seconds that it may come to.
    """
    failures = options.failures
    if failures is None:
        return
    asked = table.asked
    ended = np.isfinite(asked["time_limit"]) & options.end_at_limit
    largest = max(node.gpus for node in cluster.nodes)
    fewest = np.where(asked["sync"] == RIGID, np.minimum(asked["min_gpus"], asked["gpus"]), 1)
    nodes = np.maximum(np.ceil(fewest / largest), 1)
    speedup = np.maximum(asked["max_gpus"] / np.maximum(asked["gpus"], 1), 1)
    modelled = np.array([model is not None for model in table.models])[asked["model"]]
    speedup *= np.where(modelled | (asked["sync"] != RIGID), _FASTER_AT_MOST, 1)
    seconds = np.minimum(asked["ideal"] / speedup, options.checkpoint_seconds)
    exposed = np.where(measured & ~ended, nodes * seconds, 0)
    worst = int(exposed.argmax())
    most = log(_MOST_STARTS)
    if exposed[worst] <= most * failures.mean_seconds_between:
        return
    mean = failures.mean_seconds_between
    longest = most * mean / nodes.max()
    checkpoint = floor(longest) or floor(longest * 1000) / 1000
    where = "its node" if nodes[worst] == 1 else f"one of its {nodes[worst]:g} nodes"
    what = (
        f"job {table.ids[worst]} works {seconds[worst]:g} s until it is done or has a checkpoint, and {where} fails "
        f"before that in more than {_MOST_STARTS - 1:,} of {_MOST_STARTS:,} starts, so the simulation would hardly "
        f"end; allowed: a mean of {ceil(exposed[worst] / most):,} s or more. "
        f"Hint: --checkpoint {checkpoint:g} or less allows this mean"
    )
    raise InputError(Problem("--failures", what, found=f"{mean:g}:{failures.repair_seconds:g}"))
