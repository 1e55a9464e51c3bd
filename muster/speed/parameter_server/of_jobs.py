"""The layered step of every job that a scheduler sizes, written into its record and read from it (SMD, M1)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from muster.cluster.books import Bools, Ints
from muster.problems import BadInput, Problem
from muster.speed.parameter_server.architectures import estimated_layers, names
from muster.speed.parameter_server.layers import FloatArray
from muster.speed.parameter_server.step_time import StepTime, layered
from muster.workload.jobs import JobTable
from muster.workload.sized import MOST_TERMS, RIGID, RING

GPU_TFLOPS = 6.0
"""What a GPU sustains on a model whose layers are computed from its definition, as in `muster size`."""


def with_terms(table: JobTable, source: str) -> JobTable:
    """The jobs with the terms of their steps; a model whose layers are not known is refused by name."""
    asked = table.asked.copy()
    of_kind: dict[tuple[int, float, float], FloatArray] = {}
    problems: dict[int, Problem] = {}
    for job in np.flatnonzero(asked["sync"] != RIGID).tolist():
        sized, model = table.sized[job], int(asked["model"][job])
        nic = float(max(sized["worker"][3], sized["server"][3]))
        kind = model, float(sized["batch"]), nic
        name = table.model_names[model].lower()
        if name not in names():
            what = f"its layers are not known; a job with sync needs one of {', '.join(names())}"
            problems[model] = Problem(source, what, column="model", found=table.model_names[model])
            continue
        if kind not in of_kind:
            of_kind[kind] = layered(estimated_layers(name, GPU_TFLOPS), kind[1], nic).terms
        terms = of_kind[kind]
        # A repeated term changes no maximum.
        asked["terms"][job] = terms[np.minimum(np.arange(MOST_TERMS), len(terms) - 1)]
    if problems:
        raise BadInput(*problems.values())
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
