"""The character devices of this machine's GPUs, by the names that CUDA_VISIBLE_DEVICES has for them."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from muster.cgroups import DeviceNumber

_DRIVER = Path("/proc/driver/nvidia/gpus")
_DEVICES = Path("/dev")
_NODE = re.compile(r"nvidia(\d+)")


@dataclass(frozen=True)
class GpuDevices:
    """Which device belongs to which GPU. Control devices (nvidiactl, nvidia-uvm and so on) belong to none."""

    every: frozenset[DeviceNumber] = frozenset()
    """The devices of all GPUs of the machine, those that Muster does not use included."""
    of_name: Mapping[str, DeviceNumber] = field(default_factory=dict)
    """The device of each GPU that jobs may use; instances of one divided GPU (MIG) have the same device."""
    unknown: tuple[str, ...] = ()
    """Names of GPUs that jobs may use and whose device was not found."""

    @property
    def shared(self) -> bool:
        """Whether two names have one device."""
        return len(set(self.of_name.values())) < len(self.of_name)


def find_gpu_devices(
    uuid_of: Mapping[str, str], driver: Path = _DRIVER, devices: Path = _DEVICES
) -> GpuDevices:
    """The devices of the GPUs with these UUIDs, by their names: the driver states each one's minor number."""
    numbers = dict(_device_numbers(devices))
    minor_of = dict(_minor_numbers(driver))
    of_name = {
        name: numbers[minor_of[uuid]]
        for name, uuid in uuid_of.items()
        if uuid in minor_of and minor_of[uuid] in numbers
    }
    unknown = tuple(name for name in uuid_of if name not in of_name)
    return GpuDevices(frozenset(numbers.values()), of_name, unknown)


def _device_numbers(devices: Path) -> Iterator[tuple[int, DeviceNumber]]:
    """The number in the name of each GPU's device node, and the device's major and minor number."""
    for path in devices.glob("nvidia*"):
        if found := _NODE.fullmatch(path.name):
            with suppress(OSError):
                status = path.stat()
                if stat.S_ISCHR(status.st_mode):
                    yield int(found[1]), (os.major(status.st_rdev), os.minor(status.st_rdev))


def _minor_numbers(driver: Path) -> Iterator[tuple[str, int]]:
    """UUID and minor number of each GPU, as the driver states them."""
    for path in driver.glob("*/information"):
        with suppress(OSError):
            lines = (line.partition(":") for line in path.read_text(errors="replace").splitlines())
            fields = {name.strip(): value.strip() for name, _, value in lines}
            if fields.get("Device Minor", "").isdecimal():
                yield fields.get("GPU UUID", ""), int(fields["Device Minor"])
