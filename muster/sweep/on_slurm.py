"""Pieces as tasks of a job array of Slurm: each task writes its results where the sweep finds them.

The folder of the sweep is on a disk that all nodes see under the same path, as are the trace and cluster files that
pieces read. A task is `python -m muster.sweep.on_slurm FOLDER`; it finds its pieces in that folder by its number.
"""

from __future__ import annotations

import os
import pickle
import re
import secrets
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from muster.cluster.slurm_nodes import expand_hosts, read_fields
from muster.files import unwritable, write_aside
from muster.parallel import failure_of, raise_failure
from muster.problems import Unable
from muster.service.engines.slurm.factory import partition_nodes
from muster.service.engines.slurm.outcome import LIVING
from muster.slurm_commands import SlurmCommands, SlurmError, explained
from muster.sweep.pieces import PieceBatch, check_program, program_digest

_LOOK_SECONDS = 0.5
"""Between two looks for results."""
_QUEUE_SECONDS = 5.0
"""Between two looks at Slurm's queue, which finds tasks that ended without a word."""
_LATE_LOOKS = 3
"""At the queue, in which a task is over before its missing results count as lost: a shared disk may show them late."""
_SILENT_SECONDS = 300.0
"""For which Slurm may not answer."""


class SlurmTasks:
    """Job arrays in one partition of the Slurm that this machine belongs to, for batches of pieces."""

    def __init__(self, partition: str | None) -> None:
        """Find the partition. InputError if there is none of this name; Unable if Slurm does not answer."""
        self._commands = SlurmCommands()
        try:
            self._partition, nodes = partition_nodes(self._commands, partition)
            self._most_tasks = _most_tasks(self._commands.ask(["scontrol", "show", "config"]))
        except SlurmError as error:
            raise Unable(str(error)) from error
        fields = [read_fields(line) for line in nodes]
        self._sizes = [(int(one["CPUTot"]), int(one["RealMemory"])) for one in fields]
        """CPUs and MiB of each node."""
        self._name = f"muster-sweep-{secrets.token_hex(4)}"
        self._folder: Path | None = None
        """Of the files of the array; None: nothing was submitted."""

    @property
    def cpus(self) -> int:
        """CPUs of all nodes, at least 1."""
        return max(1, sum(cpus for cpus, _ in self._sizes))

    def run(
        self, batches: Mapping[str, PieceBatch], at_once: int, on_report: Callable[[str, Any], None]
    ) -> None:
        """Run batches, each on one CPU; report each result that appears."""
        if not batches:
            return
        tasks = _divided(list(batches.items()), self._most_tasks)
        for batch in batches.values():
            batch.remove_damaged()
        folder = self._make_folder(tasks)
        self._submit(folder, len(tasks), at_once)
        watch = _Watch(tasks, on_report)
        looked = answered = time.monotonic()
        while not watch.is_done:
            time.sleep(_LOOK_SECONDS)
            watch.look()
            _raise_failure(folder)
            now = time.monotonic()
            if not watch.is_done and now - looked >= _QUEUE_SECONDS:
                try:
                    watch.miss(self._over(len(tasks)), folder)
                    answered = now
                except SlurmError as error:
                    if now - answered >= _SILENT_SECONDS:
                        raise Unable(f"{error}; finished runs are kept") from error
                looked = time.monotonic()

    def close(self) -> None:
        """End what still runs, and remove the files of the array."""
        if self._folder is None:
            return
        with suppress(SlurmError):
            self._commands.done(["scancel", f"--name={self._name}", f"--user={os.geteuid()}"])
        shutil.rmtree(self._folder, ignore_errors=True)

    def _make_folder(self, tasks: Sequence[Sequence[tuple[str, PieceBatch]]]) -> Path:
        """Write what each task finds, in a folder of this account beside the results."""
        results = tasks[0][0][1].folder.resolve()
        folder = results.parent / self._name
        try:
            folder.mkdir(mode=0o700)
        except OSError as error:
            raise unwritable(folder, error) from None
        self._folder = folder
        for number, task in enumerate(tasks):
            content = [PieceBatch(batch.pieces, results) for _, batch in task]
            with write_aside(folder / f"{number}.task") as aside, aside.open("wb") as file:
                pickle.dump(program_digest(), file)
                pickle.dump(content, file)
        return folder

    def _submit(self, folder: Path, count: int, at_once: int) -> None:
        command = [
            "sbatch",
            "--parsable",
            f"--array=0-{count - 1}%{at_once}",
            f"--partition={self._partition}",
            f"--job-name={self._name}",
            "--ntasks=1",
            "--cpus-per-task=1",
            # What every node has for each CPU: without it Slurm would give a task the whole memory of its node.
            f"--mem-per-cpu={max(1, min(memory // cpus for cpus, memory in self._sizes))}M",
            f"--output={folder}/%a.log",
            f"--chdir={Path.cwd()}",
        ]
        program = shlex.join([sys.executable, "-m", __name__, str(folder)])
        try:
            done = self._commands.done(command, f"#!/bin/sh\nexec {program}\n")
        except SlurmError as error:
            raise Unable(str(error)) from error
        if done.returncode != 0:
            raise Unable(f"sbatch: {explained(done.stderr)}")

    def _over(self, count: int) -> dict[int, str]:
        """Return the tasks that have ended or are not known any more, and how Slurm says it."""
        form = "--Format=ArrayTaskID:32,State:32"
        asked = ["squeue", "--noheader", "--array", "--states=all", f"--name={self._name}", form]
        rows = [line.split() for line in self._commands.ask(asked).splitlines() if line.strip()]
        states = {
            int(number): state
            for numbers, state, *_ in rows
            for number in expand_hosts(f"[{numbers.partition('%')[0]}]")
        }
        over = {number: states.get(number, "not known to Slurm any more") for number in range(count)}
        return {number: state for number, state in over.items() if state not in LIVING}


