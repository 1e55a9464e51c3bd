"""The agent on one node: an actor of Ray without resources, which runs starts by the local engine.

It renews the lease of its starts as long as the head of the cluster answers and knows this node as alive. So a node
that is cut off ends its starts by itself, before the daemon begins them elsewhere: the daemon waits that long after Ray
has declared the node dead. Agents come and go with Ray; the supervisors of the starts stay, and the next agent finds
them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from muster.formatting import counted
from muster.launcher.folder_trial import try_folder
from muster.launcher.lease import now, write_lease
from muster.service.engines.interface import Command
from muster.service.engines.local.engine import LocalEngine
from muster.service.engines.ray.messages import AgentRefusal, AgentReply, AgentSetup, RayNode
from muster.service.machine import find_machine

HOME_VARIABLE = "MUSTER_AGENT_HOME"
"""In the environment of `ray start`: the folder of agents, on the node's own disk."""
ABANDONED_SECONDS = 60.0
"""After which an agent without living starts that no daemon has called may be replaced by another one's."""
_RENEWALS = 12
"""Of a lease while it holds."""


class Agent:
    """Starts on one node, for one daemon. Ray calls it from one thread."""

    def __init__(self, setup: AgentSetup, node: RayNode) -> None:
        """Find the starts that are there. OSError while an older agent of the same node lives."""
        with suppress(OSError):  # Ray has the kernel kill its workers first; jobs are not to inherit that.
            Path("/proc/self/oom_score_adj").write_text("0")
        self._owner, self._session, self._version = setup.owner, setup.session, setup.version
        self._lease_seconds, self._node_id = setup.lease_seconds, node.node_id
        folder = agents_home() / setup.owner / hashlib.sha256(node.name.encode()).hexdigest()[:12]
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._lease = folder / "lease"
        self._renew()
        machine = find_machine(gpus=node.gpus, cpus=node.cpus, memory_gb=node.memory_gb, name=node.name)
        self._engine = LocalEngine(folder / "starts", machine, self._lease)
        self._called = time.monotonic()
        threading.Thread(target=self._keep_renewing, name="lease", daemon=True).start()

    def turn(self, setup: AgentSetup, commands: Sequence[Command]) -> AgentReply | AgentRefusal:
        """Carry out commands, then look at all starts."""
        if setup.owner != self._owner:
            return self._refusal_of_another()
        if setup.session < self._session:
            return AgentRefusal("a newer daemon uses this node", is_over=False)
        self._session, self._called = setup.session, time.monotonic()
        if setup.version != self._version:
            return AgentRefusal(f"its agent is of version {self._version} of Muster", is_over=True)
        errors = self._engine.carry_out(commands)
        view = self._engine.poll()
        (gpu_use,) = view.gpu_use.values()
        starts = tuple(view.starts)
        return AgentReply(starts, errors, self._engine.enforces, os.geteuid(), gpu_use, time.time())

    def _refusal_of_another(self) -> AgentRefusal:
        """Refuse another store; its agent may come once this one's daemon is gone, and its last job.

        While this agent renews their lease, jobs go on without a daemon. Another one's jobs would get their GPUs.
        """
        silent_seconds = time.monotonic() - self._called
        living = sum(one.ended is None for one in self._engine.observe())
        why = "another Muster uses this node"
        if living and silent_seconds > ABANDONED_SECONDS:
            why = f"another Muster has {counted(living, 'job')} on this node, and its daemon is away. "
            why += "Hint: ray stop there ends them within a minute"
        return AgentRefusal(why, is_over=not living and silent_seconds > ABANDONED_SECONDS)

    def try_folder(self, folder: str, token: str, number: int, count: int) -> str:
        """Return what is wrong with a folder on this node; "" if nothing."""
        return try_folder(Path(folder), token, number, count)

    def _keep_renewing(self) -> None:
        while True:
            time.sleep(self._lease_seconds / _RENEWALS)
            with suppress(Exception):  # the head does not answer, or the disk is full: it is not renewed
                self._renew()

    def _renew(self) -> None:
        """Put the lease off, counted from before the question."""
        asked = now()
        if _is_alive(self._node_id):
            write_lease(self._lease, asked + self._lease_seconds / 2, asked + self._lease_seconds)


def agents_home() -> Path:
    """Return the folder of all agents of this account on this machine, on a disk of its own."""
    if named := os.environ.get(HOME_VARIABLE):
        return Path(named)
    if os.geteuid() == 0:
        return Path("/var/lib/muster-agents")
    home = Path(f"/var/tmp/muster-agents-{os.geteuid()}")
    home.mkdir(mode=0o700, exist_ok=True)
    if home.is_symlink() or home.lstat().st_uid != os.geteuid():
        raise PermissionError(f"{home} belongs to another account. Hint: set {HOME_VARIABLE}")
    return home


def _is_alive(node_id: str) -> bool:
    """Whether the head knows a node as alive."""
    import ray

    return any(node["NodeID"] == node_id and node["Alive"] for node in ray.nodes())
