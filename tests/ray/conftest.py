"""A Ray of three nodes that the tests of one file share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.service.engines.ray.connection import RayConnection
from tests.ray.cluster import ADDRESS, RayCluster, missing, ray_cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    """Skips where Ray is not installed. Its sockets need a short path."""
    if what := missing():
        pytest.skip(what)
    with tempfile.TemporaryDirectory(dir="/tmp") as parent:
        Path(parent).chmod(0o711)
        with ray_cluster(Path(parent) / "ray") as cluster:
            yield cluster


@pytest.fixture(scope="module")
def connection(cluster: RayCluster) -> Iterator[RayConnection]:
    """A link that the tests of one file share: it takes seconds to come up."""
    connection = RayConnection(ADDRESS)
    yield connection
    connection.close()
