"""Slurm's own account of where and with what jobs run, read again and again while a test goes on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from muster.cluster.slurm_nodes import expand_hosts
from muster.service.store.rows import AllocationInterval
from muster.units import MIB_PER_GB
from tests.service.looking import looks_again
from tests.slurm.cluster import SlurmCluster

_PAUSE_SECONDS = 0.3
_RUNNING = re.compile(
    r" JobState=RUNNING .* Restarts=(\d+) .* StartTime=(\S+) .* Comment=muster:[^:,=]+:(\d+)(?: |$)"
)
_ON_NODES = re.compile(r" Nodes=(\S+) CPU_IDs=(\S+) Mem=(\d+) GRES=(?:gpu[^( ]*\(IDX:([0-9,-]+)\))?")


@dataclass(frozen=True, order=True)
class Held:
    """What a job has on one node."""

    node: str
    gpu_ids: tuple[int, ...]
    cpus: int
    memory_mib: int


Placement: TypeAlias = tuple[Held, ...]


class Account:
    """Of each job of Muster, by its number there: its runs in Slurm, by their count of restarts and when they began.

    A controller that is killed may have forgotten a start; it then starts the job again, and counts no restart.
    """

    def __init__(self, slurm: SlurmCluster) -> None:
        self._slurm = slurm
        self.runs: dict[int, dict[tuple[int, str], Placement]] = {}
        self.contradictions: list[str] = []
        """Runs that were seen with one placement and then with another, and pairs of runs of one job at a time."""

    def look(self) -> None:
        """Note what runs now."""
        shown = self._slurm.run("scontrol", "--oneliner", "--details", "show", "job", check=False)
        running: set[int] = set()
        for line in shown.splitlines():
            own = _RUNNING.search(line)
            if own is None:
                continue
            run, job = (int(own[1]), own[2]), int(own[3])
            if job in running:
                self.contradictions.append(f"job {job} runs twice: {line}")
            running.add(job)
            placement = _placement(line)
            before = self.runs.setdefault(job, {}).setdefault(run, placement)
            if before != placement:
                self.contradictions.append(f"job {job}, run {run}: {before}, then {placement}")

    def placements(self, job: int) -> list[Placement]:
        """Where a job ran, in the order of its runs."""
        return [placement for _, placement in sorted(self.runs.get(job, {}).items())]


@contextmanager
def account_of(slurm: SlurmCluster) -> Iterator[Account]:
    """An account that is kept while the body runs."""
    account = Account(slurm)
    with looks_again(account.look, _PAUSE_SECONDS):
        yield account


def recorded_placements(intervals: list[AllocationInterval]) -> list[Placement]:
    """What Muster's record says of a job's starts, in their order, in Slurm's units."""
    starts: dict[int, list[Held]] = {}
    for one in intervals:
        here = one.allocation
        memory = max(int(here.memory_gb * MIB_PER_GB), 1)
        held = Held(here.node, tuple(map(int, here.gpu_ids)), max(int(here.cpus), 1), memory)
        starts.setdefault(one.epoch, []).append(held)
    return [tuple(sorted(held)) for _, held in sorted(starts.items())]


def _placement(line: str) -> Placement:
    return tuple(
        sorted(
            Held(node, _numbers(ids), len(_numbers(cpus)), int(memory))
            for nodes, cpus, memory, ids in _ON_NODES.findall(line)
            for node in expand_hosts(nodes)
        )
    )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in expand_hosts(f"[{text}]")) if text else ()
