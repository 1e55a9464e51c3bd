"""Layers of one model from a profile: a file of them, or one that was read."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from muster.problems import InputError, Problem
from muster.speed.network.layers import read_layers
from muster.speed.network.models import LayeredModel
from muster.speed.parameter_server.layers import Layers


def profiled_layers(path: Path, model: str, profiled_batch: int | None = None) -> Layers:
    """The layers of `model`, measured on batches of `profiled_batch` samples; None: of what its file says."""
    profile = profiled_model(path, model, profiled_batch)
    return layers_of(profile, profile.batch, str(path))


def profiled_model(path: Path, model: str, profiled_batch: int | None = None) -> LayeredModel:
    """The profile of the file, with the given batch."""
    profiles = read_layers(path)
    problems = []
    if model not in profiles:
        problems.append(Problem(str(path), f"has no such model; allowed: {', '.join(profiles)}", found=model))
    if profiled_batch is not None and profiled_batch < 1:
        problems.append(Problem("--profile-batch", "allowed: a whole number from 1 on", found=profiled_batch))
    if problems:
        raise InputError(*problems)
    profile = profiles[model]
    batch = profile.batch if profiled_batch is None else float(profiled_batch)
    if math.isnan(batch):
        what = "allowed: the samples a batch of the profile: a column batch, or --profile-batch"
        raise InputError(Problem(str(path), what, found=model))
    return replace(profile, batch=batch)


def layers_of(profile: LayeredModel, batch: float, where: str) -> Layers:
    """The layers of a profile that was measured on batches of so many samples."""
    return Layers.checked(
        profile.forward_seconds / batch,
        profile.input_gradient_seconds + profile.weight_gradient_seconds,
        profile.gradient_gb,
        where=where,
    )
