"""Divides a start on several nodes into its parts, each for the launcher of one node (`muster.launcher`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from muster.service.engines.interface import Launch, StartPart

GANG_GRACE_SECONDS = 10.0
"""For the other ranks, from SIGTERM to SIGKILL, after one has died."""

SIGNALS = ("SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2")
"""By which a start may be asked to stop."""


def meeting_folder(launch: Launch) -> Path:
    """Where the parts of a start meet, beside the run folder of its job; the engine makes it, as the job's user."""
    return launch.run_dir.parent / "parts" / str(launch.epoch)


def parts_of(launch: Launch, addresses: Sequence[str]) -> list[Launch]:
    """A launch for each node, whose addresses come in the order of its allocations."""
    if len(launch.allocations) == 1:
        return [launch]
    parts = []
    first_rank = 0
    for number, (here, ranks, address) in enumerate(
        zip(launch.allocations, launch.ranks, addresses, strict=True)
    ):
        part = StartPart(number, first_rank, sum(launch.ranks), meeting_folder(launch), address)
        parts.append(replace(launch, allocations=(here,), ranks=(ranks,), part=part))
        first_rank += ranks
    return parts


def part_record(launch: Launch) -> dict[str, Any]:
    """What the launcher of one node reads about the others."""
    (ranks,), part = launch.ranks, launch.part
    if part is None:
        return {
            "first_rank": 0,
            "world_size": ranks,
            "part": 0,
            "meeting_folder": None,
            "address": "127.0.0.1",
        }
    return {
        "first_rank": part.first_rank,
        "world_size": part.world_size,
        "part": part.number,
        "meeting_folder": str(part.meeting_folder),
        "address": part.address,
    }


def stop_file(run_dir: Path, epoch: int) -> Path:
    """Where it stands that a start is to stop, beside the run folder of its job."""
    return run_dir.parent / f"stop.{epoch}"


def start_file(
    launch: Launch,
    addresses: Sequence[str],
    environment: Mapping[str, str],
    *,
    inherited: Sequence[str] = (),
    passes_on: Sequence[str] = SIGNALS,
) -> dict[str, Any]:
    """What `python -m muster.launcher FILE` reads on each node: all parts of a start, as the caller's own user.

    `environment`: the variables of each rank. `inherited`: names of variables that the launcher hands down from its
    own, such as CUDA_VISIBLE_DEVICES where the engine sets it. `passes_on`: signals to the launcher that go to the
    ranks; none if the engine sends them to all processes itself. A start whose `stop_file` exists begins no ranks: a
    signal may have come before there was a process to take it.
    """
    common = {
        "epoch": launch.epoch,
        "run_dir": str(launch.run_dir),
        "output_dir": str(launch.output_dir),
        "command": launch.command,
        "directory": str(launch.directory),
        "environment": {
            **environment,
            "MUSTER_RUN_DIR": str(launch.run_dir),
            "MUSTER_EPOCH": str(launch.epoch),
        },
        "identity": None,
        "output_limit_gb": launch.output_limit_gb,
        "gang_grace_seconds": GANG_GRACE_SECONDS,
        "inherited": list(inherited),
        "passes_on": list(passes_on),
        "stop_file": str(stop_file(launch.run_dir, launch.epoch)),
        "lease_file": None,
    }
    parts = [part_record(part) | {"ranks": part.ranks[0]} for part in parts_of(launch, addresses)]
    return {"start": f"{launch.job}.{launch.epoch}", "launch": common, "parts": parts}
