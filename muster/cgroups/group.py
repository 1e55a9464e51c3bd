"""One control group: what its processes may use, what they used, and their end. Version 1 and version 2."""

from __future__ import annotations

import os
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

from muster.cgroups.device_filter import DeviceNumber, attach_device_program, deny_program

_PERIOD_SECONDS = 0.1
"""In which a quota is counted."""
LEAST_QUOTA_CORES = 0.01
"""The kernel takes no quota under 1 ms a period."""
_ENTER_AND_EXEC = """
import os, sys
doors, command = sys.argv[1].split("\\n"), sys.argv[2:]
for door in doors:
    with open(door, "w") as file:
        file.write("0")
try:
    os.execvp(command[0], command)
except OSError as error:
    sys.exit(f"muster: {command[0]} cannot be started: {error.strerror}")
"""


class Ability(StrEnum):
    """What groups of this machine can do, besides listing, killing and removing."""

    CPU_QUOTA = "CPU quota"
    CPU_WEIGHT = "CPU weight"
    CPU_SET = "CPU set"
    MEMORY_LIMIT = "memory limit"
    CPU_SECONDS = "CPU seconds used"
    MEMORY_USED = "memory used"


class CgroupError(RuntimeError):
    """The kernel refused; says what was wanted and why it was not done."""


class Group(ABC):
    """One control group; in v1 a folder in each controller's tree. Made by `Cgroups.group`."""

    def __init__(self, name: str, folders: Mapping[str, Path]) -> None:
        self.name = name
        self.folders = tuple(dict.fromkeys(folders.values()))
        self._folder_of = folders

    @property
    def controllers(self) -> Set[str]:
        """Those of which it has a folder."""
        return self._folder_of.keys()

    @property
    def doors(self) -> tuple[Path, ...]:
        """Files into which a process writes its number, or 0 for itself, to be in the group."""
        return tuple(folder / "cgroup.procs" for folder in self.folders)

    def add(self, pid: int) -> None:
        """Puts a process in, with all its threads; children it has already stay where they are.

        ProcessLookupError if there is no such process.
        """
        for door in self.doors:
            write(door, str(pid), f"process {pid} cannot be put into group {self.name}")

    def entering(self, command: Sequence[str]) -> list[str]:
        """The command, started by a small launcher that enters the group and becomes it: same process id.

        A command that cannot be started ends with status 1 and a sentence on stderr.
        """
        doors = "\n".join(map(str, self.doors))
        return [sys.executable, "-I", "-S", "-c", _ENTER_AND_EXEC, doors, *command]

    def pids(self) -> tuple[int, ...]:
        """The living processes in the group and in groups of their own below it, zombies left out."""
        # The first folder alone speaks: a process enters them in this order.
        lines = []
        for folder, _, _ in os.walk(self.folders[0]):
            with suppress(OSError):
                lines += (Path(folder) / "cgroup.procs").read_text().split()
        return tuple(sorted({int(line) for line in lines} - {0}))

    def kill(self, within_seconds: float = 10.0) -> bool:
        """SIGKILLs all processes, again until none is left; whether that was so in time."""
        end = time.monotonic() + within_seconds
        while self.pids():
            self._kill_once()
            if not self.pids():
                break
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        return True

    def remove(self, within_seconds: float = 1.0) -> None:
        """Removes the empty group and groups below it; nothing happens if it is gone.

        Its last process may be gone from sight a moment before it is gone, so this is tried for a while.
        CgroupError if processes are in it.
        """
        end = time.monotonic() + within_seconds
        for folder in self.folders:
            for path, _, _ in os.walk(folder, topdown=False):
                _remove_folder(Path(path), end)
            with suppress(OSError):
                folder.parent.rmdir()

    @abstractmethod
    def set_cpu_quota(self, cores: float | None) -> None:
        """CPU time the group may use, in cores (0.25: a quarter of one), at least 0.01; None: no limit."""

    @abstractmethod
    def set_cpu_weight(self, weight: int) -> None:
        """Its share of busy CPUs against Muster's other groups: 1 to 10000, 100 if never set."""

    def set_cpus(self, cpus: Iterable[int]) -> None:
        """The CPUs on which its processes run."""
        wanted = sorted(set(cpus))
        text = ",".join(map(str, wanted))
        self._set("cpuset", "cpuset.cpus", text, f"group {self.name} cannot run on CPUs {text or '(none)'}")

    @abstractmethod
    def set_memory_limit(self, gigabytes: float | None) -> None:
        """Memory beyond which the kernel kills in the group; None: no limit.

        Under v1 a limit below what is in use and cannot be dropped is refused.
        """

    @abstractmethod
    def deny_devices(self, devices: Collection[DeviceNumber]) -> None:
        """Character devices that its processes, and those of groups below it, cannot open or make.

        What is denied once stays denied, and so does what the group above denies. CgroupError if the kernel refuses.
        """

    @abstractmethod
    def cpu_seconds(self) -> float:
        """CPU time used by all that ever was in the group."""

    @abstractmethod
    def memory_gb(self) -> float:
        """Memory in use, without file pages that the kernel would drop first."""

    @abstractmethod
    def memory_kills(self) -> int:
        """How many of its processes the kernel has killed at the memory limit."""

    @abstractmethod
    def _kill_once(self) -> None:
        """SIGKILL to all processes that are in it now."""

    def _set(self, controller: str, file: str, value: str, refusal: str) -> None:
        write(self._file(controller, file), value, refusal)

    def _get(self, controller: str, file: str) -> str:
        return self._file(controller, file).read_text()

    def _counters(self, controller: str, file: str) -> dict[str, int]:
        """A file of lines `name number`."""
        pairs = (line.split() for line in self._get(controller, file).splitlines())
        return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}

    def _file(self, controller: str, file: str) -> Path:
        if controller not in self._folder_of:
            raise CgroupError(f"group {self.name} has no controller {controller} on this machine")
        return self._folder_of[controller] / file


