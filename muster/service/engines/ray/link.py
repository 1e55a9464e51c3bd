"""The process that speaks with Ray for the daemon: `python -m muster.service.engines.ray.link FD ADDRESS`.

It answers one request after the other on a socket (`connection.py` is the other side), and ends with the daemon. Every
wait has a limit. A call to an agent that takes longer stays open: the agent gets nothing more until it has answered,
and is killed after `STUCK_SECONDS`. An actor for a node that has just died would wait for ever; it is dropped like that
too.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import ray
from ray._private.state import available_resources_per_node, state

from muster.launcher.folder_trial import TRIAL_SECONDS
from muster.processes import die_with_parent
from muster.service.engines.folder_trial import NODES_AT_MOST
from muster.service.engines.ray.agent import Agent
from muster.service.engines.ray.messages import (
    AgentRefusal,
    AgentReply,
    AgentSetup,
    FolderAnswers,
    FolderTrial,
    Look,
    NodesOnly,
    RayNode,
    Turn,
)
from muster.service.engines.ray.nodes import unusable

NAMESPACE = "muster"
CALL_SECONDS = 2.0
"""For which a turn waits for agents that are up."""
NEW_SECONDS = 20.0
"""For which a turn waits for agents that are being started: a process of Python, and its imports."""
FOLDER_SECONDS = TRIAL_SECONDS + 5.0
"""For a trial of a folder by agents that are up."""
STUCK_SECONDS = 30.0
"""After which an agent that has not answered is killed; the next turn starts another one."""
STUCK_NEW_SECONDS = 120.0
"""For one that is still being started, as on a busy node."""
_GB = 1e9
_GPU_TYPE = "accelerator_type:"


@dataclass
class _Called:
    """An agent, and the call that it has not answered yet."""

    handle: Any
    answer: Any = None
    asked: float = 0.0
    """When (monotonic)."""
    is_new: bool = True


class RayLink:
    """The agents of one Ray cluster, by the id of their node."""

    def __init__(self) -> None:
        self._agents: dict[str, _Called] = {}

    def turn(self, request: Turn) -> Look:
        """Have all agents carry out what is for them; start those that are missing."""
        nodes, problems, known = look_at_nodes()
        asked: dict[str, _Called] = {}
        for node in nodes:
            called = self._agents.get(node.node_id)
            if called is None or called.answer is None:
                commands = list(request.commands.get(node.name, ()))
                try:
                    called = self._agents.setdefault(node.node_id, called or self._agent(request.setup, node))
                    called.answer, called.asked = called.handle.turn.remote(request.setup, commands), _now()
                    asked[node.name] = called
                except Exception as error:
                    problems[node.name] = short(error)
                    self._agents.pop(node.node_id, None)
        self._wait()
        replies: dict[str, AgentReply] = {}
        for node in nodes:
            called = self._agents.get(node.node_id)
            if called is not None:
                reply = self._answer(node, called)
                if isinstance(reply, str):
                    problems[node.name] = reply
                elif node.name in asked:
                    replies[node.name] = reply
                else:
                    problems[node.name] = "its agent answered late"
        self._forget_others({node.node_id for node in nodes})
        return Look(nodes, replies, problems, known)

    def try_folder(self, request: FolderTrial) -> FolderAnswers:
        """Have agents that have answered their last call try a folder; stop waiting once one has found a problem."""
        nodes, _, _ = look_at_nodes()
        idle = [node for node in nodes if _is_idle(self._agents.get(node.node_id))][:NODES_AT_MOST]
        asked = {
            self._agents[node.node_id].handle.try_folder.remote(
                request.folder, request.token, number, len(idle)
            ): node.name
            for number, node in enumerate(idle)
        }
        problems: dict[str, str] = {}
        end = _now() + FOLDER_SECONDS
        while asked and not any(problems.values()):
            done, _ = ray.wait(list(asked), timeout=max(0.0, end - _now()))
            if not done:
                return FolderAnswers(
                    dict.fromkeys(asked.values(), f"does not answer within {FOLDER_SECONDS:g} s")
                )
            name = asked.pop(done[0])
            try:
                problems[name] = ray.get(done[0], timeout=CALL_SECONDS)
            except Exception as error:
                problems[name] = f"cannot try it: {short(error)}"
        return FolderAnswers(problems)

    def _agent(self, setup: AgentSetup, node: RayNode) -> _Called:
        """Find the agent of a node by its name, or start it there and nowhere else."""
        options = {
            "name": f"agent-{node.node_id}",
            "namespace": NAMESPACE,
            "lifetime": "detached",
            "get_if_exists": True,
            "num_cpus": 0,
            "max_restarts": 0,
            "label_selector": {"ray.io/node-id": node.node_id},
        }
        return _Called(ray.remote(Agent).options(**options).remote(setup, node))

    def _wait(self) -> None:
        """Wait for the answers, longer where an agent is new."""
        limit = _now() + CALL_SECONDS
        for called in self._agents.values():
            if called.is_new and called.answer is not None:
                limit = max(limit, called.asked + NEW_SECONDS)
        answers = [called.answer for called in self._agents.values() if called.answer is not None]
        if answers:
            ray.wait(answers, num_returns=len(answers), timeout=max(0.0, limit - _now()))

    def _answer(self, node: RayNode, called: _Called) -> AgentReply | str:
        """Return what an agent has answered, or why there is nothing of it."""
        done, _ = ray.wait([called.answer], timeout=0)
        if not done:
            waited = _now() - called.asked
            if waited > (STUCK_NEW_SECONDS if called.is_new else STUCK_SECONDS):
                self._drop(node.node_id)
            what = "does not start" if called.is_new else "does not answer"
            return f"its agent {what} ({waited:.0f} s)"
        try:
            reply = ray.get(called.answer, timeout=CALL_SECONDS)
        except Exception as error:  # it died, with its node or alone, or cannot be started
            self._drop(node.node_id)
            return f"its agent ended: {short(error)}"
        called.answer, called.is_new = None, False
        if isinstance(reply, AgentRefusal):
            if reply.is_over:
                self._drop(node.node_id)
            return reply.why
        if not isinstance(reply, AgentReply):
            return f"its agent answered {type(reply).__name__}"
        return reply

    def _drop(self, node_id: str) -> None:
        """End an agent, whatever state it is in; its starts live on."""
        called = self._agents.pop(node_id)
        with suppress(Exception):
            ray.kill(called.handle)

    def _forget_others(self, alive: set[str]) -> None:
        """Drop the agents of nodes that are gone: one that was never placed would wait for ever."""
        for node_id in self._agents.keys() - alive:
            self._drop(node_id)


def _is_idle(called: _Called | None) -> bool:
    return called is not None and called.answer is None


def look_at_nodes() -> tuple[list[RayNode], dict[str, str], dict[str, frozenset[str]]]:
    """Return the nodes that can be used, what is wrong with others that are alive, and all known ids by name."""
    listed = ray.nodes()
    free = available_resources_per_node()
    draining = state.get_draining_nodes()
    known: dict[str, set[str]] = {}
    for node in listed:
        known.setdefault(node["NodeName"], set()).add(node["NodeID"])
    alive = [node for node in listed if node["Alive"]]
    names = [node["NodeName"] for node in alive]
    twice = {name for name in names if names.count(name) > 1}
    what = "several nodes of Ray have this name. Hint: ray start --node-name NAME"
    with_gpus = [
        _node(node, free.get(node["NodeID"]), is_draining=node["NodeID"] in draining)
        for node in alive
        if node["NodeName"] not in twice and int(node["Resources"].get("GPU", 0)) > 0
    ]
    problems = dict.fromkeys(twice, what) | {node.name: why for node in with_gpus if (why := unusable(node))}
    usable = sorted((node for node in with_gpus if node.name not in problems), key=lambda node: node.name)
    return usable, problems, {name: frozenset(ids) for name, ids in known.items()}


def _node(node: Mapping[str, Any], free: Mapping[str, float] | None, *, is_draining: bool) -> RayNode:
    has: Mapping[str, float] = node["Resources"]
    left = has if free is None else free
    used = {name: max(has.get(name, 0.0) - left.get(name, 0.0), 0.0) for name in ("GPU", "CPU", "memory")}
    types = [name.removeprefix(_GPU_TYPE) for name in has if name.startswith(_GPU_TYPE)]
    return RayNode(
        name=node["NodeName"],
        node_id=node["NodeID"],
        address=node["NodeManagerAddress"],
        gpus=int(has["GPU"]),
        gpu_type=types[0] if types else "",
        cpus=has.get("CPU", 0.0),
        memory_gb=has.get("memory", 0.0) / _GB,
        # Ray lists them in another order each time.
        labels=tuple(
            f"{name}:{value}" for name, value in sorted(node["Labels"].items()) if not _is_of_ray(name)
        ),
        used_gpus=used["GPU"],
        used_cpus=used["CPU"],
        used_memory_gb=used["memory"] / _GB,
        is_draining=is_draining,
    )


def _is_of_ray(label: str) -> bool:
    return label.startswith("ray.io/")


def short(error: Exception) -> str:
    """Return the cause of an error of Ray: its last line that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else 'no reason given'}"[:300]


def _now() -> float:
    return time.monotonic()


def main(descriptor: int, address: str) -> None:
    """Connect to Ray, say so, and answer until the daemon is gone."""
    die_with_parent()
    with Connection(descriptor) as daemon:
        try:
            ray.init(
                address=address,
                namespace=NAMESPACE,
                log_to_driver=False,
                configure_logging=False,
                logging_level=logging.ERROR,
            )
        except Exception as error:
            daemon.send(short(error))
            return
        daemon.send("")
        link = RayLink()
        with suppress(EOFError):
            while True:
                request = daemon.recv()
                if isinstance(request, NodesOnly):
                    nodes, problems, known = look_at_nodes()
                    daemon.send(Look(nodes, {}, problems, known))
                elif isinstance(request, FolderTrial):
                    daemon.send(link.try_folder(request))
                else:
                    daemon.send(link.turn(request))
    os._exit(0)  # without Ray's own farewell, which may wait


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
