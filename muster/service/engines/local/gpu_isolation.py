"""Keeps the processes of a start from opening the GPUs of others: a device filter of their control group."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from muster.cgroups import CgroupError, Cgroups, DeviceNumber
from muster.gpu_devices import GpuDevices


@dataclass(frozen=True)
class GpuIsolation:
    """Whether this machine enforces it, decided once when the engine starts, and how."""

    devices: GpuDevices
    filter_name: str = ""
    """The mechanism; empty where starts are kept to their GPUs by the environment only."""
    reason: str = ""
    """Why there is no mechanism."""

    def denied_beside(self, names: Sequence[str]) -> list[DeviceNumber]:
        """The devices to deny to a start that has the GPUs of these names; none without a filter."""
        own = {self.devices.of_name[name] for name in names if name in self.devices.of_name}
        return sorted(self.devices.every - own) if self.filter_name else []

    def visible_names(self, names: Sequence[str]) -> list[str]:
        """These GPUs as CUDA_VISIBLE_DEVICES of their start: CUDA numbers only the GPUs that a process can open."""
        if not self.filter_name:
            return list(names)
        own = sorted((name for name in names if name.isdecimal() and name in self.devices.of_name), key=int)
        return [str(own.index(name)) if name in own else name for name in names]

    def describe(self) -> str:
        """The enforcement in one phrase."""
        if not self.filter_name:
            return f"GPUs: environment only, which a job can undo ({self.reason})"
        shared = ", between instances of one GPU environment only" if self.devices.shared else ""
        return f"GPUs: {self.filter_name}{shared}"


def probe_gpu_isolation(devices: GpuDevices, cgroups: Cgroups | None, group_name: str) -> GpuIsolation:
    """Finds out what this machine enforces: denies every GPU to a group of this name, and removes the group."""
    if not devices.every:
        return GpuIsolation(devices, reason="no device node of a GPU is found")
    if devices.unknown:
        return GpuIsolation(devices, reason=f"no device node is known of GPU {', '.join(devices.unknown)}")
    if cgroups is None:
        return GpuIsolation(devices, reason="no control groups")
    name = "device filter of cgroup v1" if cgroups.version == 1 else "device filter (BPF) of cgroup v2"
    try:
        group = cgroups.group(group_name)
        try:
            group.deny_devices(devices.every)
        finally:
            with suppress(CgroupError):
                group.remove()
    except CgroupError as error:
        return GpuIsolation(devices, reason=str(error))
    return GpuIsolation(devices, name)
