"""Changes of Slurm's jobs: many of them by one process."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from muster.slurm_commands import SlurmCommands, SlurmError, explained

_PROMPT = "scontrol: "


def change(commands: SlurmCommands, requests: Sequence[str]) -> list[str]:
    """Send lines to one scontrol; return a message for each, "" where it was done.

    scontrol goes on after an error. It repeats every line before its messages, so each message can be assigned.
    """
    if not requests:
        return []
    printed = commands.done(["scontrol"], "\n".join([*requests, "quit", ""]), subprocess.STDOUT).stdout
    messages: list[list[str]] = []
    for line in printed.splitlines():
        if len(messages) < len(requests) and line == f"{_PROMPT}{requests[len(messages)]}":
            messages.append([])
        elif messages and not line.startswith(f"{_PROMPT}quit"):
            messages[-1].append(line.removeprefix(_PROMPT).removeprefix("error: "))
    if len(messages) < len(requests):
        raise SlurmError(f"scontrol: {explained(printed)}")
    return [explained("\n".join(lines)) if lines else "" for lines in messages]
