"""Jobs that have to be on a number of nodes, as their scripts need as many processes, are on so many."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster import Link
from muster.cluster.ledger_arrays import EVEN_GANGS
from muster.schedulers.contract import asked_for_decision
from muster.schedulers.placement.serving import place_job
from muster.schedulers.registry import build
from muster.speed.network.forms import PlacementShapes
from muster.speed.network_of_jobs import network_of_jobs
from muster.workload.models import shipped_models
from tests.building import cluster_of
from tests.schedulers.synergy_cases import Round, round_of
from tests.schedulers.test_dally_network import LINKS
from tests.schedulers.test_placement_rules import NAMES, RULES, Situation, situations

MODELS = {name: shipped_models()[name] for name in ("resnet50", "vgg11", "bert-large", "mobilenetv3-small")}
SCHEDULERS = ("gittins+joint", "fifo+joint", "gittins+tune-plus", "fifo+tune", "las+greedy", "fifo")


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: NAMES[rule])
@given(situation=situations(), gpus=st.integers(1, 12), exact=st.integers(1, 4))
@settings(max_examples=150, deadline=None)
def test_it_has_a_place_where_there_is_one(
    rule: int, even: bool, situation: Situation, gpus: int, exact: int
) -> None:
    """By brute force over all ways to take GPUs of nodes."""
    ledger, count = situation.ledger, len(situation.places)
    ledger.books.totals[EVEN_GANGS] = even
    fit = [place.fit * place.allowed for place in situation.places]
    possible = {
        take
        for take in product(*(range(here + 1) for here in fit))
        if sum(take) == gpus and sum(map(bool, take)) == exact and not (even and len(set(take) - {0}) > 1)
    }
    books = ledger.reserve(count, count)
    placed = place_job(books, count, (gpus, 1000, exact), situation.allowed, situation.need, rule)
    assert placed == bool(possible)
    held = {share.node: len(share.gpu_ids) for share in ledger.holding(count)}
    assert not placed or tuple(held.get(node, 0) for node in range(count)) in possible
    assert not ledger.balance().any()


def with_exact_nodes(case: Round, exact: list[int], network: bool) -> Round:
    """The same jobs, where some have to be on a number of nodes."""
    snapshot = case.snapshot
    snapshot.table.asked["exact_nodes"] = exact
    speed = network_of_jobs(snapshot.table, snapshot.cluster) if network else None
    forms = None if speed is None else PlacementShapes(speed, snapshot.cluster)
    return replace(case, snapshot=replace(snapshot, forms=forms))


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@given(data=st.data(), seed=st.integers(0, 2**32), network=st.booleans(), even=st.booleans())
@settings(max_examples=60, deadline=None)
def test_every_plan_keeps_to_it(
    scheduler: str, data: st.DataObject, seed: int, network: bool, even: bool
) -> None:
    """Whatever else waits; a job whose GPUs no node holds is on several, and one that is alone has a place."""
    sizes = data.draw(st.lists(st.sampled_from([2, 4, 8]), min_size=2, max_size=5))
    random = np.random.default_rng(seed)
    cluster = cluster_of(*sizes, racks=2, cpus_per_gpu=float(random.choice([1.5, 3.0, 6.0])))
    if network:
        cluster = replace(cluster, links=replace(LINKS, rack=Link(float(random.choice([1.0, 100.0])), 0.0)))
    jobs = [(str(random.choice([*MODELS, ""])), int(random.choice([1, 2, 2, 4, 6]))) for _ in range(6)]
    exact = [int(random.choice([0, 1, 2, 2, 3])) for _ in jobs]
    case = round_of(cluster, jobs, MODELS)
    given_jobs = with_exact_nodes(case, exact, network)
    snapshot = given_jobs.snapshot
    snapshot.ledger.books.totals[EVEN_GANGS] = even
    policy = build(scheduler)
    decision, _ = asked_for_decision(policy, snapshot, policy.initial(cluster))
    placed = dict(zip(decision.changes.jobs.tolist(), np.diff(decision.changes.first).tolist(), strict=True))
    for number, wanted in enumerate(exact):
        assert not wanted or placed.get(number, 0) in (0, wanted)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("network", [True, False])
@pytest.mark.parametrize("exact", [1, 2, 4])
def test_a_job_alone_has_its_number_of_nodes(scheduler: str, network: bool, exact: int) -> None:
    cluster = cluster_of(4, 4, 4, 4, racks=2)
    if network:
        cluster = replace(cluster, links=LINKS)
    case = round_of(cluster, [("vgg11", 4)], MODELS)
    snapshot = with_exact_nodes(case, [exact], network).snapshot
    policy = build(scheduler)
    decision, _ = asked_for_decision(policy, snapshot, policy.initial(cluster))
    assert np.diff(decision.changes.first).tolist() == [exact]


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_one_without_such_nodes_keeps_no_other_from_its_place(scheduler: str) -> None:
    """Both are alike but for the number, which no two nodes are."""
    cluster = cluster_of(2, 2)
    snapshot = with_exact_nodes(round_of(cluster, [("gnmt", 4), ("gnmt", 4)]), [3, 0], False).snapshot
    policy = build(scheduler)
    decision, _ = asked_for_decision(policy, snapshot, policy.initial(cluster))
    assert decision.changes.jobs.tolist() == [1]
