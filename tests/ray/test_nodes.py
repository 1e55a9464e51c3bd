"""What Ray says of its nodes reaches Muster."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.service.engines import Exit
from muster.service.engines.ray.connection import RayConnection
from muster.service.engines.ray.messages import NodesOnly
from tests.ray.cluster import ADDRESS, RayCluster
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


def test_jobs_leave_a_node_that_ray_drains(
    case: RayCase, cluster: RayCluster, connection: RayConnection
) -> None:
    """Its agent is still there, so they save and end like others that are moved."""
    cluster.start("leaving")
    case.until(lambda: "leaving" in case.node_names(), "the node")
    case.send(case.described(1, 1, ["sleep", "600"], nodes=["leaving"]))
    case.until(lambda: cluster.started_pids("leaving"), "its processes")
    ids = {node.name: node.node_id for node in connection.ask(NodesOnly()).nodes}
    drain(cluster, ids["leaving"])
    case.until(lambda: len(case.node_names()) == 3, "that nothing more starts there")
    assert case.observed(1).ended is None
    case.signal(1, 1)
    assert case.end(1).ended is Exit.STOPPED
    cluster.kill("leaving")


def drain(cluster: RayCluster, node_id: str) -> None:
    """Drain a node as an administrator or a cloud's notice does."""
    words = ["drain-node", f"--address={ADDRESS}", f"--node-id={node_id}", "--reason-message=test"]
    words += ["--reason=DRAIN_NODE_REASON_PREEMPTION", "--deadline-remaining-seconds=600"]
    ray = str(Path(sys.executable).with_name("ray"))
    subprocess.run([ray, *words], env=dict(cluster.environment), check=True, capture_output=True)
