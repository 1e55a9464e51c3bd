"""Nodes of a real Ray come and go: starts live on through it, or are given up once nothing of them can live."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from muster.cluster.ledger import NodeAllocation
from muster.service.engines import Exit
from muster.service.engines.ray.connection import NodeUnreachable, RayConnection, RayError
from muster.service.engines.ray.engine import RayEngine
from tests.ray.cluster import ADDRESS, RayCluster, wait_for
from tests.ray.test_engine_conformance import RayCase
from tests.service.cli.daemons import open_folder
from tests.service.engines.conformance import Work

pytestmark = pytest.mark.needs_ray

LEASE_SECONDS = 6.0
HOLDER = """
import ray, sys, time
ray.init(address=sys.argv[1], logging_level="ERROR", log_to_driver=False)
@ray.remote(num_gpus=3, num_cpus=1)
def hold():
    time.sleep(600)
held = [hold.remote()]
print("holds", flush=True)
time.sleep(600)
"""
UNPLACEABLE = """
import sys, ray
from muster.service.engines.ray import link as module
from muster.service.engines.ray.messages import AgentSetup, RayNode
module.NEW_SECONDS, module.STUCK_NEW_SECONDS = 2.0, 1.0
ray.init(address=sys.argv[1], namespace="muster", logging_level="ERROR", log_to_driver=False)
setup, node = AgentSetup("owner", (1, 1), "1"), RayNode("gone", "f" * 56, "127.0.0.1", 8, "", 4.0, 8.0)
link = module.RayLink()
waiting = ray.remote(module.Agent).options(resources={"none has it": 1}).remote(setup, node)
for called in (link._agent(setup, node), module._Called(waiting)):
    link._agents[node.node_id] = called
    called.answer, called.asked = called.handle.turn.remote(setup, []), module._now()
    link._wait()
    print(link._answer(node, called), list(link._agents))
