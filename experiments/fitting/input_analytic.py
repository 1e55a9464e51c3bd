"""The input stage from a handful of parameters, and their fit (Synergy, optimistic profiling).

Samples are read (from a cache of never-evicted samples or from storage), prepared by the CPU cores and
computed on the GPU, all at once, so an iteration takes as long as the slowest of the three:

    read    = batch x sample x (p / memory bandwidth + (1 - p) / storage bandwidth),  p = memory / data set
    prepare = batch x CPU seconds a sample / CPU cores
    compute = batch / samples a second

Everything is per GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from muster.problems import InputError, Problem
from muster.workload.models import Dataset, Model

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class AnalyticInput:
    """The input pipeline of one GPU's worker by its parameters; array arguments are broadcast."""

    batch: int
    compute_samples_per_s: float
    cpu_seconds_per_sample: float
    dataset: Dataset | None
    """What is read; None where reading was never the limit, so nothing is known of it."""

    @property
    def compute_seconds(self) -> float:
        """Seconds an iteration takes on the GPU."""
        return self.batch / self.compute_samples_per_s

    def prepare_seconds(self, cpus: npt.ArrayLike) -> FloatArray:
        """Seconds an iteration's samples take on this many cores."""
        with np.errstate(divide="ignore"):
            return self.batch * self.cpu_seconds_per_sample / np.asarray(cpus, dtype=float)

    def read_seconds(self, memory_gb: npt.ArrayLike, storage_gb_per_s: npt.ArrayLike) -> FloatArray:
        """Seconds to get an iteration's samples with a cache of `memory_gb`."""
        memory, storage = np.broadcast_arrays(
            np.asarray(memory_gb, dtype=float), np.asarray(storage_gb_per_s, dtype=float)
        )
        if self.dataset is None:
            return np.zeros(memory.shape)
        cached = np.clip(memory / self.dataset.size_gb, 0, 1)
        missed = 1 - cached
        from_storage = np.divide(missed, storage, out=np.full(memory.shape, np.inf), where=storage > 0)
        from_storage = np.where(missed == 0, 0.0, from_storage)
        return self.batch * self.dataset.sample_gb * (cached / self.dataset.memory_gb_per_s + from_storage)

    def iteration_seconds(
        self, cpus: npt.ArrayLike, memory_gb: npt.ArrayLike, storage_gb_per_s: npt.ArrayLike
    ) -> FloatArray:
        """Seconds an iteration: the slowest of reading, preparing and computing."""
        waiting = np.maximum(self.prepare_seconds(cpus), self.read_seconds(memory_gb, storage_gb_per_s))
        return np.maximum(waiting, self.compute_seconds)


@dataclass(frozen=True)
class AnalyticFit:
    """Fitted parameters and how far they are from the points."""

    form: AnalyticInput
    seen: tuple[str, ...]
    """Which of read, prepare, compute alone was the slowest at some point; the others are only bounded."""
    rms_log_error: float
    """Root mean square of ln(fitted / measured seconds)."""
    worst_ratio: float
    """The largest of fitted / measured and measured / fitted over the points."""


def measured_points(model: Model) -> FloatArray:
    """The model's matrix as rows (CPUs, GB, seconds an iteration)."""
    cpus, memory = np.meshgrid(model.cpus_per_gpu, model.memory_gb_per_gpu, indexing="ij")
    seconds = model.seconds_per_iteration / np.array(model.speed)
    return np.column_stack([cpus.ravel(), memory.ravel(), seconds.ravel()])


def fit_analytic(
    points: FloatArray, *, batch: int, storage_gb_per_s: float, memory_gb_per_s: float
) -> AnalyticFit:
    """The parameters closest to measured rows (CPUs, GB, seconds), by least squares on ln(seconds).

    The bandwidths are those one GPU had during the measurement: the points alone give only sample size
    over bandwidth. A parameter whose stage was never the slowest gets the most cautious value that agrees
    with the points (preparing), or none (reading).
    """
    _refuse_unusable(points)
    hit_cost = storage_gb_per_s / memory_gb_per_s

    def misfit(logs: FloatArray) -> FloatArray:
        return np.asarray(np.log(_slowest_stage(np.exp(logs), points, hit_cost)) - np.log(points[:, 2]))

    best, best_cost = np.empty(0), np.inf
    for start in _starts(points, hit_cost):
        found = least_squares(misfit, start, method="trf", xtol=1e-14, ftol=1e-14, gtol=1e-14)
        # Later starts add the two parameters of reading; they have to earn their place.
        if found.cost < best_cost * (1 - 1e-3) - 1e-15:
            best, best_cost = found.x, found.cost
    error = misfit(best)
    values = np.exp(best)
    dataset = None
    if len(values) == 4:
        sample_gb = float(values[2]) * storage_gb_per_s / batch
        dataset = Dataset(float(values[3]), sample_gb, storage_gb_per_s, memory_gb_per_s)
    form = AnalyticInput(batch, batch / float(values[0]), float(values[1]) / batch, dataset)
    return AnalyticFit(
        form=form,
        seen=_seen(form, points, storage_gb_per_s),
        rms_log_error=float(np.sqrt(np.mean(error**2))),
        worst_ratio=float(np.exp(np.abs(error).max())),
    )


