"""How well the Optimus form predicts measured steps: `python -m experiments.fitting.step_times FOLDER`.

FOLDER holds a folder an application with its `placements.csv` (or .csv.xz): placement (GPUs on each node, a
digit a node), local_bsz, step_time in seconds. Ten of the measured points are fitted, the others predicted.
These jobs reduce their gradients in a ring and have no parameter servers: the nodes stand in for them.
"""

from __future__ import annotations

import csv
import io
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.fitting.speed_fit import fit_synchronous_coefficients, synchronous_seconds
from muster.files import read_text
from muster.problems import InputError, Problem
from muster.speed.parameter_server.layers import FloatArray

DRAWS = 100


@dataclass(frozen=True, eq=False)
class Measured:
    """Steps of one application on many placements: an entry a measurement."""

    gpus: FloatArray
    nodes: FloatArray
    worker_batch: FloatArray
    seconds: FloatArray


@dataclass(frozen=True)
class Errors:
    """Relative errors of predictions for points that were not fitted, over many draws of the fitted ones."""

    points: int
    all_fitted: float
    """The median error where every point is fitted: what the form itself cannot say."""
    typical: float
    """The median over the draws of the median error."""
    bad_draw: float
    """The median error in the 90th of 100 draws."""
    worst_draw: float
    """The largest of the median errors."""
    tail: float
    """The median over the draws of the 90th percentile of the errors."""


def read_placements(path: Path) -> Measured:
    """A table of measured steps."""
    rows, problems = [], []
    reader = csv.DictReader(io.StringIO(read_text(path)))
    for row in reader:
        try:
            placement = [int(digit) for digit in row["placement"]]
            numbers = float(row["local_bsz"]), float(row["step_time"])
        except (KeyError, TypeError, ValueError):
            what = "allowed: placement (digits), local_bsz and step_time (numbers)"
            problems.append(Problem(str(path), what, row=reader.line_num))
            continue
        rows.append((sum(placement), len(placement), *numbers))
    if problems or not rows:
        raise InputError(*problems or [Problem(str(path), "there is no measurement in it")])
    return Measured(*np.array(rows, dtype=np.float64).T)


def errors(measured: Measured, fitted_points: int = 10, draws: int = DRAWS) -> Errors:
    """Fit a few points drawn at random, predict the rest; draw `draws` times, with seeds 0, 1, ..."""
    points = measured.seconds.size
    medians, tails = [], []
    for seed in range(draws):
        drawn = np.random.default_rng(seed).choice(points, fitted_points, replace=False)
        rest = np.setdiff1d(np.arange(points), drawn)
        wrong = _relative_errors(measured, drawn, rest)
        medians.append(np.median(wrong))
        tails.append(np.quantile(wrong, 0.9))
    everything = np.arange(points)
    return Errors(
        points,
        float(np.median(_relative_errors(measured, everything, everything))),
        float(np.median(medians)),
        float(np.quantile(medians, 0.9)),
        float(np.max(medians)),
        float(np.median(tails)),
    )


def _relative_errors(measured: Measured, fitted: np.ndarray, predicted: np.ndarray) -> FloatArray:
    def form(of: np.ndarray) -> tuple[FloatArray, FloatArray, FloatArray]:
        return measured.worker_batch[of], measured.gpus[of], measured.nodes[of]

    coefficients = fit_synchronous_coefficients(*form(fitted), measured.seconds[fitted])
    seconds = synchronous_seconds(coefficients, *form(predicted))
    return np.asarray(np.abs(seconds / measured.seconds[predicted] - 1), dtype=np.float64)


def main(folder: Path) -> None:
    """Print a row an application, as a Markdown table."""
    files = sorted(folder.glob("*/placements.csv*"))
    if not files:
        raise InputError(Problem(str(folder), "there is no */placements.csv in it"))
    print("| application | points | all fitted | 10 fitted | bad draw | worst draw | 90 % of points |")
    print("|---|---|---|---|---|---|---|")
    for file in files:
        e = errors(read_placements(file))
        shares = (f"{share:.1%}" for share in (e.all_fitted, e.typical, e.bad_draw, e.worst_draw, e.tail))
        print(f"| {file.parent.name} | {e.points} | {' | '.join(shares)} |")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    except InputError as problems:
        sys.exit(str(problems))
