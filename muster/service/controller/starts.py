"""The starts that live now: what is really on the machines, which may lag behind what is planned."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from pathlib import Path

from muster.cluster import Cluster
from muster.cluster.ledger import NodeAllocation
from muster.cluster.ledger_arrays import WHOLE
from muster.service.engines import Launch, Seat
from muster.service.home import job_folder
from muster.service.store.rows import Holding, JobRow

_OWN_GB = 4.0
"""What a process needs for itself, where its owner did not say: CUDA, its libraries and the loader's workers."""
_MOST_OWN = 0.5
"""Of its grant, in that case."""


@dataclass(frozen=True)
class Report:
    """How far a job is, in its own words; numbers that can be reckoned with."""

    step: float
    steps_per_second: float = 0.0
    """0: it does not say."""


@dataclass
class Start:
    """One start of a job whose end is not on record yet: what is wanted of it, and what has really been told."""

    job: int
    epoch: int
    seats: tuple[Seat, ...]
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
    noted: tuple[bool, tuple[Seat, ...]] | None = None
    """What the last notice in its run folder was made from: whether it is to stop, its seats. None: not known."""
    told_stop: float | None = None
    """When it really was asked to."""
    told_kill: bool = False
    told_seats: tuple[Seat, ...] | None = None
    """What the engine has given it; None: a daemon before this one may have told it of others."""
    seen: float = -inf
    """When the engine showed it alive last."""
    looked: float = -inf
    """When its reports were looked at last; when it began, if nothing can have been missed since."""
    joined: bool = False
    """It has reported through its run folder, so it heeds notices there."""
    told: Report | None = None
    """Its last report."""
    made_no_sense: bool = False
    """It has told something that could not be understood, and its owner knows."""
    first_step: float | None = None
    """When it made its first step; None: it has not reported one."""
    first_report: tuple[float, float] | None = None
    """When its first report was read, and the step of it."""

    def first_step_by(self, report: Report, now: float) -> float:
        """When it must have made its first step, by its first report."""
        done = max(report.step - self.steps_before, 0.0)
        worked = done / report.steps_per_second if report.steps_per_second > 0 else 0.0
        return max(now - worked, self.since)

    def steps_per_second(self, step: float, now: float) -> float:
        """Of a job that reports steps only: since its first report, and before its second one since it began."""
        if self.first_report is None or self.first_report[0] >= now:
            at, before = self.since, self.steps_before
        else:
            at, before = self.first_report
        return (step - before) / (now - at) if step > before and now > at else 0.0

    @property
    def gpus(self) -> float:
        """GPUs that it holds; a share of one counts as that share."""
        return sum(len(seat.gpus) * seat.gpu_milli / WHOLE for seat in self.seats)

    def holdings(self, since: float) -> list[Holding]:
        """What it has, for the record."""
        return [
            Holding(
                job=self.job,
                epoch=self.epoch,
                node=seat.node,
                gpus=seat.gpus,
                gpu_milli=seat.gpu_milli,
                cpus=seat.cpus,
                memory_gb=seat.memory_gb,
                storage_gb_per_s=seat.storage_gb_per_s,
                since=since,
            )
            for seat in self.seats
        ]


def seats_of(shares: Iterable[NodeAllocation], cluster: Cluster, row: JobRow) -> tuple[Seat, ...]:
    """What a plan gives a job, as an engine takes it."""
    return tuple(
        Seat(
            node=cluster.nodes[share.node].name,
            gpus=share.gpu_ids,
            gpu_milli=share.milli,
            cpus=share.cpus,
            memory_gb=share.memory_gb,
            storage_gb_per_s=share.storage_gb_per_s,
            ranks=_ranks(row, len(share.gpu_ids)),
        )
        for share in shares
    )


def seats_held(holdings: Iterable[Holding], row: JobRow) -> tuple[Seat, ...]:
    """What the record says that a start has."""
    return tuple(
        Seat(
            node=holding.node,
            gpus=holding.gpus,
            gpu_milli=holding.gpu_milli,
            cpus=holding.cpus,
            memory_gb=holding.memory_gb,
            storage_gb_per_s=holding.storage_gb_per_s,
            ranks=_ranks(row, len(holding.gpus)),
        )
        for holding in holdings
    )


def node_allocations(seats: Iterable[Seat], cluster: Cluster) -> list[NodeAllocation] | None:
    """The other way: for the ledger; None where a node is not of this cluster any more."""
    seats = list(seats)
    if any(seat.node not in cluster.node_index for seat in seats):
        return None
    return [
        NodeAllocation(
            node=cluster.node_index[seat.node],
            gpu_ids=seat.gpus,
            cpus=seat.cpus,
            memory_gb=seat.memory_gb,
            storage_gb_per_s=seat.storage_gb_per_s,
            milli=seat.gpu_milli,
        )
        for seat in seats
    ]


def same_place(one: Iterable[Seat], other: Iterable[Seat]) -> bool:
    """Whether two sets of seats differ in CPUs, memory or storage at most."""
    return [(seat.node, seat.gpus, seat.gpu_milli) for seat in one] == [
        (seat.node, seat.gpus, seat.gpu_milli) for seat in other
    ]


def launch_of(row: JobRow, start: Start, home: Path) -> Launch:
    """What the engine is told of a start."""
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
            "MUSTER_CACHE_GB": f"{cache_gb(row, start.seats):.6f}",
            "MUSTER_CHECKPOINT_SECONDS": f"{request.checkpoint_seconds:g}",
        },
        seats=start.seats,
        user=row.user,
        whose=row.whose,
        output_limit_gb=request.output_limit_gb,
    )


def cache_gb(row: JobRow, seats: tuple[Seat, ...]) -> float:
    """Memory that each process of a start may fill with samples: its grant without what it needs for itself.

    All are told the same, so the seat with the least decides.
    """
    ranks = sum(seat.ranks for seat in seats)
    own = row.request.own_memory_gb

    def own_gb(seat: Seat) -> float:
        if own is not None:
            return own * seat.ranks / ranks
        return min(_OWN_GB * seat.ranks, _MOST_OWN * seat.memory_gb)

    return max(min((seat.memory_gb - own_gb(seat)) / seat.ranks for seat in seats), 0.0)


def _ranks(row: JobRow, gpus: int) -> int:
    return max(gpus, 1) if row.request.ranks == "per-gpu" else 1
