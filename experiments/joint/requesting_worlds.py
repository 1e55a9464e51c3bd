"""Random worlds in which each job states its CPUs and memory, as in the logs of real sites."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from experiments.joint.random_worlds import BETWEEN_QUEUES, World, world
from muster.workload.trace import trace_of

WORLDS = range(1_300, 1_340)
"""Numbers of the worlds; nothing was chosen on them."""
_OF_THE_SHARE = (0.3, 0.5, 0.8, 1.0, 1.3, 2.0)
"""Requests, as parts of the least share of a GPU on any node."""
_CHANCES = (
    (0.2, 0.2, 0.2, 0.2, 0.1, 0.1),
    (0.1, 0.1, 0.2, 0.4, 0.1, 0.1),
    (0.4, 0.3, 0.1, 0.1, 0.05, 0.05),
)
_WITHOUT_MODEL = (0.6, 1.0)


def requesting(kind: int, queue: int = 0) -> World:
    """The world and the queue of these numbers with requests; the same for ever."""
    plain = world(kind, queue)
    random = np.random.default_rng(kind + BETWEEN_QUEUES * queue)
    nodes, jobs = plain.cluster.nodes, plain.trace.jobs
    columns = {name: jobs[name].to_numpy() for name in ("submit_seconds", "duration_seconds", "gpus")}
    models = np.array([name or "" for name in jobs["model"]])
    models[random.random(len(jobs)) < _WITHOUT_MODEL[kind % 2]] = ""
    shares = {
        "cpus": min(node.cpus / node.gpus for node in nodes),
        "memory_gb": min(node.memory_gb / node.gpus for node in nodes),
    }
    for name, share in shares.items():
        parts = random.choice(_OF_THE_SHARE, len(jobs), p=_CHANCES[kind % 3])
        columns[name] = np.floor(1_000 * parts * share * columns["gpus"]) / 1_000
    made = trace_of({"job_id": np.arange(len(jobs)), **columns, "model": models}, plain.name)
    return replace(plain, trace=made, further=("requested",))
