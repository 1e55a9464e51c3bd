"""The fit of the measured form to step times taken on many placements (Pollux §3.2 and its profiles).

compute = c + d x batch; net = 0 on one GPU, else a + b max(n - 2, 0), with one a and b within a machine
and one across machines; step = (compute^k + net^k)^(1/k), 1 <= k <= 10. Errors are relative.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from muster.files import read_text
from muster.problems import InputError, Problem
from muster.speed.network.models import Floats, MeasuredModel

LARGEST_OVERLAP = 10.0
OUTLIER = 0.05
"""Relative error from which a measurement pulls the fit less than its square."""
OVERLAP_STARTS = (-2.0, 0.0, 2.0)
"""Logits of (k - 1) / 9 from which the search sets out."""
_AS_GOOD = 1 + 1e-6
"""Times the least cost of a fit, up to which another is as good."""


@dataclass(frozen=True)
class StepTimes:
    """Measured steps of one application, a row a placement and batch size."""

    gpus: npt.NDArray[np.int64]
    machines: npt.NDArray[np.int64]
    batch: npt.NDArray[np.int64]
    """Samples a GPU."""
    seconds: Floats


@dataclass(frozen=True)
class MeasuredFit:
    """Parameters of the form; compute seconds of a batch of b samples a GPU are `fixed + per_sample * b`."""

    fixed_seconds: float
    seconds_per_sample: float
    local_seconds: float
    local_seconds_per_gpu: float
    uplink_seconds: float
    uplink_seconds_per_gpu: float
    overlap: float

    def model(self, name: str, batch: int, nic_gb_per_s: float) -> MeasuredModel:
        """The model at one batch size; `nic_gb_per_s` is that of the machines that were measured."""
        return MeasuredModel(
            name,
            self.fixed_seconds + self.seconds_per_sample * batch,
            self.local_seconds,
            self.local_seconds_per_gpu,
            self.uplink_seconds,
            self.uplink_seconds_per_gpu,
            self.overlap,
            nic_gb_per_s,
        )

    def step_seconds(self, times: StepTimes) -> Floats:
        """What the form says of these placements and batch sizes."""
        compute = self.fixed_seconds + self.seconds_per_sample * times.batch
        further = np.maximum(times.gpus - 2, 0)
        net = np.where(
            times.machines == 1,
            self.local_seconds + self.local_seconds_per_gpu * further,
            self.uplink_seconds + self.uplink_seconds_per_gpu * further,
        )
        net = np.where(times.gpus == 1, 0.0, net)
        longer = np.maximum(compute, net)
        shares = (compute / longer) ** self.overlap + (net / longer) ** self.overlap
        steps: Floats = longer * shares ** (1.0 / self.overlap)
        return steps

    def errors(self, times: StepTimes) -> Floats:
        """Relative error of every row on more than one GPU."""
        off: Floats = np.abs(self.step_seconds(times) / times.seconds - 1.0)[times.gpus > 1]
        return off


def fit_measured(times: StepTimes) -> MeasuredFit:
    """Robust least squares of the logarithm of the step seconds, the best of a few starts; of equals the last."""
    step = float(np.median(times.seconds))
    batch = float(np.median(times.batch))

    def candidate(parameters: Floats) -> MeasuredFit:
        fixed, per_sample, local, local_per_gpu, uplink, uplink_per_gpu = np.exp(parameters[:6]).tolist()
        overlap = 1.0 + (LARGEST_OVERLAP - 1.0) / (1.0 + float(np.exp(-parameters[6])))
        return MeasuredFit(fixed, per_sample, local, local_per_gpu, uplink, uplink_per_gpu, overlap)

    def errors(parameters: Floats) -> Floats:
        return np.log(candidate(parameters).step_seconds(times) / times.seconds)

    guess = np.log(step * np.array([0.3, 0.3 / batch, 0.1, 0.01, 0.5, 0.02])).tolist()
    fits = [
        least_squares(errors, [*guess, start], loss="soft_l1", f_scale=OUTLIER) for start in OVERLAP_STARTS
    ]
    least = min(float(fit.cost) for fit in fits)
    # Where the steps do not distinguish overlaps, it would depend on the processor which is best by a hair.
    return candidate(next(fit.x for fit in reversed(fits) if fit.cost <= least * _AS_GOOD))


def read_placements(folder: Path) -> StepTimes:
    """The `placements.csv` or `.csv.xz` of an application; `placement` lists GPUs by machine: `1124`."""
    rows = _read(_existing(folder, "placements"), ("placement", "local_bsz", "step_time"))
    gpus = [[int(digit) for digit in placement] for placement, _, _ in rows]
    return _step_times([sum(g) for g in gpus], [len(g) for g in gpus], [row[1:] for row in rows])


def read_scalability(folder: Path) -> StepTimes:
    """The `scalability.csv` of one application: up to 16 machines, none of which the fit has seen."""
    columns = ("num_replicas", "num_nodes", "local_bsz", "step_time")
    rows = _read(_existing(folder, "scalability"), columns)
    return _step_times(
        [int(row[0]) for row in rows], [int(row[1]) for row in rows], [row[2:] for row in rows]
    )


def _existing(folder: Path, name: str) -> Path:
    plain, packed = folder / f"{name}.csv", folder / f"{name}.csv.xz"
    return packed if packed.exists() else plain


def _step_times(gpus: list[int], machines: list[int], rest: list[list[str]]) -> StepTimes:
    return StepTimes(
        np.array(gpus, dtype=np.int64),
        np.array(machines, dtype=np.int64),
        np.array([int(batch) for batch, _ in rest], dtype=np.int64),
        np.array([float(seconds) for _, seconds in rest], dtype=np.float64),
    )


def _read(path: Path, columns: Sequence[str]) -> list[list[str]]:
    """These columns of a CSV file, every one a number above 0."""
    reader = csv.DictReader(read_text(path).splitlines())
    missing = [
        Problem(str(path), "this column is missing from the header", 1, column)
        for column in columns
        if column not in (reader.fieldnames or ())
    ]
    if missing:
        raise InputError(*missing)
    rows = []
    problems = []
    for line, row in enumerate(reader, start=2):
        for column in columns:
            if not _is_positive(row[column], whole=column != "step_time"):
                allowed = "allowed: seconds above 0" if column == "step_time" else "allowed: digits"
                problems.append(Problem(str(path), allowed, line, column, row[column]))
        rows.append([row[column] for column in columns])
    if problems:
        raise InputError(*problems)
    return rows


def _is_positive(text: str | None, *, whole: bool) -> bool:
    if text is None:
        return False
    if whole:
        return text.isascii() and text.isdecimal() and int(text) > 0
    try:
        return 0.0 < float(text) < float("inf")
    except ValueError:
        return False
