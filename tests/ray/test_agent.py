"""An agent without Ray: whom it serves, and when it may be replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.cluster.ledger import NodeAllocation
from muster.service.engines.interface import KillStart, Launch
from muster.service.engines.ray import agent as module
from muster.service.engines.ray.agent import HOME_VARIABLE, Agent
from muster.service.engines.ray.messages import AgentRefusal, AgentReply, AgentSetup, RayNode
from tests.service.engines.bench import until

OURS, THEIRS = AgentSetup("ours", (1, 1), "1"), AgentSetup("theirs", (1, 1), "1")
NODE = RayNode("node1", "f" * 56, "127.0.0.1", 8, "", 4.0, 8.0)


def test_an_agent_with_jobs_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long its daemon is away: they would lose their lease, and others get their GPUs before that."""
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "agents"))
    monkeypatch.setattr(module, "_is_alive", lambda _: True)
    agent = Agent(OURS, NODE)
    here = (NodeAllocation("node1", (0,), 1.0, 1.0),)
    folder = tmp_path / "1"
    launch = Launch(1, 1, folder / "run", folder / "output", ("sleep", "600"), tmp_path, {}, here, (1,), None)
    assert replied(agent.turn(OURS, [launch])).errors == [None]
    assert refused(agent.turn(THEIRS, [])) == AgentRefusal("another Muster uses this node", is_over=False)
    monkeypatch.setattr(module, "ABANDONED_SECONDS", 0.0)
    refusal = refused(agent.turn(THEIRS, []))
    assert refusal.why.startswith("another Muster has 1 job on this node, and its daemon is away. Hint: ")
    assert not refusal.is_over
    agent.turn(OURS, [KillStart(1, 1)])
    until(lambda: all(one.ended for one in replied(agent.turn(OURS, [])).starts), "its end")
    assert refused(agent.turn(THEIRS, [])) == AgentRefusal("another Muster uses this node", is_over=True)


def replied(answer: AgentReply | AgentRefusal) -> AgentReply:
    assert isinstance(answer, AgentReply)
    return answer


def refused(answer: AgentReply | AgentRefusal) -> AgentRefusal:
    assert isinstance(answer, AgentRefusal)
    return answer
