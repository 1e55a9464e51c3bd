"""Layers of one model from a file of layer profiles."""

from __future__ import annotations

from pathlib import Path

from muster.problems import BadInput, Problem
from muster.speed.network.layers import read_layers
from muster.speed.parameter_server.layers import Layers


def profiled_layers(path: Path, model: str, profiled_batch: int) -> Layers:
    """The layers of `model`, whose times were measured on batches of `profiled_batch` samples."""
    profiles = read_layers(path)
    problems = []
    if model not in profiles:
        problems.append(Problem(str(path), f"has no such model; it has {', '.join(profiles)}", found=model))
    if profiled_batch < 1:
        problems.append(Problem("profiled batch", "a whole number from 1 on is needed", found=profiled_batch))
    if problems:
        raise BadInput(*problems)
    profile = profiles[model]
    return Layers.checked(
        profile.forward_seconds / profiled_batch,
        profile.input_gradient_seconds + profile.weight_gradient_seconds,
        profile.gradient_gb,
        where=str(path),
    )
