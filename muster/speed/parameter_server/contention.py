"""Parameter servers of several jobs behind one network card: what each job's step becomes.

A server keeps its card busy for (traffic of a step) / (seconds of a step) of the time. Where the servers of a node
together want more than the whole time, they get max-min fair parts of it, and a job goes at the pace of its slowest
server. Means are shared, not moments: two servers that fit on average are taken not to meet.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from muster.speed.parameter_server.layers import FloatArray
from muster.speed.parameter_server.step_time import StepTime

EVEN = 1e-12
"""Parts nearer than this are the same."""


def contended_step_seconds(
    steps: StepTime, workers: ArrayLike, servers: ArrayLike, job: ArrayLike, node: ArrayLike
) -> FloatArray:
    """(jobs,) seconds of a step, given the job and the node of every parameter server in the cluster.

    All cards are as fast as the steps assume. Asynchronous steps are slowed alike.
    """
    w, p = np.asarray(workers, dtype=np.float64), np.asarray(servers, dtype=np.float64)
    alone = steps.step_seconds(w, p)
    # The term with the most traffic has all of it: the others leave out layers, or divide it.
    busy = steps.terms[..., 2].max(axis=-1) * w / p
    parts = fair_parts(busy / alone, job, node)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(busy > 0, np.maximum(alone, busy / parts), alone)


def fair_parts(wanted: FloatArray, job: ArrayLike, node: ArrayLike) -> FloatArray:
    """(jobs,) the part of a card that each server of a job gets, at most what it wants: max-min fair.

    All parts grow alike; a job stops at what it wants, or when one of its nodes is full.
    """
    of_job, of_node = np.asarray(job, dtype=np.int64), np.asarray(node, dtype=np.int64)
    nodes = int(of_node.max(initial=-1)) + 1
    parts = wanted.copy()
    full = np.bincount(of_node, wanted[of_job], nodes) > 1 + EVEN
    growing = np.zeros(wanted.size, dtype=bool)
    growing[of_job[full[of_node]]] = True
    while growing.any():
        still = growing[of_job]
        taken = np.bincount(of_node[~still], parts[of_job[~still]], nodes)
        count = np.bincount(of_node[still], minlength=nodes)
        level = np.where(count > 0, (1 - taken) / np.maximum(count, 1), np.inf)
        most = wanted.copy()
        np.minimum.at(most, of_job[still], level[of_node[still]])
        # Levels only rise: a job stops for good if no job on its nodes is to stop below it.
        lowest = np.full(nodes, np.inf)
        np.minimum.at(lowest, of_node[still], most[of_job[still]])
        beside = np.full(wanted.size, np.inf)
        np.minimum.at(beside, of_job[still], lowest[of_node[still]])
        stops = growing & (most <= beside + EVEN)
        parts[stops] = most[stops]
        growing &= ~stops
    return parts
