"""Fake nodes, to try a scheduler live and for load tests: a start runs no process and only takes time.

What runs is kept in one file of lines, so a new daemon finds its starts where they would be by then. It
survives the daemon, not the machine: nothing is flushed. A start that ends, or is stopped, reports its step in the
job's run folder, as a job would (docs/how-to/training.md), and the next start goes on from there.
"""

from __future__ import annotations

import errno
import heapq
import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from muster.cluster import Cluster, Node
from muster.cluster.ledger import NodeAllocation
from muster.cluster.shipped import FLAG, parse_cluster
from muster.problems import InputError, Problem
from muster.service.engines.factory import ConfiguredEngine, EngineContext, EngineFactory, EngineOptions
from muster.service.engines.interface import EngineCapabilities, Exit, Launch, Observed
from muster.service.engines.sequential import SequentialEngine
from muster.service.store.rows import JobRow
from muster.speed.gains import stages_of
from muster.training.run_folder import EXIT_STOPPED, progress_file, read_progress
from muster.workload.models import Model

_LINES_BEFORE_REWRITE = 20_000
_OPTION = "--fake-nodes"


@dataclass(frozen=True)
class Pace:
    """How long a job is and how fast it goes on, from now."""

    steps: float
    """In all; infinite: it runs until it is stopped."""
    steps_per_second: float
    start_up_seconds: float = 0.0
    """Before its first step."""
    saves: bool = True
    """It goes on where it was stopped, and its first step is known. Else it is a script that saves nothing."""


def pace_of(
    row: JobRow, allocations: Sequence[NodeAllocation[str]], models: Mapping[str, Model], cluster: Cluster
) -> Pace:
    """As the scheduler's own models have it: the slowest node's input stage holds the gang up.

    A job without a known model, or without GPUs, makes a step a second, and with more or fewer GPUs than it asked for
    more or fewer steps in proportion; one whose owner did not say its steps never ends.
    """
    model = models.get((row.request.model or "").lower())
    with_gpus = [here for here in allocations if here.gpu_ids]
    steps = float("inf") if row.request.steps is None else float(row.request.steps)
    if model is None or not with_gpus:
        held = sum(len(here.gpu_ids) for here in with_gpus)
        return Pace(steps, held / row.usual_gpus if row.request.changes_size else 1.0)
    asked = row.usual_gpus * row.request.gpu_share
    return Pace(steps, 1.0 / stages_of(model, cluster, with_gpus, asked).total)


@dataclass(frozen=True)
class _Run:
    """A start as its line says."""

    job: int
    epoch: int
    run_dir: str
    began: float
    at: float
    """When it was at `step`; unix seconds, as all moments here."""
    step: float
    steps: float
    steps_per_second: float
    stopped: int | None = None
    """The status with which it was made to end, at `at`."""
    works_from: float = 0.0
    """When its start-up is over."""
    saves: bool = True

    @property
    def key(self) -> tuple[int, int]:
        return self.job, self.epoch

    @property
    def end(self) -> float:
        return (
            self.at
            if self.stopped is not None
            else max(self.at, self.works_from) + (self.steps - self.step) / self.steps_per_second
        )

    def living(self, now: float) -> Observed:
        return Observed(*self.key, None, self.began, first_step=self._first_step(now))

    def ended(self) -> Observed:
        first_step = self._first_step(self.end)
        if self.stopped is not None:
            return Observed(*self.key, Exit.STOPPED, self.at, self.stopped, first_step=first_step)
        return Observed(*self.key, Exit.COMPLETED, self.end, 0, first_step=first_step)

    def _first_step(self, now: float) -> float | None:
        return self.works_from if self.saves and self.works_from <= now else None

    def moved_on(self, now: float) -> _Run:
        """The same run at a later moment."""
        worked = max(now - max(self.at, self.works_from), 0.0)
        step = min(self.step + worked * self.steps_per_second, self.steps)
        if (
            self.stopped is None and now >= self.end
        ):  # A clock has not enough digits for the last part of a step.
            step = self.steps
        return replace(self, at=now, step=step)