class _GroupV1(Group):
    def set_cpu_quota(self, cores: float | None) -> None:
        refusal = f"group {self.name} cannot have a CPU quota of {cores} cores"
        period = _microseconds(_PERIOD_SECONDS)
        quota = -1 if cores is None else _quota_microseconds(cores)
        self._set("cpu", "cpu.cfs_period_us", str(period), refusal)
        self._set("cpu", "cpu.cfs_quota_us", str(quota), refusal)

    def set_cpu_weight(self, weight: int) -> None:
        file, value = weight_file(1, weight)
        self._set("cpu", file, value, f"group {self.name} cannot have a CPU weight of {weight}")

    def set_memory_limit(self, gigabytes: float | None) -> None:
        limit = "-1" if gigabytes is None else str(_bytes(gigabytes))
        refusal = f"group {self.name} cannot have a memory limit of {gigabytes} GB"
        self._set("memory", "memory.limit_in_bytes", limit, refusal)

    def deny_devices(self, devices: Collection[DeviceNumber]) -> None:
        for major, minor in sorted(devices):
            refusal = f"group {self.name} cannot deny device {major}:{minor}"
            self._set("devices", "devices.deny", f"c {major}:{minor} rwm", refusal)
        # A group below one that allows only some devices keeps, without an error, a rule that covers several.
        for rule in self._get("devices", "devices.list").splitlines():
            kind, covered = rule.split()[:2]
            for device in devices:
                if kind == "c" and fnmatchcase("{}:{}".format(*device), covered):
                    raise CgroupError(f"group {self.name} cannot deny {covered}: the group above allows it")

    def cpu_seconds(self) -> float:
        return int(self._get("cpuacct", "cpuacct.usage")) / 1e9

    def memory_gb(self) -> float:
        used = int(self._get("memory", "memory.usage_in_bytes"))
        return max(0, used - self._counters("memory", "memory.stat")["total_inactive_file"]) / 1e9

    def memory_kills(self) -> int:
        return self._counters("memory", "memory.oom_control").get("oom_kill", 0)

    def _kill_once(self) -> None:
        # Frozen, so that no process forks meanwhile. A process must be thawed before it can die.
        self._freeze("FROZEN")
        try:
            _kill_each(self.pids())
        finally:
            self._freeze("THAWED")

    def _freeze(self, state: str) -> None:
        if "freezer" in self._folder_of:
            with suppress(OSError):
                (self._folder_of["freezer"] / "freezer.state").write_text(state)


