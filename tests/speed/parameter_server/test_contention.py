"""Shared cards: the definition of max-min fairness, and a case worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.speed.parameter_server import Layers, asynchronous, layered, stack
from muster.speed.parameter_server.contention import contended_step_seconds, fair_parts

HALF_BUSY = layered(Layers.checked([0.0], [1.0], [0.5]), 1, 1.0)
"""1 s of backward, then 1 s of traffic with one worker and one server."""


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 6))
def test_parts_are_max_min_fair(seed: int, jobs: int, nodes: int) -> None:
    rng = np.random.default_rng(seed)
    wanted = rng.choice([0.0, 0.25, 0.5, 1.0, *rng.uniform(0, 1, 4)], jobs)
    servers = int(rng.integers(1, 25))
    job, node = rng.integers(0, jobs, servers), rng.integers(0, nodes, servers)
    parts = fair_parts(wanted, job, node)
    load = np.bincount(node, parts[job], nodes)
    assert np.all(load <= 1 + 1e-9)
    assert np.all(parts <= wanted)
    assert np.all(parts >= 0)
    for j in range(jobs):
        # A job that gets less than it asks for is on a full node where no job gets more.
        own = node[job == j]
        bottlenecks = [
            n for n in own if load[n] >= 1 - 1e-9 and parts[j] >= parts[job[node == n]].max() - 1e-9
        ]
        assert parts[j] >= wanted[j] - 1e-9 or bottlenecks


def test_three_half_busy_servers_share_a_card() -> None:
    steps = stack([HALF_BUSY] * 4)
    one = np.ones(4)
    # Two on node 0 fit beside each other; three do not: each gets a third, so 1 s of traffic takes 3 s.
    seconds = contended_step_seconds(steps, one, one, [0, 1, 2, 3], [0, 0, 1, 1])
    assert seconds.tolist() == [2.0, 2.0, 2.0, 2.0]
    seconds = contended_step_seconds(steps, one, one, [0, 1, 2, 3], [0, 0, 0, 1])
    assert seconds == pytest.approx([3.0, 3.0, 3.0, 2.0])


def test_a_job_goes_at_the_pace_of_its_slowest_server() -> None:
    # Job 0 has servers on both nodes; on node 0 it meets two others, on node 1 one that then has more room.
    steps = stack([asynchronous(0.0, 1.0, 0.0, 0.0), *[HALF_BUSY] * 2, asynchronous(0.0, 1.0, 0.0, 0.0)])
    workers, servers = np.array([2.0, 1, 1, 1]), np.array([2.0, 1, 1, 1])
    seconds = contended_step_seconds(steps, workers, servers, [0, 0, 1, 2, 3], [0, 1, 0, 0, 1])
    assert seconds == pytest.approx([3.0, 3.0, 3.0, 1.5])


def test_without_traffic_or_servers_nothing_changes() -> None:
    silent = layered(Layers.checked([0.0], [1.0], [0.0]), 1, 1.0)
    steps = stack([silent, HALF_BUSY])
    one = np.ones(2)
    assert contended_step_seconds(steps, one, one, [], []).tolist() == [1.0, 2.0]
    assert contended_step_seconds(steps, one, one, [0, 1], [0, 0]).tolist() == [1.0, 2.0]
