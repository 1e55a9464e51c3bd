"""Slurm takes nodes of a lower weight first: its choice against one that is written plainly, and runs by hand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import muster
from muster.cluster.slurm_nodes import read_slurm_site
from muster.schedulers.backfill.slurm_rules import SlurmCycle


def chosen(weights: Sequence[int], free: Sequence[int], wanted: int) -> list[int] | None:
    """What the compiled rule chooses for a job of one GPU on each of so many nodes."""
    amounts = np.array(free, np.int64)[:, None]
    usable = np.ones(len(free), np.bool_)
    cycle = SlurmCycle(amounts, ~usable, 30, np.array(weights, np.int64))
    found = cycle.fit(amounts, usable, np.ones(1, np.int64), wanted)
    return None if found is None else found.tolist()


def by_the_rule(weights: Sequence[int], free: Sequence[int], wanted: int) -> list[int] | None:
    """Sets of neighbours of one weight: the lowest weight, then the shortest that suffices, else the longest."""
    places = groupby(range(len(free)), key=lambda node: (free[node] > 0, weights[node]))
    sets = [list(nodes) for (has_room, _), nodes in places if has_room]
    taken: list[int] = []
    while len(taken) < wanted and sets:
        left = wanted - len(taken)
        best = min(
            sets,
            key=lambda one: (weights[one[0]], len(one) < left, len(one) * (1 if len(one) >= left else -1)),
        )
        sets.remove(best)
        taken += best[:left]
    return sorted(taken) if len(taken) == wanted else None


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 1)), min_size=1, max_size=12), st.integers(1, 6))
def test_nodes_are_those_of_the_rule_written_plainly(nodes: list[tuple[int, int]], wanted: int) -> None:
    weights, free = [weight for weight, _ in nodes], [amount for _, amount in nodes]
    assert chosen(weights, free, wanted) == by_the_rule(weights, free, wanted)


@pytest.mark.parametrize(
    ("wanted", "nodes"), [(1, [3]), (2, [1, 3]), (3, [1, 2, 3]), (4, [1, 2, 3, 4]), (5, [0, 1, 2, 3, 4])]
)
def test_lower_weights_go_first_by_hand(wanted: int, nodes: list[int]) -> None:
    # Weights 9, 5, 5, 1, 7: node 3, then nodes 1 and 2, then 4, then 0.
    assert chosen([9, 5, 5, 1, 7], [1] * 5, wanted) == nodes


def test_both_loops_start_on_the_node_of_lowest_weight() -> None:
    text = "\n".join(
        f"NodeName=n{at} CPUTot=8 RealMemory=1000 Gres=gpu:4 State=IDLE Weight={weight}"
        for at, weight in enumerate((30, 10, 20))
    )
    cluster = read_slurm_site(text, "scontrol.txt", "site").cluster
    # Main starts the first three; e waits for a whole cluster, so that backfill starts d beside it.
    jobs = pl.DataFrame(
        {
            "job_id": ["a", "b", "e", "d"],
            "submit_seconds": [0.0, 10.0, 20.0, 21.0],
            "gpus": [4, 2, 12, 2],
            "nodes": [1, 1, 3, 1],
            "duration_seconds": [1000.0, 1000.0, 100.0, 50.0],
            "time_limit_seconds": [1200.0, 1200.0, 200.0, 60.0],
        }
    )
    run = muster.simulate(jobs, cluster=cluster, scheduler="slurm", restart_cost="0")
    assert run.record is not None
    placed = dict(run.record.allocations.select("job_id", "node").unique("job_id").iter_rows())
    assert (placed["a"], placed["b"], placed["d"]) == ("n1", "n2", "n2")
