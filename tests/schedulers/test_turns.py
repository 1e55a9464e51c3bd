"""The picture of GPUs on which jobs take turns: where a job joins others, and what shares of GPUs leave free."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.schedulers.time_sharing.gpu_occupancy import GpuOccupancy, gpus_of
from tests.building import cluster_of
from tests.schedulers.synergy_cases import round_of


@dataclass(frozen=True)
class Crowd:
    """Jobs on a cluster, and how many there are on each GPU; inf where no other may join them."""

    floor: GpuOccupancy
    joinable: dict[tuple[int, int], float]
    """By node and GPU."""
    allowed: np.ndarray
    most_turns: int

    def levels(self, nodes: list[int], gpus: int) -> float:
        """Turns on the most crowded of the least crowded GPUs of these nodes; inf where there are too few."""
        here = sorted(turns for (node, _), turns in self.joinable.items() if node in nodes)
        return here[gpus - 1] if len(here) >= gpus else inf


@st.composite
def crowds(draw: st.DrawFn) -> Crowd:
    """Jobs of one and two GPUs, each on one node, on up to six nodes in two racks."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    racks = min(2, len(sizes))
    places = draw(st.lists(st.tuples(st.integers(0, len(sizes) - 1), st.integers(1, 15)), max_size=12))
    case = round_of(cluster_of(*sizes, racks=racks), [("", 1)] * max(len(places), 1))
    floor = GpuOccupancy(case.snapshot, np.zeros(len(places) + 1, np.bool_))
    allowed = np.array([draw(st.sampled_from([True, True, True, False])) for _ in sizes])
    turns = np.zeros((len(sizes), 4))
    for at, (node, mask) in enumerate(places):
        one_or_two = [gpu for gpu in range(sizes[node]) if mask >> gpu & 1][:2]
        if one_or_two:
            floor.put(at, ((node, sum(1 << gpu for gpu in one_or_two)),))
            turns[node, one_or_two] += 1
    guarded = draw(st.sets(st.sampled_from(sorted(floor.places)))) if floor.places else set()
    most_turns = draw(st.integers(1, 4))
    joinable = {
        (node, gpu): turns[node, gpu]
        for node, size in enumerate(sizes)
        for gpu in range(size)
        if allowed[node] and turns[node, gpu] < most_turns
    }
    for at in guarded:
        floor.guard(at)
        for node, mask in floor.places[at]:
            for gpu in range(sizes[node]):
                if mask >> gpu & 1:
                    joinable.pop((node, gpu), None)
    return Crowd(floor, joinable, allowed, most_turns)


@given(crowd=crowds(), gpus=st.integers(3, 12))
@settings(max_examples=400, deadline=None)
def test_a_gang_joins_the_least_crowded_node_rack_or_all(crowd: Crowd, gpus: int) -> None:
    """No job has its size, so that nothing binds it to a place."""
    place = crowd.floor.shared_place(gpus, crowd.allowed, crowd.most_turns)
    nodes = range(len(crowd.allowed))
    racks = crowd.floor.racks.tolist()
    units = [
        [[node] for node in nodes],
        [[node for node in nodes if racks[node] == rack] for rack in sorted(set(racks))],
        [list(nodes)],
    ]
    levels = [min(crowd.levels(unit, gpus) for unit in of_kind) for of_kind in units]
    kind = next((kind for kind, level in enumerate(levels) if level < inf), None)
    if place is None or kind is None:
        assert (place, kind) == (None, None)
        return
    taken = {(node, gpu) for node, mask in place for gpu in range(4) if mask >> gpu & 1}
    assert len(taken) == gpus_of(place) == gpus
    assert max(crowd.joinable.get(gpu, inf) for gpu in taken) == levels[kind]
    unit = next(unit for unit in units[kind] if {node for node, _ in place} <= set(unit))
    counts = sorted(
        (
            sum(turns <= levels[kind] for (at, _), turns in crowd.joinable.items() if at == node)
            for node in unit
        ),
        reverse=True,
    )
    fewest = next(number for number in range(1, len(counts) + 1) if sum(counts[:number]) >= gpus)
    assert len(place) == fewest


@given(shares=st.lists(st.sampled_from([250, 400, 600, 1000]), min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
def test_a_gpu_in_shares_is_not_free_for_a_gang(shares: list[int]) -> None:
    """Best fit of shares over two nodes; what no share is on stays free, and nothing else."""
    floor = GpuOccupancy(round_of(cluster_of(2, 3), [("", 1)]).snapshot, np.zeros(1, np.bool_))
    allowed = np.ones(2, np.bool_)
    rooms: dict[tuple[int, int], int] = {}
    for milli in shares:
        found = floor.divide(milli, allowed)
        fitting = [room for room in rooms.values() if room >= milli]
        if found is None:
            assert not fitting
            assert len(rooms) == 5
            continue
        assert rooms.get(found, 1000) == min(fitting, default=1000)
        assert fitting or found not in rooms
        rooms[found] = rooms.get(found, 1000) - milli
        for node, gpus in enumerate((2, 3)):
            free = gpus - sum(at == node for at, _ in rooms)
            only_it = np.arange(2) == node
            assert floor.free[node] == free
            for wanted in range(1, 4):
                place = floor.fullest_place(wanted, only_it)
                assert (place is not None) == (free >= wanted)
                assert place is None or gpus_of(place) == wanted
