"""The starts that live now: what is really on the machines, which may lag behind what is planned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import regex

from muster.cluster import Cluster
from muster.cluster.books import WHOLE
from muster.cluster.ledger import Share
from muster.problems import BadInput
from muster.service.engines import Launch, Seat
from muster.service.home import job_folder
from muster.service.store.rows import Holding, JobRow
from muster.training.run_folder import read_progress

_OWN_SHARE = 0.5
"""Of a granted memory that stays the process's own at least, where its owner did not say how much it needs."""
_OWN_GB = 1.0
_SEARCH_SECONDS = 0.05
"""Of an owner's expression on one line of output."""


@dataclass
class Start:
    """One start of a job that has been launched and whose end is not on record yet."""

    job: int
    epoch: int
    seats: tuple[Seat, ...]
    since: float
    """Seconds of the store's clock."""
    steps_before: float
    """Steps that were done when it began."""
    notice_at: float | None = None
    """When it was asked to stop."""
    killed: bool = False
    joined: bool = False
    """It has reported through its run folder, so it heeds notices there."""
    output_read: int = 0
    """Bytes of its output in which progress has been looked for."""
    told: Mapping[str, Any] = field(default_factory=dict)
    """Its last report."""
    lost: float | None = None
    """Seconds that went by without a step before its first one; None: not known before its first report."""

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


def seats_of(shares: Iterable[Share], cluster: Cluster, row: JobRow) -> tuple[Seat, ...]:
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


def shares_of(seats: Iterable[Seat], cluster: Cluster) -> list[Share] | None:
    """The other way: for the ledger; None where a node is not of this cluster any more."""
    seats = list(seats)
    if any(seat.node not in cluster.node_index for seat in seats):
        return None
    return [
        Share(
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
    )


def cache_gb(row: JobRow, seats: tuple[Seat, ...]) -> float:
    """Memory that each process of a start may fill with samples: its grant without what it needs for itself."""
    memory_gb = sum(seat.memory_gb for seat in seats)
    own = row.request.memory_gb
    if own is None:
        own = min(memory_gb * _OWN_SHARE, _OWN_GB * len(seats))
    return max(memory_gb - own, 0.0) / sum(seat.ranks for seat in seats)


def read_report(row: JobRow, start: Start, home: Path) -> bool:
    """Bring what a start tells about itself up to date; whether there is anything new."""
    folder = job_folder(home, row.id)
    unchanged = row.request.unchanged()
    if unchanged is not None:
        output = folder / "output" / "0.log"
        if not output.exists():
            return False
        try:
            step, start.output_read = unchanged.read_progress(output, start.output_read, _bounded_search)
        except TimeoutError:
            return False
        if step is None:
            return False
        start.told = {"step": step}
        return True
    try:
        told = read_progress(folder / "run")
    except BadInput:
        return False
    if told is None or told.get("epoch") != start.epoch or told == start.told:
        return False
    start.told = told
    start.joined = True
    return True


def _bounded_search(expression: str, line: str) -> regex.Match[str] | None:
    """An owner's expression is not trusted to end by itself."""
    return regex.search(expression, line, timeout=_SEARCH_SECONDS)


def _ranks(row: JobRow, gpus: int) -> int:
    return max(gpus, 1) if row.request.ranks == "per-gpu" else 1
