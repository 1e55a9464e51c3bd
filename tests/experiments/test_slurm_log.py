"""Slurm's rules against logs of real runs: one cycle at a time, and with the logged cycles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.slurm.generated_queues import CLUSTER, generated, logged
from experiments.slurm.log import SlurmLog, nodes_of, read_log
from experiments.slurm.replay import by_logged_priority, free_run, one_step
from muster.cluster.shipped import parse_cluster

PLANS_RIGHT = 0.999


@pytest.fixture(scope="module", params=["run1", "run3_multifactor"])
def log(reference: Path, request: pytest.FixtureRequest) -> SlurmLog:
    return read_log(reference / "parity/slurm", request.param)


def test_each_cycle_starts_the_logged_jobs_on_their_nodes(log: SlurmLog) -> None:
    result = one_step(log)
    assert (result.starts, result.wrong_starts) == (300, [])


def test_each_backfill_cycle_plans_as_logged(log: SlurmLog) -> None:
    result = one_step(log)
    assert result.plans >= PLANS_RIGHT * (result.plans + len(result.wrong_plans)), result.wrong_plans[:5]


def test_with_the_logged_cycles_jobs_start_as_logged(log: SlurmLog) -> None:
    errors = np.abs(free_run(log, by_logged_priority) - log.allocated)
    assert np.median(errors) <= 0.1
    assert errors.max() <= 0.1


def test_nodes_are_read_as_slurm_names_them() -> None:
    assert nodes_of("node[1-2,4,7-8]") == (0, 1, 3, 6, 7)
    assert nodes_of("node3") == (2,)
    assert nodes_of(None) == ()


def test_a_generated_log_says_where_its_jobs_ran() -> None:
    """Start estimates go on from there: a GPU is in use on the node that has it."""
    cluster = parse_cluster(CLUSTER)
    log = logged(generated("arrays", 0), cluster)
    names = [text.split(",") for text in log["node_list"]]
    fewest = [-(-gpus // cluster.most_gpus_per_node) for gpus in log["gpus"]]
    assert all(set(own) <= cluster.node_index.keys() for own in names)
    assert all(len(own) >= few for own, few in zip(names, fewest, strict=True))
