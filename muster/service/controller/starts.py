"""One start of a job: what is on the machines, which may lag behind the plan."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from muster.cluster.ledger import NodeAllocation
from muster.service.engines import Launch, Report, ReportRequest
from muster.service.home import job_folder
from muster.service.store.rows import AllocationInterval, JobRow, StepsDone

_OWN_GB = 4.0
"""What a process needs for itself, where its owner did not say: CUDA, its libraries and the loader's workers."""
_MOST_OWN = 0.5
"""Of its grant, in that case."""


@dataclass
class JobStart:
    """One start of a job whose end is not on record yet: what is wanted of it, and what has been sent to it."""

    job: int
    epoch: int
    allocations: tuple[NodeAllocation[str], ...]
    since: float
    """Seconds of the store's clock."""
    steps_before: float
    """Steps that were done when it began."""
    output_read: int = 0
    """Bytes of its output in which no progress is to be looked for any more."""
    notice_at: float | None = None
    """When it was to stop; when it began, if a daemon before this one asked it to."""
    grace_over: bool = False
    """It is to be killed."""
    launched: bool = False
    """The engine has it."""
    notice_sent: tuple[bool, tuple[NodeAllocation[str], ...]] | None = None
    """What the last notice in its run folder was made from: whether it is to stop, its allocations. None: not known."""
    stop_sent: float | None = None
    """When it was really asked to stop."""
    kill_sent: bool = False
    applied: tuple[NodeAllocation[str], ...] | None = None
    """The allocations that the engine has applied; None: not known, as an earlier daemon may have sent others."""
    seen: float = -inf
    """When the engine showed it alive last."""
    looked: float = -inf
    """When its reports were looked at last; when it began, if nothing can have been missed since."""
    joined: bool = False
    """It has reported through its run folder, so it reads notices there."""
    pending_since: float | None = None
    """Since when the engine has not given it what it asked for; None: it has it."""
    not_begun_by: float = -inf
    """When the engine was last found not to know it yet."""
    place_taken: bool = False
    """The last poll has found what it was given taken by another's job, or away."""
    taken_back: bool = False
    """It was pending or refused for too long, and is to stop for that."""
    refusals: int = 0
    """How often the engine has answered that it does not take it."""
    launch_from: float = -inf
    """Earliest moment of its next launch after one of these."""
    pending_noted: bool = False
    """That it is pending counts as a refusal already."""
    last_report: Report | None = None
    report_rejected: bool = False
    """One of its reports could not be understood, and its history says so."""
    first_step: float | None = None
    """When it made its first step; None: it has not reported one."""
    first_report: tuple[float, float] | None = None
    """When its first report was read, and the step of it."""
    newest_report: tuple[float, float] | None = None
    """The same of its newest one."""
    noted: tuple[float, float] | None = None
    """The same of the newest one that is on record; None: none that this daemon has read."""

    def ran(self, until: float) -> float:
        """Seconds that it ran by then. While the engine has not begun it, it holds GPUs and does not run."""
        begun = max(self.since, self.not_begun_by)
        return 0.0 if self.pending_since is not None else max(until - begun, 0.0)

    def reports_to_note(self, gap: float) -> list[StepsDone]:
        """Its first step and report, and its newest one if so long after what is on record; from now on, they are."""
        if self.first_report is None or self.newest_report is None:
            return []
        due = [] if self.noted else [*self._begun(), self.first_report]
        self.noted = self.noted or self.first_report
        passed = self.newest_report[0] - self.noted[0]
        if passed > 0 and passed >= gap:
            due.append(self.newest_report)
            self.noted = self.newest_report
        return [StepsDone(self.job, self.epoch, *report) for report in due]

    def _begun(self) -> list[tuple[float, float]]:
        """Where it went on from, if it did so before its first report and with all that was done."""
        if self.first_step is None or self.first_report is None:
            return []
        at, step = self.first_report
        return (
            [(self.first_step, self.steps_before)]
            if self.first_step < at and step > self.steps_before
            else []
        )

    def first_step_by(self, report: Report, now: float) -> float:
        """When it must have made its first step, according to its first report."""
        done = max(report.step - self.steps_before, 0.0)
        worked = done / report.steps_per_second if report.steps_per_second > 0 else 0.0
        return max(now - worked, self.since)

    def steps_per_second(self, step: float, now: float) -> float:
        """Speed of a job that reports steps only: since its first report, else since it began."""
        if self.first_report is None or self.first_report[0] >= now:
            at, before = self.since, self.steps_before
        else:
            at, before = self.first_report
        return (step - before) / (now - at) if step > before and now > at else 0.0

    def step_seconds(self, step: float, now: float) -> float | None:
        """What a step has taken since the first report, without its start-up; None: nothing was done since then."""
        if self.first_report is None:
            return None
        at, before = self.first_report
        return (now - at) / (step - before) if step > before and now > at else None

    @property
    def gpus(self) -> float:
        """GPUs that it holds; a share of one counts as that share."""
        return sum(here.gpus for here in self.allocations)

    def intervals(self, since: float) -> list[AllocationInterval]:
        """Its allocations as intervals that begin now."""
        return [AllocationInterval(self.job, self.epoch, here, since) for here in self.allocations]


