"""What if: jobs that ran here, simulated under another scheduler or on more nodes beside what this daemon has.

Each answer is made by processes of its own, with the least claim to the processor, so that no decision waits for it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import polars as pl
import structlog

from muster.cluster.cluster_file import write_cluster_file
from muster.cluster.shipped import parse_cluster
from muster.problems import InputError, Problem
from muster.processes import die_with_parent
from muster.runtime.snapshots.taken import settings_of_scheduler
from muster.schedulers.registry import build
from muster.service.daemon_status import DaemonStatus
from muster.service.home import models_folder

NOW, OTHER = "now", "what-if"
"""The folders of the two runs."""
TRACE, CLUSTER = "what-ran.csv", "now.toml"
"""The files that both read; the report names them."""
_RUNS, _REPORT = "runs", "report.html"
_MUSTER = (sys.executable, "-m", "muster")
_KEPT = 5
_LEAST_CLAIM = 19
_NAMED_BY_A_FILE = ":/\\"

log = structlog.get_logger()


PARTS = 3
"""Of an answer: the simulation as it is, that of what was asked for, and the report."""


class WhatIfState(StrEnum):
    """How far an answer is."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True)
class Question:
    """What is to be different, for the jobs of the last days."""

    scheduler: str
    """Empty: this daemon's."""
    add_nodes: str
    """As in one line that describes a cluster; empty: none."""
    days: float


@dataclass(frozen=True)
class Figures:
    """What one of the two runs came to."""

    scheduler: str
    cluster: str
    mean_wait_seconds: float | None
    p90_wait_seconds: float | None
    mean_jct_seconds: float | None
    makespan_seconds: float | None
    restart_loss: float | None
    preemptions: int


@dataclass(frozen=True)
class WhatIf:
    """A question and its answer, as far as there is one."""

    number: int
    user: str
    asked: float
    """Unix seconds."""
    question: Question
    jobs: int
    """That completed in those days: the answer rests on them."""
    state: WhatIfState = WhatIfState.RUNNING
    message: str = ""
    """Why it failed."""
    parts_done: int = 0
    """Of `PARTS`."""
    runs: tuple[Figures, ...] = ()
    """With what this daemon has, and with what was asked for."""


class Busy(Exception):
    """Another question is being answered."""


@dataclass
class WhatIfs:
    """The last questions and their answers, until the daemon ends. One is worked on at a time."""

    home: Path
    version: int = 0
    """Differs after each change."""
    _found: dict[int, WhatIf] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _processes: dict[int, subprocess.Popen[str]] = field(default_factory=dict)
    """Of each question the command that runs for it now."""
    _newest: int = 0
    """A number is not used again."""

    def __post_init__(self) -> None:
        # Those of a daemon before this one.
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _folder(self) -> Path:
        return self.home / "what-if"

    def all(self) -> Sequence[WhatIf]:
        """Newest first."""
        with self._lock:
            return sorted(self._found.values(), key=lambda one: -one.number)

    def one(self, number: int) -> WhatIf | None:
        """The question of this number; None where there is none."""
        with self._lock:
            return self._found.get(number)

    def report(self, number: int) -> Path | None:
        """The page of an answer; None where there is none."""
        path = self._folder / str(number) / _RUNS / _REPORT
        return path if path.exists() else None

    def ask(self, question: Question, user: str, status: DaemonStatus, trace: pl.DataFrame) -> WhatIf:
        """Begin to answer for the jobs of a trace. InputError if the question cannot be asked here."""
        if question.scheduler:
            _check_scheduler(question.scheduler)
        with self._lock:
            if any(one.state is WhatIfState.RUNNING for one in self._found.values()):
                raise Busy
            number = self._newest = self._newest + 1
            folder = self._folder / str(number)
            try:
                commands = list(_commands(question, status, self.home, folder, trace))
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            asked = WhatIf(number, user, time.time(), question, trace.height)
            self._found[number] = asked
            self.version += 1
            for old in sorted(self._found)[:-_KEPT]:
                self._remove(old)
        threading.Thread(target=self._answer, args=(asked, commands), name="what-if", daemon=True).start()
        return asked

    def remove(self, number: int) -> None:
        """Forget a question; one that is being worked on is given up."""
        with self._lock:
            if number in self._processes:
                self._processes[number].kill()
            self._remove(number)

    def _remove(self, number: int) -> None:
        self._found.pop(number, None)
        shutil.rmtree(self._folder / str(number), ignore_errors=True)
        self.version += 1

    def _answer(self, asked: WhatIf, commands: Sequence[Sequence[str]]) -> None:
        try:
            printed = []
            for at, command in enumerate(commands):
                self._note_parts(asked.number, at)
                printed.append(self._printed(asked.number, command))
            runs = tuple(_figures(json.loads(text)["summary"]) for text in printed[:2])
            answer = replace(asked, state=WhatIfState.DONE, parts_done=PARTS, runs=runs)
        except (_Failed, OSError) as error:
            log.warning("no answer to what-if", number=asked.number, error=str(error))
            answer = replace(asked, state=WhatIfState.FAILED, message=str(error))
        with self._lock:
            if asked.number in self._found:
                self._found[asked.number] = answer
            else:  # forgotten meanwhile, and what it wrote since then goes too
                shutil.rmtree(self._folder / str(asked.number), ignore_errors=True)
            self.version += 1

    def _note_parts(self, number: int, done: int) -> None:
        with self._lock:
            if (asked := self._found.get(number)) is not None:
                self._found[number] = replace(asked, parts_done=done)
                self.version += 1

    def _printed(self, number: int, command: Sequence[str]) -> str:
        """What a command prints; _Failed where it fails."""
        with self._lock:
            if number not in self._found:
                raise _Failed("it was given up")
            process = self._processes[number] = subprocess.Popen(
                command,
                cwd=self._folder / str(number),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                preexec_fn=die_with_parent,
            )
        with suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, process.pid, _LEAST_CLAIM)
        printed, complaints = process.communicate()
        with self._lock:
            del self._processes[number]
        if process.returncode:
            raise _Failed(complaints.strip() or f"the simulation ended with status {process.returncode}")
        return printed


