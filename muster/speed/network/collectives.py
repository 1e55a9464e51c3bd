"""All-reduce algorithms as closed forms, and how they stack on a hierarchy of links.

Every form is linear in the message: seconds = latency + seconds_per_gb * gigabytes. `hop_seconds` is the
time a bit needs to its neighbour (hops x latency of one), `gb_per_s` what one GPU can send while it
receives as much. Sources: Dally "Network model"; Thakur et al. 2005 (halving-doubling); Sanders, Speck and
Traeff 2009 (two trees).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from muster.compiling import njit

ALGORITHMS = ("ring", "halving-doubling", "direct", "double-binary-tree")
"""Known to the compiled code by their position."""
HIERARCHIES = ("baseline", "bandwidth-aware")
"""Known to the compiled code by their position."""
RING, HALVING_DOUBLING, DIRECT, DOUBLE_BINARY_TREE = range(4)
BASELINE, BANDWIDTH_AWARE = range(2)


@njit(cache=True)
def all_reduce(algorithm: int, gpus: int, hop_seconds: float, gb_per_s: float) -> tuple[float, float]:
    """Latency seconds and seconds per GB of an all-reduce over one flat group of GPUs."""
    if gpus <= 1:
        return 0.0, 0.0
    everything_twice = 2.0 * (gpus - 1) / gpus / gb_per_s
    if algorithm == RING:
        return 2.0 * (gpus - 1) * hop_seconds, everything_twice
    if algorithm == HALVING_DOUBLING:
        return _halving_doubling(gpus, hop_seconds, gb_per_s)
    if algorithm == DIRECT:
        return 2.0 * hop_seconds, everything_twice
    return _double_binary_tree(gpus, hop_seconds, gb_per_s)


@njit(cache=True)
def _halving_doubling(gpus: int, hop_seconds: float, gb_per_s: float) -> tuple[float, float]:
    """GPUs beyond a power of two first hand all they have to a partner and get the result back at the end."""
    power, steps = 1, 0
    while power * 2 <= gpus:
        power, steps = power * 2, steps + 1
    latency = 2.0 * steps * hop_seconds
    per_gb = 2.0 * (power - 1) / power / gb_per_s
    if power < gpus:
        latency += 2.0 * hop_seconds
        per_gb += 2.0 / gb_per_s
    return latency, per_gb


@njit(cache=True)
def _double_binary_tree(gpus: int, hop_seconds: float, gb_per_s: float) -> tuple[float, float]:
    """Half of the message up and down each of two trees, in chunks so small that they form a stream.

    A GPU is a leaf of one tree and has two children in the other, so it receives the whole message once a
    direction; two GPUs have one child each and exchange halves.
    """
    depth = 0
    while 2 ** (depth + 1) <= gpus:
        depth += 1
    share = 0.5 if gpus == 2 else 1.0
    return 2.0 * depth * hop_seconds, 2.0 * share / gb_per_s


@njit(cache=True)
def stack(
    algorithm: int,
    hierarchy: int,
    sizes: npt.NDArray[np.int64],
    hop_seconds: npt.NDArray[np.float64],
    gb_per_s: npt.NDArray[np.float64],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Latency seconds and seconds per GB of the message in each dimension, innermost first.

    `baseline` all-reduces the whole message in every dimension in turn. `bandwidth-aware` reduce-scatters on
    the way up and all-gathers on the way down, so a dimension carries only the share that the ones
    inside it left to each GPU; the way down is charged together with the way up of the same dimension.
    """
    latency = np.zeros(sizes.size)
    per_gb = np.zeros(sizes.size)
    share = 1.0
    for d in range(sizes.size):
        latency[d], whole = all_reduce(algorithm, sizes[d], hop_seconds[d], gb_per_s[d])
        per_gb[d] = whole * share
        if hierarchy == BANDWIDTH_AWARE:
            share /= sizes[d]
    return latency, per_gb