class _GroupV2(Group):
    def set_cpu_quota(self, cores: float | None) -> None:
        quota = "max" if cores is None else str(_quota_microseconds(cores))
        refusal = f"group {self.name} cannot have a CPU quota of {cores} cores"
        self._set("cpu", "cpu.max", f"{quota} {_microseconds(_PERIOD_SECONDS)}", refusal)

    def set_cpu_weight(self, weight: int) -> None:
        file, value = weight_file(2, weight)
        self._set("cpu", file, value, f"group {self.name} cannot have a CPU weight of {weight}")

    def set_memory_limit(self, gigabytes: float | None) -> None:
        limit = "max" if gigabytes is None else str(_bytes(gigabytes))
        refusal = f"group {self.name} cannot have a memory limit of {gigabytes} GB"
        self._set("memory", "memory.max", limit, refusal)

    def deny_devices(self, devices: Collection[DeviceNumber]) -> None:
        try:
            attach_device_program(deny_program(devices), self.folders[0])
        except OSError as error:
            what = f"group {self.name} cannot have a device filter: {error.strerror} (bpf)"
            raise CgroupError(what) from None

    def cpu_seconds(self) -> float:
        # Counted in every group of v2, with or without the controller.
        pairs = (line.split() for line in (self.folders[0] / "cpu.stat").read_text().splitlines())
        return {name: int(value) for name, value in pairs}["usage_usec"] / 1e6

    def memory_gb(self) -> float:
        used = int(self._get("memory", "memory.current"))
        return max(0, used - self._counters("memory", "memory.stat")["inactive_file"]) / 1e9

    def memory_kills(self) -> int:
        return self._counters("memory", "memory.events").get("oom_kill", 0)

    def _kill_once(self) -> None:
        try:
            (self.folders[0] / "cgroup.kill").write_text("1")
        except OSError:  # before Linux 5.14
            _kill_each(self.pids())


def group_of(version: int, name: str, folders: Mapping[str, Path]) -> Group:
    """The group of this name in cgroup v1 or v2, with a folder a controller."""
    return (_GroupV1 if version == 1 else _GroupV2)(name, folders)


def _remove_folder(folder: Path, end: float) -> None:
    while True:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            with suppress(FileNotFoundError):
                if (folder / "cgroup.procs").read_text().strip():
                    raise CgroupError(f"{folder} cannot be removed: processes are in it") from None
            if time.monotonic() >= end:
                raise CgroupError(f"{folder} cannot be removed: {error.strerror}") from None
            time.sleep(0.01)
        else:
            return


def _kill_each(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def write(path: Path, value: str, refusal: str) -> None:
    """Writes to a file of the kernel; CgroupError if it refuses, ProcessLookupError if a process is gone."""
    try:
        path.write_text(value)
    except ProcessLookupError:
        raise
    except OSError as error:
        raise CgroupError(f"{refusal}: {error.strerror} ({path})") from None


def weight_file(version: int, weight: int) -> tuple[str, str]:
    """The file of a CPU weight and what to write. The default is 1024 shares in v1 and a weight of 100 in v2."""
    if not 1 <= weight <= 10_000:
        raise ValueError(f"a CPU weight from 1 to 10000 is needed; found {weight}")
    return ("cpu.shares", str(round(weight * 10.24))) if version == 1 else ("cpu.weight", str(weight))


def _quota_microseconds(cores: float) -> int:
    if not LEAST_QUOTA_CORES <= cores < 1e6:
        raise ValueError(f"a CPU quota of at least {LEAST_QUOTA_CORES} cores is needed; found {cores}")
    return _microseconds(cores * _PERIOD_SECONDS)


def _microseconds(seconds: float) -> int:
    return round(seconds * 1e6)


def _bytes(gigabytes: float) -> int:
    if not 0 <= gigabytes < 1e9:
        raise ValueError(f"a memory limit of 0 GB or more is needed; found {gigabytes}")
    return int(gigabytes * 1e9)