class FakeEngine(SequentialEngine):
    """Starts that are only kept account of. To be used by one thread."""

    capabilities = EngineCapabilities(can_resize=True, runs_as_users=False)
    enforces = "no limits, as the nodes are fake and no process runs"

    def __init__(
        self,
        folder: Path,
        cluster: Cluster,
        pace: Callable[[int, Sequence[NodeAllocation[str]]], Pace],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`pace` is asked at each launch and resize, with the job and what it has."""
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "starts.jsonl"
        self._cluster = cluster
        self._pace = pace
        self._clock = clock
        self._runs = {run.key: run for run in _read(self._path)}
        self._newest: dict[int, int] = {}
        """The newest epoch of each job; every older start has ended."""
        for job, epoch in self._runs:
            self._newest[job] = max(epoch, self._newest.get(job, 0))
        self._observed = {key: run.living(clock()) for key, run in self._runs.items()}
        self._due = [moment for run in self._runs.values() for moment in _moments(run)]
        """When a start has come up or ends, and which: a heap."""
        heapq.heapify(self._due)
        self._rewrite()

    def nodes(self) -> Sequence[Node]:
        """The fake nodes."""
        return self._cluster.nodes

    def launch(self, launch: Launch) -> None:
        """Begin a start. OSError while an older one of the job lives; a stale one ends at once."""
        if (launch.job, launch.epoch) in self._runs:
            return
        newest = self._newest.get(launch.job, launch.epoch)
        self._refuse_if_living(launch.job, newest)
        stale = launch.epoch < newest
        now = self._clock()
        pace = self._pace(launch.job, launch.allocations)
        self._keep(
            _Run(
                launch.job,
                launch.epoch,
                str(launch.run_dir),
                began=now,
                at=now,
                step=min(_saved_step(launch), pace.steps),
                steps=pace.steps,
                steps_per_second=pace.steps_per_second,
                works_from=now + pace.start_up_seconds,
                saves=pace.saves and not stale,
                stopped=EXIT_STOPPED if stale else None,
            )
        )

    def resize(self, job: int, epoch: int, allocations: Sequence[NodeAllocation[str]]) -> None:
        """Goes on at another pace."""
        run = self._living(job, epoch)
        if run is not None:
            pace = self._pace(job, allocations)
            self._keep(replace(run.moved_on(self._clock()), steps_per_second=pace.steps_per_second))

    def signal(self, job: int, epoch: int, name: str) -> None:
        """Stop a start at once; any signal makes it save."""
        self._stop(job, epoch, EXIT_STOPPED)

    def kill(self, job: int, epoch: int) -> None:
        """Ends it as well; what it did counts, as nothing is lost that was not there."""
        self._stop(job, epoch, -signal.SIGKILL)

    def observe(self) -> Sequence[Observed]:
        """Every start that is not forgotten; costs what came up or ended since the last look."""
        now = self._clock()
        while self._due and self._due[0][0] <= now:
            moment, key = heapq.heappop(self._due)
            run = self._runs.get(key)
            if run is None or self._observed[key].ended is not None:
                continue
            # A run that has another end by now has no part in this one.
            if run.end == moment:
                if run.saves:
                    with suppress(OSError):  # On a full disk its last steps count for nothing.
                        _report(run.moved_on(moment), "trained" if run.stopped is None else "stopped")
                self._observed[key] = run.ended()
            elif run.works_from == moment:
                self._observed[key] = run.living(moment)
        return list(self._observed.values())

    def forget(self, job: int, epoch: int) -> None:
        """Remove a start that has ended; OSError while it lives."""
        self._refuse_if_living(job, epoch)
        if self._runs.pop((job, epoch), None) is not None:
            del self._observed[job, epoch]
            if self._newest[job] == epoch:
                del self._newest[job]
            self._append({"forget": [job, epoch]})

    def _living(self, job: int, epoch: int) -> _Run | None:
        run = self._runs.get((job, epoch))
        return None if run is None or run.end <= self._clock() else run

    def _refuse_if_living(self, job: int, epoch: int) -> None:
        if self._living(job, epoch) is not None:
            raise OSError(errno.EBUSY, f"start {epoch} of job {job} is still there")

    def _stop(self, job: int, epoch: int, status: int) -> None:
        run = self._living(job, epoch)
        if run is not None:
            self._keep(replace(run.moved_on(self._clock()), stopped=status))

    def _keep(self, run: _Run) -> None:
        self._append(asdict(run))
        self._runs[run.key] = run
        self._newest[run.job] = max(run.epoch, self._newest.get(run.job, 0))
        self._observed[run.key] = run.living(self._clock())
        for moment in _moments(run):
            heapq.heappush(self._due, moment)

    def _append(self, line: Mapping[str, Any]) -> None:
        if self._lines >= _LINES_BEFORE_REWRITE + 4 * len(self._runs):
            self._rewrite()
        with self._path.open("ab") as file:
            end = os.fstat(file.fileno()).st_size
            try:
                file.write(json.dumps(line).encode() + b"\n")
                file.flush()
            except OSError:
                file.truncate(end)  # half a line would spoil the next one
                raise
        self._lines += 1

    def _rewrite(self) -> None:
        aside = self._path.with_suffix(".part")
        aside.write_text("".join(json.dumps(asdict(run)) + "\n" for run in self._runs.values()))
        aside.replace(self._path)
        self._lines = len(self._runs)


def _read(path: Path) -> list[_Run]:
    """The runs that were not forgotten; a last line that was cut off is none."""
    runs: dict[tuple[int, int], _Run] = {}
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    for line in map(json.loads, lines):
        if "forget" in line:
            runs.pop(tuple(line["forget"]), None)  # gone already, if the file was rewritten at that moment
        else:
            run = _Run(**line)
            runs[run.key] = run
    return list(runs.values())


def _moments(run: _Run) -> list[tuple[float, tuple[int, int]]]:
    """The moments at which a run comes up and ends."""
    return [(run.works_from, run.key)] * (run.works_from < run.end) + [(run.end, run.key)]


def _saved_step(launch: Launch) -> float:
    """The last step of the newest earlier start that saved one, as the job itself would find it; 0 without one.

    The daemon may know less: a job with a stop signal of its own reports nothing to it.
    """
    for epoch in range(launch.epoch - 1, 0, -1):
        with suppress(InputError):  # Half of a file is what a crash of the machine may leave.
            if (saved := read_progress(launch.run_dir, epoch)) is not None:
                return float(saved["step"])
    return 0.0


def _report(run: _Run, state: str) -> None:
    folder = Path(run.run_dir)
    folder.mkdir(parents=True, exist_ok=True)
    aside = folder / f"{os.getpid()}.part"
    progress = {
        "epoch": run.epoch,
        "state": state,
        "step": int(run.step + 1e-6),
        "steps_per_second": run.steps_per_second,
    }
    aside.write_text(json.dumps(progress) + "\n")
    aside.replace(progress_file(folder, run.epoch))


def _configure(options: EngineOptions) -> ConfiguredEngine:
    if options.fake_nodes is None:
        raise InputError(Problem(_OPTION, "allowed: a cluster, for example 16x8gpu,24cpu,500gb"))
    try:
        cluster = parse_cluster(options.fake_nodes)
    except InputError as bad:
        raise InputError(
            *(replace(problem, where=_where(problem.where)) for problem in bad.problems)
        ) from None

    def open_engine(context: EngineContext) -> FakeEngine:
        def pace(job: int, allocations: Sequence[NodeAllocation[str]]) -> Pace:
            return pace_of(context.job_row(job), allocations, context.models(), cluster)

        return FakeEngine(context.folder, cluster, pace)

    return ConfiguredEngine(cluster, open_engine)


def _where(where: str) -> str:
    """The option that was typed, where a problem names the one that usually takes a cluster."""
    return _OPTION if where == FLAG else where


FACTORY = EngineFactory(FakeEngine.capabilities, frozenset({_OPTION}), _configure)
