"""Random worlds in which some nodes have labels, as of nested partitions, and some jobs may use no others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from experiments.joint.random_worlds import BETWEEN_QUEUES, World, world
from muster.workload.trace import trace_of

WORLDS = range(1_100, 1_145)
"""Numbers of the worlds that had no part in a choice with their labels; without them they are of `random-tuning`."""
TUNING = range(1_000, 1_054)
"""Those on which it was decided; they are drawn in the same way."""
_PARTS = (1 / 3, 1 / 2, 2 / 3)
"""Of the nodes, those with the label `b`; half of these have the label `a` as well."""
_BOUND = (0.3, 0.6, 0.9)
"""Of the jobs that the nodes of a label could hold in proportion, those that are bound to it."""


def labelled(kind: int, queue: int = 0) -> World:
    """The world and the queue of these numbers with labels; the same for ever."""
    plain = world(kind, queue)
    random = np.random.default_rng(kind + BETWEEN_QUEUES * queue)
    nodes, jobs = plain.cluster.nodes, plain.trace.jobs
    outer = max(1, round(len(nodes) * _PARTS[kind % 3]))
    inner = max(1, outer // 2)
    place = np.argsort(random.permutation(len(nodes)))
    bound, drawn = _BOUND[kind // 3 % 3], random.random(len(jobs))
    constraint = np.full(len(jobs), "", dtype="<U7")
    room = {}
    for label, count in (("b", outer), ("a", inner)):
        constraint[drawn < bound * count / len(nodes)] = f"label={label}"
        room[f"label={label}"] = sum(nodes[at].gpus for at in np.flatnonzero(place < count).tolist())
    gpus = jobs["gpus"].to_numpy()
    constraint[[room.get(one, np.inf) < size for one, size in zip(constraint, gpus, strict=True)]] = ""
    columns = {
        name: jobs[name].to_numpy() for name in ("job_id", "submit_seconds", "duration_seconds", "gpus")
    }
    columns |= {"model": np.array([name or "" for name in jobs["model"]]), "constraint": constraint}
    labels = [("a",) * int(at < inner) + ("b",) * int(at < outer) for at in place]
    made = zip(nodes, labels, strict=True)
    cluster = replace(
        plain.cluster, nodes=tuple(replace(node, labels=(*node.labels, *own)) for node, own in made)
    )
    return replace(plain, trace=trace_of(columns, plain.name), cluster=cluster)
