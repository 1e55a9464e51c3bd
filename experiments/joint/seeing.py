"""Schedulers that are asked about another snapshot than there is: blind to something, or with wrong beliefs.

What runs is as fast as ever; only what the scheduler knows differs. Jobs with parameter servers keep their own laws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from muster.cluster import Cluster
from muster.cluster.ledger_arrays import GPU, MICRO, Bools, Floats, Ints, NodeArray
from muster.cluster.portable_math import exp
from muster.schedulers.contract import Decision, Jobs, Scheduler, Snapshot, State
from muster.speed.demands import ResourceProfiles
from muster.speed.input_pipeline import ModelTable
from muster.speed.input_stage import input_stage_seconds
from muster.speed.network.forms import Forms, PlacementShapes

UNKNOWN_FOR = 600.0
"""Seconds after the first start of a job of a model until its speeds are known."""

_NOISE_STREAM = 77

See = Callable[[Snapshot], Snapshot]
"""What a scheduler is shown in place of a snapshot."""


@dataclass(frozen=True)
class Seeing:
    """Another scheduler, which sees what `see` makes of each snapshot."""

    inner: Scheduler
    see: See

    @property
    def name(self) -> str:
        """That of the other."""
        return self.inner.name

    def describe(self) -> dict[str, Any]:
        """As the other."""
        return self.inner.describe()

    def initial(self, cluster: Cluster) -> State:
        """That of the other."""
        return self.inner.initial(cluster)

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        """The other's decision about what it sees."""
        return self.inner.decide(self.see(snapshot), state)


class RigidJobs(Jobs):
    """The same jobs, each with no other number of GPUs than it asks for."""

    __slots__ = ()

    def at(self, mask: Bools | Ints) -> Jobs:
        """Only the jobs of a mask, or at these positions."""
        return RigidJobs(self._table, self.index[mask], self._now, self.leased)

    @property
    def min_gpus(self) -> Ints:
        """GPUs asked for."""
        return self.gpus

    @property
    def max_gpus(self) -> Ints:
        """GPUs asked for."""
        return self.gpus


class UnpricedJobs(Jobs):
    """The same jobs, whose interruptions cost nothing; those that are protected stay so."""

    __slots__ = ()

    def at(self, mask: Bools | Ints) -> Jobs:
        """Only the jobs of a mask, or at these positions."""
        return UnpricedJobs(self._table, self.index[mask], self._now, self.leased)

    @property
    def interruption_cost(self) -> Floats:
        """Nothing."""
        return np.zeros(len(self.index))


def _jobs_as(kind: type[Jobs]) -> See:
    """Jobs of another kind in their place."""
    return lambda seen: replace(seen, jobs=kind(seen.table, seen.jobs.index, seen.now, seen.jobs.leased))


def without_network(snapshot: Snapshot) -> Snapshot:
    """All places are alike."""
    return replace(snapshot, forms=None)


