"""What the network model knows of a training job, in three forms of falling detail.

`LayeredModel`: every layer's times and gradient (a `--layers` file). `CompactModel`: a few numbers
from which like layers are made, fitted to a layered one. `MeasuredModel`: the fit of measured step times.
All seconds are of one iteration on one GPU, all sizes in GB.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from muster.cluster.portable_math import power

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Messages:
    """The gradients of an iteration in the order in which the backward pass makes them."""

    compute_seconds: float
    ready_seconds: Floats
    """Since the start of the iteration."""
    gradient_gb: Floats
    update_seconds: Floats
    """From the reduced gradient to the updated weights."""


@dataclass(frozen=True)
class LayeredModel:
    """Layers from first to last, as profiled."""

    name: str
    forward_seconds: Floats
    input_gradient_seconds: Floats
    weight_gradient_seconds: Floats
    gradient_gb: Floats
    update_seconds: Floats
    batch: float = math.nan
    """Samples of the iteration; NaN: not stated."""
    compute_scale: float = 1.0
    """By which the profiled times are multiplied."""
    profiled: LayeredModel | None = None
    """The model before scaling; None: this one."""

    def messages(self) -> Messages:
        """One message a layer; the first layer needs no input gradient (Dally "Network model")."""
        backward = self.weight_gradient_seconds[::-1] + self.input_gradient_seconds[::-1]
        ready = np.cumsum(backward) - self.input_gradient_seconds[::-1] + self.forward_seconds.sum()
        return Messages(float(ready[-1]), ready, self.gradient_gb[::-1], self.update_seconds[::-1])

    def scaled(self, factor: float) -> LayeredModel:
        """The model on GPUs that compute in `factor` of the time; updates stay as they are."""
        base, scale = self.profiled or self, self.compute_scale * factor
        return replace(
            base,
            forward_seconds=base.forward_seconds * scale,
            input_gradient_seconds=base.input_gradient_seconds * scale,
            weight_gradient_seconds=base.weight_gradient_seconds * scale,
            compute_scale=scale,
            profiled=base,
        )


@dataclass(frozen=True)
class CompactModel:
    """Layers in a few numbers: message i of n is ready, and has been sent, along two power laws of i/n."""

    name: str
    compute_seconds: float
    messages_per_iteration: int
    gradient_gb: float
    """All gradients together."""
    first_ready_share: float
    """Share of the compute after which the last layer's gradient is there."""
    ready_power: float
    """Above 1: most gradients appear early in the backward pass."""
    gradient_power: float
    """Below 1: the last layers hold most of the gradient that is not in the largest message."""
    largest_share: float
    """Of the gradient, in the largest message."""
    largest_at: float
    """Which message that is, as a share of them all; 0: the last layer's, which comes first."""
    update_seconds: float
    """Of the one message that has an update worth counting."""
    update_at: float
    """Which message that is, as a share of them all."""

    def messages(self) -> Messages:
        """The made layers."""
        count = self.messages_per_iteration
        passed = np.arange(count) / max(count - 1, 1)
        share = self.first_ready_share
        ready = self.compute_seconds * (share + (1.0 - share) * power(passed, self.ready_power))
        ready[-1] = self.compute_seconds
        gradient = np.ones(1)
        if count > 1:
            others = np.diff(power(np.linspace(0.0, 1.0, count), self.gradient_power))
            others *= 1.0 - self.largest_share
            gradient = np.insert(others, self._position(self.largest_at), self.largest_share)
        update = np.zeros(count)
        update[self._position(self.update_at)] = self.update_seconds
        return Messages(self.compute_seconds, ready, self.gradient_gb * gradient, update)

    def _position(self, share: float) -> int:
        return min(round(share * (self.messages_per_iteration - 1)), self.messages_per_iteration - 1)

    def scaled(self, factor: float) -> CompactModel:
        """The model on GPUs that compute in `factor` of the time; updates stay as they are."""
        return replace(self, compute_seconds=self.compute_seconds * factor)


@dataclass(frozen=True)
class MeasuredModel:
    """Step seconds on n GPUs: (compute^k + net^k)^(1/k), net = a + b max(n - 2, 0) (Pollux §3.2)."""

    name: str
    compute_seconds: float
    local_seconds: float
    """a within one machine."""
    local_seconds_per_gpu: float
    """b within one machine."""
    uplink_seconds: float | None
    """a across machines; None: not known, and taken to be as within one."""
    uplink_seconds_per_gpu: float | None
    """b across machines."""
    overlap: float
    """k: 1, nothing of the communication hides behind the compute; 10, nearly all of it."""
    nic_gb_per_s: float | None
    """Network card of the machines it was measured on: uplink seconds grow as cards get slower."""

    def scaled(self, factor: float) -> MeasuredModel:
        """The model on GPUs that compute in `factor` of the time."""
        return replace(self, compute_seconds=self.compute_seconds * factor)


NetworkModel = LayeredModel | CompactModel | MeasuredModel
