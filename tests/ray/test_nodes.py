"""What Ray says of its nodes reaches Muster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from muster.service.engines.ray.connection import RayConnection
from tests.ray.cluster import RayCluster
from tests.ray.test_engine_conformance import RayCase
from tests.service.cli.daemons import open_folder

pytestmark = pytest.mark.needs_ray


@pytest.fixture
def case(cluster: RayCluster, connection: RayConnection) -> Iterator[RayCase]:
    with open_folder(0o711) as folder:
        case = RayCase(folder / "home", folder, connection)
        case.until(lambda: len(case.node_names()) == 3, "all nodes")
        yield case
        case.clear()
    cluster.end_agents()


def test_a_node_with_several_labels_stays_the_same(case: RayCase, cluster: RayCluster) -> None:
    """Ray lists labels in an order of its own; a node that changes makes all plans void."""
    cluster.start("labelled", "--labels=zone=a,team=vision,disk=ssd,age=new")
    case.until(lambda: "labelled" in case.node_names(), "the node")
    looks = [case.engine.poll().nodes for _ in range(20)]
    seen = {node.node.labels for nodes in looks for node in nodes if node.node.name == "labelled"}
    assert seen == {("age:new", "disk:ssd", "team:vision", "zone:a")}
    cluster.kill("labelled")
    case.until(lambda: len(case.node_names()) == 3, "that the node is gone")
