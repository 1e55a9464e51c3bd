"""The network models of the registry: the shipped ones, and a user's own.

A model file (`docs/reference/models.md`) has a table `[network]` with `source`, `licence` and `error` (a sentence on
how far the fit is off), and in it `[network.compact]` or `[network.measured]` with the fields of that form, which
`docs/explanation/network.md` describes.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from muster.cluster import Cluster
from muster.files import write_aside
from muster.problems import InputError, Problem
from muster.speed.network.models import CompactModel, MeasuredModel
from muster.workload import models
from muster.workload.models import Model, read_model


@dataclass(frozen=True)
class NetworkModelFile:
    """A network model and where it comes from."""

    model: CompactModel | MeasuredModel
    aliases: tuple[str, ...]
    source: str
    licence: str
    error: str
    """A sentence on how far the model is from what it was fitted to."""


def network_of(model: Model) -> NetworkModelFile | None:
    """What a model's file states of its network; None where it states nothing."""
    profile = model.network
    if profile is None:
        return None
    numbers: Mapping[str, Any] = profile.measured or profile.compact or {}
    made = MeasuredModel if profile.measured else CompactModel
    aliases = tuple(alias.lower() for alias in model.aliases)
    network: CompactModel | MeasuredModel = made(model.name, **numbers)
    return NetworkModelFile(network, aliases, profile.source, profile.licence, profile.error)


def model_on(model: Model, cluster: Cluster) -> Model:
    """Return a model with the speed of a cluster's GPUs; of several types, with its reference's and a note."""
    types = cluster.gpu_types
    stated = [gpu_type for gpu_type in types if model.speed_on(gpu_type) is not None]
    if len(types) > 1 and stated:
        note = f"the GPUs of {cluster.name} are of several types: seconds are those on the model's reference"
        return replace(model, notes=(*model.notes, note))
    speed = model.speed_on(stated[0]) if stated else None
    if speed is None:
        return model
    compute = model.compute
    if compute is not None and compute.seconds is not None:
        compute = replace(compute, seconds=model.compute_seconds_on(stated[0]))
    return replace(model, speed=speed, compute=compute)


def origin_of(model: Model) -> str:
    """A sentence on where a model's seconds of communication come from, and beside which compute they hold."""
    file, least = network_of(model), model.least_input_seconds
    if file is None:
        parts = [f"{model.name} has no network model: taken as insensitive to the network"]
    else:
        parts = [file.source, file.error]
    parts += model.notes
    if least > model.compute_seconds:
        parts.append(f"its input takes {least:.4g} s on the most CPUs that were measured")
    if file is not None and model.compute_seconds != file.model.compute_seconds:
        parts.append(
            f"an iteration computes for {model.compute_seconds:.4g} s here in place of "
            f"{file.model.compute_seconds:.4g}, and exposed communication takes as much longer"
        )
    return "; ".join(parts)


@functools.cache
def shipped() -> Mapping[str, NetworkModelFile]:
    """The network models that come with Muster, by name."""
    known = {name: network_of(model) for name, model in models.shipped_models().items()}
    return MappingProxyType({name: file for name, file in known.items() if file is not None})


def find(name: str) -> NetworkModelFile | None:
    """The shipped network model of that name or alias, whatever its case; None if there is none."""
    model = models.find(name)
    return None if model is None else shipped().get(model.name)


def network_models(
    names: Sequence[str],
) -> tuple[list[CompactModel | MeasuredModel | None], tuple[str, ...]]:
    """The models of a run by name, and one note on the unknown ones."""
    found = [find(name) for name in names]
    unknown = sorted({name for name, file in zip(names, found, strict=True) if file is None and name})
    notes = []
    if unknown:
        notes.append(f"no network model for {', '.join(unknown)}: taken as insensitive to the network")
    return [None if file is None else file.model for file in found], tuple(notes)


def read_model_file(path: Path) -> NetworkModelFile:
    """The network model of a model file."""
    file = network_of(read_model(path))
    if file is None:
        what = "allowed: a model file with a table [network]; this one says nothing of the network"
        raise InputError(Problem(str(path), what, column="network"))
    return file


def write_model_file(file: NetworkModelFile, path: Path) -> None:
    """The TOML file that `read_model_file` reads back, numbers to six digits."""
    numbers = asdict(file.model)
    lines = [f"name = {json.dumps(numbers.pop('name'))}"]
    if file.aliases:
        lines.append(f"aliases = {json.dumps(file.aliases)}")
    where = {"source": file.source, "licence": file.licence}
    lines += _texts(where)
    lines += ["", "[network]", *_texts(where | {"error": file.error}), ""]
    lines.append("[network.measured]" if isinstance(file.model, MeasuredModel) else "[network.compact]")
    lines += [f"{key} = {value:.6g}" for key, value in numbers.items() if value is not None]
    with write_aside(path) as aside:
        aside.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _texts(fields: Mapping[str, str]) -> list[str]:
    return [f"{key} = {json.dumps(text, ensure_ascii=False)}" for key, text in fields.items()]
