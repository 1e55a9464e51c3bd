"""The layered step of every job that a scheduler sizes, written into its record and read from it (SMD, M1).

With parameter servers the terms are all of it. A ring's terms are its compute; what the network adds is a line of
`JobTable.ring_seconds` for schedulers, and follows from where the ring runs (`speed.parameter_server.ring`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from muster.cluster import Cluster
from muster.cluster.ledger_arrays import MICRO, Bools, Ints
from muster.problems import InputError, Problem
from muster.speed.network.models import LayeredModel, NetworkModel
from muster.speed.network.speed import NetworkSpeed
from muster.speed.parameter_server.architectures import estimated_layers, names
from muster.speed.parameter_server.layers import FloatArray, Layers
from muster.speed.parameter_server.profile import layers_of
from muster.speed.parameter_server.ring import (
    MACHINE,
    RingSeconds,
    best_places,
    compute_seconds,
    layered_model,
    rooms,
    seconds_by_workers,
)
from muster.speed.parameter_server.step_time import StepTime, layered, with_fewer_terms
from muster.workload.jobs import JobTable
from muster.workload.sized import MOST_TERMS, PS, RIGID, RING

GPU_TFLOPS = 6.0
"""What a GPU sustains on a model whose layers are computed from its definition, as in `muster size`."""


def with_terms(table: JobTable, source: str, profiles: Mapping[str, NetworkModel] | None = None) -> JobTable:
    """The jobs with the terms of their steps; a model whose layers are not known is refused by name.

    `profiles` are those of a layer file; they come before the architectures known by name.
    """
    profiles = profiles or {}
    _refuse_unknown_layers(table, source, profiles)
    table = _rings_apart(table)
    asked = table.asked.copy()
    layers: dict[int, Layers] = {}
    of_kind: dict[tuple[int, float, float], FloatArray] = {}
    for job in np.flatnonzero(asked["sync"] == PS).tolist():
        sized, model = table.sized[job], int(asked["model"][job])
        if model not in layers:
            layers[model] = _layers(table.model_names[model], source, profiles)
        kind = model, float(sized["batch"]), float(sized["server"][3])
        if kind not in of_kind:
            of_kind[kind] = with_fewer_terms(layered(layers[model], *kind[1:]).terms, MOST_TERMS)
        terms = of_kind[kind]
        # A repeated term changes no maximum.
        asked["terms"][job] = terms[np.minimum(np.arange(MOST_TERMS), len(terms) - 1)]
    for model, known in ring_models(table, profiles).items():
        jobs = np.flatnonzero((asked["sync"] == RING) & (asked["model"] == model))
        for batch in np.unique(table.sized["batch"][jobs]).tolist():
            compute = compute_seconds(known, batch)
            asked["terms"][jobs[table.sized["batch"][jobs] == batch]] = [*compute, 0.0]
    return replace(table, asked=asked)


def ring_models(
    table: JobTable, profiles: Mapping[str, NetworkModel] | None = None
) -> dict[int, LayeredModel]:
    """By number the models that rings train, whose layers are known: profiled, or from the published definition."""
    models = {}
    for number in np.unique(table.asked["model"][table.asked["sync"] == RING]).tolist():
        name = table.model_names[number]
        profile = (profiles or {}).get(name)
        if not isinstance(profile, LayeredModel):
            profile = layered_model(name, estimated_layers(name.lower(), GPU_TFLOPS))
        models[number] = profile
    return models


def with_ring_seconds(table: JobTable, cluster: Cluster, speed: NetworkSpeed) -> JobTable:
    """The jobs with what the network adds to the steps of rings, on the best place of every number of workers.

    `speed` has its models by the table's numbers.
    """
    asked, sized = table.asked, table.sized.copy()
    rings = np.flatnonzero(asked["sync"] == RING)
    fits, kind_of_node = rooms(sized["worker"][rings, : len(MACHINE)], cluster)
    alike: dict[tuple[int, ...], list[int]] = {}
    for job, room in zip(rings.tolist(), fits.tolist(), strict=True):
        ask = asked[job]
        kind = int(ask["constraint"]), int(ask["worker_gpus"]), int(ask["model"]), *room
        alike.setdefault(kind, []).append(job)
    lines = [RingSeconds(np.zeros(1), np.zeros(1))]
    for (constraint, worker_gpus, model, *by_kind), jobs in alike.items():
        room = np.where(table.node_allowed[constraint], np.array(by_kind)[kind_of_node], 0)
        if not room.any():
            continue  # None of its nodes holds a worker: the job can never run.
        places = best_places(room, cluster, int(sized["max_workers"][jobs].max()))
        sized["ring"][jobs] = len(lines)
        lines.append(seconds_by_workers(speed, model, places, worker_gpus // MICRO))
    longest = max(line.exposed.size for line in lines)
    # Further workers than there is room for are as the last that there is.
    ring_seconds = np.array(
        [
            [np.pad(seconds, (0, longest - seconds.size), mode="edge") for seconds in side]
            for side in ([line.exposed for line in lines], [line.whole for line in lines])
        ]
    )
    return replace(table, sized=sized, ring_seconds=ring_seconds)


def steps_of(table: JobTable, jobs: Ints, *, layers_known: bool = True) -> StepTime:
    """The steps of these jobs, all of them sized; without their layers as Optimus sees them (M0)."""
    terms = table.asked["terms"][jobs]
    if not layers_known:
        terms = terms.max(axis=1, keepdims=True)
    nothing = np.zeros(len(jobs))
    synchronous: Bools = np.zeros(len(jobs), np.bool_)
    rings = table.ring_seconds[0 if layers_known else 1, table.sized["ring"][jobs]]
    return StepTime(terms, terms[:, 0, :2], nothing, nothing, synchronous, rings)


def _refuse_unknown_layers(table: JobTable, source: str, profiles: Mapping[str, NetworkModel]) -> None:
    problems: list[Problem] = []
    for model in np.unique(table.asked["model"][table.asked["sync"] != RIGID]).tolist():
        try:
            _layers(table.model_names[model], source, profiles)
        except InputError as bad:
            problems += bad.problems
    if problems:
        raise InputError(*problems)


def _rings_apart(table: JobTable) -> JobTable:
    """Rings with numbers of their own for their models, whose layers are those of their steps, not the shipped ones."""
    rings = table.asked["sync"] == RING
    apart = np.unique(table.asked["model"][rings]).tolist()
    asked = table.asked.copy()
    for number, model in enumerate(apart, start=len(table.model_names)):
        asked["model"][rings & (table.asked["model"] == model)] = number
    return replace(
        table,
        asked=asked,
        model_names=(*table.model_names, *(table.model_names[model] for model in apart)),
        models=(*table.models, *(table.models[model] for model in apart)),
    )


def _layers(name: str, source: str, profiles: Mapping[str, NetworkModel]) -> Layers:
    """By a profile, or by the published definition."""
    profile = profiles.get(name)
    if isinstance(profile, LayeredModel):
        if math.isnan(profile.batch):
            what = "workers and servers need the samples of a profiled iteration: a column batch in the layer file"
            raise InputError(Problem("--layers", what, column="batch", found=name))
        return layers_of(profile, profile.batch, "--layers")
    if name.lower() in names():
        return estimated_layers(name.lower(), GPU_TFLOPS)
    what = f"its layers are not known; a job with sync needs one of {', '.join(names())}, or --layers FILE"
    raise InputError(Problem(source, what, column="model", found=name))
