"""All-reduce algorithms as closed forms, and how they stack on a hierarchy of links.

Every form is linear in the message: seconds = latency + seconds_per_gb * gigabytes. `hop_seconds` is the
time a bit needs to its neighbour (hops x latency of one), `gb_per_s` what one GPU can send while it
receives as much. Sources: Dally "Network model"; Thakur et al. 2005 (halving-doubling); Sanders, Speck and
Traeff 2009 (two trees).
"""

import numpy as np

from muster.cluster.arrays cimport Floats, Ints, floats, ints

ALGORITHMS = ("ring", "halving-doubling", "direct", "double-binary-tree")
HIERARCHIES = ("baseline", "bandwidth-aware")


# Of an all-reduce over one flat group of GPUs.
cdef struct Cost:
    double latency_seconds
    double seconds_per_gb


cdef Cost _halving_doubling(int64_t gpus, double hop_seconds, double gb_per_s) noexcept nogil:
    """GPUs beyond a power of two first hand all they have to a partner and get the result back at the end."""
    cdef Cost cost
    cdef int64_t power = 1, steps = 0
    while power * 2 <= gpus:
        power, steps = power * 2, steps + 1
    cost.latency_seconds = 2.0 * steps * hop_seconds
    cost.seconds_per_gb = 2.0 * (power - 1) / power / gb_per_s
    if power < gpus:
        cost.latency_seconds += 2.0 * hop_seconds
        cost.seconds_per_gb += 2.0 / gb_per_s
    return cost


cdef Cost _double_binary_tree(int64_t gpus, double hop_seconds, double gb_per_s) noexcept nogil:
    """Half of the message up and down each of two trees, in chunks so small that they form a stream.

    A GPU is a leaf of one tree and has two children in the other, so it receives the whole message once a
    direction; two GPUs have one child each and exchange halves.
    """
    cdef Cost cost
    cdef int64_t depth = 0, leaves = 2
    cdef double share = 0.5 if gpus == 2 else 1.0
    while leaves <= gpus:
        depth, leaves = depth + 1, leaves * 2
    cost.latency_seconds = 2.0 * depth * hop_seconds
    cost.seconds_per_gb = 2.0 * share / gb_per_s
    return cost


cdef Cost _of_group(int64_t algorithm, int64_t gpus, double hop_seconds, double gb_per_s) noexcept nogil:
    """Latency seconds and seconds per GB of an all-reduce over one flat group of GPUs."""
    cdef Cost cost
    cost.latency_seconds = cost.seconds_per_gb = 0.0
    if gpus <= 1:
        return cost
    if algorithm == HALVING_DOUBLING:
        return _halving_doubling(gpus, hop_seconds, gb_per_s)
    if algorithm == DOUBLE_BINARY_TREE:
        return _double_binary_tree(gpus, hop_seconds, gb_per_s)
    cost.latency_seconds = 2.0 * hop_seconds
    if algorithm == RING:
        cost.latency_seconds = 2.0 * (gpus - 1) * hop_seconds
    cost.seconds_per_gb = 2.0 * (gpus - 1) / gpus / gb_per_s
    return cost


cdef Costs stacked(int64_t algorithm, int64_t hierarchy, Links* links) noexcept nogil:
    """Latency seconds and seconds per GB of the message in each dimension, innermost first.

    `baseline` all-reduces the whole message in every dimension in turn. `bandwidth-aware` reduce-scatters on
    the way up and all-gathers on the way down, so a dimension carries only the share that the ones
    inside it left to each GPU; the way down is charged together with the way up of the same dimension.
    """
    cdef Costs costs
    cdef Cost cost
    cdef double share = 1.0
    cdef int64_t d
    costs.dimensions, costs.within_machine = links.dimensions, links.within_machine
    for d in range(links.dimensions):
        cost = _of_group(algorithm, links.sizes[d], links.hop_seconds[d], links.gb_per_s[d])
        costs.latency_seconds[d] = cost.latency_seconds
        costs.seconds_per_gb[d] = cost.seconds_per_gb * share
        if hierarchy == BANDWIDTH_AWARE:
            share /= links.sizes[d]
    return costs


def all_reduce(int64_t algorithm, int64_t gpus, double hop_seconds, double gb_per_s):
    """Latency seconds and seconds per GB of an all-reduce over one flat group of GPUs."""
    cdef Cost cost = _of_group(algorithm, gpus, hop_seconds, gb_per_s)
    return cost.latency_seconds, cost.seconds_per_gb


def stack(int64_t algorithm, int64_t hierarchy, sizes, hop_seconds, gb_per_s):
    """Latency seconds and seconds per GB of the message in each dimension, as `stacked` has them."""
    cdef Ints size = ints(sizes)
    cdef Floats hops = floats(hop_seconds), rates = floats(gb_per_s)
    cdef Links links
    cdef Costs costs
    cdef int64_t d
    if size.size > MOST_DIMENSIONS:
        raise ValueError(f"links of {size.size} dimensions; allowed: at most {MOST_DIMENSIONS}")
    links.dimensions, links.within_machine = size.size, 0
    for d in range(size.size):
        links.sizes[d], links.hop_seconds[d], links.gb_per_s[d] = size.at[d], hops.at[d], rates.at[d]
    costs = stacked(algorithm, hierarchy, &links)
    return (
        np.array([costs.latency_seconds[d] for d in range(size.size)], np.float64),
        np.array([costs.seconds_per_gb[d] for d in range(size.size)], np.float64),
    )