def same_place(one: Iterable[NodeAllocation[str]], other: Iterable[NodeAllocation[str]]) -> bool:
    """Whether two sets of allocations differ in CPUs, memory or storage at most."""
    return [(here.node, here.gpu_ids, here.milli) for here in one] == [
        (here.node, here.gpu_ids, here.milli) for here in other
    ]


def on_ids_of(
    held: tuple[NodeAllocation[str], ...], wanted: tuple[NodeAllocation[str], ...]
) -> tuple[NodeAllocation[str], ...]:
    """What is wanted, on the GPUs that are held where it is as many on the same nodes: then only the ids differ."""

    def counts(allocations: tuple[NodeAllocation[str], ...]) -> list[tuple[str, int, int]]:
        return [(here.node, len(here.gpu_ids), here.milli) for here in allocations]

    if counts(held) != counts(wanted):
        return wanted
    return tuple(replace(to, gpu_ids=here.gpu_ids) for here, to in zip(held, wanted, strict=True))


def launch_of(row: JobRow, start: JobStart, home: Path) -> Launch:
    """All that the engine needs to know of a start."""
    request = row.request
    folder = job_folder(home, row.id)
    return Launch(
        job=row.id,
        epoch=start.epoch,
        run_dir=folder / "run",
        output_dir=folder / "output",
        command=request.command,
        directory=Path(request.directory),
        environment={
            **request.environment,
            "OMP_NUM_THREADS": str(request.compute_threads),
            "MUSTER_JOB_ID": str(row.id),
            "MUSTER_CACHE_GB": f"{cache_gb(row, start.allocations):.6f}",
            "MUSTER_CHECKPOINT_SECONDS": f"{request.checkpoint_seconds:g}",
        },
        allocations=start.allocations,
        ranks=tuple(_ranks(row, here) for here in start.allocations),
        user=row.user,
        whose=row.whose,
        output_limit_gb=request.output_limit_gb,
        key=row.engine_key or "",
        stop_signal=request.stop_signal or "SIGTERM",
    )


def report_request_of(row: JobRow, start: JobStart, home: Path, *, begins: bool) -> ReportRequest:
    """Where a start reports how far it is; `begins`: it has no process yet."""
    folder = job_folder(home, row.id)
    return ReportRequest(
        job=row.id,
        epoch=start.epoch,
        run_dir=folder / "run",
        output_dir=folder / "output",
        unchanged=row.request.unchanged(),
        output_read=start.output_read,
        begins=begins,
    )


def cache_gb(row: JobRow, allocations: tuple[NodeAllocation[str], ...]) -> float:
    """Memory that each process of a start may fill with samples: its grant without what it needs for itself.

    It is one number for all processes, so the node that gives each of its processes least decides.
    """
    ranks = [_ranks(row, here) for here in allocations]
    own = row.request.own_memory_gb

    def left_gb(here: NodeAllocation[str], ranks_here: int) -> float:
        typical_gb = min(_OWN_GB * ranks_here, _MOST_OWN * here.memory_gb)
        own_gb = typical_gb if own is None else own * ranks_here / sum(ranks)
        return (here.memory_gb - own_gb) / ranks_here

    return max(min(map(left_gb, allocations, ranks)), 0.0)


def _ranks(row: JobRow, here: NodeAllocation[str]) -> int:
    """Processes of a job on one node."""
    return max(len(here.gpu_ids), 1) if row.request.ranks == "per-gpu" else 1
