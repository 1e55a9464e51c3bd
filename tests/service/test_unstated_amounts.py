"""A job that states no CPUs or memory requests its GPUs' share where its scheduler gives only what is requested."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.cluster.shipped import parse_cluster
from muster.schedulers.registry import build
from muster.service.honoured import amounts_if_unstated

CLUSTER = parse_cluster("1x4gpu,16cpu,200gb+1x8gpu,16cpu,800gb")
SHARE = {"cpus": 2.0, "memory_gb": 50.0}
OWN = """
from muster.schedulers.honours import ALL, NODES


class Own:
    name = "own"
    {statement}

    def describe(self):
        return {{"name": "own", "parts": [], "settings": {{}}, "needs": []}}

    def initial(self, cluster):
        return {{}}

    def decide(self, snapshot, state):
        raise NotImplementedError
"""


@pytest.mark.parametrize(
    ("name", "requested"),
    [
        ("slurm", SHARE),
        ("priority+slurm-cycles", SHARE),
        ("fifo", {}),
        ("fifo+requested", {}),
        ("fifo+easy", {}),
        ("gittins+joint", {}),
    ],
)
def test_the_share_is_of_the_least_node(name: str, requested: dict[str, float]) -> None:
    assert amounts_if_unstated(build(name), CLUSTER) == requested


@pytest.mark.parametrize(
    ("statement", "requested"),
    [
        ("gives_only_requests = True", SHARE),
        ("honours = ALL | {NODES}", {}),
        ("pass", {}),
    ],
)
def test_a_scheduler_of_ones_own_states_it(
    tmp_path: Path, statement: str, requested: dict[str, float]
) -> None:
    """Whatever it says of the number of nodes, which is something else."""
    file = tmp_path / "own.py"
    file.write_text(OWN.format(statement=statement))
    assert amounts_if_unstated(build(f"{file}:Own"), CLUSTER) == requested
