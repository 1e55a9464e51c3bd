"""Work in blocks, as in the program of Dally's authors: work and leases end only where a block of samples does.

In a block a gang works off 1000 samples for each of its GPUs, which takes 1000 t1 / eff seconds. At its end
the gang goes on if its lease has not run out and another (1000 t1 / eff) / GPUs seconds would not outlast it
(Dally §Priority, "as published"): a lease may last nearly a block longer than it should, or end before its time.

Times are summed block by block, and counts are whole samples, because that program orders its jobs by full doubles.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
import polars as pl

from experiments.published.dally_efficiency import PublishedEfficiency
from experiments.published.job_groups import JOB_GROUP, samples_after_groups
from muster.cluster.ledger import Ledger
from muster.cluster.ledger_arrays import Floats, Ints
from muster.problems import InputError, Problem
from muster.simulation.network import NetworkOfRun
from muster.speed.network.placement import Placements, shapes_of
from muster.workload.jobs import JobTable
from muster.workload.trace import Trace

SAMPLE_SECONDS = "time_per_iteration_s"
"""The column of the authors' traces that has t1: seconds of a sample on one GPU."""
SAMPLES = "total_iterations"
"""The column of the authors' traces that has N: samples of the whole job."""
SAMPLES_PER_GPU = 1000
_ALIKE = 1e-9

DONE, EXPIRED, EARLY = range(3)
"""Why a stretch of blocks ends: no work is left, the lease has run out, or another block would outlast it."""


@dataclass(frozen=True)
class Stretch:
    """The blocks that a job runs from one start to its stop."""

    stops: float
    ending: int
    left: int
    """Samples, after it."""
    ran: float
    """Seconds that the job has run, after it."""


