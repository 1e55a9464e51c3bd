"""From a profile to a model: the memory axis computed, the matrix W, and its file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from statistics import median

from muster.formatting import counted, percent
from muster.profiling.compute import ComputeFit, ComputeProfile, fit_of
from muster.profiling.miss_cost import rate_beside
from muster.profiling.network_fit import network_fit_of
from muster.profiling.optimistic import InputProfile, Profile
from muster.workload.models import Compute, Dataset, Model, NetworkProfile

MEMORY_SHARES = (0.125, 0.25, 0.5, 0.75, 1.0)
"""Parts of the data set that are the memory points of a profile."""
_PLAIN_FIELDS = (
    "name",
    "family",
    "batch",
    "seconds_per_iteration",
    "source",
    "licence",
    "reference_cpus_per_gpu",
    "reference_memory_gb_per_gpu",
    "cpus_per_gpu",
    "memory_gb_per_gpu",
    "gpu_type",
)
_MOST_FIXED = 1000.0
"""Batches that the fixed part of a pass counts as, at most: more makes no difference."""
_NO_CACHE_GB = 1.0
"""The one memory point of a job without cached data, whose speed does not depend on memory."""


def model_of(profile: Profile, *, name: str, family: str, batch: int | None, source: str) -> Model:
    """The model, its reference the largest CPU point with everything cached.

    epoch(c, p) = max(epoch(c, all cached), p D / memory bandwidth + (1 - p) D / storage bandwidth), here of an
    iteration (Synergy, optimistic profiling). Ours: what is not cached also costs the CPU seconds of reading it,
    as a data set that decodes does. `batch` None: as the job reports it, else samples by batches of an epoch, else 1.
    """
    reading, compute = profile.reading, profile.compute
    if batch is None and compute is not None:
        batch = compute.samples or None
    if batch is None:
        batch = 1 if reading is None else max(1, round(reading.samples / reading.batches_per_epoch))
    fit = None if compute is None else fit_of(compute)
    memory_gb = memory_points(reading)
    cpus = tuple(profile.rates)
    seconds = [[_seconds(profile, cores, memory) for memory in memory_gb] for cores in cpus]
    return Model(
        name=name,
        family=family,
        batch=batch,
        seconds_per_iteration=seconds[-1][-1],
        reference_cpus_per_gpu=cpus[-1],
        reference_memory_gb_per_gpu=memory_gb[-1],
        cpus_per_gpu=cpus,
        memory_gb_per_gpu=memory_gb,
        speed=tuple(tuple(seconds[-1][-1] / value for value in row) for row in seconds),
        source=source,
        licence="own measurement",
        dataset=None if reading is None else _dataset(reading, batch),
        compute=None if fit is None else _compute(profile, fit, batch, source),
        network=_network(profile, source),
    )


def memory_points(reading: InputProfile | None) -> tuple[float, ...]:
    """GB at which the matrix is computed."""
    if reading is None:
        return (_NO_CACHE_GB,)
    return tuple(share * reading.full_gb for share in MEMORY_SHARES)


def model_toml(model: Model, remarks: Sequence[str]) -> str:
    """The model as a file that `read_model` reads, the remarks as comments on top."""
    lines = [f"# {remark}" for remark in remarks]
    plain = {name: getattr(model, name) for name in _PLAIN_FIELDS}
    lines += [f"{name} = {_toml(value)}" for name, value in plain.items() if value is not None]
    rows = "".join(f"  {_toml(row)},\n" for row in model.speed)
    lines.append(f"speed = [\n{rows}]")
    if model.dataset is not None:
        lines.append("\n[dataset]")
        lines += [f"{field.name} = {_toml(getattr(model.dataset, field.name))}" for field in fields(Dataset)]
    if model.compute is not None:
        lines.append("\n[compute]")
        stated = ((field.name, getattr(model.compute, field.name)) for field in fields(Compute))
        lines += [f"{name} = {_toml(value)}" for name, value in stated if value is not None]
    if model.network is not None:
        texts = {name: getattr(model.network, name) for name in ("source", "licence", "error")}
        for table, values in (("network", texts), ("network.measured", model.network.measured or {})):
            lines.append(f"\n[{table}]")
            lines += [f"{name} = {_toml(value)}" for name, value in values.items()]
    return "\n".join(lines) + "\n"


def _dataset(reading: InputProfile, batch: int) -> Dataset:
    """Samples are counted in whole batches, so that a batch reads what a mean batch of the epoch did."""
    return Dataset(
        size_gb=reading.full_gb,
        sample_gb=reading.batch_gb / batch,
        storage_gb_per_s=reading.storage_gb_per_s,
        memory_gb_per_s=reading.memory_gb_per_s,
    )


def waits_for_input(profile: Profile) -> bool:
    """Whether a step takes longer than with one batch again and again, with all CPUs and all data cached too."""
    beside, compute = profile.rates[max(profile.rates)], profile.compute
    if compute is None:
        return False
    return beside.steps_per_s < compute.whole.steps_per_s and not beside.agrees_with(compute.whole)


def _compute(profile: Profile, fit: ComputeFit, batch: int, source: str) -> Compute:
    """The line in samples of `batch`, which may be stated in another unit than the job's own."""
    compute, line = profile.compute, fit.line
    assert compute is not None
    most = _MOST_FIXED * batch
    fixed = line.fixed / line.per_sample * batch / compute.samples if line.per_sample else most
    seconds = 1 / compute.whole.steps_per_s if waits_for_input(profile) else None
    return Compute(min(fixed, most), batch, seconds, source, _error(compute, fit))


def _network(profile: Profile, source: str) -> NetworkProfile | None:
    """What several workers showed of one machine."""
    compute, workers, network = profile.compute, profile.workers, network_fit_of(profile)
    if compute is None or workers is None or network is None:
        return None
    measured = {
        "compute_seconds": 1 / compute.whole.steps_per_s,
        "local_seconds": network.local_seconds,
        "local_seconds_per_gpu": network.local_seconds_per_gpu,
        "overlap": network.overlap,
    }
    return NetworkProfile(None, measured, source, "own measurement", network.error(workers.compared))


def _error(compute: ComputeProfile, fit: ComputeFit) -> str:
    """How far the line is from what was measured."""
    fitted = [abs(off) for samples, off in fit.off.items() if samples != compute.compared]
    sentence = (
        f"seconds of steps of {counted(len(fitted), 'number')} of samples, {min(fit.off)} to {max(fit.off)}: "
        f"median {percent(median(fitted))}, worst {percent(max(fitted))}"
    )
    if compute.compared is None:
        return sentence
    return (
        f"{sentence}; of {compute.compared}, which was not fitted: {percent(abs(fit.off[compute.compared]))}"
    )


def _seconds(profile: Profile, cores: float, memory_gb: float) -> float:
    """Of an iteration: the slower of preparing it and getting it from cache and storage."""
    reading = profile.reading
    if reading is None:
        return 1 / rate_beside(profile.rates, cores, 0.0)
    cached = memory_gb / reading.full_gb
    fetch = reading.batch_gb * (cached / reading.memory_gb_per_s + (1 - cached) / reading.storage_gb_per_s)
    return max(1 / rate_beside(profile.rates, cores, (1 - cached) * reading.miss_cpu_seconds), fetch)


def _toml(value: object) -> str:
    """A string, a number or a list of numbers. JSON's strings are TOML's, but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
