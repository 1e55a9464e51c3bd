"""The compiled placement rules against a plain reading of their description, on random clusters in use."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster import Cluster, Node
from muster.cluster.ledger import Ledger, NodeAllocation
from muster.cluster.ledger_arrays import MICRO
from muster.schedulers.placement import job_columns
from muster.schedulers.placement.delay_scheduling import ISLAND, MACHINE, NETWORK, NOWHERE, RACK, level_of
from muster.schedulers.placement.network_aware import share_of_best
from muster.schedulers.placement.serving import place_job
from muster.speed.network.forms import ANYWHERE, EVENLY, IN_ISLAND, IN_MACHINE, IN_RACK
from tests.building import cluster_of, hold, job, jobs_of, run

RULES = (
    job_columns.PACK,
    job_columns.FIRST_FIT,
    job_columns.CONSOLIDATE,
    job_columns.SPREAD,
    job_columns.YARN,
)
NAMES = dict(zip(RULES, ("pack", "first-fit", "consolidate", "spread", "yarn"), strict=True))


@dataclass(frozen=True)
class Place:
    """One node as the rules see it, for one need."""

    number: int
    gpus: int
    free_gpus: int
    free_cpus: int
    fit: int
    """GPUs that it has room for now, each with what it needs."""
    fit_empty: int
    """The same while nothing runs on it."""
    wanted: list[int]
    """Millionths of CPUs, memory and storage that it gives with each GPU."""
    allowed: bool

    @property
    def fullness(self) -> tuple[int, int, int]:
        """Least for the fullest node."""
        return self.free_gpus, self.free_cpus, self.number


@dataclass(frozen=True)
class Situation:
    """A cluster in use and the need of one GPU."""

    ledger: Ledger
    need: np.ndarray
    places: list[Place]

    @property
    def allowed(self) -> np.ndarray:
        return np.array([place.allowed for place in self.places])


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    nodes = []
    for at in range(draw(st.integers(1, 5))):
        gpus = draw(st.integers(int(at == 0), 4))
        cpus, memory = draw(st.integers(1, 12)), draw(st.sampled_from([40.0, 200.0]))
        nodes.append(Node(f"n{at}", "t", 0, gpus, "v100", max(gpus, 1), float(cpus), memory, 1.0, 1.25))
    ledger = Ledger(Cluster("random", tuple(nodes), ("rack",)), len(nodes) + 1)
    for at, node in enumerate(nodes):
        held = draw(st.sets(st.integers(0, node.gpus - 1))) if node.gpus else set()
        if held:
            cpus = draw(st.integers(0, int(node.cpus)))
            hold(ledger, at, [NodeAllocation(at, tuple(sorted(held)), cpus=float(cpus))])
    amounts = [draw(st.sampled_from(one)) for one in ((0, 1, 2, 5), (0, 30, 50), (0, 1))]
    kind = draw(st.sampled_from(["amounts", "share", "share, at least the amounts"]))
    need = np.array([0, *amounts], np.int64) * MICRO
    if kind != "amounts":
        need = job_columns.PROPORTIONAL - (need if kind != "share" else 0 * need)
    allowed = [draw(st.sampled_from([True, True, True, False])) for _ in nodes]
    return Situation(ledger, need, _places(ledger, need, allowed))


def _places(ledger: Ledger, need: np.ndarray, allowed: list[bool]) -> list[Place]:
    places = []
    for at, node in enumerate(ledger.cluster.nodes):
        capacity = [round(amount * MICRO) for amount in (node.cpus, node.memory_gb, node.storage_gb_per_s)]
        held = ledger.holding(at)
        free_gpus = node.gpus - sum(len(share.gpu_ids) for share in held)
        free = [capacity[0] - sum(round(share.cpus * MICRO) for share in held), *capacity[1:]]
        wanted = []
        for resource in (1, 2, 3):
            amount, share = int(need[resource]), capacity[resource - 1] // max(node.gpus, 1)
            wanted.append(amount if amount >= 0 else max(share, job_columns.PROPORTIONAL - amount))
        fit, fit_empty = (
            min([gpus, *(here // one for here, one in zip(room, wanted, strict=True) if one)])
            for gpus, room in ((free_gpus, free), (node.gpus, capacity))
        )
        places.append(Place(at, node.gpus, free_gpus, free[0], fit, fit_empty, wanted, allowed[at]))
    return places


def by_description(rule: int, places: list[Place], gpus: int) -> list[int] | None:
    """GPUs on each node, as the description of the rule says; None where the gang waits."""
    here = [place for place in places if place.allowed]
    whole = [place for place in here if place.fit >= gpus]
    take = [0] * len(places)
    if rule == job_columns.YARN:
        return _by_whole_nodes(here, take, gpus)
    if rule in (job_columns.PACK, job_columns.CONSOLIDATE) and whole:
        take[min(whole, key=lambda place: place.fullness).number] = gpus
        return take
    if sum(place.fit for place in here) < gpus:
        return None
    while gpus:
        open_places = [place for place in here if place.fit > take[place.number]]
        if rule == job_columns.FIRST_FIT:
            place = open_places[0]
            part = min(place.fit, gpus)
        elif rule == job_columns.SPREAD:
            place = max(open_places, key=lambda place: (place.fit - take[place.number], -place.number))
            part = 1
        else:
            unused = [place for place in open_places if not take[place.number]]
            last = [place for place in unused if place.fit >= gpus]
            place = (
                min(last, key=lambda place: place.fullness)
                if last
                else max(unused, key=lambda place: (place.fit, -place.number))
            )
            part = min(place.fit, gpus)
        take[place.number] += part
        gpus -= part
    if rule == job_columns.CONSOLIDATE and sum(map(bool, take)) > _fewest(here, sum(take)):
        return None
    return take


def _fewest(here: list[Place], gpus: int) -> int:
    """Nodes that the gang needs while nothing runs."""
    sizes = sorted((place.fit_empty for place in here), reverse=True)
    return next(count for count in range(len(sizes) + 1) if sum(sizes[:count]) >= gpus)


def _by_whole_nodes(here: list[Place], take: list[int], gpus: int) -> list[int] | None:
    """A node is as large as what it has room for while nothing runs."""
    largest = max((place.fit_empty for place in here), default=0)
    if gpus > largest:
        for place in here:
            if 0 < place.fit_empty <= gpus and place.fit == place.fit_empty:
                take[place.number] = place.fit
                gpus -= place.fit
    rest = [place for place in here if not take[place.number] and place.fit >= gpus]
    if gpus > largest or (gpus and not rest):
        return None
    if gpus:
        take[rest[0].number] = gpus
    return take


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: NAMES[rule])
@given(situation=situations(), gpus=st.integers(1, 12))
@settings(max_examples=300, deadline=None)
def test_a_gang_gets_the_nodes_that_its_rule_describes(rule: int, situation: Situation, gpus: int) -> None:
    nodes = len(situation.places)
    expected = by_description(rule, situation.places, gpus)
    job = nodes  # The one that holds nothing yet.
    books = situation.ledger.reserve(nodes, nodes)
    placed = place_job(books, job, (gpus, 1000, 0), situation.allowed, situation.need, rule)
    assert placed == (expected is not None)
    held = situation.ledger.holding(job)
    assert {share.node: len(share.gpu_ids) for share in held} == {
        node: count for node, count in enumerate(expected or []) if count
    }
    for share in held:
        given = (share.cpus, share.memory_gb, share.storage_gb_per_s)
        wanted = [amount * len(share.gpu_ids) for amount in situation.places[share.node].wanted]
        assert [round(amount * MICRO) for amount in given] == wanted
    assert not situation.ledger.balance().any()


@pytest.mark.parametrize(
    ("held", "allowed", "gpus", "expected"),
    [
        ((2, 2, 0), (True, True, True), 4, None),  # One node of four GPUs could hold it.
        ((2, 2, 0), (False, True, True), 4, None),
        ((4, 4, 0), (False, False, True), 3, None),
        ((1, 1, 1), (True, True, True), 5, [3, 2, 0]),
        ((2, 2, 0), (True, True, True), 5, None),  # Two nodes could, and these are three.
        ((2, 1, 0), (True, False, True), 5, None),
        ((0, 1, 0), (True, False, True), 5, [4, 0, 1]),
    ],
)
def test_consolidate_waits_for_the_fewest_nodes(
    held: Sequence[int], allowed: Sequence[bool], gpus: int, expected: list[int] | None
) -> None:
    """Of nodes with four, four and two GPUs, counting only those that are allowed."""
    ledger = Ledger(cluster_of(4, 4, 2), 4)
    for node, count in enumerate(held):
        if count:
            hold(ledger, node, [NodeAllocation(node, tuple(range(count)))])
    books, rule = ledger.reserve(3, 3), job_columns.CONSOLIDATE
    found = place_job(books, 3, (gpus, 1000, 0), np.array(allowed), np.zeros(4, np.int64), rule)
    take = {share.node: len(share.gpu_ids) for share in ledger.holding(3)}
    assert ([take.get(node, 0) for node in range(3)] if found else None) == expected


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: NAMES[rule])
@given(situation=situations(), gpus=st.integers(1, 12))
@settings(max_examples=100, deadline=None)
def test_an_empty_cluster_holds_what_its_nodes_hold(rule: int, situation: Situation, gpus: int) -> None:
    """No rule lets a gang wait for ever that has a place on some nodes, each GPU with its CPUs and memory."""
    ledger = Ledger(situation.ledger.cluster, 1)
    placed = place_job(ledger.reserve(0, 0), 0, (gpus, 1000, 0), situation.allowed, situation.need, rule)
    assert placed == (sum(place.fit_empty for place in situation.places if place.allowed) >= gpus)


@pytest.mark.parametrize("rule", [job_columns.PACK, job_columns.SPREAD], ids=lambda rule: NAMES[rule])
@given(situation=situations(), shares=st.lists(st.sampled_from([250, 400, 600, 999]), min_size=1, max_size=6))
@settings(max_examples=200, deadline=None)
def test_a_share_takes_the_fullest_gpu_with_room(rule: int, situation: Situation, shares: list[int]) -> None:
    """A GPU in use; else a free one of the node with the fewest. Spread: first a free one of the node with the most."""
    ledger = situation.ledger
    job = len(situation.places)
    ledger.admit(job + len(shares))
    books = ledger.reserve(len(shares), len(shares))
    room = {
        (at, gpu): 1000 if gpu in ledger.free_ids(at) else 0
        for at, node in enumerate(ledger.cluster.nodes)
        for gpu in range(node.gpus)
    }
    for number, milli in enumerate(shares):
        best = None
        for place in situation.places:
            amounts = np.array(place.wanted) * milli // 1000
            if not place.allowed or (amounts > books.nodes[place.number]["free"][1:]).any():
                continue
            here = {gpu: free for (at, gpu), free in room.items() if at == place.number and free >= milli}
            whole = sum(free == 1000 for (at, _), free in room.items() if at == place.number)
            for gpu, free in here.items():
                empty = (-whole if rule == job_columns.SPREAD else 1000 + whole) if free == 1000 else free
                best = min(best or (np.inf, 0, 0), (empty, place.number, gpu))
        placed = place_job(books, job + number, (1, milli, 0), situation.allowed, situation.need, rule)
        assert placed == (best is not None)
        if best is None:
            assert not ledger.holds(job + number)
            continue
        (share,) = ledger.holding(job + number)
        assert (share.node, share.gpu_ids, share.milli) == (best[1], (best[2],), milli)
        room[best[1], best[2]] -= milli
    assert not ledger.balance().any()


@given(situation=situations())
@settings(max_examples=200, deadline=None)
def test_a_job_without_gpus_takes_the_fullest_node(situation: Situation) -> None:
    need = np.maximum(situation.need, 0)
    fits = [
        place
        for place, record in zip(situation.places, situation.ledger.books.nodes, strict=True)
        if place.allowed and (need[1:] <= record["free"][1:]).all()
    ]
    job = len(situation.places)
    placed = place_job(
        situation.ledger.reserve(1, 1), job, (0, 1000, 0), situation.allowed, need, job_columns.PACK
    )
    assert placed == bool(fits)
    held = [share.node for share in situation.ledger.holding(job)]
    assert held == ([min(fits, key=lambda place: place.fullness).number] if fits else [])


@pytest.mark.parametrize(
    ("shares", "level"),
    [
        ([], NOWHERE),
        ([NodeAllocation(0, (0, 1))], ISLAND),
        ([NodeAllocation(0, (1, 2))], MACHINE),
        ([NodeAllocation(0, (0,)), NodeAllocation(2, (0,))], RACK),
        ([NodeAllocation(0, (0,)), NodeAllocation(2, (0,)), NodeAllocation(1, (0,))], NETWORK),
    ],
)
def test_a_level_is_how_far_apart_the_gpus_are(shares: list[NodeAllocation], level: int) -> None:
    """Islands of two GPUs; the first and the third node are in one rack. The first row of the books counts too."""
    cluster = cluster_of(4, 4, 4, racks=2)
    nodes = tuple(replace(node, gpus_per_island=2) for node in cluster.nodes)
    ledger = Ledger(replace(cluster, nodes=nodes), 1)
    if shares:
        hold(ledger, 0, shares)
        assert len(shares) > 1 or ledger.books.heads[0] == 0
    assert level_of(ledger.books, ledger.books.heads[0]) == level


FORMS = [
    (IN_ISLAND, 1, 1),
    (IN_MACHINE, 1, 1),
    (EVENLY, 2, 1),
    (EVENLY, 4, 2),
    (IN_RACK, 2, 1),
    (ANYWHERE, 2, 2),
]


@pytest.mark.parametrize(
    ("gpus", "form"),
    [
        ({0: (0, 1)}, 0),
        ({0: (1, 2)}, 1),
        ({0: (0,), 2: (3,)}, 2),
        ({0: (0, 1), 2: (0, 1)}, 2),
        ({0: (0,), 1: (0,), 2: (0,), 3: (0,)}, 3),
        ({0: (0, 1), 2: (0,)}, 4),
        ({0: (0,), 2: (0,), 4: (0,)}, 4),
        ({0: (0,), 1: (0,)}, 5),
        ({0: (0,), 1: (0,), 2: (0,)}, 5),
        ({0: (0,), 1: (0,), 2: (0,), 4: (0,)}, 5),
    ],
)
def test_a_place_offers_the_speed_of_its_first_form(gpus: dict[int, tuple[int, ...]], form: int) -> None:
    """Islands of two GPUs; nodes 0, 2 and 4 are in one rack. The first row of the books counts too."""
    cluster = cluster_of(4, 4, 4, 4, 4, racks=2)
    nodes = tuple(replace(node, gpus_per_island=2) for node in cluster.nodes)
    ledger = Ledger(replace(cluster, nodes=nodes), 1)
    hold(ledger, 0, [NodeAllocation(node, ids) for node, ids in gpus.items()])
    speeds = np.array([2.0, 1.8, 1.5, 1.2, 1.0, 0.5])
    offered = share_of_best(ledger.books, ledger.books.heads[0], np.array(FORMS), speeds)
    assert offered == pytest.approx(speeds[form] / 2.0)


def test_a_job_without_gpus_says_how_much_it_waits_for() -> None:
    """The first job has all but one core of the node; the second one needs two and 10 GB."""
    trace = jobs_of(job(0, 100, gpus=0, cpus=5.0), job(0, 10, gpus=0, cpus=2.0, memory_gb=10.0))
    reasons = run(trace, cluster_of(2), "fifo+requested").record.reasons
    (said,) = reasons.filter(reason="no_cpus")["parameters"].to_list()
    assert json.loads(said) == {"cpus": 2.0, "memory_gb": 10.0}
