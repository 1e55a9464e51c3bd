"""Which nodes a real Slurm gives a job where nodes have weights, and which the rule of the preset `slurm`."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from muster.cluster.slurm_nodes import expand_hosts
from tests.schedulers.test_slurm_weights import by_the_rule
from tests.slurm.cluster import SlurmCluster, slurm_for_a_test, wait_for

pytestmark = pytest.mark.needs_slurm

NODES, ROUNDS = 6, 20


@pytest.fixture
def slurm() -> Iterator[SlurmCluster]:
    with slurm_for_a_test(nodes=NODES, SelectTypeParameters="CR_Core") as cluster:
        yield cluster


def test_slurm_takes_nodes_of_a_lower_weight_first(slurm: SlurmCluster) -> None:
    draw = Random(1)
    for _ in range(ROUNDS):
        weights = [draw.choice([1, 2, 3]) for _ in slurm.nodes]
        closed = draw.sample(range(NODES), draw.randint(0, 2))
        for at, name in enumerate(slurm.nodes):
            slurm.run("scontrol", "update", f"NodeName={name}", f"Weight={weights[at]}")
        for at in closed:
            slurm.run("scontrol", "update", f"NodeName={slurm.nodes[at]}", "State=DRAIN", "Reason=test")
        free = [int(at not in closed) for at in range(NODES)]
        wanted = draw.randint(1, sum(free))
        assert places(slurm, wanted) == by_the_rule(weights, free, wanted), (weights, free, wanted)
        for at in closed:
            slurm.run("scontrol", "update", f"NodeName={slurm.nodes[at]}", "State=RESUME")
        slurm.wait_idle()


def places(slurm: SlurmCluster, wanted: int) -> list[int]:
    """The nodes that a job gets which takes so many of them whole."""
    job = slurm.run(
        "sbatch", "--parsable", "--exclusive", f"--nodes={wanted}", "--output=/dev/null", "--wrap=sleep 1000"
    ).strip()

    def shown(column: str) -> str:
        return slurm.run("squeue", "-h", "-j", job, "-o", column, check=False).strip()

    wait_for(lambda: shown("%T") == "RUNNING", lambda: f"job {job} does not run: {shown('%T %r')}")
    nodes = sorted(slurm.nodes.index(name) for name in expand_hosts(shown("%N")))
    slurm.run("scancel", job)
    wait_for(lambda: not shown("%T"), lambda: f"job {job} does not end: {shown('%T %r')}")
    return nodes
