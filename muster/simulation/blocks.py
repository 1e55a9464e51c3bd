"""Work in blocks, as in the program of Dally's authors: work and leases end only where a block of samples does.

In a block a gang works off 1000 samples for each of its GPUs, which takes 1000 t1 / eff seconds. At its end
the gang goes on if its lease has not run out and another (1000 t1 / eff) / GPUs seconds would not outlast it
(Dally §Priority, "as published"): a lease may last nearly a block longer than it should, or end before its time.
"""

from __future__ import annotations

from math import floor, inf

import numpy as np
import polars as pl

from muster.cluster.books import Floats
from muster.problems import BadInput, Problem
from muster.workload.jobs import JobTable
from muster.workload.trace import Trace

SAMPLE_SECONDS = "time_per_iteration_s"
"""The column of the authors' traces that has t1: seconds of a sample on one GPU."""
SAMPLES_PER_GPU = 1000
_ALIKE = 1e-9


class Blocks:
    """The blocks of a run's jobs; their work is rounded up to whole ones."""

    def __init__(self, table: JobTable, trace: Trace) -> None:
        asked = table.asked
        seconds = _sample_seconds(trace) * SAMPLES_PER_GPU
        self._table = table
        self._iterations = seconds * asked["iterations"] / asked["ideal"]
        longer = np.ceil(asked["ideal"] / seconds - _ALIKE) * seconds / asked["ideal"]
        for field in ("iterations", "believed", "ideal"):
            asked[field] *= longer

    def lease_end(self, job: int, now: float, end: float) -> float:
        """When a job that starts now on a lease until `end` gives its GPUs back; never if it is done by then."""
        asked, fact = self._table.asked[job], self._table.facts[job]
        block = self._iterations[job] / fact["rate"]
        blocks = max(1, floor((end - now) / block - 1.0 / asked["gpus"] + _ALIKE) + 1)
        left = round((asked["iterations"] - fact["done"]) / self._iterations[job])
        return inf if blocks >= left else now + float(blocks * block)


def blocks_of(table: JobTable, trace: Trace) -> tuple[Blocks | None, tuple[str, ...]]:
    """The blocks of a trace that tells how long a sample takes; without them a note that says so."""
    if SAMPLE_SECONDS in trace.jobs.columns:
        return Blocks(table, trace), ()
    return None, (f"no column {SAMPLE_SECONDS}: work and leases do not end in blocks of samples",)


def _sample_seconds(trace: Trace) -> Floats:
    """By arrival."""
    told = trace.jobs.select(
        "submit_seconds",
        pl.col(SAMPLE_SECONDS).alias("found"),
        pl.col(SAMPLE_SECONDS).cast(pl.Float64, strict=False).alias("seconds"),
    )
    right = (told["seconds"] > 0).fill_null(False) & told["seconds"].is_finite().fill_null(False)
    wrong = (~right).arg_true().to_list()
    if wrong:
        lines = trace.lines
        raise BadInput(
            *(
                Problem(
                    trace.source,
                    "a number of seconds above 0 is needed",
                    row=None if lines is None else int(lines[at]),
                    column=SAMPLE_SECONDS,
                    found=told["found"][at],
                )
                for at in wrong
            )
        )
    return told.sort("submit_seconds", maintain_order=True)["seconds"].to_numpy()
