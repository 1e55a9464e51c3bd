"""A sizing problem whose speeds are learned: from a few sizes tried before a job starts, and from those it has held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from muster.schedulers.workers_and_servers.sizing_problem import SizingProblem
from muster.speed.parameter_server import StepTime
from muster.speed.parameter_server.learned import fitted_form, reported_seconds

Sizes: TypeAlias = tuple[tuple[int, int], ...]
"""Workers and servers; 0 servers for a ring."""
Learned: TypeAlias = Mapping[int, tuple[Sizes, tuple[float, ...]]]
"""By number of the job: the sizes that it has shown, and the coefficients fitted to them."""


def tried_sizes(most_workers: int, most_servers: int) -> Sizes:
    """The sizes that a job tries before it starts, at most five: the ends and the middle of what its owner allows."""
    servers = (min(most_servers, 1), most_servers)
    corners = {(workers, count) for workers in (1, most_workers) for count in servers}
    middle = (most_workers + 1) // 2, (most_servers + 1) // 2
    return tuple(sorted(corners | {middle}))


def with_learned_speeds(question: SizingProblem, before: Learned) -> tuple[SizingProblem, Learned]:
    """The problem with fitted speeds in place of its own, which the jobs report; and what is known from now on."""
    learned = {}
    most = question.demands.limit[:, -2:].astype(np.int64)
    for at, job in enumerate(question.index.tolist()):
        ring = bool(question.is_ring[at])
        sizes, coefficients = before.get(job, ((), ()))
        shown = set(sizes) or set(tried_sizes(int(most[at, 0]), 0 if ring else int(most[at, 1])))
        if question.workers[at]:
            shown.add((int(question.workers[at]), 0 if ring else int(question.servers[at])))
        if len(shown) > len(sizes):
            coefficients = _fitted(question.steps[at], job, tuple(sorted(shown)))
        learned[job] = tuple(sorted(shown)), coefficients
    forms = np.array([learned[job][1] for job in question.index.tolist()]).reshape(-1, 5)
    steps = StepTime(
        terms=forms[:, None, :3].copy(),
        compute=forms[:, :2].copy(),
        per_worker_seconds=forms[:, 3].copy(),
        per_server_seconds=forms[:, 4].copy(),
        asynchronous=np.zeros(len(question), np.bool_),
        ring_seconds=np.zeros((len(question), 0)),
    )
    return replace(question, steps=steps), learned


def _fitted(truth: StepTime, job: int, sizes: Sizes) -> tuple[float, ...]:
    workers, servers = np.array(sizes, dtype=np.float64).T
    seconds = truth.step_seconds(workers, np.maximum(servers, 1))
    reported = [reported_seconds(one, job, *size) for one, size in zip(seconds.tolist(), sizes, strict=True)]
    return tuple(fitted_form(workers, servers, np.array(reported)).tolist())
