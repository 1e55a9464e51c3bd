"""Starts Ray's own processes in a network namespace that has loopback alone: one head and some nodes.

Each node has 8 GPUs, 4 CPUs and 500 GB that exist in Ray's books only. Everything lies in one folder and ends with the
`with` statement; only processes that were started here are ended.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from muster import processes
from tests.slurm.cluster import OWN_MOUNTS

GPUS, CPUS, MEMORY_GB = 8, 4, 500
PORT = 6379
ADDRESS = f"127.0.0.1:{PORT}"
_PATIENCE = 300.0
"""Seconds until something that must come counts as broken."""
_POLL = 0.1
_CLONE_NEWNET = 0x40000000
_SET_FLAGS, _UP_AND_RUNNING = 0x8914, 0x41
_SETTINGS = {
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 1000,
    "health_check_failure_threshold": 3,
    "health_check_initial_delay_ms": 0,
    "gcs_rpc_server_reconnect_timeout_s": 5,
}
"""So that a dead raylet is known after a second, and nodes end soon after their head."""


def missing() -> str:
    """What a test says that needs Ray where it cannot run; "" where it can."""
    if find_spec("ray") is None:
        return "Ray is not installed: pip install 'muster-scheduler[ray]'"
    return "" if os.geteuid() == 0 else "a network namespace is made as root"


@contextmanager
def own_network() -> Iterator[None]:
    """Within a network namespace of its own, this thread and what it starts reach this machine's loopback alone."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.unshare(_CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
            fcntl.ioctl(door, _SET_FLAGS, struct.pack("16sh22x", b"lo", _UP_AND_RUNNING))
        yield
    finally:
        libc.setns(before, _CLONE_NEWNET)
        os.close(before)


@dataclass
class RayCluster:
    """The running nodes by name; the first one is the head."""

    folder: Path
    nodes: tuple[str, ...]
    started: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    """`ray start --block`, the parent of a node's processes."""

    @property
    def head(self) -> str:
        return self.nodes[0]

    @property
    def agents_home(self) -> Path:
        return self.folder / "agents"

    @property
    def environment(self) -> Mapping[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MUSTER_", "RAY_"))}
        settings = {f"RAY_{name}": str(value) for name, value in _SETTINGS.items()}
        return {**kept, **settings, "MUSTER_AGENT_HOME": str(self.agents_home)}

    def start(self, name: str, *options: str) -> None:
        """Start a node, and wait until it has joined."""
        where = ["--head", f"--port={PORT}", f"--temp-dir={self.folder / 'ray'}", "--include-dashboard=false"]
        if name != self.head:
            where = [f"--address={ADDRESS}"]
        command = [
            *OWN_MOUNTS,
            str(Path(sys.executable).with_name("ray")),
            "start",
            *where,
            "--block",
            "--disable-usage-stats",
            "--node-ip-address=127.0.0.1",
            f"--node-name={name}",
            f"--num-gpus={GPUS}",
            f"--num-cpus={CPUS}",
            f"--memory={MEMORY_GB * 10**9}",
            "--object-store-memory=80000000",
            *options,
        ]
        path = self.folder / f"{name}.out"
        before = len(path.read_text()) if path.exists() else 0
        with path.open("ab") as log:
            process = subprocess.Popen(
                command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.started[name] = process
        wait_for(
            lambda: "Ray runtime started" in path.read_text()[before:] or process.poll() is not None,
            path.read_text,
        )
        assert process.poll() is None, path.read_text()

    def pids(self, name: str) -> list[int]:
        """Ray's own processes on a node, its agent too."""
        process = self.started[name]
        below = processes.descendants(process.pid)
        return [process.pid, *(pid for pid in below if not processes.is_of_a_start(pid))]

    def lives(self, name: str) -> bool:
        """Whether the process lives that a node is to Ray."""
        return bool(self.raylets(name))

    def raylets(self, name: str) -> list[int]:
        """The process that a node is to Ray; none if it has ended."""
        return list(filter(_is_raylet, self.pids(name)))

    def end_agents(self) -> None:
        """Kill Muster's agents on all nodes, as another store takes them over a minute after its daemon ended."""
        for name in self.nodes:
            self.end_agent(name)

    def end_agent(self, name: str) -> None:
        """Kill Muster's agent on a node."""
        for pid in filter(_is_agent, self.pids(name)):
            _send(pid, signal.SIGKILL)

    def signal_raylet(self, name: str, number: signal.Signals) -> None:
        """Send a signal to the process that a node is to Ray."""
        for pid in self.raylets(name):
            _send(pid, number)

    def restart_ended(self) -> list[str]:
        """Start the nodes again whose raylet has ended, after what is left of Ray there; which they are."""
        ended = [name for name in self.nodes if not self.lives(name)]
        for name in ended:
            self.kill(name)
            self.start(name)
        return ended

    def started_pids(self, name: str) -> list[int]:
        """Supervisors and ranks of Muster's starts on a node."""
        ending = hashlib.sha256(name.encode()).hexdigest()[:12]
        folders = [folder for folder in self.agents_home.glob(f"*/{ending}/starts/*") if folder.is_dir()]
        return [pid for folder in folders for pid in processes.marked(folder)]

    def kill(self, name: str) -> None:
        """Kill all of Ray on a node at once; Muster's starts live on there."""
        pids = self.pids(name)
        for pid in pids:
            _send(pid, signal.SIGKILL)
        self.started[name].wait()
        wait_for(lambda: not any(map(processes.look_at, pids)), lambda: f"{name} lives on")

    def kill_starts(self, name: str) -> None:
        """Kill what Muster has started on a node, as a loss of power would."""
        for pid in self.started_pids(name):
            _send(pid, signal.SIGKILL)

    def stop_node(self, name: str) -> None:
        """Stop all processes of a node, as a machine that hangs."""
        for pid in [*self.pids(name), *self.started_pids(name)]:
            _send(pid, signal.SIGSTOP)

    def go_on(self, name: str) -> None:
        """Have a node go on that was stopped."""
        for pid in [*self.pids(name), *self.started_pids(name)]:
            _send(pid, signal.SIGCONT)


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _is_agent(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::Agent")
    except OSError:
        return False


def _is_raylet(pid: int) -> bool:
    try:
        return "raylet" in Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return False


def wait_for(holds: Callable[[], object], message: Callable[[], str]) -> None:
    """Wait until `holds()`; AssertionError with `message()` if it takes too long."""
    end = time.monotonic() + _PATIENCE
    while not holds():
        assert time.monotonic() < end, message()
        time.sleep(_POLL)


@contextmanager
def ray_cluster(folder: Path, nodes: int = 3) -> Iterator[RayCluster]:
    """A running Ray of so many nodes in a new folder; they are started one after the other."""
    folder.mkdir()
    cluster = RayCluster(folder, tuple(f"node{at + 1}" for at in range(nodes)))
    with own_network():
        try:
            for name in cluster.nodes:
                cluster.start(name)
            yield cluster
        finally:
            for name in cluster.started:
                cluster.go_on(name)
                cluster.kill_starts(name)
                cluster.kill(name)
