"""What the daemon, its link to Ray and the agents send each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from muster.gpu_use import GpuUse
from muster.service.engines.interface import Command, Observed

LEASE_SECONDS = 60.0
"""For which a node may go on with its starts after it has reached the head of the cluster last."""


@dataclass(frozen=True)
class AgentSetup:
    """Whose agents they are, and how long their starts may live alone."""

    owner: str
    """The store's own name: agents of another one are left alone."""
    session: tuple[int, int]
    """Counts up; what an older link has sent and an agent reads late is refused."""
    version: str
    """Of Muster: an agent of another version is replaced, and its starts go on."""
    lease_seconds: float = LEASE_SECONDS


@dataclass(frozen=True)
class RayNode:
    """A node that Ray knows as alive."""

    name: str
    node_id: str
    """Another one after each start of Ray on that machine."""
    address: str
    gpus: int
    gpu_type: str
    """Empty: Ray names none."""
    cpus: float
    memory_gb: float
    labels: tuple[str, ...] = ()
    used_gpus: float = 0.0
    """What jobs of Ray itself hold there."""
    used_cpus: float = 0.0
    used_memory_gb: float = 0.0
    is_draining: bool = False
    """Ray starts nothing more there, and it will go away."""


@dataclass(frozen=True)
class AgentReply:
    """What an agent says in a turn."""

    starts: Sequence[Observed]
    """Every start on its node, after the commands."""
    errors: Sequence[Exception | None]
    """Of each command."""
    enforces: str
    account: int
    """Number of the account whose processes they are."""
    gpu_use: Sequence[GpuUse | None]
    """How busy the GPUs of its node are; empty: it is not known."""
    now: float
    """Unix seconds by the clock of its node, as are all times of its starts."""


@dataclass(frozen=True)
class AgentRefusal:
    """An agent that did nothing."""

    why: str
    is_over: bool
    """it may be replaced: no daemon uses it any more, or it is of another version."""


@dataclass(frozen=True)
class Turn:
    """A request to the link: have the agents carry out these commands, by the name of their node."""

    setup: AgentSetup
    commands: Mapping[str, Sequence[Command]]


@dataclass(frozen=True)
class NodesOnly:
    """A request to the link: which nodes there are. No agent is asked or started."""


@dataclass(frozen=True)
class FolderTrial:
    """A request to the link: have agents that are up try a folder, two at most."""

    folder: str
    token: str


@dataclass(frozen=True)
class FolderAnswers:
    """What is wrong with a folder, by the name of the node; "" where it is well. Empty: no agent is free."""

    problems: Mapping[str, str]


@dataclass(frozen=True)
class Look:
    """What the link has found."""

    nodes: Sequence[RayNode]
    """Those with GPUs."""
    replies: Mapping[str, AgentReply]
    """By the name of the node."""
    problems: Mapping[str, str]
    """Why a node that Ray knows as alive has not answered."""
    known: Mapping[str, frozenset[str]]
    """All ids that Ray knows of nodes with a name, those of dead ones too."""