@dataclass
class OtherSpeeds:
    """The models' speeds as `change` makes them, the same at every decision of a run."""

    change: Callable[[ModelTable, list[float]], None]
    """Changes the models, given GPUs, cores, GB and GB/s that come with a GPU."""
    _profiles: ResourceProfiles | None = field(default=None, init=False)

    def __call__(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with the changed speeds."""
        if self._profiles is None:
            models = snapshot.resource_profiles.models.copy()
            self.change(models, _share(snapshot.ledger.books.nodes))
            self._profiles = ResourceProfiles(models, snapshot.ledger.books.nodes)
        return replace(snapshot, resource_profiles=self._profiles)


def ignore_cpus(models: ModelTable, share: list[float]) -> None:
    """Let every model need its GPU-proportional share of the CPU cores, and gain nothing from more."""
    for number in np.flatnonzero(models["n_cpus"] > 0).tolist():
        columns = models[number]["memory"][: models[number]["n_memory"]].tolist()
        seconds = [input_stage_seconds(models, number, share[1], memory, np.inf) for memory in columns]
        models["input_seconds"][number, 0, : len(seconds)] = seconds
        models["cpus"][number, 0], models["n_cpus"][number] = share[1], 1


def ignore_memory(models: ModelTable, share: list[float]) -> None:
    """Let every model need its GPU-proportional share of the memory, and gain nothing from more."""
    for number in np.flatnonzero(models["n_cpus"] > 0).tolist():
        rows = models[number]["cpus"][: models[number]["n_cpus"]].tolist()
        seconds = [input_stage_seconds(models, number, cpus, share[2], share[3]) for cpus in rows]
        models["input_seconds"][number, : len(seconds), 0] = seconds
        models["memory"][number, 0], models["n_memory"][number] = share[2], 1
        models["batch_gb"][number] = 0.0


def _share(nodes: NodeArray) -> list[float]:
    """What comes with a GPU on the first node that has one."""
    first = nodes[nodes["gpus"] > 0][0]
    share: list[float] = (first["share"] / MICRO).tolist()
    assert share[GPU] == 1.0
    return share


ABLATIONS: dict[str, Callable[[], See]] = {
    "CPU": lambda: OtherSpeeds(ignore_cpus),
    "memory": lambda: OtherSpeeds(ignore_memory),
    "network": lambda: without_network,
    "elasticity": lambda: _jobs_as(RigidJobs),
    "prices": lambda: _jobs_as(UnpricedJobs),
}
"""What a scheduler can be made blind to; each makes what it sees of the snapshots of one run."""


class BelievedShapes(PlacementShapes):
    """How fast gangs are believed to be: `factors` by model multiply the communication that compute does not hide."""

    def __init__(self, true: PlacementShapes, factors: Floats) -> None:
        self._true, self._factors = true, factors
        # How jobs slow each other is seen as it is: beliefs are of a job that is alone.
        self.speed, self.contention = true.speed, true.contention

    @property
    def skews(self) -> Floats | None:
        """As it is."""
        return self._true.skews

    def some_sensitive(self, models: Ints, gpus: Ints) -> bool:
        """Whether the network is believed to hurt some of these gangs."""
        believed = self._factors[models] > 0
        return self._true.some_sensitive(models[believed], gpus[believed])

    def of(self, models: Ints, gpus: Ints, stretched: Floats | None = None) -> tuple[Ints, Forms]:
        """The lines and forms, with believed speeds."""
        line, forms = self._true.of(models, gpus, stretched)
        factors = np.ones((len(forms.speeds), 1))
        factors[line, 0] = self._factors[models]
        with np.errstate(divide="ignore", invalid="ignore"):
            speeds = 1 / (1 + (1 / forms.speeds - 1) * factors)
        return line, Forms(forms.kinds, np.where(forms.kinds[:, :, 0] >= 0, speeds, 0.0))


@dataclass
class NoisySpeeds:
    """Every model's input stage, and what it communicates, take `exp(N(0, sigma))` times as long as they do."""

    sigma: float
    seed: int
    _seen: tuple[ResourceProfiles, BelievedShapes | None] | None = field(default=None, init=False)

    def __call__(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with these beliefs."""
        if self._seen is None:
            models = snapshot.resource_profiles.models.copy()
            chance = np.random.default_rng([self.seed, _NOISE_STREAM])
            factors = exp(chance.normal(0.0, self.sigma, (2, len(models))))
            models["input_seconds"] *= factors[0][:, None, None]
            models["batch_gb"] *= factors[0]
            shapes = None if snapshot.forms is None else BelievedShapes(snapshot.forms, factors[1])
            self._seen = ResourceProfiles(models, snapshot.ledger.books.nodes), shapes
        return replace(snapshot, resource_profiles=self._seen[0], forms=self._seen[1])


@dataclass
class UnknownAtFirst:
    """A model is insensitive to CPUs, memory and the network until a job of it started `UNKNOWN_FOR` seconds ago."""

    _seen: dict[bytes, tuple[ResourceProfiles, BelievedShapes | None]] = field(
        default_factory=dict, init=False
    )

    def __call__(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with what is known by now."""
        table = snapshot.table
        known = np.zeros(len(table.models), np.bool_)
        known[table.asked["model"][table.facts["first_start"] <= snapshot.now - UNKNOWN_FOR]] = True
        key = known.tobytes()
        if key not in self._seen:
            models = snapshot.resource_profiles.models.copy()
            unknown = np.flatnonzero(~known)
            every = np.unique(np.append(unknown, models["on_type"][unknown]))
            models["n_cpus"][every] = models["batch_gb"][every] = 0
            models["compute_seconds"][every] = models["reference_seconds"][every]
            forms, factors = snapshot.forms, known.astype(np.float64)
            shapes = None if forms is None else BelievedShapes(forms, factors)
            self._seen[key] = ResourceProfiles(models, snapshot.ledger.books.nodes), shapes
        profiles, believed = self._seen[key]
        return replace(snapshot, resource_profiles=profiles, forms=believed)