class Blocks:
    """The blocks of a run's jobs; their work is rounded up to whole ones."""

    used_columns = (SAMPLE_SECONDS, SAMPLES, JOB_GROUP)

    def __init__(self, table: JobTable, trace: Trace, network: NetworkOfRun | None) -> None:
        asked = table.asked
        work = trace.jobs.sort("submit_seconds", maintain_order=True)
        self._table = table
        self._network = network
        self._efficiency = PublishedEfficiency(network.speed if network else None)
        self._sample_seconds = _sample_seconds(trace, work)
        self._samples = _samples(trace, work, asked["ideal"] * asked["gpus"] / self._sample_seconds)
        if JOB_GROUP in work.columns:
            groups = work[JOB_GROUP].to_list()
            self._samples = samples_after_groups(self._samples, groups, asked["submit"], table.id_ranks)
        self._left = self._samples.copy()
        self._ran = np.zeros(len(table))
        self._stretches: dict[int, Stretch] = {}
        seconds = self._whole_blocks(self._samples) * SAMPLES_PER_GPU * self._sample_seconds
        longer = seconds / asked["ideal"]
        for field in ("iterations", "believed", "ideal"):
            asked[field] *= longer
        table.facts["sensitivity"] = 0.0

    def start(self, job: int, now: float, lease_end: float, ledger: Ledger) -> None:
        """Work out when a job that starts now on a lease stops, and write it into its facts."""
        asked, fact = self._table.asked[job], self._table.facts[job]
        efficiency = self._efficiency_of(job, ledger)
        begins = max(now, float(fact["resumes"]))
        stretch = Stretch(
            *run_blocks(
                begins,
                lease_end,
                float(self._sample_seconds[job]),
                efficiency,
                int(asked["gpus"]),
                int(self._left[job]),
                float(self._ran[job]),
            )
        )
        self._stretches[job] = stretch
        done = stretch.ending == DONE
        fact["finish"], fact["lease_end"] = (stretch.stops, inf) if done else (inf, stretch.stops)

    def stop(self, job: int) -> bool:
        """Write what a job has done at the end of its blocks into its facts; whether it gave up its lease early."""
        asked, fact = self._table.asked[job], self._table.facts[job]
        stretch = self._stretches.pop(job)
        self._left[job], self._ran[job] = stretch.left, stretch.ran
        samples = int(self._samples[job])
        ideal = self._sample_seconds[job] * samples / asked["gpus"]
        fact["sensitivity"] = (1 - stretch.left / samples) / (stretch.ran / ideal)
        left_blocks = -(-stretch.left // (SAMPLES_PER_GPU * int(asked["gpus"])))
        fact["done"] = asked["iterations"] * (1 - left_blocks / self._whole_blocks(self._samples)[job])
        return stretch.ending == EARLY

    def _whole_blocks(self, samples: Ints) -> Ints:
        """Blocks of each job, the last one perhaps with fewer samples."""
        blocks: Ints = -(-samples // (SAMPLES_PER_GPU * self._table.asked["gpus"]))
        return blocks

    def _efficiency_of(self, job: int, ledger: Ledger) -> float:
        if self._network is None:
            return 1.0
        shares = ledger.holding(job)
        placements = Placements(
            np.array([0, len(shares)]),
            np.array([share.node for share in shares]),
            np.array([sum(1 << gpu for gpu in share.gpu_ids) for share in shares]),
        )
        shapes = shapes_of(placements, self._network.speed.tree)
        return self._efficiency.of(int(self._table.asked["model"][job]), shapes)


def run_blocks(
    begins: float,
    lease_end: float,
    sample_seconds: float,
    efficiency: float,
    gpus: int,
    left: int,
    ran: float,
) -> tuple[float, int, int, float]:
    """Run blocks until no work is left or the lease ends, adding block by block; the fields of a `Stretch`."""
    block = sample_seconds / efficiency * 1000
    another = sample_seconds * 1000 / efficiency / gpus
    samples = SAMPLES_PER_GPU * gpus
    clock, blocks = begins, max(-(-left // samples), 1)
    while True:
        count = blocks if lease_end == inf else min(blocks, max(int((lease_end - clock) / block), 0) + 2)
        clocks = _added_up(clock, block, count)
        over = (clocks >= lease_end) | (clocks + another > lease_end)
        if over.any():
            count = int(over.argmax()) + 1
        clock, ran = float(clocks[count - 1]), float(_added_up(ran, block, count)[-1])
        left, blocks = max(left - count * samples, 0), blocks - count
        if left == 0:
            return clock, DONE, left, ran
        if over.any():
            return clock, EXPIRED if clock >= lease_end else EARLY, left, ran


def _added_up(start: float, step: float, count: int) -> Floats:
    """The sums of a number and one to `count` steps, each rounded as if they were added one after the other."""
    sums: Floats = np.full(count + 1, step)
    sums[0] = start
    return np.add.accumulate(sums)[1:]


def blocks_of(
    table: JobTable, trace: Trace, network: NetworkOfRun | None
) -> tuple[Blocks | None, tuple[str, ...]]:
    """The blocks of a trace that states how long a sample takes; without that a note that says so."""
    if SAMPLE_SECONDS in trace.jobs.columns:
        return Blocks(table, trace, network), ()
    return None, (f"no column {SAMPLE_SECONDS}: work and leases do not end in blocks of samples",)


def _sample_seconds(trace: Trace, work: pl.DataFrame) -> Floats:
    """Seconds of a sample by job, in order of arrival."""
    _refuse_unless_positive(trace, SAMPLE_SECONDS, "allowed: a number of seconds above 0")
    return work[SAMPLE_SECONDS].cast(pl.Float64).to_numpy()


def _samples(trace: Trace, work: pl.DataFrame, from_work: Floats) -> Ints:
    """Samples by job, in order of arrival; without the column, those that the work amounts to."""
    if SAMPLES not in work.columns:
        return np.ceil(from_work - _ALIKE).astype(np.int64)
    _refuse_unless_positive(trace, SAMPLES, "allowed: a whole number of samples above 0", whole=True)
    return work[SAMPLES].cast(pl.Float64).cast(pl.Int64).to_numpy()


def _refuse_unless_positive(trace: Trace, column: str, needed: str, *, whole: bool = False) -> None:
    found = trace.jobs[column]
    numbers = found.cast(pl.Float64, strict=False)
    right = (numbers > 0).fill_null(False) & numbers.is_finite().fill_null(False)
    if whole:
        right &= (numbers.floor() == numbers).fill_null(False)
    wrong = (~right).arg_true().to_list()
    if wrong:
        lines = trace.lines
        raise InputError(
            *(
                Problem(
                    trace.source,
                    needed,
                    row=None if lines is None else int(lines[at]),
                    column=column,
                    found=found[at],
                )
                for at in wrong
            )
        )
