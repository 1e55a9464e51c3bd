"""How many workers and parameter servers one job should have (SMD's inner problem), for many jobs at once.

The least step(w, p) over whole w, p >= 1 with w O + p G <= v: a worker needs O, a server G, the owner allows
v, each over the resources. `exact` tries every pair; `epsilon_grid` is the sum-of-ratios method.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from muster.cluster.portable_math import exp, power
from muster.problems import InputError, Problem
from muster.speed.parameter_server import StepTime

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

ROUNDING = 1e-9
"""Of a limit: 3 x 0.1 fits in 0.3."""
MOST_PAIRS = 10_000_000
"""Of one job; a larger limit is a slip of the pen."""
CELLS_AT_ONCE = 1 << 16
"""Pairs looked at together: they stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class Demands:
    """What a worker and a server of each job need, and what the job may have: (jobs, resources) each."""

    worker: FloatArray
    server: FloatArray
    limit: FloatArray

    @classmethod
    def checked(
        cls, worker: ArrayLike, server: ArrayLike, limit: ArrayLike, resources: list[str], jobs: list[str]
    ) -> Demands:
        """Demands of which every job can have one worker and one server; the names are for the messages."""
        arrays = [np.atleast_2d(np.asarray(array, dtype=np.float64)) for array in (worker, server, limit)]
        demands = cls(*arrays)
        problems = [
            Problem(
                job, f"the {resource} of a {what} must be a finite number from 0 on", found=float(array[i, r])
            )
            for what, array in zip(("worker", "server", "limit"), arrays, strict=True)
            for i, job in enumerate(jobs)
            for r, resource in enumerate(resources)
            if not (np.isfinite(array[i, r]) and array[i, r] >= 0)
        ]
        least = demands.worker + demands.server
        problems += [
            Problem(
                job,
                f"{'one worker and one server need' if demands.server[i, r] else 'one worker needs'} "
                f"{least[i, r]:g} {resource}, more than the limit; raise the limit or lower their needs",
                found=float(demands.limit[i, r]),
            )
            for i, job in enumerate(jobs)
            for r, resource in enumerate(resources)
            if least[i, r] > demands.limit[i, r] * (1 + ROUNDING)
        ]
        unbounded = np.any([(array == 0).all(axis=1) for array in arrays[:2]], axis=0)
        problems += [
            Problem(jobs[i], "a worker and a server must each need some of a limited resource")
            for i in np.flatnonzero(unbounded)
        ]
        if problems:
            raise InputError(*problems)
        pairs = demands.most(demands.worker, demands.server) * demands.most(demands.server, demands.worker)
        too_many = [
            Problem(
                jobs[i], f"the limit leaves more than {MOST_PAIRS:,} pairs of workers and servers; lower it"
            )
            for i in np.flatnonzero(pairs > MOST_PAIRS)
        ]
        if too_many:
            raise InputError(*too_many)
        return demands

    def __len__(self) -> int:
        """The number of jobs."""
        return len(self.limit)

    def usage(self, workers: ArrayLike, servers: ArrayLike) -> FloatArray:
        """(jobs, resources) that so many workers and servers hold."""
        return np.asarray(
            np.asarray(workers)[..., None] * self.worker + np.asarray(servers)[..., None] * self.server
        )

    def most(self, of: FloatArray, beside: FloatArray | None = None) -> FloatArray:
        """(jobs,) the largest number, not whole, of `of` within the limit, `beside` being held already."""
        left = self.limit * (1 + ROUNDING) - (0.0 if beside is None else beside)
        with np.errstate(divide="ignore", invalid="ignore"):
            count = np.where(of > 0, left / of, np.where(left >= 0, np.inf, 0.0))
        return np.asarray(count.min(axis=-1), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Sizes:
    """A number of workers and of servers for each job, and the seconds of an iteration with them."""

    workers: FloatArray
    servers: FloatArray
    seconds: FloatArray


def exact(steps: StepTime, demands: Demands) -> Sizes:
    """The best whole pair of each job, by trying all; of equals the one with the fewest workers."""
    workers, servers, seconds = (np.zeros(len(demands)) for _ in range(3))
    for jobs in _chunks(demands):
        grid = surface(steps[jobs], _part(demands, jobs))
        best = grid.reshape(grid.shape[0], -1).argmin(axis=1)
        w, p = np.unravel_index(best, grid.shape[1:])
        workers[jobs], servers[jobs] = w + 1, p + 1
        seconds[jobs] = grid[np.arange(grid.shape[0]), w, p]
    return Sizes(workers, servers, seconds)


def surface(steps: StepTime, demands: Demands) -> FloatArray:
    """(jobs, workers, servers) seconds of an iteration with 1, 2, ... of each; infinite beyond the limit."""
    most_workers, most_servers = _most_pairs(demands)
    w = np.arange(1.0, most_workers + 1)
    p = np.arange(1.0, most_servers + 1)
    seconds = steps.iteration_seconds(w[None, :, None], p[None, None, :])
    # A row of workers leaves room for so many servers: one comparison a pair instead of one a resource.
    beside = w[:, None] * demands.worker[:, None, :]
    room = Demands(demands.worker[:, None], demands.server[:, None], demands.limit[:, None]).most(
        demands.server[:, None], beside
    )
    return np.where(p <= room[:, :, None], seconds, np.inf)


def continuous(steps: StepTime, demands: Demands, epsilon: float) -> Sizes:
    """Real w, p >= 1 whose step is at most 1 + epsilon times the best (the sum-of-ratios grid).

    At each point of a geometric grid over 1/w and w/p, what is left is a linear program in two variables
    whose costs are from 0 on: its answer is its least corner, w as given and p = w / (w/p). For asynchronous
    steps, whose ratios are divided by w once more, the factor is (1 + epsilon) squared.
    """
    if not epsilon > 0:
        raise InputError(Problem("epsilon", "allowed: a number above 0", found=epsilon))
    workers, servers, seconds = (np.zeros(len(demands)) for _ in range(3))
    most_workers = demands.most(demands.worker, demands.server)
    most_servers = demands.most(demands.server, demands.worker)
    for job in range(len(demands)):
        one = _part(demands, slice(job, job + 1))
        w = _geometric(1.0, most_workers[job], epsilon)
        load = _geometric(1 / most_servers[job], most_workers[job], epsilon)
        w, p = np.broadcast_arrays(w[:, None], np.maximum(w[:, None] / load, 1.0))
        within = np.all(one.usage(w, p) <= one.limit * (1 + ROUNDING), axis=-1)
        step = np.where(within, steps[job].iteration_seconds(w, p), np.inf)
        best = np.unravel_index(step.argmin(), step.shape)
        workers[job], servers[job], seconds[job] = w[best], p[best], step[best]
    return Sizes(workers, servers, seconds)


def rounded(steps: StepTime, demands: Demands, sizes: Sizes) -> Sizes:
    """The best of the four whole neighbours that fit; the lower one always does.

    Going down costs at most a factor 1 + 1 / min(whole w, whole p) where workers wait for each other.
    """
    corners = [(0, 0), (0, 1), (1, 0), (1, 1)]
    w = np.stack([np.floor(sizes.workers * (1 + ROUNDING)) + more for more, _ in corners])
    p = np.stack([np.floor(sizes.servers * (1 + ROUNDING)) + more for _, more in corners])
    within = np.all(demands.usage(w, p) <= demands.limit * (1 + ROUNDING), axis=-1)
    step = np.where(within, steps.iteration_seconds(w.T, p.T).T, np.inf)
    best = step.argmin(axis=0), np.arange(len(demands))
    return Sizes(w[best], p[best], step[best])


def epsilon_grid(steps: StepTime, demands: Demands, epsilon: float = 0.05) -> Sizes:
    """SMD's faithful mode: the grid, then rounding."""
    return rounded(steps, demands, continuous(steps, demands, epsilon))


def utility(completion: ArrayLike, priority: ArrayLike, urgency: ArrayLike, target: ArrayLike) -> FloatArray:
    """SMD's worth of a completion time: g1 / (1 + exp(g2 (tau - g3))); tau and the target in slots."""
    exponent = np.asarray(urgency) * (np.asarray(completion, dtype=np.float64) - np.asarray(target))
    # Beyond 700 the worth is 0 in doubles; without the limit the power would overflow.
    return np.asarray(np.asarray(priority) / (1 + exp(np.minimum(exponent, 700.0))), dtype=np.float64)


def _geometric(lowest: float, highest: float, epsilon: float) -> FloatArray:
    """lowest, lowest (1 + epsilon), ... up to the highest, which is the last."""
    steps = math.ceil(math.log(highest / lowest) / math.log1p(epsilon))
    return np.append(lowest * power(1 + epsilon, np.arange(max(steps, 0))), highest)


def _chunks(demands: Demands) -> list[slice]:
    """The jobs in portions of about CELLS_AT_ONCE pairs."""
    pairs = _most_pairs(demands)
    size = max(1, CELLS_AT_ONCE // math.prod(pairs))
    return [slice(first, min(first + size, len(demands))) for first in range(0, len(demands), size)]


def _most_pairs(demands: Demands) -> tuple[int, int]:
    most_workers = demands.most(demands.worker, demands.server)
    most_servers = demands.most(demands.server, demands.worker)
    return int(most_workers.max()), int(most_servers.max())


def _part(demands: Demands, jobs: slice) -> Demands:
    return Demands(demands.worker[jobs], demands.server[jobs], demands.limit[jobs])
