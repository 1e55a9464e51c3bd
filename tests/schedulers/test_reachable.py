"""A gang that may use some nodes only goes by the places that these have."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from muster.cluster import Link, Node
from muster.schedulers.placement.reachable import within_reach
from muster.speed.network.forms import EVENLY, IN_ISLAND, IN_MACHINE, IN_RACK, PlacementShapes
from muster.speed.network_of_jobs import network_of_jobs
from tests.building import cluster_of
from tests.schedulers.synergy_cases import round_of
from tests.schedulers.test_dally_network import LINKS
from tests.schedulers.test_exact_nodes import MODELS


def has_place(form: list[int], gpus: int, nodes: list[Node]) -> bool:
    """By enumeration of sets of empty nodes."""
    kind, machines, racks = form
    if kind == IN_ISLAND:
        return any(min(node.gpus, node.gpus_per_island) >= gpus for node in nodes)
    if kind == IN_MACHINE:
        return any(node.gpus >= gpus for node in nodes)
    if kind == EVENLY:
        for chosen in combinations(nodes, machines):
            counts = [sum(node.rack == rack for node in chosen) for rack in {node.rack for node in chosen}]
            enough = all(node.gpus >= gpus // machines for node in chosen)
            if enough and len(counts) == racks and set(counts) == {machines // racks}:
                return True
        return False
    if kind == IN_RACK:
        return any(
            sum(node.gpus for node in nodes if node.rack == rack) >= gpus for rack in {n.rack for n in nodes}
        )
    return True


@given(
    st.lists(st.tuples(st.sampled_from([2, 4, 8]), st.integers(0, 2), st.booleans()), min_size=2, max_size=5),
    st.lists(
        st.tuples(st.sampled_from(sorted(MODELS)), st.sampled_from([1, 2, 4, 6, 8])), min_size=1, max_size=4
    ),
    st.sampled_from([1.0, 10.0, 100.0]),
)
@settings(max_examples=150, deadline=None)
def test_the_best_place_of_its_own_nodes_comes_first(
    nodes: list[tuple[int, int, bool]], jobs: list[tuple[str, int]], gb_per_s: float
) -> None:
    """By brute force; jobs that may use all nodes, and those as fast on their own, are as before."""
    assume(sum(gpus for gpus, _, _ in nodes) >= max(gpus for _, gpus in jobs))
    plain = cluster_of(*(gpus for gpus, _, _ in nodes))
    racks = sorted({rack for _, rack, _ in nodes})
    made = zip(plain.nodes, nodes, strict=True)
    cluster = replace(
        plain,
        nodes=tuple(
            replace(node, rack=racks.index(rack), nic_gb_per_s=gb_per_s) for node, (_, rack, _) in made
        ),
        racks=tuple(f"rack{rack}" for rack in racks),
        links=replace(LINKS, rack=Link(gb_per_s, 0.0), cluster=Link(gb_per_s, 0.0)),
    )
    snapshot = round_of(cluster, [*jobs, *jobs], MODELS).snapshot
    book = PlacementShapes(network_of_jobs(snapshot.table, cluster), cluster)
    gpus, allowed = snapshot.jobs.gpus, np.array([[True] * len(nodes), [own for *_, own in nodes]])
    constraint = np.repeat([0, 1], len(jobs))
    before = book.of(snapshot.jobs.model, gpus)
    books, none = snapshot.ledger.books.nodes, snapshot.jobs.requested_per_gpu
    line, forms = within_reach(before, gpus, none, constraint, allowed, books)
    own = [node for node, (*_, is_own) in zip(cluster.nodes, nodes, strict=True) if is_own]
    for at in range(len(line)):
        kinds, speeds = before[1].kinds[before[0][at]], before[1].speeds[before[0][at]]
        first = 0
        if constraint[at] == 1 and gpus[at] > 1:
            first = next(n for n, form in enumerate(kinds.tolist()) if has_place(form, int(gpus[at]), own))
            first = 0 if speeds[first] >= 0.99 * speeds[0] else first
        kept = len(kinds) - first
        assert forms.kinds[line[at]][:kept].tolist() == kinds[first:].tolist()
        assert forms.speeds[line[at]][:kept].tolist() == speeds[first:].tolist()
        assert (forms.kinds[line[at]][kept:] == -1).all()
