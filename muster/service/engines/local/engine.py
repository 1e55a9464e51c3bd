"""Processes on this machine.

Each start has a folder (`folder.py`) and a supervisor (`supervisor.py`), a process that outlives the daemon. All that
the engine knows is in the folders, so a new engine knows the same. What happens if the daemon dies while `launch`
is at work, step by step:

1. *Before the folder stands*: it is filled beside its place and renamed. What lies beside is swept away by the next
   engine; to it nothing has happened, and the start is launched again.
2. *Before the supervisor is started*: the folder stands, so the start is known and cannot be lost. The next engine
   finds it without a record and starts a supervisor.
3. *Before that supervisor has its lock*: the next engine cannot see it and starts a second one. One of them gets the
   lock. The other finds it taken and leaves; or gets it later and finds records, and leaves.
4. *Before it has written its first record*, the supervisor dies: the folder stands without a record. After
   `SUPERVISOR_SECONDS` an engine starts another one; after the third it writes the end itself, holding the lock, so
   that a late supervisor finds a record and leaves.
5. *After the first record* no supervisor ever comes up again. If the lock is free and there is no last record, the
   supervisor is dead; its ranks were killed with it by the kernel, what they left behind is killed through the control
   group and by the mark in its environment, and only when nothing is left the start is reported as killed.

So the ranks of a start are brought up at most once, by the one process that wrote the first record under the lock; and
the end of a start whose folder stands is reported. `launch` refuses to begin a start while an older one of the same
job is there, and each rank raises the fence of the run folder (`begin_start`) before it becomes the command: if
a newer start has begun there, it ends instead.
"""

from __future__ import annotations

import errno
import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from signal import Signals
from typing import Any

import structlog

from muster import processes
from muster.cgroups import CgroupError, Group, find_cgroups
from muster.cluster import Node
from muster.cluster.ledger import NodeAllocation
from muster.gpu_use import GpuMeter, GpuUse
from muster.launcher.start_folder import StartFolder, known_start_folders, make_start_folder
from muster.service.engines.factory import ConfiguredEngine, EngineContext, EngineFactory, EngineOptions
from muster.service.engines.identity import identity_of
from muster.service.engines.interface import EngineCapabilities, Launch, Observed
from muster.service.engines.job_folder import make_job_folder
from muster.service.engines.local.cpus import AssignedCpus, assign_cpus
from muster.service.engines.local.exit_status import classify
from muster.service.engines.local.gpu_isolation import probe_gpu_isolation
from muster.service.engines.local.launch_context import environment_of, spawn_supervisor
from muster.service.engines.local.resource_limits import ResourceLimits, refusals_as_os_errors
from muster.service.engines.parts import GANG_GRACE_SECONDS, part_record
from muster.service.engines.sequential import SequentialEngine
from muster.service.machine import Machine, find_machine

SUPERVISOR_SECONDS = 10.0
"""Within which a supervisor writes its first record; another one is started then."""
MOST_SUPERVISORS = 3

_LONGEST_PAUSE_SECONDS = 60.0
"""Between two tries to remove what is left of a start."""

log = structlog.get_logger()


@dataclass
class _Start:
    """What the engine keeps in mind of a start; all of it can be had from the folder again."""

    folder: StartFolder
    group: Group | None
    observed: Observed
    supervisors: int = 0
    """How many this engine has started."""
    supervisor_due: float = 0.0
    """When (monotonic) the last one of them should have written something."""
    seen: float = 0.0
    """When (unix seconds) this engine has seen its supervisor alive; 0: never."""
    last_error: str = ""
    """Why the last one could not be started, or looked at."""
    memory_limited: bool = True
    """Its memory limit is what was granted last; False while it still uses more."""
    assigned: tuple[float, AssignedCpus] | None = None
    """Its CPU grant and the CPUs that were set for it last; None: still to be set."""

    @property
    def lives(self) -> bool:
        return self.observed.ended is None

    @property
    def cpus(self) -> float:
        cpus: float = self.folder.wanted["cpus"]
        return cpus

    @property
    def memory_gb(self) -> float:
        memory_gb: float = self.folder.wanted["memory_gb"]
        return memory_gb


