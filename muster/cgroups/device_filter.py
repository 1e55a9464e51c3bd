"""A BPF program that stops a control group (v2) from opening some character devices, and its attachment.

The kernel runs the program at each open and mknod of a device by a process of the group or of a group below it.
The attachment belongs to the group: it outlives the process that made it and goes with the group.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Collection
from pathlib import Path

DeviceNumber = tuple[int, int]
"""Major and minor number of a device."""

_SYSTEM_CALL = {
    **dict.fromkeys(("x86_64", "amd64"), 321),
    **dict.fromkeys(("aarch64", "arm64", "riscv64"), 280),
    **dict.fromkeys(("ppc64", "ppc64le"), 361),
    "s390x": 351,
}
"""The number of bpf(2) by the name of the processor."""
_LOAD_PROGRAM, _ATTACH_PROGRAM = 5, 8
_TYPE_CGROUP_DEVICE, _ATTACH_CGROUP_DEVICE, _ALLOW_OTHER_PROGRAMS = 15, 6, 2
_ATTRIBUTE_BYTES = 128

# Operations of the instruction set, as linux/bpf.h and linux/bpf_common.h name them.
_LOAD_WORD = 0x61  # BPF_LDX | BPF_MEM | BPF_W
_AND = 0x57  # BPF_ALU64 | BPF_AND | BPF_K
_SET = 0xB7  # BPF_ALU64 | BPF_MOV | BPF_K
_JUMP_IF_NOT_EQUAL = 0x55  # BPF_JMP | BPF_JNE | BPF_K
_EXIT = 0x95  # BPF_JMP | BPF_EXIT

_CHARACTER_DEVICE = 2
"""In the low half of the first word that the program is given; the others are the major and minor number."""


def deny_program(denied: Collection[DeviceNumber]) -> bytes:
    """The program that returns 0 (deny) for these character devices and 1 for every other device."""
    result, context, access, major, minor = range(5)
    checks = b"".join(
        _instruction(_JUMP_IF_NOT_EQUAL, major, skip=3, value=device[0])
        + _instruction(_JUMP_IF_NOT_EQUAL, minor, skip=2, value=device[1])
        + _instruction(_SET, result, value=0)
        + _instruction(_EXIT)
        for device in sorted(denied)
    )
    return b"".join(
        (
            _instruction(_LOAD_WORD, access, source=context),
            _instruction(_AND, access, value=0xFFFF),
            _instruction(_LOAD_WORD, major, source=context, offset=4),
            _instruction(_LOAD_WORD, minor, source=context, offset=8),
            _instruction(_JUMP_IF_NOT_EQUAL, access, skip=len(checks) // 8, value=_CHARACTER_DEVICE),
            checks,
            _instruction(_SET, result, value=1),
            _instruction(_EXIT),
        )
    )


def attach_device_program(program: bytes, folder: Path) -> None:
    """Adds the program to those of the group in this folder. OSError if the kernel refuses it."""
    code = ctypes.create_string_buffer(program, len(program))
    license_name = ctypes.create_string_buffer(b"GPL")
    described = struct.pack(
        "=IIQQ",
        _TYPE_CGROUP_DEVICE,
        len(program) // 8,
        ctypes.addressof(code),
        ctypes.addressof(license_name),
    )
    program_file = _bpf(_LOAD_PROGRAM, described)
    try:
        group_file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            attachment = (group_file, program_file, _ATTACH_CGROUP_DEVICE, _ALLOW_OTHER_PROGRAMS)
            _bpf(_ATTACH_PROGRAM, struct.pack("=IIII", *attachment))
        finally:
            os.close(group_file)
    finally:
        os.close(program_file)


def _instruction(
    operation: int, target: int = 0, *, source: int = 0, offset: int = 0, skip: int = 0, value: int = 0
) -> bytes:
    """Eight bytes: `offset` is of a load, `skip` the number of instructions that a jump leaves out."""
    registers = target | source << 4 if sys.byteorder == "little" else target << 4 | source
    return struct.pack("=BBhi", operation, registers, offset or skip, value)


def _bpf(command: int, attributes: bytes) -> int:
    """The system call, for which Python has no function. OSError if it fails."""
    number = _SYSTEM_CALL.get(platform.machine().lower())
    if number is None:
        raise OSError(errno.ENOSYS, f"the number of bpf(2) on {platform.machine()} is not known")
    buffer = ctypes.create_string_buffer(attributes, _ATTRIBUTE_BYTES)
    c_library = ctypes.CDLL(None, use_errno=True)
    result: int = c_library.syscall(
        ctypes.c_long(number), ctypes.c_int(command), buffer, ctypes.c_uint(_ATTRIBUTE_BYTES)
    )
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