@dataclass(frozen=True)
class MatrixAxes:
    """The points of a model's matrix, each of one GPU's share."""

    cpus_per_gpu: Sequence[float]
    memory_gb_per_gpu: Sequence[float]
    reference: tuple[float, float]
    """CPUs and GB of the point whose speed is 1; one of the points."""


def analytic_model(
    form: AnalyticInput,
    axes: MatrixAxes,
    *,
    storage_gb_per_s: float,
    name: str,
    family: str,
    source: str,
    licence: str,
) -> Model:
    """The form as a `Model` with its matrix on these axes."""
    cpus, memory = np.array(axes.cpus_per_gpu, dtype=float), np.array(axes.memory_gb_per_gpu, dtype=float)
    seconds = form.iteration_seconds(cpus[:, None], memory[None, :], storage_gb_per_s)
    at_reference = float(form.iteration_seconds(*axes.reference, storage_gb_per_s))
    dataset = form.dataset
    if dataset is not None:
        dataset = Dataset(dataset.size_gb, dataset.sample_gb, storage_gb_per_s, dataset.memory_gb_per_s)
    return Model(
        name=name,
        family=family,
        batch=form.batch,
        seconds_per_iteration=at_reference,
        reference_cpus_per_gpu=axes.reference[0],
        reference_memory_gb_per_gpu=axes.reference[1],
        cpus_per_gpu=tuple(map(float, cpus)),
        memory_gb_per_gpu=tuple(map(float, memory)),
        speed=tuple(tuple(float(at_reference / value) for value in row) for row in seconds),
        source=source,
        licence=licence,
        dataset=dataset,
    )


def _starts(points: FloatArray, hit_cost: float) -> Iterator[FloatArray]:
    """Where the search starts: ln of (compute, prepare on one core[, read uncached, data set GB]).

    The error has a kink wherever another stage becomes the slowest at a point, so the search starts from
    every number of CPU points that wait for preparing, each without reading and with the line of reading
    through the smallest memory and each other one. Too few points leave the data set's size open; the first
    line is of the largest one that agrees with them.
    """
    memory = np.unique(points[:, 1])
    fastest = [points[points[:, 1] == point, 2].min() for point in memory]
    reads = [np.empty(0)]
    for gb, seconds in zip(memory[1:], fastest[1:], strict=True):
        if fastest[0] > seconds:
            size = (1 - hit_cost) * (fastest[0] * gb - seconds * memory[0]) / (fastest[0] - seconds)
            cached = min(1.0, memory[0] / size)
            reads.append(np.log([fastest[0] / (1 - cached + cached * hit_cost), size]))
    cpus = np.unique(points[:, 0])
    took = np.array([points[points[:, 0] == point, 2].min() for point in cpus])
    bases = [np.log([took.min(), (took * cpus).min()])]
    for waiting in range(1, len(cpus)):
        compute, prepare = np.log(took[waiting:]).mean(), np.log((took * cpus)[:waiting]).mean()
        bases.append(np.array([compute, prepare]))
    for read in reads:
        for base in bases:
            yield np.concatenate([base, read])


def _slowest_stage(values: FloatArray, points: FloatArray, hit_cost: float) -> FloatArray:
    """Seconds at the points from (compute, prepare on one core[, read uncached, data set GB])."""
    slowest: FloatArray = np.maximum(values[0], values[1] / points[:, 0])
    if len(values) == 4:
        cached = np.minimum(1.0, points[:, 1] / values[3])
        slowest = np.maximum(slowest, values[2] * (1 - cached + cached * hit_cost))
    return slowest


def _seen(form: AnalyticInput, points: FloatArray, storage_gb_per_s: float) -> tuple[str, ...]:
    stages = {
        "read": form.read_seconds(points[:, 1], storage_gb_per_s),
        "prepare": form.prepare_seconds(points[:, 0]),
        "compute": np.full(len(points), form.compute_seconds),
    }
    slowest_alone = {
        name: np.all(
            [seconds > other * (1 + 1e-6) for key, other in stages.items() if key != name], axis=0
        ).any()
        for name, seconds in stages.items()
    }
    return tuple(name for name, alone in slowest_alone.items() if alone)


def _refuse_unusable(points: FloatArray) -> None:
    """Raises InputError for points that no fit can use."""
    if points.ndim != 2 or points.shape[1] != 3 or len(points) == 0:
        what = "allowed: rows of CPUs, GB and seconds an iteration, at least one"
        raise InputError(Problem("measured points", what, found=f"shape {points.shape}"))
    unusable = np.flatnonzero(~(np.isfinite(points) & (points > 0)).all(axis=1))
    if len(unusable):
        what = "CPUs, GB and seconds must be numbers above 0"
        raise InputError(
            *(
                Problem("measured points", what, row=int(at) + 1, found=tuple(map(float, points[at])))
                for at in unusable
            )
        )
