"""A local engine at work on a scratch folder: starts of small commands, waited for by looking, with a deadline."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from muster import processes
from muster.cluster.ledger import NodeAllocation
from muster.service.engines import Launch, Observed
from muster.service.engines.local.engine import LocalEngine
from muster.service.machine import Machine, find_machine

PATIENCE_SECONDS = 60.0


def python(source: str) -> list[str]:
    """A command that starts fast."""
    return [sys.executable, "-I", "-S", "-c", source]


def shell(source: str) -> list[str]:
    return ["/bin/sh", "-c", source]


def until(condition: Callable[[], object], what: str = "it") -> None:
    """Waits for something that must come."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.003)


class Bench:
    def __init__(self, folder: Path, machine: Machine | None = None) -> None:
        self.folder = folder
        self.machine = machine or find_machine(gpus=8)
        self.engine = LocalEngine(folder / "engine", self.machine)

    def reopen(self) -> LocalEngine:
        """As after the daemon's death: what is known must come from the folder."""
        self.engine = LocalEngine(self.folder / "engine", self.machine)
        return self.engine

    def launch(self, job: int, epoch: int, command: Sequence[str], **more: Any) -> None:
        self.engine.launch(self.described(job, epoch, command, **more))

    def described(
        self,
        job: int,
        epoch: int,
        command: Sequence[str],
        *,
        gpus: tuple[int, ...] = (0,),
        cpus: float = 1.0,
        memory_gb: float = 2.0,
        ranks: int = 1,
        **others: Any,
    ) -> Launch:
        """`others` are further fields of `Launch`."""
        defaults: dict[str, Any] = {
            "directory": self.folder,
            "environment": {},
            "user": None,
            "output_limit_gb": 1.0,
        }
        return Launch(
            job=job,
            epoch=epoch,
            run_dir=self.folder / f"{job}" / "run",
            output_dir=self.folder / f"{job}" / "output",
            command=tuple(command),
            allocations=(self.allocation(gpus=gpus, cpus=cpus, memory_gb=memory_gb),),
            ranks=(ranks,),
            **defaults | others,
        )

    def allocation(
        self, *, gpus: tuple[int, ...] = (0,), cpus: float = 1.0, memory_gb: float = 2.0
    ) -> NodeAllocation[str]:
        return NodeAllocation(self.machine.node.name, gpus, cpus, memory_gb, 0.1)

    def output(self, job: int, rank: int = 0) -> str:
        path = self.folder / str(job) / "output" / f"{rank}.log"
        return path.read_text() if path.exists() else ""

    def observed(self, job: int, epoch: int) -> Observed | None:
        return next((one for one in self.engine.observe() if (one.job, one.epoch) == (job, epoch)), None)

    def end(self, job: int, epoch: int) -> Observed:
        """Waits until a start has ended."""
        seen: list[Observed] = []

        def has_ended() -> bool:
            one = self.observed(job, epoch)
            assert one is not None, f"start {epoch} of job {job} is lost"
            seen.append(one)
            return one.ended is not None

        until(has_ended, f"the end of start {epoch} of job {job}")
        return seen[-1]

    def says(self, text: str, job: int, rank: int = 0) -> None:
        """Waits until a rank has written this."""
        until(lambda: text in self.output(job, rank), f"{text!r} of job {job}")

    def records(self, job: int, epoch: int) -> list[dict[str, object]]:
        return self.engine._starts[job, epoch].folder.records()

    def supervisor(self, job: int, epoch: int) -> int:
        """The process id of a start's supervisor, its ranks being up."""
        until(lambda: len(self.records(job, epoch)) >= 2, "ranks")
        pid = self.records(job, epoch)[0]["supervisor"][0]  # type: ignore[index]
        assert isinstance(pid, int)
        return pid

    def left(self, job: int, epoch: int) -> list[int]:
        """Living processes of a start, its supervisor too; one that is about to die has no environment any more."""
        marked = processes.marked(self.folder.resolve() / "engine" / f"{job}.{epoch}")
        start = self.engine._starts.get((job, epoch))
        grouped = start.group.pids() if start is not None and start.group is not None else []
        return sorted({*marked, *grouped})

    def until_nothing_is_left(self, job: int, epoch: int) -> None:
        """Waits until no process of a start lives."""
        until(lambda: self.left(job, epoch) == [], f"the end of the processes of start {epoch} of job {job}")

    def clear(self) -> None:
        """Ends and forgets all; nothing may be left of it."""
        self.reopen()
        for one in self.engine.observe():
            self.engine.kill(one.job, one.epoch)
        for one in self.engine.observe():
            self.end(one.job, one.epoch)
            self.engine.forget(one.job, one.epoch)
            self.until_nothing_is_left(one.job, one.epoch)
        assert self.engine.observe() == []
        assert list((self.folder / "engine").iterdir()) == []
        if self.engine._cgroups is not None:
            groups = self.engine._cgroups.standing()
            assert not [name for name in groups if name.startswith(self.engine._group_prefix)]


def affinity(pid: int) -> set[int]:
    return set(os.sched_getaffinity(pid))
