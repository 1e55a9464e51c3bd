"""The layered iteration as events, one after the other: what the closed forms in `step_time` mean."""

from __future__ import annotations

from muster.problems import InputError, Problem
from muster.speed.parameter_server.layers import Layers


def iteration_ends(
    layers: Layers,
    batch: float,
    nic_gb_per_s: float,
    workers: float,
    servers: float,
    iterations: int = 1,
    staleness: int = 0,
) -> list[float]:
    """The second at which each iteration's last parameter is back at the workers (SMD, layered model).

    Backward runs from the last layer to the first; a layer's gradients and new parameters take the one
    channel when they are ready and it is free. An iteration starts when the worker is free and all updates
    but those of the last `staleness` iterations have arrived.
    """
    if nic_gb_per_s <= 0:
        raise InputError(Problem("nic_gb_per_s", "allowed: a number above 0", found=nic_gb_per_s))
    forward = batch * float(layers.forward_seconds_per_sample.sum()) / workers
    transfers = 2 * layers.gradient_gb / nic_gb_per_s * (workers / servers)
    worker_free = channel_free = 0.0
    ends: list[float] = []
    for iteration in range(iterations):
        needed = iteration - 1 - staleness
        start = max(worker_free, ends[needed] if needed >= 0 else 0.0)
        worker_free = start + forward
        for layer in reversed(range(len(layers))):
            worker_free += float(layers.backward_seconds[layer])
            channel_free = max(channel_free, worker_free) + float(transfers[layer])
        ends.append(channel_free)
    return ends
