"""The GPUs of this machine that its jobs may use: what nvidia-smi lists, less what is hidden from the daemon."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from muster.problems import InputError, Problem
from muster.processes import is_of_a_start

QUERY_SECONDS = 20.0
"""For one answer of nvidia-smi, which hangs where a driver does."""
_SMI = "nvidia-smi"
_ALLOWED = "CUDA_VISIBLE_DEVICES"
_GPU = re.compile(r"GPU (\d+): (.+) \(UUID: (GPU-[^)]+)\)")
_INSTANCE = re.compile(r"\s+MIG (\S+)\s+Device\s+\d+: \(UUID: (MIG-[^)]+)\)")


@dataclass(frozen=True)
class Gpus:
    """What there is, as CUDA_VISIBLE_DEVICES calls it."""

    names: tuple[str, ...]
    """By their numbers in the order of nvidia-smi; instances of a divided one (MIG), which have none, by UUID."""
    type_name: str
    """Of the first one."""
    uuid_of: Mapping[str, str]
    """The UUID of the whole GPU that each name is, or is an instance of; empty where it is not known."""
    free_number: int
    """From here on no GPU has this number."""
    missing: str
    """Why there is none."""
    warnings: tuple[str, ...]


@dataclass
class _Gpu:
    """One line of `nvidia-smi -L`, and those of its instances below it."""

    number: str
    name: str
    uuid: str
    instances: list[tuple[str, str]]
    """Profile and UUID of each."""
    divided: bool = False
    """MIG is on: CUDA uses its instances only."""

    def devices(self) -> list[tuple[str, str]]:
        """Names for CUDA and types of what jobs can use of it."""
        if self.instances or self.divided:
            return [(uuid, f"{self.name} MIG {profile}") for profile, uuid in self.instances]
        return [(self.number, self.name)]


class _NoAnswer(Exception):
    """nvidia-smi gave no answer; says why."""


def find_gpus() -> Gpus:
    """What nvidia-smi lists and CUDA_VISIBLE_DEVICES, where the daemon has it, lets through.

    InputError if that names something that is not there, or twice.
    """
    allowed = _allowed()
    if allowed == ():
        hidden = f"{_ALLOWED} hides all of them from the daemon"
        return Gpus((), "GPU", {}, _free_number(_listed()[0]), hidden, ())
    gpus, complaint = _listed()
    if not gpus:
        # It may be its listing alone that fails: what is allowed by name is taken at its word.
        free = 1 + max((int(name) for name in allowed or () if name.isdecimal()), default=-1)
        is_there = shutil.which(_SMI) is not None
        uuid_of = dict.fromkeys(allowed or (), "")
        return Gpus(allowed or (), "GPU", uuid_of, free, complaint, (complaint,) if is_there else ())
    devices = [device for gpu in gpus for device in gpu.devices()]
    if allowed is not None:
        devices = _chosen(allowed, gpus)
    warnings = [complaint] if complaint else []
    warnings += [
        f"GPU {gpu.number} ({gpu.name}) is in MIG mode and has no instance: jobs cannot use it"
        for gpu in gpus
        if not gpu.devices()
    ]
    names = tuple(name for name, _ in devices)
    warnings += _in_use(gpus, names)
    type_name = devices[0][1] if devices else "GPU"
    uuids = {name: gpu.uuid for gpu in gpus for name, _ in gpu.devices()}
    uuid_of = {name: uuids[name] for name in names}
    return Gpus(names, type_name, uuid_of, _free_number(gpus), "no GPU of it can be used", tuple(warnings))


def gpus_in_use() -> frozenset[str]:
    """The names of GPUs on which some process computes now, a job of Muster's or another, as far as known."""
    busy: set[str] = set()
    with suppress(_NoAnswer):
        busy = {
            uuid for uuid, _ in _fields(_ask("--query-compute-apps=gpu_uuid,pid", "--format=csv,noheader"))
        }
    return frozenset(name for gpu in _listed()[0] if gpu.uuid in busy for name, _ in gpu.devices())


def free_gpus() -> tuple[str, ...]:
    """The GPUs on which no process computes, so that a profile disturbs no job; none on a machine without GPUs."""
    names = find_gpus().names
    busy = gpus_in_use() if names else frozenset()
    free = tuple(name for name in names if name not in busy)
    if names and not free:
        what = "every GPU is in use, and a profile would disturb its users; name one all the same, or '' for none"
        raise InputError(Problem("--gpu", what, found=", ".join(names)))
    return free


def check_gpus(text: str) -> None:
    """InputError if a text, as CUDA_VISIBLE_DEVICES has it, names GPUs that this process may not use, or one twice."""
    names = _names_of(text)
    if not names:
        return
    there, listed = find_gpus(), _listed()[0]
    named = [_named(name, listed) if listed else [(name, "")] for name in names]
    devices = [device for found in named for device, _ in found or ()]
    if None in named or len({*devices}) < len(devices) or not {*devices} <= {*there.names}:
        shown = f"GPUs of this machine, each once: {', '.join(there.names)}"
        allowed = shown if there.names else f"'' for none, as {there.missing}"
        raise InputError(Problem("--gpu", f"allowed: {allowed}", found=text))


