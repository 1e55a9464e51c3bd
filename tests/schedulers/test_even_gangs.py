"""Engines that give a gang the same amounts on each of its nodes: the rules of placement keep to it."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster.ledger import DoesNotFit, Ledger, NodeAllocation
from muster.cluster.ledger_arrays import EVEN_GANGS
from muster.schedulers.honours import EVEN_GANGS as HONOURS_EVEN_GANGS
from muster.schedulers.honours import honoured
from muster.schedulers.placement import job_columns
from muster.schedulers.placement.serving import place_job
from muster.schedulers.registry import build
from muster.service.fitting import misfits
from tests.building import cluster_of
from tests.schedulers.test_placement_rules import NAMES, RULES, Situation, situations
from tests.service.serving import a_request


def even_places(fit: list[int], gpus: int) -> list[tuple[int, ...]]:
    """By brute force, all ways to give a gang as many GPUs on each of its nodes."""
    return [
        take
        for take in product(*(range(here + 1) for here in fit))
        if sum(take) == gpus and len({count for count in take if count}) == 1
    ]


def nodes_of(take: tuple[int, ...]) -> int:
    return sum(map(bool, take))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: NAMES[rule])
@given(situation=situations(), gpus=st.integers(1, 12))
@settings(max_examples=300, deadline=None)
def test_an_even_gang_has_a_place_where_there_is_one(rule: int, situation: Situation, gpus: int) -> None:
    ledger, count = situation.ledger, len(situation.places)
    ledger.books.totals[EVEN_GANGS] = True
    possible = even_places([place.fit * place.allowed for place in situation.places], gpus)
    if rule == job_columns.CONSOLIDATE:
        ever = even_places([place.fit_empty * place.allowed for place in situation.places], gpus)
        fewest = min(map(nodes_of, ever), default=0)
        possible = [take for take in possible if nodes_of(take) == fewest]
    books = ledger.reserve(count, count)
    placed = place_job(books, count, (gpus, 1000, 0), situation.allowed, situation.need, rule)
    assert placed == bool(possible)
    held = ledger.holding(count)
    if placed:
        take = [0] * count
        for share in held:
            take[share.node] = len(share.gpu_ids)
        assert tuple(take) in possible
        wide = max if rule == job_columns.SPREAD else min
        assert nodes_of(tuple(take)) == wide(map(nodes_of, possible))
        assert len({share.amounts for share in held}) == 1
    assert not ledger.balance().any()


def test_a_gang_of_six_has_three_on_each_node_not_five_and_one() -> None:
    ledger = Ledger(cluster_of(5, 3, 4), 2, even_gangs=True)
    with pytest.raises(DoesNotFit, match="as many GPUs on each"):
        ledger.put(0, [NodeAllocation(0, (0, 1, 2, 3, 4)), NodeAllocation(1, (0,))])
    ledger.put(
        0, [NodeAllocation(1, (0, 1, 2), cpus=9.0), NodeAllocation(2, (0, 1, 2), cpus=6.0, memory_gb=5.0)]
    )
    assert [(share.cpus, share.memory_gb) for share in ledger.holding(0)] == [(6.0, 0.0)] * 2


@given(nodes=st.lists(st.integers(1, 4), min_size=1, max_size=4), gpus=st.integers(1, 12))
@settings(max_examples=200, deadline=None)
def test_a_size_that_is_never_even_is_refused(nodes: list[int], gpus: int) -> None:
    cluster = cluster_of(*nodes)
    problems = list(misfits(a_request(gpus=gpus), cluster, even_gangs=True))
    assert bool(problems) == (not even_places(nodes, gpus))
    if problems and gpus <= sum(nodes):
        (problem,) = problems
        allowed = [int(word) for word in problem.what.rpartition("ask for ")[2].split(" or ")]
        assert allowed
        assert all(even_places(nodes, size) for size in allowed)


@pytest.mark.parametrize(
    ("name", "even"),
    [
        ("fifo", True),
        ("gittins+tune-plus", True),
        ("srtf+tune", True),
        ("las+proportional+spread", True),
        ("las+greedy", True),
        ("srtf+opt", False),
        ("gittins+joint", True),
        ("dally", False),
        ("dally-tune", False),
        ("slurm", False),
        ("las+tune-published", True),
        ("las+scatter", True),
        ("2d-las-sim+opt", False),
        ("gandiva-sim", False),
    ],
)
def test_which_schedulers_keep_gangs_even(name: str, even: bool) -> None:
    assert (HONOURS_EVEN_GANGS in honoured(build(name, {}))) == even
