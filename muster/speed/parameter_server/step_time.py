"""How long a step takes with w workers and p parameter servers, for one job or for many at once.

Every model of this room is the same small form (seconds):

    step(w, p) = max over terms of (a/w + b + c w/p)  +  d w  +  e p  +  r(w)

where r is 0 unless the workers reduce in a ring (`ring`) and have no servers.

- lumped (M0, Optimus' synchronous form): one term, nothing overlaps.
- layered (M1, wait-free back-propagation): one term a layer; the gradient of a layer travels while the layers
  before it are still computing backward.
- bounded staleness: M1 with a few iterations in flight.
- asynchronous (M2): one term, and a step of any worker is an iteration of the job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from muster.problems import InputError, Problem
from muster.speed.parameter_server.layers import FloatArray, Layers

Value = TypeVar("Value", bound=np.generic)


@dataclass(frozen=True, eq=False)
class StepTime:
    """The coefficients of the form above. Arrays may carry a leading axis of jobs (`stack`)."""

    terms: FloatArray
    """(..., terms, 3): the a, b, c of each term."""
    compute: FloatArray
    """(..., 2): the a and b of the computation alone, forward and backward."""
    per_worker_seconds: FloatArray
    """d: what each further worker adds to a step."""
    per_server_seconds: FloatArray
    """e: what each further server adds to a step."""
    asynchronous: NDArray[np.bool_]
    """Whether the step of one worker counts as an iteration of the job."""
    ring_seconds: FloatArray = field(default_factory=lambda: np.zeros(0))
    """(..., workers): r, what a ring of 1, 2, ... workers adds to a step; of length 0 where no job is a ring."""

    def step_seconds(self, workers: ArrayLike, servers: ArrayLike) -> FloatArray:
        """Seconds of one step; where the coefficients have an axis of jobs, the arguments start with it."""
        w, p = np.asarray(workers, dtype=np.float64), np.asarray(servers, dtype=np.float64)
        axes = max(w.ndim, p.ndim)
        longest = np.full(np.broadcast_shapes(w.shape, p.shape), -np.inf)
        for term in range(self.terms.shape[-2]):
            a, b, c = (_trailing(self.terms[..., term, part], axes) for part in range(3))
            longest = np.maximum(longest, (a / w + b) + c * (w / p))
        if self.ring_seconds.shape[-1]:
            longest = longest + self._ring_part(w, axes)
        return longest + self._update_seconds(w, p, axes)

    def iteration_seconds(self, workers: ArrayLike, servers: ArrayLike) -> FloatArray:
        """Seconds an iteration of the job: a step, or a worker's share of one where workers do not wait."""
        w = np.asarray(workers, dtype=np.float64)
        step = self.step_seconds(w, servers)
        at_once = np.where(_trailing(self.asynchronous, step.ndim), w, 1.0)
        return np.asarray(step / at_once, dtype=np.float64)

    def stage_seconds(
        self, workers: ArrayLike, servers: ArrayLike
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """A step taken apart: compute, communication that is not hidden behind it, update."""
        w, p = np.asarray(workers, dtype=np.float64), np.asarray(servers, dtype=np.float64)
        axes = max(w.ndim, p.ndim)
        compute = _trailing(self.compute[..., 0], axes) / w + _trailing(self.compute[..., 1], axes) + 0 * p
        update = self._update_seconds(w, p, axes)
        return compute, np.maximum(self.step_seconds(w, p) - update - compute, 0.0), update

    def __getitem__(self, jobs: slice | NDArray[np.intp] | int) -> StepTime:
        """The chosen jobs of a stack."""
        return StepTime(
            self.terms[jobs],
            self.compute[jobs],
            self.per_worker_seconds[jobs],
            self.per_server_seconds[jobs],
            self.asynchronous[jobs],
            self.ring_seconds[jobs],
        )

    def _ring_part(self, w: FloatArray, axes: int) -> FloatArray:
        """Whole workers; further ones than the table has are as its last."""
        table = self.ring_seconds
        at = np.clip(w.astype(np.int64), 1, table.shape[-1]) - 1
        if table.ndim == 1:
            return table[at]
        return np.asarray(table[_trailing(np.arange(len(table)), axes), at], dtype=np.float64)

    def _update_seconds(self, w: FloatArray, p: FloatArray, axes: int) -> FloatArray:
        per_worker, per_server = (
            _trailing(self.per_worker_seconds, axes),
            _trailing(self.per_server_seconds, axes),
        )
        return np.asarray(per_worker * w + per_server * p, dtype=np.float64)


def lumped(
    layers: Layers,
    batch: float,
    nic_gb_per_s: float,
    update_seconds: float = 0.0,
    per_worker_seconds: float = 0.0,
    per_server_seconds: float = 0.0,
) -> StepTime:
    """M0: forward, backward, then all traffic and the update; `batch` is the job's, over all its workers."""
    alpha, beta, gamma = _totals(layers, batch, nic_gb_per_s)
    term = [[alpha, beta, gamma + update_seconds]]
    return _single(term, (alpha, beta), per_worker_seconds, per_server_seconds)


def layered(
    layers: Layers,
    batch: float,
    nic_gb_per_s: float,
    per_worker_seconds: float = 0.0,
    per_server_seconds: float = 0.0,
) -> StepTime:
    """M1: the push and pull of a layer start when its backward pass is done; one FIFO channel."""
    alpha, beta, _ = _totals(layers, batch, nic_gb_per_s)
    terms = _layer_terms(layers, alpha, nic_gb_per_s)
    return _single(terms, (alpha, beta), per_worker_seconds, per_server_seconds)


def bounded_staleness(
    layers: Layers,
    batch: float,
    nic_gb_per_s: float,
    staleness: int,
    per_worker_seconds: float = 0.0,
    per_server_seconds: float = 0.0,
) -> StepTime:
    """M1 where an iteration may use parameters that lack the last `staleness` updates (0 is M1 itself).

    A choice of ours, stated: staleness + 1 iterations are in flight, so the mean step is the largest of the
    computation alone, the channel alone, and the whole iteration over staleness + 1 (the largest cycle mean
    of the event recurrence). What staleness costs in convergence is not charged here.
    """
    if staleness < 0:
        raise InputError(Problem("staleness", "allowed: a whole number from 0 on", found=staleness))
    alpha, beta, gamma = _totals(layers, batch, nic_gb_per_s)
    in_flight = _layer_terms(layers, alpha, nic_gb_per_s) / (staleness + 1)
    alone = [[alpha, beta, 0.0], [0.0, 0.0, gamma]]
    return _single(np.vstack([in_flight, alone]), (alpha, beta), per_worker_seconds, per_server_seconds)


def asynchronous(
    compute_seconds: float, load_seconds: float, per_worker_seconds: float, per_server_seconds: float
) -> StepTime:
    """M2: every worker on its own; speed = w / (th0 + th1 w/p + th2 w + th3 p) iterations a second."""
    return _single(
        [[0.0, compute_seconds, load_seconds]],
        (0.0, compute_seconds),
        per_worker_seconds,
        per_server_seconds,
        asynchronous=True,
    )


def stack(steps: Sequence[StepTime]) -> StepTime:
    """Many jobs as one, along a new leading axis."""
    most = max(step.terms.shape[0] for step in steps)
    # A repeated term changes no maximum: it fills up the jobs that have fewer.
    padded = [step.terms[np.minimum(np.arange(most), step.terms.shape[0] - 1)] for step in steps]
    return StepTime(
        np.stack(padded),
        np.stack([step.compute for step in steps]),
        np.stack([step.per_worker_seconds for step in steps]),
        np.stack([step.per_server_seconds for step in steps]),
        np.stack([step.asynchronous for step in steps]),
        _stacked_rings([step.ring_seconds for step in steps]),
    )


def _stacked_rings(tables: Sequence[FloatArray]) -> FloatArray:
    """As long as the longest; servers' jobs add nothing, and a shorter ring goes on as it ends."""
    stacked = np.zeros((len(tables), max(table.size for table in tables)))
    for row, table in zip(stacked, tables, strict=True):
        if table.size:
            row[:] = table[np.minimum(np.arange(row.size), table.size - 1)]
    return stacked


def with_fewer_terms(terms: FloatArray, most: int) -> FloatArray:
    """(at most `most`, 3): less the terms that are exceeded the least where they matter; the first and last stay.

    `terms` are those of a layered step: b falls and c rises. A real model has two to six.
    """
    while len(terms) > most:
        before, term, after = terms[:-2], terms[1:-1], terms[2:]
        # Without a term the step is shortened most where its neighbours meet.
        load = (before[:, 1] - after[:, 1]) / (after[:, 2] - before[:, 2])
        lost = term[:, 1] + term[:, 2] * load - (before[:, 1] + before[:, 2] * load)
        terms = np.delete(terms, 1 + int(lost.argmin()), axis=0)
    return terms


def _totals(layers: Layers, batch: float, nic_gb_per_s: float) -> tuple[float, float, float]:
    """alpha, beta and the traffic part of gamma (SMD's names): seconds x workers, seconds, seconds."""
    problems = [
        Problem(name, "allowed: a finite number above 0", found=value)
        for name, value in (("batch", batch), ("nic_gb_per_s", nic_gb_per_s))
        if not (np.isfinite(value) and value > 0)
    ]
    if problems:
        raise InputError(*problems)
    alpha = batch * float(layers.forward_seconds_per_sample.sum())
    return alpha, float(layers.backward_seconds.sum()), 2 * float(layers.gradient_gb.sum()) / nic_gb_per_s


def _layer_terms(layers: Layers, alpha: float, nic_gb_per_s: float) -> FloatArray:
    """(terms, 3): a term a layer, less those that are the largest nowhere."""
    backward = np.cumsum(layers.backward_seconds[::-1])[::-1]
    traffic = np.cumsum(2 * layers.gradient_gb / nic_gb_per_s)
    kept = _upper_envelope(backward, traffic)
    return np.column_stack([np.full(len(kept), alpha), backward[kept], traffic[kept]])


def _upper_envelope(intercepts: FloatArray, slopes: FloatArray) -> list[int]:
    """Which of the lines b + c x, in order of falling b and rising c, are the largest at some x >= 0."""
    kept: list[int] = []
    for line in range(len(slopes)):
        while kept and not _rises_above(kept, line, intercepts, slopes):
            kept.pop()
        if not kept or slopes[line] > slopes[kept[-1]]:
            kept.append(line)
    return kept


def _rises_above(kept: list[int], line: int, intercepts: FloatArray, slopes: FloatArray) -> bool:
    """Whether the last line kept is still needed between its forerunner and the new `line`."""
    last = kept[-1]
    if intercepts[line] >= intercepts[last] and slopes[line] >= slopes[last]:
        return False
    if len(kept) == 1:
        return True
    before = kept[-2]
    # The last line matters if it meets its forerunner before the new line does.
    meets_last = (intercepts[before] - intercepts[last]) * (slopes[line] - slopes[before])
    meets_new = (intercepts[before] - intercepts[line]) * (slopes[last] - slopes[before])
    return bool(meets_last < meets_new)


def _single(
    terms: ArrayLike,
    compute: tuple[float, float],
    per_worker_seconds: float,
    per_server_seconds: float,
    asynchronous: bool = False,
) -> StepTime:
    return StepTime(
        np.asarray(terms, dtype=np.float64),
        np.asarray(compute, dtype=np.float64),
        np.asarray(per_worker_seconds, dtype=np.float64),
        np.asarray(per_server_seconds, dtype=np.float64),
        np.asarray(asynchronous),
    )


def _trailing(coefficients: NDArray[Value], axes: int) -> NDArray[Value]:
    """The coefficients with as many axes as the arguments, so that jobs meet jobs."""
    return coefficients.reshape(coefficients.shape + (1,) * (axes - coefficients.ndim))
