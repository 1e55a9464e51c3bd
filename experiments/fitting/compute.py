"""Seconds of compute by the samples of a GPU: `python -m experiments.fitting.compute TABLE` prints a table `[compute]`.

TABLE is that of Pollux' steps on T4 GPUs (`t4_seconds_per_iteration.csv`). Compute is a step less its synchronisation.
The line is fitted as `muster profile` fits it.
"""

from __future__ import annotations

import csv
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from muster.files import read_text
from muster.profiling.compute import fit_compute

APPLICATIONS = ("bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3")


@dataclass(frozen=True)
class PolluxCompute:
    """The fields of `[compute]`, and relative errors over the rows."""

    fixed_samples: float
    largest_batch: int
    rows: int
    median_error: float
    worst_error: float

    def toml(self, app: str) -> str:
        """The table of a model file."""
        source = f"own fit to the measured placements of {app} in the profiles of Pollux (OSDI 2021), T4 GPUs"
        error = f"seconds of {self.rows} steps less synchronisation: "
        error += f"median {self.median_error:.1%}, worst {self.worst_error:.1%}"
        numbers = f"fixed_samples = {self.fixed_samples:.3g}\nlargest_batch = {self.largest_batch}"
        return f'[compute]\n{numbers}\nsource = "{source}"\nerror = "{error}"\n'


def compute_of(path: Path, app: str) -> PolluxCompute:
    """The fit to all measured placements of an application."""
    rows = [row for row in csv.DictReader(read_text(path).splitlines()) if row["app"] == app]
    rows = [row for row in rows if row["source"] == "placements"]
    batch = np.array([float(row["batch_per_gpu"]) for row in rows])
    seconds = np.array([float(row["step_s"]) - float(row["sync_s"]) for row in rows])
    line = fit_compute(batch.tolist(), seconds.tolist())
    off = np.abs((line.fixed + line.per_sample * batch) / seconds - 1)
    return PolluxCompute(
        line.fixed / line.per_sample, int(batch.max()), len(rows), float(np.median(off)), float(off.max())
    )


if __name__ == "__main__":
    for name in APPLICATIONS:
        print(compute_of(Path(sys.argv[1]), name).toml(name))
