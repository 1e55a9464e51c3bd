"""Which requests no state of a cluster has room for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.service.fitting import misfits
from tests.building import cluster_of
from tests.service.serving import a_request


@pytest.mark.parametrize(
    ("asks", "columns"),
    [
        ({"gpus": 1, "cpus": 20.0}, []),
        ({"gpus": 1, "memory_gb": 90.0}, []),
        ({"gpus": 1, "cpus": 20.0, "memory_gb": 90.0}, ["cpus"]),
        ({"gpus": 2, "cpus": 20.0, "memory_gb": 90.0}, []),
        ({"gpus": 0, "cpus": 20.0, "memory_gb": 90.0}, ["cpus"]),
        ({"gpus": 0, "cpus": 20.0, "memory_gb": 10.0}, []),
        ({"gpus": 0, "cpus": 21.0, "memory_gb": 91.0}, ["cpus", "memory_gb"]),
    ],
)
def test_all_that_a_job_asks_for_fits_one_place(asks: dict[str, float], columns: list[str]) -> None:
    """One node has the CPUs and the other one the memory."""
    one, other = cluster_of(2, 2).nodes
    nodes = (replace(one, cpus=20.0, memory_gb=50.0), replace(other, cpus=10.0, memory_gb=90.0))
    cluster = replace(cluster_of(2, 2), nodes=nodes)
    found = [problem.column for problem in misfits(a_request(**asks), cluster)]
    assert found == columns


def test_a_job_that_keeps_its_gpus_has_to_fit_with_those() -> None:
    """Its owner allows one to eight GPUs, with 4 CPU cores for each of the two of the usual size."""
    request = a_request(gpus=2, min_gpus=1, max_gpus=8, cpus=8.0)
    cluster = cluster_of(4)
    assert not list(misfits(request, cluster))
    found = [problem.column for problem in misfits(request, cluster, fixed_gpus=8)]
    assert found[0] == "gpus"
    cluster = replace(cluster, nodes=(replace(cluster.nodes[0], cpus=15.0),))
    assert [problem.column for problem in misfits(request, cluster, fixed_gpus=4)] == ["cpus"]
    assert not list(misfits(request, cluster, fixed_gpus=3))
