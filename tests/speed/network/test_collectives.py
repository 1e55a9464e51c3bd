"""The closed forms against collectives played step by step, with the numbers really summed."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from muster.speed.network.collectives import (
    ALGORITHMS,
    BANDWIDTH_AWARE,
    BASELINE,
    DOUBLE_BINARY_TREE,
    HALVING_DOUBLING,
    RING,
    all_reduce,
    stack,
)

HOP, RATE, GB = 3e-6, 25.0, 1.7
Values = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


def step(gb_sent: float) -> float:
    """Everybody sends so much at once."""
    return HOP + gb_sent / RATE


def play_ring(held: Values) -> float:
    """`held[rank, chunk]`; everybody passes one chunk on a step."""
    n = held.shape[0]
    seconds = 0.0
    for phase, turn in itertools.product((0, 1), range(n - 1)):
        before = held.copy()
        for rank in range(n):
            chunk = (rank - turn + phase) % n
            target = (rank + 1) % n
            held[target, chunk] = before[rank, chunk] + (held[target, chunk] if phase == 0 else 0)
        seconds += step(GB / n)
    return seconds


def play_direct(held: Values) -> float:
    n = held.shape[0]
    totals = held.sum(axis=0)
    for rank in range(n):
        held[rank, rank] = totals[rank]
    seconds = step((n - 1) * GB / n)
    for chunk in range(n):
        held[:, chunk] = held[chunk, chunk]
    return seconds + step((n - 1) * GB / n)


def play_halving_doubling(held: Values) -> float:
    n = held.shape[0]
    power = 1 << (n.bit_length() - 1)
    seconds = 0.0
    if power < n:
        for rank in range(power, n):
            held[rank - power] += held[rank]
        seconds += step(GB)
    owned = {rank: np.arange(held.shape[1]) for rank in range(power)}
    distance = power // 2
    while distance:
        before = held.copy()
        for rank in range(power):
            half = np.array_split(owned[rank], 2)[1 if rank & distance else 0]
            held[rank, half] += before[rank ^ distance, half]
            owned[rank] = half
        seconds += step(owned[0].size / held.shape[1] * GB)
        distance //= 2
    distance = 1
    while distance < power:
        before = held.copy()
        seconds += step(owned[0].size / held.shape[1] * GB)
        for rank in range(power):
            held[rank, owned[rank ^ distance]] = before[rank ^ distance, owned[rank ^ distance]]
        owned = {rank: np.sort(np.append(owned[rank], owned[rank ^ distance])) for rank in range(power)}
        distance *= 2
    if power < n:
        held[power:] = held[: n - power]
        seconds += step(GB)
    return seconds


@pytest.mark.parametrize("gpus", [2, 3, 4, 5, 6, 8, 13, 16])
@pytest.mark.parametrize(
    ("algorithm", "play"),
    [("ring", play_ring), ("direct", play_direct), ("halving-doubling", play_halving_doubling)],
)
def test_closed_form_is_the_time_of_the_played_collective(
    algorithm: str, play: Callable[[Values], float], gpus: int
) -> None:
    chunks = 16 if algorithm == "halving-doubling" else gpus
    held = np.random.default_rng(gpus).integers(0, 1000, (gpus, chunks))
    totals = held.sum(axis=0)
    seconds = play(held)
    assert (held == totals).all()
    latency, per_gb = all_reduce(ALGORITHMS.index(algorithm), gpus, HOP, RATE)
    assert latency + per_gb * GB == pytest.approx(seconds, rel=1e-12)


def binary_tree(positions: list[int], parent: int, parents: dict[int, int]) -> None:
    """Fills `parents` with the balanced tree in which positions stand in order."""
    if positions:
        middle = len(positions) // 2
        parents[positions[middle]] = parent
        binary_tree(positions[:middle], positions[middle], parents)
        binary_tree(positions[middle + 1 :], positions[middle], parents)


def two_trees(gpus: int) -> list[dict[int, int]]:
    """Parents by rank in either tree (root: -1), so that who has children in one is a leaf of the other."""
    parents: dict[int, int] = {}
    if gpus & (gpus - 1) == 0:
        parents[0] = -1
        binary_tree(list(range(1, gpus)), 0, parents)
        other = {position: gpus - 1 - position for position in range(gpus)}
    else:
        binary_tree(list(range(gpus)), -1, parents)
        other = {position: (position - 1) % gpus for position in range(gpus)}
    second = {other[rank]: (-1 if above < 0 else other[above]) for rank, above in parents.items()}
    return [parents, second]


Edge = tuple[int, int, int]
"""Tree, child, parent."""


def two_colours(edges: list[Edge]) -> dict[Edge, int]:
    """Edges with a common sender or a common receiver get different colours (Sanders et al. 2009)."""
    colours: dict[Edge, int] = {}
    for start in edges:
        stack_of_edges = [] if start in colours else [(start, 0)]
        while stack_of_edges:
            edge, colour = stack_of_edges.pop()
            if edge not in colours:
                colours[edge] = colour
                beside = [e for e in edges if e != edge and (e[1] == edge[1] or e[2] == edge[2])]
                stack_of_edges += [(e, 1 - colour) for e in beside]
            assert colours[edge] == colour
    return colours


def reduce_rounds(gpus: int, chunks: int) -> int:
    """Rounds to reduce `chunks` chunks up each tree, if a GPU sends one and receives one a round."""
    edges = [
        (t, rank, above)
        for t, tree in enumerate(two_trees(gpus))
        for rank, above in tree.items()
        if above >= 0
    ]
    colours = two_colours(edges)
    below = {edge: [e for e in edges if e[0] == edge[0] and e[2] == edge[1]] for edge in edges}
    several = len(set(colours.values()))
    sent = dict.fromkeys(edges, 0)
    rounds = 0
    while min(sent.values()) < chunks:
        before = sent.copy()
        for edge in edges:
            if colours[edge] == rounds % several and before[edge] < min(
                [chunks, *(before[e] for e in below[edge])]
            ):
                sent[edge] += 1
        rounds += 1
    return rounds


@pytest.mark.parametrize("gpus", [2, 3, 4, 7, 8, 15, 16])
def test_double_tree_streams_at_the_rate_of_the_closed_form(gpus: int) -> None:
    chunks = 200
    latency, per_gb = all_reduce(DOUBLE_BINARY_TREE, gpus, HOP, RATE)
    chunk_seconds = GB / 2 / chunks / RATE
    rounds_up = per_gb * GB / 2 / chunk_seconds
    assert rounds_up - 1e-6 <= reduce_rounds(gpus, chunks) <= rounds_up + 2 * np.log2(gpus)
    depth = max(depth_of(rank, tree) for tree in two_trees(gpus) for rank in tree)
    assert latency == pytest.approx(2 * depth * HOP)


def depth_of(rank: int, tree: dict[int, int]) -> int:
    return 0 if tree[rank] < 0 else 1 + depth_of(tree[rank], tree)


def test_nothing_to_reduce_on_one_gpu() -> None:
    for algorithm in range(len(ALGORITHMS)):
        assert all_reduce(algorithm, 1, HOP, RATE) == (0.0, 0.0)


@pytest.mark.parametrize("inner", [2, 3, 4])
@pytest.mark.parametrize("outer", [2, 5])
def test_hierarchies_sum_up_what_is_played_in_every_dimension(inner: int, outer: int) -> None:
    """Played with rings: the whole message in each dimension, or only the share each GPU is left with."""
    hops, rates = np.array([1e-6, 9e-6]), np.array([300.0, 10.0])
    sizes = np.array([inner, outer])

    def rounds(size: int, gb: float, d: int) -> float:
        return float((size - 1) * (hops[d] + gb / size / rates[d]))

    whole = 2 * rounds(inner, GB, 0) + 2 * rounds(outer, GB, 1)
    scatter, gather = rounds(inner, GB, 0), rounds(inner, GB, 0)
    shared = scatter + 2 * rounds(outer, GB / inner, 1) + gather
    for hierarchy, seconds in ((BASELINE, whole), (BANDWIDTH_AWARE, shared)):
        latency, per_gb = stack(RING, hierarchy, sizes, hops, rates)
        assert latency.sum() + per_gb.sum() * GB == pytest.approx(seconds, rel=1e-12)


def test_powers_of_two_need_only_a_logarithm_of_the_ring_latency() -> None:
    ring, _ = all_reduce(RING, 64, HOP, RATE)
    halving, _ = all_reduce(HALVING_DOUBLING, 64, HOP, RATE)
    assert ring / halving == pytest.approx(63 / 6)
