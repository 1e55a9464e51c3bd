"""How soon commands answer: `python -m benchmarks.start`. CPU seconds of whole processes, imports included."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.__main__ import ONE_THREAD
from muster.schedulers.presets import DEFAULT_SCHEDULER

REPEATS = 5
MUSTER = (sys.executable, "-c", "from muster.cli import main; main()")


def cpu_seconds(arguments: tuple[str, ...], bytecode: str) -> float:
    """User and system seconds of one command, with its bytecode in this folder."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | ONE_THREAD | {"PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
    subprocess.run([*MUSTER, *arguments], env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Each command first without bytecode, as after an installation, then as often as `REPEATS` says."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trace = str(folder / "ten.csv")
        subprocess.run(
            [*MUSTER, "generate", "mixed", "--jobs", "10", "--gpus", "16", "-o", trace], check=True
        )
        simulate = ("simulate", trace, "--cluster", "2x8gpu", "--overwrite", "--out", str(folder / "out"))
        commands = {
            "--version": ("--version",),
            "schedulers": ("schedulers",),
            "ten jobs, fifo": (*simulate, "--scheduler", "fifo"),
            f"ten jobs, {DEFAULT_SCHEDULER}": simulate,
        }
        for number, (what, arguments) in enumerate(commands.items()):
            bytecode = str(folder / f"bytecode{number}")
            first = cpu_seconds(arguments, bytecode)
            warm = min(cpu_seconds(arguments, bytecode) for _ in range(REPEATS))
            print(f"{what}: first {first:.2f}, then {warm:.2f} CPU s")


if __name__ == "__main__":
    main()
