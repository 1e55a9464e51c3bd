"""An engine for which one command costs little: a method for each kind of command, called one after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from muster.cluster import Node
from muster.cluster.ledger import NodeAllocation
from muster.gpu_use import GpuUse
from muster.service.engines.interface import (
    AdoptJob,
    CloseJob,
    Command,
    EngineNode,
    EngineView,
    ForgetStart,
    KillStart,
    Launch,
    Observed,
    ResizeStart,
    SendNotice,
)
from muster.service.engines.run_folders import ReadsRunFolders
from muster.training.run_folder import give_notice


class SequentialEngine(ReadsRunFolders, ABC):
    """Each method may be repeated; it raises OSError if it cannot be carried out now."""

    @abstractmethod
    def nodes(self) -> Sequence[Node]:
        """The machines that can be used now."""

    @abstractmethod
    def launch(self, launch: Launch) -> None:
        """Begin a start."""

    @abstractmethod
    def resize(self, job: int, epoch: int, allocations: Sequence[NodeAllocation[str]]) -> None:
        """Give a running start other CPUs, memory and storage bandwidth."""

    @abstractmethod
    def signal(self, job: int, epoch: int, name: str) -> None:
        """Send a signal to every process of a start, once, so that it saves and ends."""

    @abstractmethod
    def kill(self, job: int, epoch: int) -> None:
        """End every process of a start at once."""

    @abstractmethod
    def observe(self) -> Sequence[Observed]:
        """Every start that is not forgotten."""

    @abstractmethod
    def forget(self, job: int, epoch: int) -> None:
        """Remove what is remembered of a start that has ended; OSError while it lives."""

    def poll(self) -> EngineView:
        """All starts and all nodes; other jobs hold nothing here."""
        return EngineView(self.observe(), [EngineNode(node) for node in self.nodes()], gpu_use=self.gpu_use())

    def gpu_use(self) -> Mapping[str, Sequence[GpuUse | None]]:
        """How busy the GPUs of each node are, where that is known."""
        return {}

    def carry_out(self, commands: Sequence[Command]) -> Sequence[Exception | None]:
        """Carry out the commands one by one; for each of them the reason of its failure, if it failed."""
        return [self._failure_of(command) for command in commands]

    def _failure_of(self, command: Command) -> Exception | None:
        try:
            self._carry_out(command)
        except Exception as error:
            return error
        return None

    def _carry_out(self, command: Command) -> None:
        match command:
            case Launch():
                self.launch(command)
            case ResizeStart(job, epoch, allocations):
                self.resize(job, epoch, allocations)
            case SendNotice():
                if not write_notice(command) and command.stop:
                    self.signal(command.job, command.epoch, command.stop_signal)
            case KillStart(job, epoch):
                self.kill(job, epoch)
            case ForgetStart(job, epoch):
                self.forget(job, epoch)
            case AdoptJob() | CloseJob():
                raise NotImplementedError("jobs are submitted to Muster alone")


def write_notice(notice: SendNotice) -> bool:
    """Write a notice into the run folder; whether the start reads it there."""
    try:
        if notice.run_dir.is_dir():
            give_notice(notice.run_dir, notice.epoch, stop=notice.stop, cache_gb=notice.cache_gb)
    except OSError:
        return False
    return notice.reads_notices
