"""Starts Slurm's own daemons on loopback: one controller and some nodes, each with GPUs that are plain device files.

Everything lies in one folder and ends with the `with` statement. Several of them can run beside each other: ports are
free ones, and munged has a socket and a key of its own.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

GPUS = 8
_PATIENCE = 300.0
"""Seconds until a daemon that does not answer counts as broken."""
_POLL = 0.1


def missing_programs() -> str:
    """What a test says that needs Slurm where it cannot run; "" where it can."""
    needed = ("slurmctld", "slurmd", "munged", "squeue")
    absent = [name for name in needed if shutil.which(name, path=_PATH) is None]
    if absent:
        return f"{', '.join(absent)} not found: apt-get install slurmctld slurmd slurm-client munge"
    return "" if os.getuid() == 0 else "Slurm's daemons are started as root"


_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


@dataclass
class SlurmCluster:
    """The running daemons, by name, and how to talk to them."""

    folder: Path
    nodes: tuple[str, ...]
    ports: tuple[int, ...]
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def conf(self) -> Path:
        return self.folder / "slurm.conf"

    @property
    def environment(self) -> Mapping[str, str]:
        """What a process needs to talk to this cluster and to no other."""
        return {**os.environ, "PATH": _PATH, "SLURM_CONF": str(self.conf)}

    def run(self, *command: str, check: bool = True, stdin: str | None = None) -> str:
        """What a command of Slurm prints; AssertionError with its message if it fails."""
        done = subprocess.run(
            command,
            env=self.environment,
            input=stdin,
            text=True,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
        assert not check or done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
        return done.stdout

    def move(self, number: str, partition: str) -> None:
        """Put a waiting job into another partition; 24.11 may refuse that for a moment."""

        def is_moved() -> bool:
            self.run("scontrol", "update", f"jobid={number}", f"Partition={partition}", check=False)
            return f"{number} {partition}" in self.run("squeue", "-h", "-a", "-o", "%i %P").splitlines()

        wait_for(is_moved, lambda: f"job {number} is not in partition {partition}")

    def start(self, name: str) -> None:
        """Start one daemon: `munged`, `slurmctld` or the name of a node."""
        if name == "munged":
            command = munged(self.folder)
        elif name == "slurmctld":
            command = ["slurmctld", "-D", "-f", str(self.conf)]
        else:
            command = [*OWN_MOUNTS, "slurmd", "-D", "-f", str(self.conf), "-N", name]
        log = (self.folder / f"{name}.out").open("ab")
        with log:
            self.processes[name] = subprocess.Popen(
                command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to one daemon; wait for it unless it only stops or goes on."""
        process = self.processes[name]
        process.send_signal(number)
        if number not in (signal.SIGSTOP, signal.SIGCONT):
            process.wait(_PATIENCE)

    def wait_ready(self) -> None:
        """Wait until the controller answers."""
        wait_for(lambda: " UP" in self.run("scontrol", "ping", check=False), lambda: self._ended())

    def wait_idle(self) -> None:
        """Wait until every node has registered and is idle."""
        wait_for(
            lambda: bool(self._ended()) or self._states() == {"idle"},
            lambda: (
                f"nodes are not idle: {self._states()} {self.run('sinfo', '--list-reasons', check=False)}"
            ),
        )
        assert not self._ended(), self._ended()

    def _ended(self) -> str:
        """What the daemons said that have ended by themselves."""
        dead = [name for name, process in self.processes.items() if process.poll() is not None]
        return "\n".join(f"{name}: {(self.folder / f'{name}.out').read_text()}" for name in dead)

    def _states(self) -> set[str]:
        return set(self.run("sinfo", "-h", "-N", "-o", "%T", check=False).split())


OWN_MOUNTS = ("unshare", "--mount")
"""Begins the command of a process that can see other disks than the rest of the machine does."""


@contextmanager
def mounted(pid: int, script: str, path: Path) -> Iterator[None]:
    """What a shell script mounts on a path is seen by a process with mounts of its own, until the end of the body."""
    enter = ["nsenter", f"--target={pid}", "--mount"]
    subprocess.run([*enter, "sh", "-ec", script], check=True)
    try:
        yield
    finally:
        subprocess.run([*enter, "umount", "--lazy", str(path)], check=True)


def wait_for(
    holds: Callable[[], bool], message: Callable[[], str], pause: float = _POLL, patience: float = _PATIENCE
) -> None:
    """Wait until `holds()`; AssertionError with `message()` if it takes too long."""
    end = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < end, message()
        time.sleep(pause)


@contextmanager
def slurm_cluster(
    folder: Path,
    nodes: int = 4,
    partitions: Sequence[str] = (),
    gpu_types: Sequence[str] = ("v100",),
    switches: Sequence[str] = (),
    **settings: object,
) -> Iterator[SlurmCluster]:
    """A running Slurm of so many nodes (24 CPUs, 8 GPUs, 500 GB each) in a new folder, all idle.

    The nodes have these types of GPUs in turn. `partitions` are beside `train`, each a name with settings, on all
    nodes. `switches` have these nodes each, and one more switch is above them. `settings` are lines of slurm.conf, in
    place of or beside those that it has.
    """
    folder.mkdir()
    ports = _free_ports(nodes + 1)
    cluster = SlurmCluster(folder, tuple(f"node{at + 1}" for at in range(nodes)), ports)
    if switches:
        settings["TopologyPlugin"] = "topology/tree"
    _write_files(cluster, partitions, gpu_types, settings)
    leaves = [f"SwitchName=leaf{at} Nodes={names}" for at, names in enumerate(switches)]
    above = [f"SwitchName=above Switches=leaf[0-{len(switches) - 1}]"] if switches else []
    (folder / "topology.conf").write_text("\n".join([*leaves, *above, ""]))
    try:
        cluster.start("munged")
        wait_for((folder / "munge.socket").exists, lambda: (folder / "munged.out").read_text())
        for name in ("slurmctld", *cluster.nodes):
            cluster.start(name)
        cluster.wait_idle()
        yield cluster
    finally:
        _end(cluster)


