"""The layered step of every job that a scheduler sizes, written into its record and read from it (SMD, M1)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from muster.cluster.books import Bools, Ints
from muster.problems import BadInput, Problem
from muster.speed.network.models import LayeredModel, NetworkModel
from muster.speed.parameter_server.architectures import estimated_layers, names
from muster.speed.parameter_server.layers import FloatArray, Layers
from muster.speed.parameter_server.profile import layers_of
from muster.speed.parameter_server.step_time import StepTime, layered, with_fewer_terms
from muster.workload.jobs import JobTable
from muster.workload.sized import MOST_TERMS, RIGID, RING

GPU_TFLOPS = 6.0
"""What a GPU sustains on a model whose layers are computed from its definition, as in `muster size`."""


def with_terms(table: JobTable, source: str, profiles: Mapping[str, NetworkModel] | None = None) -> JobTable:
    """The jobs with the terms of their steps; a model whose layers are not known is refused by name.

    `profiles` are those of a layer file; they come before the architectures known by name.
    """
    asked = table.asked.copy()
    index = np.flatnonzero(asked["sync"] != RIGID)
    layers: dict[int, Layers] = {}
    problems: list[Problem] = []
    for model in np.unique(asked["model"][index]).tolist():
        try:
            layers[model] = _layers(table.model_names[model], source, profiles or {})
        except BadInput as bad:
            problems += bad.problems
    if problems:
        raise BadInput(*problems)
    of_kind: dict[tuple[int, float, float], FloatArray] = {}
    for job in index.tolist():
        sized, model = table.sized[job], int(asked["model"][job])
        nic = float(max(sized["worker"][3], sized["server"][3]))
        kind = model, float(sized["batch"]), nic
        if kind not in of_kind:
            of_kind[kind] = with_fewer_terms(layered(layers[model], kind[1], nic).terms, MOST_TERMS)
        terms = of_kind[kind]
        # A repeated term changes no maximum.
        asked["terms"][job] = terms[np.minimum(np.arange(MOST_TERMS), len(terms) - 1)]
    return replace(table, asked=asked)


def steps_of(table: JobTable, jobs: Ints, *, layers_known: bool = True) -> StepTime:
    """The steps of these jobs, all of them sized; without their layers as Optimus sees them (M0)."""
    terms = table.asked["terms"][jobs]
    if not layers_known:
        terms = terms.max(axis=1, keepdims=True)
    nothing = np.zeros(len(jobs))
    synchronous: Bools = np.zeros(len(jobs), np.bool_)
    ring = table.asked["sync"][jobs] == RING
    return StepTime(terms, terms[:, 0, :2], nothing, nothing, synchronous, ring)


def _layers(name: str, source: str, profiles: Mapping[str, NetworkModel]) -> Layers:
    """By a profile, or by the published definition."""
    profile = profiles.get(name)
    if isinstance(profile, LayeredModel):
        if math.isnan(profile.batch):
            what = "workers and servers need the samples of a profiled iteration: a column batch in the layer file"
            raise BadInput(Problem("--layers", what, column="batch", found=name))
        return layers_of(profile, profile.batch, "--layers")
    if name.lower() in names():
        return estimated_layers(name.lower(), GPU_TFLOPS)
    what = f"its layers are not known; a job with sync needs one of {', '.join(names())}, or --layers FILE"
    raise BadInput(Problem(source, what, column="model", found=name))