def _allowed() -> tuple[str, ...] | None:
    """What CUDA_VISIBLE_DEVICES names; None: it is not set, and hides nothing."""
    text = os.environ.get(_ALLOWED)
    return None if text is None else _names_of(text)


def _names_of(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(","))
    return () if names in (("",), ("-1",)) else names


def _listed() -> tuple[list[_Gpu], str]:
    """The GPUs, and the complaint of nvidia-smi, empty if it has none."""
    try:
        lines = _ask("-L").splitlines()
    except _NoAnswer as answer:
        return [], str(answer)
    gpus: list[_Gpu] = []
    complaints = []
    for line in lines:
        if found := _GPU.fullmatch(line.rstrip()):
            gpus.append(_Gpu(found[1], found[2], found[3], []))
        elif gpus and (found := _INSTANCE.fullmatch(line.rstrip())):
            gpus[-1].instances.append((found[1], found[2]))
        elif line.strip():
            complaints.append(line.strip())
    with suppress(_NoAnswer):  # a driver that knows no MIG says that this is no field
        modes = dict(_fields(_ask("--query-gpu=uuid,mig.mode.current", "--format=csv,noheader")))
        for gpu in gpus:
            gpu.divided = modes.get(gpu.uuid) == "Enabled"
    if not (complaints or gpus):
        complaints = ["lists no GPU"]
    return gpus, f"{_SMI}: {'; '.join(complaints)}" if complaints else ""


def _ask(*words: str) -> str:
    """What nvidia-smi answers; `_NoAnswer` if it fails, or not in time."""
    if shutil.which(_SMI) is None:
        raise _NoAnswer(f"there is no {_SMI}")
    process = subprocess.Popen(
        [_SMI, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        answer, _ = process.communicate(timeout=QUERY_SECONDS)
    except subprocess.TimeoutExpired:
        # Where the driver hangs it cannot even be killed, so its end is not waited for long.
        os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=1.0)
        raise _NoAnswer(f"{_SMI} has not answered within {QUERY_SECONDS:g} s") from None
    # With one GPU lost it complains of it and lists the others.
    if process.returncode != 0 and not any(map(_GPU.match, answer.splitlines())):
        said = "; ".join(line.strip() for line in answer.splitlines() if line.strip())
        raise _NoAnswer(f"{_SMI} failed with status {process.returncode}: {said or 'it said nothing'}")
    return answer


def _chosen(allowed: tuple[str, ...], gpus: list[_Gpu]) -> list[tuple[str, str]]:
    """The devices that are allowed, in that order: by number, UUID or the beginning of one, as CUDA takes them."""
    named = [_named(name, gpus) for name in allowed]
    problems = [
        Problem(_ALLOWED, "is no GPU, or not only one, of those that nvidia-smi -L lists", found=name)
        for name, devices in zip(allowed, named, strict=True)
        if devices is None
    ]
    devices = [device for found in named for device in found or ()]
    problems += [
        Problem(_ALLOWED, "is named more than once", found=name)
        for (name, _), times in Counter(devices).items()
        if times > 1
    ]
    if problems:
        raise InputError(*problems)
    return devices


def _named(name: str, gpus: list[_Gpu]) -> list[tuple[str, str]] | None:
    if name.isdecimal():
        found = [gpu.devices() for gpu in gpus if int(gpu.number) == int(name)]
    elif name.startswith("MIG-"):
        devices = [device for gpu in gpus for device in gpu.devices()]
        found = [[device] for device in devices if device[0].startswith(name)]
    else:
        found = [gpu.devices() for gpu in gpus if name.startswith("GPU-") and gpu.uuid.startswith(name)]
    return found[0] if len(found) == 1 else None


def _in_use(gpus: list[_Gpu], names: tuple[str, ...]) -> Iterator[str]:
    """Words for each GPU of ours that processes of others compute on now."""
    numbers = {gpu.uuid: gpu.number for gpu in gpus if {name for name, _ in gpu.devices()} & {*names}}
    with suppress(_NoAnswer):
        for uuid, rest in _fields(_ask("--query-compute-apps=gpu_uuid,pid,name", "--format=csv,noheader")):
            pid, _, program = rest.partition(", ")
            if uuid in numbers and pid.isdecimal() and not is_of_a_start(int(pid)):
                yield f"GPU {numbers[uuid]} is in use by process {pid} ({program}), which is no job of Muster's"


def _fields(answer: str) -> Iterator[tuple[str, str]]:
    """First field and the rest of each line."""
    for line in answer.splitlines():
        first, comma, rest = line.strip().partition(", ")
        if comma:
            yield first, rest


def _free_number(gpus: list[_Gpu]) -> int:
    return 1 + max((int(gpu.number) for gpu in gpus), default=-1)