class _Failed(Exception):
    """Says why a command gave no answer."""


def _check_scheduler(name: str) -> None:
    """InputError unless it is one that Muster has: a class of a file would run its code as this daemon's account."""
    if any(character in name for character in _NAMED_BY_A_FILE):
        what = "allowed: a combination of parts or a preset, as muster schedulers lists them"
        raise InputError(Problem("request", what, column="scheduler", found=name))
    build(name)


def _commands(
    question: Question, status: DaemonStatus, home: Path, folder: Path, trace: pl.DataFrame
) -> Iterator[Sequence[str]]:
    """Both runs and their report; what they read is written into the folder."""
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    (folder / _RUNS).mkdir(parents=True)
    trace.write_csv(folder / TRACE)
    write_cluster_file(status.cluster, folder / CLUSTER)
    more = f" + {question.add_nodes}" if question.add_nodes else ""
    parse_cluster(f"{folder / CLUSTER}{more}")
    (folder / _RUNS / "comparison.json").write_text(json.dumps({"runs": [NOW, OTHER]}), encoding="utf-8")
    settings = [f"--set={name}={value}" for name, value in settings_of_scheduler(status.policy).items()]
    measured = models_folder(home).absolute()
    common = [
        *("--restart-cost", str(status.restart_cost_seconds), "--skip-impossible", "--json"),
        *(("--models", str(measured)) if any(measured.glob("*.toml")) else ()),
    ]
    own = status.scheduler
    other = question.scheduler or own
    for name, cluster, scheduler in ((NOW, CLUSTER, own), (OTHER, CLUSTER + more, other)):
        yield [
            *(*_MUSTER, "simulate", TRACE, "--cluster", cluster, "--scheduler", _found_anywhere(scheduler)),
            *(*common, *(settings if scheduler == own else ()), "--out", f"{_RUNS}/{name}"),
        ]
    yield [*_MUSTER, "report", _RUNS, "--format", "html"]


def _found_anywhere(scheduler: str) -> str:
    """A scheduler's name; where it is a class of a file, that file by its whole path."""
    path, colon, name = scheduler.rpartition(":")
    return f"{Path(path).absolute()}:{name}" if colon else scheduler


def _figures(summary: Mapping[str, Any]) -> Figures:
    wait, jct = summary["wait_seconds"], summary["jct_seconds"]
    return Figures(
        summary["scheduler"],
        summary["cluster"],
        wait["mean"],
        wait["p90"],
        jct["mean"],
        summary["makespan_seconds"],
        summary["restart_loss"],
        summary["preemptions"],
    )