"""


@contextmanager
def engine_case(cluster: RayCluster, lease_seconds: float) -> Iterator[RayCase]:
    """An engine with agents of its own."""
    connection = RayConnection(ADDRESS)
    with open_folder(0o711) as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(RayEngine, "lease_seconds", lease_seconds)
        try:
            case = RayCase(folder / "home", folder, connection)
            case.until(lambda: len(case.node_names()) == 3, "all nodes")
            yield case
            case.until(lambda: len(case.node_names()) == 3, "all nodes")
            case.clear()
        finally:
            cluster.end_agents()
            connection.close()


@pytest.fixture
def case(cluster: RayCluster) -> Iterator[RayCase]:
    """Its lease is longer than Ray needs to start again, on a busy machine too."""
    with engine_case(cluster, 600.0) as case:
        yield case


@pytest.fixture
def short_lease(cluster: RayCluster) -> Iterator[RayCase]:
    with engine_case(cluster, LEASE_SECONDS) as case:
        yield case


def supervisor_and_rank(case: RayCase, cluster: RayCluster) -> list[int]:
    """Wait for the processes of a start on node2."""
    found: list[int] = []

    def both_run() -> bool:
        # A process that is just replaced by another program is not listed.
        found[:] = cluster.started_pids("node2")
        return len(found) == 2

    case.until(both_run, "supervisor and rank")
    return found


def test_a_start_lives_on_while_ray_starts_again(case: RayCase, cluster: RayCluster) -> None:
    case.launch(1)  # on node2
    before = supervisor_and_rank(case, cluster)
    cluster.kill("node2")
    case.until(lambda: case.node_names() == ["node1", "node3"], "that the node is away")
    assert case.observed(1).ended is None
    with pytest.raises(NodeUnreachable, match="node node2 cannot be reached: away"):
        case.signal(1, 1)
    cluster.start("node2")
    case.until(lambda: len(case.node_names()) == 3, "that the node is back")
    assert cluster.started_pids("node2") == before
    case.signal(1, 1)
    assert case.end(1).ended is Exit.STOPPED


def test_what_is_given_up_has_ended_before(short_lease: RayCase, cluster: RayCluster) -> None:
    """The rank ignores SIGTERM, and the other node of its gang is there all the time."""
    words = ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]
    short_lease.send(short_lease.described(1, 1, words, nodes=["node2", "node3"]))
    short_lease.until(lambda: cluster.started_pids("node2") and cluster.started_pids("node3"), "both parts")
    cluster.kill("node2")
    short_lease.until(lambda: short_lease.observed(1).ended, "that the start is given up")
    assert cluster.started_pids("node2") == []
    end = short_lease.observed(1)
    assert (end.ended, "node node2 is away" in end.message) == (Exit.LOST, True)
    short_lease.reopen()
    assert short_lease.observed(1) == end
    short_lease.send(short_lease.described(1, 2, ["true"], nodes=["node1", "node3"]))
    assert short_lease.end(1, 2).ended is Exit.COMPLETED
    cluster.start("node2")


def test_a_forgotten_start_is_removed_when_its_node_is_back(
    short_lease: RayCase, cluster: RayCluster
) -> None:
    short_lease.launch(1)
    short_lease.until(lambda: cluster.started_pids("node2"), "its processes")
    cluster.kill("node2")
    assert short_lease.end(1).ended is Exit.LOST
    short_lease.forget(1)
    cluster.start("node2")
    short_lease.until(lambda: len(short_lease.node_names()) == 3, "that the node is back")
    short_lease.until(
        lambda: not short_lease.starts() and not list(cluster.agents_home.glob("*/*/starts/*")), "its removal"
    )


def test_nothing_begins_on_a_node_that_is_away(case: RayCase, cluster: RayCluster) -> None:
    cluster.kill("node2")
    case.until(lambda: len(case.node_names()) == 2, "that the node is away")
    with pytest.raises(OSError, match="node node2 cannot be used"):
        case.launch(1)
    assert case.starts() == []
    cluster.start("node2")


def test_killed_agents_and_links_are_replaced(case: RayCase, cluster: RayCluster) -> None:
    """A node with starts stays listed meanwhile: jobs would be moved away from one that is missing."""
    case.launch(1)
    case.until(lambda: case.observed(1).ended is None and not case.observed(1).pending, "its delivery")
    cluster.end_agents()
    assert "node2" in case.node_names()
    case.until(lambda: len(case.node_names()) == 3, "new agents")
    assert case.observed(1).ended is None
    case._connection.close()
    assert len(case.node_names()) == 3
    case.kill(1)
    assert case.end(1).ended is Exit.STOPPED


def test_without_a_head_nothing_is_known(case: RayCase, cluster: RayCluster) -> None:
    """The head comes back without its memory; starts live on if all is there again in time."""
    case.launch(1)
    before = supervisor_and_rank(case, cluster)
    for name in cluster.nodes:
        cluster.kill(name)
    with pytest.raises(RayError, match=f"Ray at {ADDRESS} does not answer|no head of a Ray cluster listens"):
        case.starts()
    with pytest.raises(RayError, match="no head of a Ray cluster listens at"):
        case.starts()
    for name in cluster.nodes:
        cluster.start(name)
    case.until(lambda: len(case.node_names()) == 3, "all nodes")
    assert case.observed(1).ended is None
    assert cluster.started_pids("node2") == before


def test_what_ray_itself_runs_is_held_by_others(case: RayCase, cluster: RayCluster) -> None:
    command = [sys.executable, "-c", HOLDER, ADDRESS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as holder:
        wait_for(lambda: [state for state in case.engine.poll().nodes if state.others], lambda: "none held")
        (held,) = [state.others for state in case.engine.poll().nodes if state.others]
        assert held == NodeAllocation(held.node, (0, 1, 2), 1.0, 0.0)
        holder.kill()
    wait_for(lambda: all(state.others is None for state in case.engine.poll().nodes), lambda: "still held")


def test_an_agent_that_has_no_place_is_named_and_dropped(cluster: RayCluster) -> None:
    """Ray would keep it waiting for ever, silently."""
    command = [sys.executable, "-c", UNPLACEABLE, ADDRESS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    gone, waiting = done.stdout.splitlines()[-2:]
    assert gone.startswith("its agent ended: ActorUnschedulableError: ")
    assert gone.endswith(" []")
    assert waiting == "its agent does not start (2 s) []"


def test_a_node_name_that_two_have_is_not_used(case: RayCase, cluster: RayCluster) -> None:
    """Its starts stay as they are: both nodes are alive."""
    case.launch(1, work=Work.ENDLESS)
    twin = RayCluster(cluster.folder / "twin", cluster.nodes)
    (twin.folder / "out").mkdir(parents=True)
    twin.start("node2")
    try:
        case.until(lambda: case.node_names() == ["node1", "node3"], "that the name is not used")
        assert case.observed(1).ended is None
    finally:
        twin.kill("node2")
    case.until(lambda: len(case.node_names()) == 3, "that the name is one node's again")
    assert case.observed(1).ended is None


@contextmanager
def another_node2(cluster: RayCluster) -> Iterator[None]:
    """The machine of node2 dies, and another one has its name, with a disk of its own."""
    cluster.kill("node2")
    other = RayCluster(cluster.folder / "other", cluster.nodes)
    other.folder.mkdir(exist_ok=True)
    other.start("node2")
    try:
        yield
    finally:
        other.kill("node2")
        cluster.start("node2")


def test_a_start_outlives_another_node_of_the_name(case: RayCase, cluster: RayCluster) -> None:
    """It may have lost its network only: while its lease holds, nothing begins elsewhere."""
    case.launch(1)  # on node2
    before = supervisor_and_rank(case, cluster)
    with another_node2(cluster):
        case.until(lambda: len(case.node_names()) == 3, "that the name is in use again")
        assert (case.observed(1).ended, cluster.started_pids("node2")) == (None, before)
    case.until(lambda: len(case.node_names()) == 3, "that its own node is back")
    case.kill(1)
    assert case.end(1).ended is Exit.STOPPED


def test_it_is_lost_once_its_lease_is_over(short_lease: RayCase, cluster: RayCluster) -> None:
    short_lease.launch(1)
    short_lease.until(lambda: cluster.started_pids("node2"), "its processes")
    with another_node2(cluster):
        short_lease.until(lambda: len(short_lease.node_names()) == 3, "that the name is in use again")
        end = short_lease.end(1)
        assert cluster.started_pids("node2") == []
    assert (end.ended, "node node2 does not know it any more" in end.message) == (Exit.LOST, True)
