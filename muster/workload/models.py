"""The registry of models: what is known of how fast each trains, one small TOML file a model, all parts optional.

Shipped are Synergy's ten with their sensitivity to CPUs and memory, four profiled on a GPU of today, and those of
which the network is known; `read_model` and `read_models` read a user's own.
`docs/reference/models.md` describes the fields and how to add a model.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import numpy as np

from muster.problems import InputError, Problem, did_you_mean, with_hint
from muster.workload.model_file import ModelFile, checked_model_file

_TABLES = {"dataset", "compute", "network", "efficiency", "gpu_types"}
OTHER_GPUS = "other"
"""As the name of a GPU type: all that are not named."""
_SHIPPED_FOLDER = Path(__file__).parent / "model_files"
_SYNERGY = (
    *("alexnet", "deepspeech", "gnmt", "lstm", "m5", "mobilenetv2", "resnet18", "resnet50", "shufflenetv2"),
    "transformer-xl",
)


@dataclass(frozen=True)
class Dataset:
    """What the input pipeline reads, and how fast it could when the matrix was measured; all per GPU."""

    size_gb: float
    """All samples of an epoch; a cache of this many GB a GPU has every sample (Synergy's MinIO cache)."""
    sample_gb: float
    storage_gb_per_s: float
    """Storage bandwidth that one GPU had during the measurement."""
    memory_gb_per_s: float
    """Speed at which one GPU's loader takes cached samples from memory."""


@dataclass(frozen=True)
class Compute:
    """How compute depends on the samples that a GPU takes: seconds = fixed + samples x seconds a sample.

    One forward and backward pass over the model's own batch takes `seconds`, or else what the matrix says.
    """

    fixed_samples: float
    """Samples that take as long as the fixed part of a pass."""
    largest_batch: int | None = None
    """Samples that one GPU holds at once; more are taken in several passes. None: the model's batch."""
    seconds: float | None = None
    """Of a pass over the model's batch. None: of an iteration at the largest point of the matrix."""
    source: str | None = None
    error: str | None = None
    """A sentence on how far the numbers are off."""


@dataclass(frozen=True)
class NetworkProfile:
    """What is known of a model's gradients: the numbers of one form of `speed.network.models`."""

    compact: Mapping[str, float] | None = field(hash=False)
    measured: Mapping[str, float | None] | None = field(hash=False)
    source: str
    licence: str
    error: str
    """A sentence on how far the numbers are from what they were fitted to."""

    @property
    def compute_seconds(self) -> float:
        """Of an iteration on one GPU, as it was profiled."""
        seconds = (self.measured or self.compact or {})["compute_seconds"]
        assert seconds is not None
        return seconds


@dataclass(frozen=True)
class Efficiency:
    """The gradient noise scale while a job advances, from which the progress of other total batches follows."""

    progress: tuple[float, ...]
    """Shares of a job's work from which on the values of `noise_scale` hold, ascending from 0."""
    noise_scale: tuple[float, ...]
    """Samples."""
    source: str
    licence: str
    error: str
    """A sentence on how far progress is from what was measured."""


@dataclass(frozen=True)
class Model:
    """One model and its sensitivity: speed by CPU cores and memory a GPU (Synergy, matrix W)."""

    name: str
    family: str
    """Its class in a workload's split: image, language, speech, or a user's own word."""
    batch: int
    """Samples a GPU takes an iteration; 0: not known."""
    seconds_per_iteration: float
    """At the reference point."""
    reference_cpus_per_gpu: float
    reference_memory_gb_per_gpu: float
    cpus_per_gpu: tuple[float, ...]
    memory_gb_per_gpu: tuple[float, ...]
    speed: tuple[tuple[float, ...], ...]
    """A row a CPU point, a column a memory point; 1 at the reference; never falls with more of either.

    Of a model whose input stage is not known, axes and matrix are empty.
    """
    source: str
    licence: str
    aliases: tuple[str, ...] = ()
    dataset: Dataset | None = None
    """Where known; without it the model's speed does not depend on storage."""
    network: NetworkProfile | None = None
    """Where known; without it the model is insensitive to the network."""
    compute: Compute | None = None
    """Where known; without it compute is proportional to the samples that a GPU takes."""
    efficiency: Efficiency | None = None
    """Where known; without it a job cannot have another total batch than its initial one."""
    restart_seconds: float | None = None
    """Of one stop and start-up of a job of this model; None: not stated."""
    gpu_type: str | None = None
    """The type of GPU that all of the above was measured on; None: not stated."""
    on_gpu_type: tuple[tuple[str, tuple[tuple[float, ...], ...]], ...] = ()
    """Speeds on other types of GPU, by name, at the same points, relative to the same reference."""
    compute_scales: tuple[tuple[str, float], ...] = ()
    """How many times as fast other types of GPU compute, by name, where their speeds follow from that."""
    notes: tuple[str, ...] = ()
    """What was corrected when the file was read, a sentence each."""

    @property
    def input_known(self) -> bool:
        """Whether its sensitivity to CPUs and memory is known."""
        return bool(self.cpus_per_gpu)

    @property
    def compute_seconds(self) -> float:
        """Of an iteration on one GPU that never waits for input."""
        if self.compute is not None and self.compute.seconds is not None:
            return self.compute.seconds
        return self.least_input_seconds if self.input_known else self.seconds_per_iteration

    @property
    def least_input_seconds(self) -> float:
        """Of an iteration's input stage at the largest point of the matrix; 0 where it is not known."""
        return self.seconds_per_iteration / self.best_speed if self.input_known else 0.0

    def speed_on(self, gpu_type: str) -> tuple[tuple[float, ...], ...] | None:
        """The speeds on GPUs of a type; None where nothing is stated for it."""
        if self._is_reference(gpu_type):
            return self.speed
        return dict(self.on_gpu_type).get(self._stated_as(gpu_type))

    def compute_seconds_on(self, gpu_type: str) -> float:
        """As `compute_seconds`, on GPUs of a type; where nothing is stated for it, on those of the reference."""
        speed = self.speed_on(gpu_type)
        if speed is None or self._is_reference(gpu_type):
            return self.compute_seconds
        scale = dict(self.compute_scales).get(self._stated_as(gpu_type))
        if scale is not None and self.compute is not None and self.compute.seconds is not None:
            return self.compute.seconds / scale
        return self.compute_seconds if speed == self.speed else self.seconds_per_iteration / speed[-1][-1]

    def _is_reference(self, gpu_type: str) -> bool:
        return self.gpu_type is not None and gpu_type.casefold() == self.gpu_type.casefold()

    def _stated_as(self, gpu_type: str) -> str:
        """The name in `on_gpu_type` that holds for a type of GPU other than the reference; "" if none does."""
        names = {name.casefold(): name for name, _ in self.on_gpu_type}
        return names.get(gpu_type.casefold(), names.get(OTHER_GPUS, ""))

    @property
    def best_speed(self) -> float:
        """Speed at the largest measured CPU and memory point."""
        return self.speed[-1][-1]


@functools.cache
def shipped_models() -> Mapping[str, Model]:
    """All shipped models, by name (aliases are not keys)."""
    return MappingProxyType(read_models(_SHIPPED_FOLDER))


@functools.cache
def synergy_models() -> Mapping[str, Model]:
    """The ten of Synergy's table, by name, of which its workloads are made."""
    return MappingProxyType({name: shipped_models()[name] for name in _SYNERGY})


def find(name: str, models: Mapping[str, Model] | None = None) -> Model | None:
    """The model of that name or alias, in any case, among `models` (default: the shipped ones); None: there is none."""
    known = shipped_models() if models is None else models
    wanted = name.strip().lower()
    named = (entry for entry in known.values() if wanted in map(str.lower, (entry.name, *entry.aliases)))
    return next(named, None)


def model(name: str, models: Mapping[str, Model] | None = None) -> Model:
    """The model of that name or alias among `models` (default: the shipped ones)."""
    known = shipped_models() if models is None else models
    found = find(name, known)
    if found is not None:
        return found
    by_any_name = [alias for entry in known.values() for alias in (entry.name, *entry.aliases)]
    hint = did_you_mean(name.strip().lower(), by_any_name)
    raise InputError(Problem("model", with_hint(f"allowed: {', '.join(sorted(known))}", hint), found=name))


def read_models(folder: Path | str) -> dict[str, Model]:
    """Every `*.toml` of a folder as a model, by name, in the order of the names."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(Problem(str(folder), "allowed: a folder of model files (*.toml)"))
    paths = sorted(folder.glob("*.toml"))
    if not paths:
        raise InputError(Problem(str(folder), "no model file (*.toml) in this folder"))
    read: list[Model] = []
    problems: list[Problem] = []
    owner: dict[str, Path] = {}
    for path in paths:
        try:
            entry = read_model(path)
        except InputError as bad:
            problems.extend(bad.problems)
            continue
        read.append(entry)
        for name in dict.fromkeys(alias.lower() for alias in (entry.name, *entry.aliases)):
            first = owner.setdefault(name, path)
            if first != path:
                what = f"{first.name} has this name already; a name belongs to one model"
                problems.append(Problem(str(path), what, column="name", found=name))
    if problems:
        raise InputError(*problems)
    return {entry.name: entry for entry in sorted(read, key=lambda entry: entry.name)}


def read_model(path: Path | str) -> Model:
    """One model from its TOML file; all mistakes in the file are raised together."""
    path = Path(path)
    fields = checked_model_file(path)
    if not fields.speed:
        return _without_input(fields, _one_machine(fields, path.name))
    speed, notes = _made_monotone(fields, fields.speed, path.name, capped=True)
    notes += _one_machine(fields, path.name)
    others = []
    for name, kind in fields.gpu_types.items():
        if kind.speed is not None:
            table, corrections = _made_monotone(fields, kind.speed, f"{path.name}, {name}", capped=False)
            notes += corrections
        else:
            assert kind.compute_scale is not None
            table = _with_compute_scaled(fields, speed, kind.compute_scale)
        others.append((name, table))
    return Model(
        **fields.model_dump(exclude={"speed", *_TABLES}),
        speed=speed,
        on_gpu_type=tuple(others),
        compute_scales=tuple(
            (name, kind.compute_scale)
            for name, kind in fields.gpu_types.items()
            if kind.compute_scale is not None
        ),
        dataset=Dataset(**fields.dataset.model_dump()) if fields.dataset else None,
        compute=Compute(**fields.compute.model_dump()) if fields.compute else None,
        network=NetworkProfile(**fields.network.model_dump()) if fields.network else None,
        efficiency=Efficiency(**fields.efficiency.model_dump()) if fields.efficiency else None,
        notes=notes,
    )


def _one_machine(fields: ModelFile, source: str) -> tuple[str, ...]:
    """A note where the network was measured within one machine only."""
    measured = None if fields.network is None else fields.network.measured
    if measured is None or measured.uplink_seconds is not None:
        return ()
    return (f"{source}: nothing is known of its network between machines: taken to be as fast as within one",)


def _without_input(fields: ModelFile, notes: tuple[str, ...]) -> Model:
    """A model of which compute and network are known; its seconds are those of the network's profile."""
    assert fields.network is not None
    network = NetworkProfile(**fields.network.model_dump())
    plain = fields.model_dump(exclude={"batch", "seconds_per_iteration", *_TABLES})
    return Model(
        **plain,
        batch=fields.batch or 0,
        seconds_per_iteration=network.compute_seconds,
        compute=Compute(**fields.compute.model_dump()) if fields.compute else None,
        efficiency=Efficiency(**fields.efficiency.model_dump()) if fields.efficiency else None,
        network=network,
        notes=notes,
    )


def _with_compute_scaled(
    fields: ModelFile, speed: tuple[tuple[float, ...], ...], scale: float
) -> tuple[tuple[float, ...], ...]:
    """Speeds on a GPU that computes `scale` times as fast, the input pipeline being what it is.

    A slower GPU caps them. On a faster one only points where the GPU was the limit gain, at the speed of compute: the
    pipeline, whose rate there is not known, is taken to grow with the cores from the first such point on.
    """
    table = np.array(speed)
    best, cpus = float(table.max()), np.array(fields.cpus_per_gpu)
    if fields.compute is not None and fields.compute.seconds is not None:
        best = fields.seconds_per_iteration / fields.compute.seconds
    full = table >= best * (1 - 1e-9)
    first = np.where(full.any(axis=0), cpus[full.argmax(axis=0)], np.inf)
    at_most = np.where(full, best * np.maximum(cpus[:, None] / first, 1.0), table)
    return tuple(tuple(row) for row in np.minimum(at_most, best * scale).tolist())


def _made_monotone(
    fields: ModelFile, speed_found: tuple[tuple[float, ...], ...], source: str, *, capped: bool
) -> tuple[tuple[tuple[float, ...], ...], tuple[str, ...]]:
    """Speed that never falls with more CPU or memory, and a note where the file's did.

    A job given more may leave it unused, so a point is worth at least the best of the smaller ones. What
    lies under the reference is first capped at the reference's own speed, which therefore stays 1.
    """
    found = np.array(speed_found)
    cpus, memory = np.array(fields.cpus_per_gpu), np.array(fields.memory_gb_per_gpu)
    under = (cpus <= fields.reference_cpus_per_gpu)[:, None] & (memory <= fields.reference_memory_gb_per_gpu)
    most = np.where(under & capped, np.minimum(found, 1.0), found)
    monotone = np.maximum.accumulate(np.maximum.accumulate(most, axis=0), axis=1)
    changed = np.argwhere(monotone != found)
    speed = tuple(tuple(float(value) for value in row) for row in monotone)
    if not len(changed):
        return speed, ()
    row, column = max(changed, key=lambda at: abs(math.log(monotone[tuple(at)] / found[tuple(at)])))
    where = f"{cpus[row]:g} CPUs, {memory[column]:g} GB"
    note = (
        f"{source}: speed fell with more CPU or memory; {len(changed)} of {found.size} points were made "
        f"monotone, the largest change at {where} ({found[row, column]:g} to {monotone[row, column]:g})"
    )
    return speed, (note,)
