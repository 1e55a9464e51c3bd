"""From the shape of a placement to the dimensions over which its all-reduce runs, innermost first.

Two flavours. `physical`: every level that is spread evenly is a dimension whose uplink its GPUs share;
where it is not, one flat ring passes each uplink once. `astra`: the published constants as the ASTRA-sim
backend of Dally reads them (papers' file "Network model"), with a link of its own for every GPU, for parity.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from muster.compiling import njit
from muster.speed.network.overlap import MOST_DIMENSIONS
from muster.speed.network.placement import EVEN_ISLANDS, EVEN_MACHINES, EVEN_RACKS

FLAVOURS = ("physical", "astra")
"""Known to the compiled code by their position."""
PHYSICAL, ASTRA = range(2)
ISLAND, NODE, RACK, CLUSTER = range(4)
HOPS_OVER_SWITCH = 2.0
"""Racks meet in a switch; all other neighbours are one hop apart."""
ASTRA_GB_PER_S = 1.073741824
"""ASTRA-sim reads 1 GB/s as 2^30 bytes a second; in units of 10^9."""


@njit(cache=True)
def dimensions(
    flavour: int,
    shape: np.void,
    level_gb_per_s: npt.NDArray[np.float64],
    hop_seconds: npt.NDArray[np.float64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Size, seconds to the neighbour and GB/s a GPU of every dimension, innermost first."""
    if flavour == ASTRA:
        sizes, levels = astra_sizes(shape)
        rates = np.empty(sizes.size)
        for d in range(sizes.size):
            rates[d] = level_gb_per_s[levels[d]] * ASTRA_GB_PER_S * astra_links(levels[d], sizes[d])
    else:
        sizes, levels = _even_sizes(shape)
        rates = _shared_rates(shape, sizes, levels, level_gb_per_s)
    seconds = np.empty(sizes.size)
    for d in range(sizes.size):
        seconds[d] = hop_seconds[levels[d]] * (HOPS_OVER_SWITCH if levels[d] == CLUSTER else 1.0)
    return sizes, seconds, rates


@njit(cache=True)
def _even_sizes(shape: np.void) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Sizes and levels, innermost first; the first uneven level from above takes all GPUs below it."""
    sizes = np.empty(MOST_DIMENSIONS, dtype=np.int64)
    levels = np.empty(MOST_DIMENSIONS, dtype=np.int64)
    count = 0
    left = shape["gpus"]
    above = 1
    for level, units, even in (
        (CLUSTER, shape["racks"], EVEN_RACKS),
        (RACK, shape["machines"], EVEN_MACHINES),
        (NODE, shape["islands"], EVEN_ISLANDS),
    ):
        if left > 1 and units > above:
            sizes[count] = units // above if shape["even"] & even else left
            levels[count] = level
            left //= sizes[count]
            count += 1
        above = units
    if left > 1:
        sizes[count], levels[count] = left, ISLAND
        count += 1
    return sizes[:count][::-1].copy(), levels[:count][::-1].copy()


@njit(cache=True)
def _shared_rates(
    shape: np.void,
    sizes: npt.NDArray[np.int64],
    levels: npt.NDArray[np.int64],
    level_gb_per_s: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """GB/s a GPU: the GPUs of one unit share its uplink; a flat ring crosses each uplink only once."""
    rates = np.empty(sizes.size)
    sharing = 1
    for d in range(sizes.size):
        uplink = level_gb_per_s[levels[d]]
        if levels[d] == RACK:
            uplink = shape["machine_gb_per_s"]
        elif levels[d] == CLUSTER:
            machines = shape["machines"] // shape["racks"] if sharing > 1 else 1
            uplink = min(machines * min(uplink, shape["machine_gb_per_s"]), shape["rack_gb_per_s"])
        rates[d] = uplink / sharing
        sharing *= sizes[d]
    return rates


@njit(cache=True)
def astra_sizes(shape: np.void) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The published rule: it looks at totals only, so an uneven placement may pass for an even one."""
    sizes = np.empty(MOST_DIMENSIONS, dtype=np.int64)
    levels = np.empty(MOST_DIMENSIONS, dtype=np.int64)
    count = 0
    left = shape["gpus"]
    for level, units in ((CLUSTER, shape["racks"]), (RACK, shape["machines"]), (NODE, shape["islands"])):
        if left > 1 and units > 1:
            flat = left % units != 0 or (left == units and level != CLUSTER)
            sizes[count] = left if flat else units
            levels[count] = level
            left //= sizes[count]
            count += 1
    if left > 1:
        sizes[count], levels[count] = left, ISLAND
        count += 1
    return sizes[:count][::-1].copy(), levels[:count][::-1].copy()


@njit(cache=True)
def astra_links(level: int, size: int) -> int:
    """How many links of the dimension the backend adds up for one GPU."""
    if level == CLUSTER:
        return size
    if size == 2:
        return 2 if level == ISLAND else 4
    return 1 if level == ISLAND else size + size % 2