class _Watch:
    """The results that are still to come, by task."""

    def __init__(
        self, tasks: Sequence[Sequence[tuple[str, PieceBatch]]], on_report: Callable[[str, Any], None]
    ) -> None:
        self._missing = {
            number: [(name, batch, piece) for name, batch in task for piece, _ in batch.pieces]
            for number, task in enumerate(tasks)
        }
        self._on_report = on_report
        self._late: dict[int, int] = {}

    @property
    def is_done(self) -> bool:
        """Every result was reported."""
        return not self._missing

    def look(self) -> None:
        """Report the results that have appeared."""
        for number, pieces in list(self._missing.items()):
            left = []
            for name, batch, piece in pieces:
                if batch.exists(piece):
                    self._on_report(name, piece)
                else:
                    left.append((name, batch, piece))
            self._missing[number] = left
            if not left:
                del self._missing[number]

    def miss(self, over: Mapping[int, str], folder: Path) -> None:
        """Take in which tasks are over. Unable if results of one are missing for good."""
        self._late = {number: self._late.get(number, 0) + 1 for number in over if number in self._missing}
        for number, looks in self._late.items():
            if looks >= _LATE_LOOKS:
                said = f"task {number} of the sweep ended in Slurm without its results: {over[number]}"
                raise Unable(f"{said}; {_last_line(folder / f'{number}.log')}. Finished runs are kept")


def _divided(batches: Sequence[tuple[str, PieceBatch]], most: int) -> list[Sequence[tuple[str, PieceBatch]]]:
    """Return what each task of the array runs: one batch, or several if there are more than tasks."""
    return [batches[at::most] for at in range(min(most, len(batches)))]


def _most_tasks(config: str) -> int:
    """Return how many tasks an array may have, from `scontrol show config`."""
    found = re.search(r"^MaxArraySize\s*=\s*(\d+)", config, re.MULTILINE)
    return max(1, int(found[1]) - 1) if found else 1


def _last_line(log: Path) -> str:
    try:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        return "it has no output. Hint: is the folder of the sweep on a disk that all nodes see?"
    return f"last line of its output: {lines[-1]}" if lines else "its output is empty"


def _raise_failure(folder: Path) -> None:
    """Raise the failure that a task has written, if there is one."""
    for path in sorted(folder.glob("*.failure")):
        raise_failure(f"task {path.stem}", *pickle.loads(path.read_bytes()))


def main(folder: Path) -> None:
    """Run the pieces of this task of the array; write down why if one fails."""
    number = os.environ["SLURM_ARRAY_TASK_ID"]
    try:
        for batch in _received(folder / f"{number}.task"):
            batch(lambda _: None)
    except Exception as error:
        with write_aside(folder / f"{number}.failure") as aside:
            aside.write_bytes(pickle.dumps(failure_of(error)))
        raise


def _received(path: Path) -> Iterator[PieceBatch]:
    with path.open("rb") as file:
        check_program(pickle.load(file), "slurm")
        yield from pickle.load(file)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