@dataclass
class _Leftover:
    """A group of which the start is over."""

    group: Group
    due: float = 0.0
    """When (monotonic) it is to be removed."""
    pause: float = 0.1
    """Until it is tried again."""


class LocalEngine(SequentialEngine):
    """Starts on this machine, remembered in a folder that is the engine's alone. To be used by one thread."""

    capabilities = EngineCapabilities(can_resize=True, runs_as_users=True)
    gang_grace_seconds = GANG_GRACE_SECONDS
    """For the other ranks, from SIGTERM to SIGKILL, after one has died."""

    def __init__(self, folder: Path, machine: Machine, lease_file: Path | None = None) -> None:
        """Finds the starts that are there. OSError if the folder cannot be used.

        `lease_file` (`muster.launcher.lease`): the starts end when it is over.
        """
        self._lease_file = lease_file
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder.resolve()
        self._machine = machine
        self._gpu_meter = GpuMeter(machine.gpu_uuids)
        for warning in machine.warnings:
            log.warning(warning)
        self._cgroups, _ = find_cgroups()
        self._group_prefix = hashlib.sha256(os.fsencode(self._folder)).hexdigest()[:12]
        isolation = probe_gpu_isolation(machine.gpu_devices, self._cgroups, f"{self._group_prefix}-probe")
        self._limits = ResourceLimits(machine, self._cgroups, isolation)
        self.enforces = self._limits.describe()
        self._children: set[int] = set()
        """Supervisors to wait for, so that none stays as a zombie."""
        self._starts: dict[tuple[int, int], _Start] = {}
        self._leftovers: list[_Leftover] = []
        self._find_starts()
        self.observe()
        for start in self._starts.values():
            if start.lives:
                start.memory_limited = self._limits.limit_memory(start.group, start.memory_gb)

    def nodes(self) -> Sequence[Node]:
        """This machine."""
        return self._machine.cluster.nodes

    def gpu_use(self) -> Mapping[str, Sequence[GpuUse | None]]:
        """By the driver."""
        return {self._machine.node.name: self._gpu_meter.latest()}

    def launch(self, launch: Launch) -> None:
        """Begin a start. OSError if that cannot be now; what can never be is reported as its end."""
        if (launch.job, launch.epoch) in self._starts:
            return
        for start in self._starts.values():
            if start.lives and start.folder.job == launch.job:
                what = f"start {start.folder.epoch} of job {launch.job} is still there"
                raise OSError(errno.EBUSY, what)
        (here,), (ranks,) = launch.allocations, launch.ranks
        end = identity = None
        try:
            identity = identity_of(launch.user)
        except KeyError:
            end = {"ended": time.time(), "refused": f"this machine has no user {launch.user}"}
        if gone := [str(gpu) for gpu in here.gpu_ids if gpu >= len(self._machine.gpu_names)]:
            words = f"this machine has no GPU {', '.join(gone)} any more"
            end = {"ended": time.time(), "vanished": words, "lost": True}
        make_job_folder(launch, identity)
        path = self._folder / f"{launch.job}.{launch.epoch}"
        gpu_names = [
            self._machine.gpu_names[gpu] for gpu in here.gpu_ids if gpu < len(self._machine.gpu_names)
        ]
        wanted = {
            "signals": {},
            "kill": False,
            "cpus": here.cpus,
            "memory_gb": here.memory_gb,
            "alone": [],
            "denied_devices": self._limits.gpus.denied_beside(gpu_names),
        }
        record = {
            "epoch": launch.epoch,
            "run_dir": str(launch.run_dir),
            "output_dir": str(launch.output_dir),
            "command": launch.command,
            "directory": str(launch.directory),
            "environment": environment_of(launch, self._limits.gpus.visible_names(gpu_names), path, identity),
            "ranks": ranks,
            **part_record(launch),
            "passes_on": [],
            "stop_file": "",
            "lease_file": None if self._lease_file is None else str(self._lease_file),
            "stop_signal": launch.stop_signal,
            "identity": identity,
            "output_limit_gb": launch.output_limit_gb,
            "gang_grace_seconds": self.gang_grace_seconds,
        }
        self._look_at(self._remember(make_start_folder(path, record, wanted, end), None))

    def resize(self, job: int, epoch: int, allocations: Sequence[NodeAllocation[str]]) -> None:
        """Other CPUs and memory for a running start; less memory as soon as it uses no more than that."""
        start = self._starts.get((job, epoch))
        if start is not None and start.lives:
            (here,) = allocations
            watched = self._limits.memory_bytes_to_watch(here.memory_gb)
            start.folder.want(cpus=here.cpus, memory_gb=here.memory_gb, memory_bytes=watched)
            start.memory_limited = self._limits.limit_memory(start.group, here.memory_gb)
            self._assign_cpus()

    def signal(self, job: int, epoch: int, name: str) -> None:
        """Send a signal to the process groups of all ranks, once; a start without processes yet never gets any."""
        start = self._starts.get((job, epoch))
        name = Signals[name].name
        if start is not None and start.lives and name not in start.folder.wanted["signals"]:
            start.folder.want(signals={**start.folder.wanted["signals"], name: 1})

    def kill(self, job: int, epoch: int) -> None:
        """End every process of a start at once."""
        start = self._starts.get((job, epoch))
        if start is not None and start.lives:
            start.folder.want(kill=True)

    def observe(self) -> Sequence[Observed]:
        """Every start that is not forgotten."""
        self._wait_for_children()
        self._remove_leftovers()
        for start in self._starts.values():
            if start.lives:
                self._look_or_say_why_not(start)
        if any(start.lives and start.assigned is None for start in self._starts.values()):
            self._assign_cpus()
        return [start.observed for start in self._starts.values()]

    def forget(self, job: int, epoch: int) -> None:
        """Removes what is left of a start that has ended: its folder and its group."""
        start = self._starts.get((job, epoch))
        if start is None:
            return
        if start.lives:
            raise OSError(errno.EBUSY, f"start {epoch} of job {job} is still there")
        del self._starts[job, epoch]
        if start.group is not None:
            self._leftovers.append(_Leftover(start.group))
            self._remove_leftovers()
        start.folder.remove()

    def _remember(self, folder: StartFolder, group: Group | None) -> _Start:
        observed = Observed(folder.job, folder.epoch, None, time.time())
        start = _Start(folder, group, observed)
        self._starts[folder.job, folder.epoch] = start
        return start

    def _look_or_say_why_not(self, start: _Start) -> None:
        """A start that cannot be looked at now stays as it was known; the others are looked at all the same."""
        try:
            self._look_at(start)
        except OSError as error:
            if start.last_error != str(error):
                start.last_error = str(error)
                log.error("a start cannot be looked at", job=start.folder.job, error=start.last_error)

    def _look_at(self, start: _Start) -> None:
        """Brings what is known of a living start up to date."""
        records = start.folder.records()
        if not records:
            if time.monotonic() >= start.supervisor_due:
                self._bring_up(start)
            return
        if "ended" not in records[-1]:
            if start.folder.has_supervisor():
                start.seen = time.time()
            else:
                records = self._after_its_supervisor(start)
        if "ended" in records[-1]:
            start.observed = self._end(start, records[-1])
            self._assign_cpus()
            return
        if start.observed.since != records[-1]["time"]:
            start.observed = replace(start.observed, since=records[-1]["time"])
        if not start.memory_limited:
            start.memory_limited = self._limits.limit_memory(start.group, start.memory_gb)

    def _bring_up(self, start: _Start) -> None:
        """Starts a supervisor; the last time in vain, the start is over."""
        if start.supervisors == MOST_SUPERVISORS:
            words = start.last_error or start.folder.last_words() or "it wrote nothing"
            words = f"its supervisor did not come up: {words}"
            self._end_without_supervisor(start, words, lost=True, unless_begun=True)
            return
        start.supervisors += 1
        start.supervisor_due = time.monotonic() + SUPERVISOR_SECONDS
        try:
            if self._cgroups is not None and start.group is None:
                with refusals_as_os_errors():
                    start.group = self._cgroups.group(self._group_name(start.folder))
            self._limits.deny_devices(start.group, start.folder.wanted["denied_devices"])
            start.memory_limited = self._limits.limit_memory(start.group, start.memory_gb)
            doors = [] if start.group is None else [str(door) for door in start.group.doors]
            watched = self._limits.memory_bytes_to_watch(start.memory_gb)
            start.folder.want(doors=doors, memory_bytes=watched)
            self._assign_cpus()
            self._children.add(spawn_supervisor(start.folder.path))
        except OSError as error:
            start.last_error = error.strerror or str(error)

    def _after_its_supervisor(self, start: _Start) -> list[dict[str, Any]]:
        """The records of a start whose supervisor is dead: with an end, once nothing is left of it."""
        records = start.folder.records()
        if "ended" in records[-1]:
            return records
        left = processes.marked(start.folder.path)
        if start.group is not None:
            left += start.group.pids()
        if left:
            start.seen = time.time()
            processes.kill_all(left)
            return records
        words = start.folder.last_words()
        words = "its supervisor died" + (f": {words}" if words else "")
        # Where nothing of it was seen alive since this engine looks, the whole machine went down.
        self._end_without_supervisor(start, words, lost=not start.seen, unless_begun=False)
        return start.folder.records()

    def _end_without_supervisor(
        self, start: _Start, vanished: str, *, lost: bool, unless_begun: bool
    ) -> None:
        """Its end is its last sign of life: no job is charged for the time that a machine was off."""
        last = max((start.seen, *start.folder.signs_of_life()))
        record = {"ended": min(last, time.time()), "vanished": vanished, "lost": lost}
        start.folder.end_without_supervisor(record, unless_begun=unless_begun)

    def _end(self, start: _Start, record: dict[str, Any]) -> Observed:
        kills = self._limits.memory_kills(start.group)
        how, status, message, rank = classify(record, kills, start.memory_gb)
        key = start.folder.job, start.folder.epoch
        return Observed(*key, how, record["ended"], status, message, failed_rank=rank)

    def _assign_cpus(self) -> None:
        """Assigns the CPUs to the starts that live; sets what has changed."""
        living = {key: start for key, start in self._starts.items() if start.lives}
        grants = {key: start.cpus for key, start in living.items()}
        held = {key: start.folder.wanted["alone"] for key, start in living.items()}
        for key, assigned in assign_cpus(self._machine.cpus, grants, held).items():
            start = living[key]
            if start.assigned == (start.cpus, assigned):
                continue
            start.assigned = None
            with suppress(OSError):  # assigned again at the next look
                affinity = self._limits.limit_cpus(start.group, start.cpus, assigned)
                start.folder.want(alone=list(assigned.cpus) if assigned.alone else [], affinity=affinity)
                start.assigned = (start.cpus, assigned)

    def _group_name(self, folder: StartFolder) -> str:
        return f"{self._group_prefix}-{folder.job}.{folder.epoch}"

    def _find_starts(self) -> None:
        """Find the starts that have a folder, with their groups; remove groups without a start, or made by halves."""
        groups = self._cgroups.standing() if self._cgroups is not None else {}
        for known in known_start_folders(self._folder):
            group = groups.get(self._group_name(known))
            if group is not None and self._cgroups is not None and self._cgroups.is_whole(group):
                del groups[group.name]
                self._remember(known, group)
            else:
                self._remember(known, None)
        ours = f"{self._group_prefix}-"
        self._leftovers += [_Leftover(group) for name, group in groups.items() if name.startswith(ours)]
        self._remove_leftovers()

    def _remove_leftovers(self) -> None:
        """Groups of starts that are over; one that is still busy is tried again later, less and less often."""
        now = time.monotonic()
        for leftover in [one for one in self._leftovers if one.due <= now]:
            try:
                leftover.group.remove(within_seconds=0)
            except CgroupError:
                leftover.due = now + leftover.pause
                leftover.pause = min(2 * leftover.pause, _LONGEST_PAUSE_SECONDS)
            else:
                self._leftovers.remove(leftover)

    def _wait_for_children(self) -> None:
        for pid in list(self._children):
            try:
                gone, _ = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                gone = pid
            if gone:
                self._children.discard(pid)


def _configure(options: EngineOptions) -> ConfiguredEngine:
    machine = find_machine(gpus=options.gpus, cpus=options.cpus, memory_gb=options.memory_gb)

    def open_engine(context: EngineContext) -> LocalEngine:
        return LocalEngine(context.folder, machine)

    return ConfiguredEngine(machine.cluster, open_engine)


FACTORY = EngineFactory(LocalEngine.capabilities, frozenset({"--gpus", "--cpus", "--memory"}), _configure)
