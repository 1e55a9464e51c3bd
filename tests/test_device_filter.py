"""Device filters: the program's every answer by an interpreter, and real processes in real groups of both versions."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from muster.cgroups import CgroupError, Cgroups, DeviceNumber, Group, find_cgroups
from muster.cgroups.device_filter import deny_program
from muster.cgroups.finding import mounted_trees

FIRST_GPU, SECOND_GPU = (1, 5), (1, 7)
"""Stand-ins that every machine has: the numbers of /dev/zero and /dev/full."""
BLOCK, CHARACTER = 1, 2
numbers = st.tuples(st.integers(0, 4095), st.integers(0, 2**20 - 1))


def answer(program: bytes, kind: int, access: int, device: DeviceNumber) -> int:
    """What the program returns; written from the kernel's description of the instruction set (RFC 9669)."""
    context = struct.pack("=III", access << 16 | kind, *device)
    registers: list[int | None] = [None] * 11
    registers[1] = 0
    at = 0
    while True:
        operation, pair, offset, value = struct.unpack_from("=BBhi", program, 8 * at)
        source, target = (pair >> 4, pair & 15) if sys.byteorder == "little" else (pair & 15, pair >> 4)
        at += 1
        if operation == 0x95:  # exit
            result = registers[0]
            assert result is not None
            return result
        if operation == 0xB7:  # target = value
            registers[target] = value
        elif operation == 0x61:  # target = 32 bits at source + offset
            base = registers[source]
            assert base == 0
            (registers[target],) = struct.unpack_from("=I", context, base + offset)
        elif operation == 0x57:  # target &= value
            before = registers[target]
            assert before is not None
            registers[target] = before & value
        elif operation == 0x55:  # jump if target != value
            assert registers[target] is not None
            at += offset if registers[target] != value else 0
        else:
            raise AssertionError(f"no instruction {operation:#x} is expected")


@given(st.sets(numbers, max_size=20), st.lists(numbers, max_size=20), st.integers(1, 7))
@example({(195, 0), (195, 2)}, [(195, minor) for minor in range(256)], 2)
def test_a_program_denies_these_devices_and_no_other(
    denied: set[DeviceNumber], others: list[DeviceNumber], access: int
) -> None:
    program = deny_program(denied)
    neighbours = [(major + step, minor - step) for major, minor in denied for step in (-1, 0, 1)]
    for device in [*denied, *others, *neighbours]:
        if min(device) >= 0:
            assert answer(program, CHARACTER, access, device) == (device not in denied)
            assert answer(program, BLOCK, access, device) == 1


@pytest.fixture(params=[1, 2])
def group(request: pytest.FixtureRequest) -> Iterator[Group]:
    """In the tree of each version that can filter devices here."""
    found, how = find_cgroups()
    if request.param == 1:
        if found is None or found.version != 1:
            pytest.skip(f"no cgroup v1 for this user: {how}")
        cgroups = found
    else:
        trees = [mount for kind, _, _, mount in mounted_trees() if kind == "cgroup2"]
        if not trees or not os.access(trees[0], os.W_OK):
            pytest.skip("cgroup v2 is not mounted, or not for this user")
        cgroups = Cgroups(2, {"": trees[0]}, trees[:1])
    group = cgroups.group(f"test-{os.getpid()}-{time.monotonic_ns()}")
    try:
        group.deny_devices([])
    except CgroupError as error:
        group.remove()
        pytest.skip(f"no device filter: {error}")
    yield group
    group.kill()
    group.remove()


@pytest.fixture
def gpus(tmp_path: Path) -> dict[DeviceNumber, Path]:
    """Device nodes in the place of two GPUs."""
    nodes = {FIRST_GPU: tmp_path / "gpu0", SECOND_GPU: tmp_path / "gpu1"}
    for (major, minor), path in nodes.items():
        try:
            os.mknod(path, 0o20666, os.makedev(major, minor))
            path.open("rb").close()
        except PermissionError:
            pytest.skip("this user cannot make a device node that opens")
    return nodes


def refusal(group: Group, path: Path, mode: str = "rb") -> str:
    """The error of a process in the group that opens this; empty if it can."""
    source = f"""
try: open({str(path)!r}, {mode!r}).close()
except OSError as error: print(error.strerror, end="")
"""
    return subprocess.check_output(group.entering([sys.executable, "-ISc", source]), text=True)


def test_a_process_cannot_open_a_denied_device(group: Group, gpus: dict[DeviceNumber, Path]) -> None:
    group.deny_devices([SECOND_GPU])
    for mode in ("rb", "wb"):
        assert refusal(group, gpus[FIRST_GPU], mode) == ""
        assert refusal(group, gpus[SECOND_GPU], mode) == "Operation not permitted"
    for other in ("/dev/null", "/dev/urandom"):
        assert refusal(group, Path(other)) == ""
    gpus[SECOND_GPU].open("rb").close()  # outside the group


def test_denying_twice_denies_both(group: Group, gpus: dict[DeviceNumber, Path]) -> None:
    group.deny_devices([SECOND_GPU])
    group.deny_devices([SECOND_GPU])
    group.deny_devices([FIRST_GPU])
    assert refusal(group, gpus[FIRST_GPU]) == refusal(group, gpus[SECOND_GPU]) == "Operation not permitted"
    assert refusal(group, Path("/dev/null")) == ""


def test_a_group_below_cannot_open_it_either(group: Group, gpus: dict[DeviceNumber, Path]) -> None:
    group.deny_devices([SECOND_GPU])
    inner = [folder / "own" for folder in group.folders]
    for folder in inner:
        folder.mkdir()
        for cpuset in ("cpuset.cpus", "cpuset.mems"):
            if (folder / cpuset).exists():
                (folder / cpuset).write_text((folder.parent / cpuset).read_text())
    below = type(group)("own", dict(zip(group.controllers, inner, strict=True)))
    assert refusal(below, gpus[SECOND_GPU]) == "Operation not permitted"
    assert refusal(below, gpus[FIRST_GPU]) == ""


def test_a_filter_outlives_the_process_that_set_it(group: Group, gpus: dict[DeviceNumber, Path]) -> None:
    setter = f"""
import os
from pathlib import Path
from muster.cgroups.group import group_of
folders = {dict(zip(group.controllers, map(str, group.folders), strict=True))!r}
version = {1 if "devices" in group.controllers else 2}
group = group_of(version, "setter", {{name: Path(folder) for name, folder in folders.items()}})
group.deny_devices([{SECOND_GPU!r}])
os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", setter], check=False).returncode == -9
    assert refusal(group, gpus[SECOND_GPU]) == "Operation not permitted"


def test_a_rule_for_several_devices_is_not_taken_for_a_denial(group: Group) -> None:
    """Below a group that allows only some devices, v1 keeps a rule for several without an error."""
    if "devices" not in group.controllers:
        pytest.skip("cgroup v2 has no rules")
    (folder,) = (folder for folder in group.folders if (folder / "devices.deny").exists())
    (folder / "devices.deny").write_text("a")
    (folder / "devices.allow").write_text("c 195:* rw")
    (folder / "devices.allow").write_text("c 1:5 rw")
    group.deny_devices([FIRST_GPU])
    with pytest.raises(CgroupError, match=r"cannot deny 195:\*: the group above allows it"):
        group.deny_devices([(195, 0)])
