"""The amounts beside a GPU between which a job may be given any mixture: stretches of CPUs at one amount of memory."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from muster.cluster.ledger_arrays import MICRO, Floats, Ints
from muster.cluster.resources import BUILT_IN_COUNT
from muster.speed.input_pipeline import ModelTable
from muster.speed.points import choices, speed_at

_ROUNDING = 1e-9


class Stretch(NamedTuple):
    """Points with ascending CPUs whose mixtures side by side are as fast as the mixture of their speeds."""

    points: Ints
    """Amounts a GPU, by resource."""
    speeds: Floats


def stretches(
    models: ModelTable, model: int, most: Ints, share: Ints, requested: Ints, least: float
) -> list[Stretch]:
    """Return what is worth giving each GPU within `most`: at least as fast as `least`, not less than requested.

    Speed is linear in CPUs between measured points, at measured memory. There a stretch goes as far as the slope
    falls. Memory is a measured amount, the share or all of `most`; never less than the least measured, the share and
    the request allow. Where the speed also depends on storage, a stretch is one point.
    """
    entry = models[model]
    at_least = np.maximum(share, requested)
    if entry["n_cpus"] == 0:
        return [Stretch(at_least[None], np.array([speed_at(models, model, share)]))]
    if entry["batch_gb"] > 0:
        points, speeds = choices(models, model, np.maximum(most, requested), share, at_least, requested)
        return [Stretch(points[at : at + 1], speeds[at : at + 1]) for at in range(len(speeds))]
    measured = np.floor(entry["memory"][: entry["n_memory"]] * MICRO + 0.5).astype(np.int64)
    lowest = max(int(requested[2]), min(int(measured[0]), int(share[2])))
    lines = np.concatenate([[lowest], measured[1:], [share[2], most[2]]])
    usable = (lines >= lowest) & (lines <= most[2]) & ((lines <= measured[-1]) | (lines == lowest))
    found: list[Stretch] = []
    for memory in np.unique(lines[usable]).tolist():
        for stretch in _along(models, model, memory, most, share, requested, least):
            if not any(_covers(other, stretch) for other in found):
                found.append(stretch)
    return found


def _along(
    models: ModelTable, model: int, memory: int, most: Ints, share: Ints, requested: Ints, least: float
) -> list[Stretch]:
    """Return the stretches at one amount of memory, in which more CPUs are faster, from the speed `least` on."""
    entry = models[model]
    measured = np.floor(entry["cpus"][: entry["n_cpus"]] * MICRO + 0.5).astype(np.int64)
    axis = np.unique(np.concatenate([[0], measured, [requested[1], share[1], most[1]]]))
    axis = axis[(axis >= requested[1]) & (axis <= most[1])]
    points = np.tile(requested, (len(axis), 1))
    points[:, 1], points[:, 2], points[:, 3:BUILT_IN_COUNT] = axis, memory, 0
    speeds = np.array([speed_at(models, model, point) for point in points])
    if not len(axis) or speeds[-1] < least * (1 - _ROUNDING):
        return []
    first = int(np.searchsorted(speeds, least * (1 - _ROUNDING)))
    if first > 0 and speeds[first] > least:
        part = (least - speeds[first - 1]) / (speeds[first] - speeds[first - 1])
        points[first - 1, 1] += int(np.ceil(part * (axis[first] - axis[first - 1])))
        speeds[first - 1] = speed_at(models, model, points[first - 1])
        first -= 1
    last = int(np.searchsorted(speeds, speeds[-1] * (1 - _ROUNDING)))
    points, speeds = points[first : last + 1], speeds[first : last + 1]
    if len(speeds) < 2:
        return [Stretch(points, speeds)]
    slopes = np.diff(speeds) / np.maximum(np.diff(points[:, 1]), 1)
    bends = np.diff(slopes)
    steep = _ROUNDING * np.abs(slopes).max()
    cuts = [0, *(1 + np.flatnonzero(bends > steep)).tolist(), len(slopes)]
    corner = np.concatenate([[True], np.abs(bends) > steep, [True]])
    return [
        Stretch(
            points[left : right + 1][corner[left : right + 1]],
            speeds[left : right + 1][corner[left : right + 1]],
        )
        for left, right in pairwise(cuts)
    ]


def _covers(other: Stretch, stretch: Stretch) -> bool:
    """Whether the other stretch, with no more memory, is nowhere slower."""
    cpus, own = other.points[:, 1], stretch.points[:, 1]
    if own[0] < cpus[0]:
        return False
    reached = np.interp(own, cpus, other.speeds)
    return bool((reached >= stretch.speeds * (1 - _ROUNDING)).all())
