"""What jobs have learned of their own speed: the knowledge that Sia's policy decides on, and nothing else.

A job that never ran is known by its owner's request alone. One that ran on a type of GPU has a model of it, fitted to
the configurations it was on; another type is believed to be faster or slower as it is on one GPU with the largest
batch that fits there. Jobs of an application may share what they learn, as in Muster's service; in Sia each job is on
its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, inf
from typing import NamedTuple

import numpy as np

from experiments.elastic.batches import Batch
from experiments.elastic.efficiency import Application
from experiments.elastic.speed_fits import CONSTANT_OF_SIA, Observation, SpeedModel, fitted
from experiments.elastic.step_times import Placement, StepTimes
from muster.cluster.ledger_arrays import Bools, Floats, Ints
from muster.speed.statistical_efficiency import gain
from muster.workload.jobs import JobTable

_ROUNDING = 1e-8
GROWTH = 2
"""Times as many GPUs as it ever ran on, to which a job may grow."""
CONSTANT = 0.25
"""The part of the compute that no batch changes, as is believed of a fixed batch while one was measured alone."""
LARGEST_BATCHES: Mapping[tuple[str, str], int] = {("deepspeech2", "rtx2080ti"): 57}
"""Of an application on a type of GPU, where it is not the largest one that was measured: as in Sia's simulator."""


class _Batches(NamedTuple):
    """The batches that an adaptive job tries on so many GPUs."""

    per_gpu: Floats
    accumulation: Floats
    scale: Floats
    """Of the total batch, in initial batches."""
    possible: Bools


class Limits(NamedTuple):
    """The largest batches that a job may try."""

    total: int
    per_gpu: int
    """That a GPU takes at a time."""