@contextmanager
def slurm_for_a_test(**options: Any) -> Iterator[SlurmCluster]:
    """As `slurm_cluster`, in a folder to which every account may come; skips the test where Slurm is not installed."""
    if missing := missing_programs():
        pytest.skip(missing)
    with tempfile.TemporaryDirectory() as parent:
        Path(parent).chmod(0o711)
        with slurm_cluster(Path(parent) / "cluster", **options) as cluster:
            yield cluster


def _write_files(
    cluster: SlurmCluster,
    partitions: Sequence[str],
    gpu_types: Sequence[str],
    settings: Mapping[str, object],
) -> None:
    folder = cluster.folder
    for name in ("state", "spool"):
        (folder / name).mkdir()
    (folder / "munge.key").write_bytes(secrets.token_bytes(1024))
    (folder / "munge.key").chmod(0o600)
    for gpu in range(GPUS):
        os.mknod(folder / f"gpu{gpu}", 0o666 | stat.S_IFCHR, os.makedev(1, 3))  # /dev/null's numbers
    files = f"{folder}/gpu[0-{GPUS - 1}]"
    types = dict(zip(cluster.nodes, cycle(gpu_types), strict=False))
    gres = [f"NodeName={name} Name=gpu Type={gpu_type} File={files}" for name, gpu_type in types.items()]
    (folder / "gres.conf").write_text("\n".join(["AutoDetect=off", *gres, ""]))
    (folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n" if _version() >= (23,) else "")
    lines = {**_conf(cluster), **settings}
    hardware = "CPUs=24 Sockets=1 CoresPerSocket=24 ThreadsPerCore=1 RealMemory=500000"
    host = f"NodeHostname={socket.gethostname().split('.')[0]} NodeAddr=127.0.0.1"
    of_nodes = [
        f"NodeName={name} {host} Port={port} {hardware} Gres=gpu:{types[name]}:{GPUS} Features=on-{name}"
        for name, port in zip(cluster.nodes, cluster.ports[1:], strict=True)
    ]
    named = ["train Default=YES", *partitions]
    of_partitions = [f"PartitionName={one} Nodes=ALL State=UP MaxTime=INFINITE" for one in named]
    text = "\n".join([*(f"{key}={value}" for key, value in lines.items()), *of_nodes, *of_partitions, ""])
    cluster.conf.write_text(text)


def _conf(cluster: SlurmCluster) -> dict[str, object]:
    """The settings of slurm.conf before those of nodes and partitions."""
    folder = cluster.folder
    return {
        "ClusterName": "muster",
        "SlurmctldHost": "localhost(127.0.0.1)",
        "SlurmctldPort": cluster.ports[0],
        "CommunicationParameters": "NoInAddrAny,NoCtldInAddrAny",
        "SlurmUser": "root",
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={folder}/munge.socket",
        "CryptoType": "crypto/munge",
        "MpiDefault": "none",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core_Memory",
        "SlurmdParameters": "config_overrides",
        "GresTypes": "gpu",
        "SchedulerParameters": "bf_interval=5,batch_sched_delay=0,sched_min_interval=0",
        "SlurmdTimeout": 300,  # no node is given up because the machine is busy
        "KillWait": 10,
        "ReturnToService": 2,
        "StateSaveLocation": folder / "state",
        "SlurmdSpoolDir": folder / "spool" / "%n",
        "SlurmdPidFile": folder / "%n.pid",
        "SlurmctldPidFile": folder / "slurmctld.pid",
        "SlurmdLogFile": folder / "%n.log",
        "SlurmctldLogFile": folder / "slurmctld.log",
    }


def munged(folder: Path) -> list[str]:
    """Return the command of a munged that has all its files in a folder."""
    options = {
        "key-file": "munge.key",
        "log-file": "munged.log",
        "pid-file": "munged.pid",
        "seed-file": "munged.seed",
        "socket": "munge.socket",
    }
    return [
        "munged",
        "--foreground",
        "--force",
        *(f"--{name}={folder / file}" for name, file in options.items()),
    ]


def _free_ports(count: int) -> tuple[int, ...]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = tuple(one.getsockname()[1] for one in sockets)
    for one in sockets:
        one.close()
    return ports


def _version() -> tuple[int, ...]:
    said = subprocess.run(["slurmd", "-V"], env={"PATH": _PATH}, capture_output=True, text=True, check=True)
    return tuple(int(part) for part in said.stdout.split()[1].split(".")[:2])


def _end(cluster: SlurmCluster) -> None:
    """End the jobs, then the daemons, whatever state they are in."""
    for process in cluster.processes.values():
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
    if all(process.poll() is None for process in cluster.processes.values()):
        cluster.run("scancel", "--user=root", check=False)
    for process in reversed(cluster.processes.values()):
        if process.poll() is None:
            process.terminate()
    for process in cluster.processes.values():
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