class LearnedSpeeds:
    """The speeds that each job of a run has learned by now, with its requested batch.

    Where batches are adaptive, the speed is the progress with the best batch. A job takes one up to its application's
    largest, which schedulers count with; Sia plans with one up to the requested batch.

    Sia's model says that communication grows with each GPU, also beyond those that were tried; a size that it takes
    for slow is never tried. With a fixed batch other schedulers count with no more communication than on the most GPUs
    that were tried, and with less compute that no batch changes, where only one batch was measured.
    Where speeds are `shared`, a job knows what all jobs of its application have learned.
    """

    def __init__(
        self,
        table: JobTable,
        applications: Mapping[str, Application],
        times: Mapping[tuple[str, str], StepTimes],
        gpus_per_node: Mapping[str, int],
        *,
        adaptive: bool = False,
        shared: bool = False,
    ) -> None:
        """`gpus_per_node`: by type of GPU; of the types that a job ran on, the first one says what others may do."""
        jobs = len(table)
        self._adaptive = adaptive
        self._learner: list[int] = table.asked["model"].tolist() if shared else list(range(jobs))
        """Who learns for each job."""
        self._gradients: dict[int, tuple[float, float]] = {}
        """Squared norm and variance of each job's gradient, as of its last step."""
        self._first_gradients: dict[int, tuple[float, float]] = {}
        """By learner, that of the first step of all."""
        self._apps = [applications[table.model_names[model]] for model in table.asked["model"].tolist()]
        self._times = times
        self._gpus_per_node = gpus_per_node
        self._batch = table.sized["batch"].astype(np.int64)
        self._asked = table.asked
        self._seen: list[dict[str, dict[Observation, None]]] = [{} for _ in range(max(self._learner) + 1)]
        """By learner and type of GPU."""
        self._fits: dict[tuple[tuple[Observation, ...], float], SpeedModel] = {}
        self._tried: dict[tuple[str, int, Limits], _Batches] = {}
        self._seconds_of_tried: dict[tuple[SpeedModel, str, int, int, Limits], Floats] = {}
        self._known_seconds: list[dict[tuple[int, int, str, bool], float]] = [{} for _ in range(jobs)]
        self._largest = [0] * len(self._seen)
        """GPUs that any job of each learner ever ran on at most."""
        self.starts: Ints = np.zeros(jobs, np.int64)
        """Pauses so far, the first start's among them."""

    def learn(self, job: int, placement: Placement, gpu_type: str, batch: int) -> None:
        """A job runs on a configuration, and measures its step."""
        step, sync = self._times[self._apps[job].name, gpu_type].of(placement, batch)
        gpus = sum(placement)
        seen = Observation(len(placement), gpus, batch, step - sync, step)
        learner = self._learner[job]
        observed = self._seen[learner].setdefault(gpu_type, {})
        if seen not in observed:
            observed[seen] = None
            self._largest[learner] = max(self._largest[learner], gpus)
            for each, known in zip(self._learner, self._known_seconds, strict=True):
                if each == learner:
                    known.clear()

    def see_gradient(self, job: int, gradient: tuple[float, float]) -> None:
        """A job measures the squared norm and the variance of its gradient."""
        self._first_gradients.setdefault(self._learner[job], gradient)
        if self._adaptive and self._gradients.get(job) != gradient:
            self._known_seconds[job].clear()
        self._gradients[job] = gradient

    def app(self, job: int) -> Application:
        """What a job trains."""
        return self._apps[job]

    def known(self, job: int) -> bool:
        """Whether anything is known of a job's speed."""
        return bool(self._seen[self._learner[job]])

    def seconds_per_iteration(self, jobs: Ints, gpus: Ints, nodes: Ints, gpu_type: str) -> Floats:
        """Seconds of an iteration of each job on so many GPUs of so many nodes; inf where it is not to run so."""
        return np.array(
            [
                self.seconds(job, count, of, gpu_type)
                for job, count, of in zip(jobs.tolist(), gpus.tolist(), nodes.tolist(), strict=True)
            ]
        )

    def most_gpus(self, job: int) -> int:
        """GPUs that a job may hold next: its owner's limit, what its largest batch keeps busy, and its growth."""
        app = self._apps[job]
        limit = min(int(self._asked["max_gpus"][job]), app.max_batch // app.min_batch_per_gpu)
        if self._asked["min_gpus"][job] == self._asked["max_gpus"][job]:
            return int(self._asked["max_gpus"][job])
        return min(limit, GROWTH * self._largest[self._learner[job]] if self.known(job) else 1)

    def seconds(self, job: int, gpus: int, nodes: int, gpu_type: str, as_sia: bool = False) -> float:
        """The same for one job, also as Sia believes; all sizes of a job of which nothing is known are alike."""
        known, size = self._known_seconds[job], (gpus, nodes, gpu_type, as_sia)
        if size not in known:
            known[size] = self._believed(job, *size)
        return known[size]

    def _believed(self, job: int, gpus: int, nodes: int, gpu_type: str, as_sia: bool) -> float:
        if not self._asked["min_gpus"][job] <= gpus <= self.most_gpus(job):
            return inf
        if not self.known(job):
            return 1.0
        seen = self._seen[self._learner[job]]
        if gpu_type in seen:
            return self._measured(job, gpus, nodes, gpu_type, as_sia)
        other = next(each for each in self._gpus_per_node if each in seen)
        on_nodes = max(nodes, -(-gpus // self._gpus_per_node[other]))
        on_other = self._measured(job, gpus, on_nodes, other, as_sia)
        return on_other * self._alone(job, other) / self._alone(job, gpu_type)

    def _measured(self, job: int, gpus: int, nodes: int, gpu_type: str, as_sia: bool) -> float:
        """On a type of GPU of which there is a model; inf where no batch of the job is possible."""
        if not self._adaptive:
            return self._predicted(job, gpus, nodes, gpu_type, as_sia)
        total = int(self._batch[job]) if as_sia else self._apps[job].max_batch
        limits = Limits(total, self._largest_batch(job, gpu_type))
        rate, _ = self.best(job, gpus, nodes, gpu_type, limits)
        return 1.0 / rate if rate > 0 else inf

    def _model(self, job: int, gpu_type: str, constant: float = CONSTANT_OF_SIA) -> SpeedModel:
        key = tuple(self._seen[self._learner[job]][gpu_type]), constant
        if key not in self._fits:
            self._fits[key] = fitted(*key)
        return self._fits[key]

    def knows(self, job: int, gpu_type: str) -> bool:
        """Whether a job's speed on a type of GPU was measured."""
        return gpu_type in self._seen[self._learner[job]]

    def best(self, job: int, gpus: int, nodes: int, gpu_type: str, limits: Limits) -> tuple[float, Batch]:
        """The most progress a second that the model of a type promises within these limits, and with which batch.

        Of 50 batches in equal ratios; 0 where none is possible.
        """
        app, model = self._apps[job], self._model(job, gpu_type)
        tried = self._batches_on(app, gpus, limits)
        key = model, app.name, gpus, nodes, limits
        if key not in self._seconds_of_tried:
            of_all = np.full_like(tried.per_gpu, nodes), np.full_like(tried.per_gpu, gpus), tried.per_gpu
            seconds = model.step_seconds(*of_all)
            self._seconds_of_tried[key] = seconds + tried.accumulation * model.compute_seconds(tried.per_gpu)
        norm, variance = self._gradients.get(job) or self._first_gradients[self._learner[job]]
        rates = gain(tried.scale, norm, variance) / self._seconds_of_tried[key]
        at = int(np.where(tried.possible, rates, 0.0).argmax())
        batch = Batch(int(tried.per_gpu[at]), int(tried.accumulation[at]))
        return float(rates[at] * tried.possible[at]), batch

    def _batches_on(self, app: Application, gpus: int, limits: Limits) -> _Batches:
        """The batches that a job tries on so many GPUs, between the least that fills them and the limits."""
        key = app.name, gpus, limits
        if key not in self._tried:
            self._tried[key] = _batches_between(app, gpus, limits)
        return self._tried[key]

    def _largest_batch(self, job: int, gpu_type: str) -> int:
        """Samples that a GPU of a type is believed to take at a time."""
        app = self._apps[job].name
        return LARGEST_BATCHES.get((app, gpu_type)) or int(self._times[app, gpu_type].largest_batch_anywhere)

    def split(self, job: int, gpus: int, gpu_type: str) -> Batch:
        """How the requested batch is believed to be divided."""
        app, requested = self._apps[job], int(self._batch[job])
        each = ceil(requested / gpus)
        accumulation = ceil(each / self._largest_batch(job, gpu_type)) - 1
        if gpus == 1 and requested > app.initial_batch:
            accumulation = max(accumulation, 1)
        return Batch(ceil(each / (accumulation + 1)), accumulation)

    def _predicted(self, job: int, gpus: int, nodes: int, gpu_type: str, as_sia: bool) -> float:
        """The seconds that a model promises with the requested batch."""
        batch, tried = self.split(job, gpus, gpu_type), self._seen[self._learner[job]][gpu_type]
        model = self._model(job, gpu_type, CONSTANT_OF_SIA if as_sia else CONSTANT)
        communicates = gpus if as_sia else min(gpus, max(each.gpus for each in tried))
        elastic = self._asked["min_gpus"][job] < self._asked["max_gpus"][job]
        if elastic and batch.per_gpu < self._apps[job].min_batch_per_gpu:
            return inf
        size = np.array([float(nodes)]), np.array([float(communicates)]), np.array([float(batch.per_gpu)])
        step = float(model.step_seconds(*size)[0])
        return step + batch.accumulation * float(model.compute_seconds(size[2])[0])

    def _alone(self, job: int, gpu_type: str) -> float:
        """Samples a second on one GPU with the largest batch."""
        return self._times[self._apps[job].name, gpu_type].most_samples_alone


def _batches_between(app: Application, gpus: int, limits: Limits) -> _Batches:
    """50 batches in equal ratios, each in as many passes as a GPU needs for its part."""
    least = max(app.initial_batch, app.min_batch_per_gpu * gpus)
    each = np.geomspace(least, limits.total) / gpus
    accumulation = np.ceil(each / limits.per_gpu - _ROUNDING) - 1
    if gpus == 1:
        accumulation = np.where(
            each > app.initial_batch + _ROUNDING, np.maximum(accumulation, 1), accumulation
        )
    per_gpu = np.ceil(each / (accumulation + 1) - _ROUNDING)
    possible = (per_gpu >= app.min_batch_per_gpu) & (per_gpu <= limits.per_gpu)
    return _Batches(per_gpu, accumulation, per_gpu * (accumulation + 1) * gpus / app.initial_batch, possible)
