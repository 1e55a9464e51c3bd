"""The Optimus speed form fitted to measured steps: ten points fitted, the others predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from experiments.papers.experiment import Effort, Experiment, Findings, Result, Row, Verdict
from muster.sweep.page import Table

APPLICATIONS = ("bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3")
GOAL = 0.15
"""Median error of the predicted points, from ten fitted ones."""
GOAL_POINTS = 10
FITTED_POINTS = (5, GOAL_POINTS, 20)


@dataclass(frozen=True)
class Fit:
    """Fits of one application from so many points, over 100 draws."""

    folder: Path
    points: int

    def inputs(self) -> Mapping[str, Any]:
        """All that the result depends on."""
        from hashlib import sha256

        return {"table": sha256(self.table().read_bytes()).hexdigest(), "points": self.points}

    def table(self) -> Path:
        """The file of measured placements."""
        return next(iter(sorted(self.folder.glob("placements.csv*"))))

    def run(self) -> Mapping[str, Any]:
        """The errors, as shares."""
        from experiments.fitting.step_times import errors, read_placements

        return asdict(errors(read_placements(self.table()), self.points))


def _pieces(effort: Effort) -> Sequence[Fit]:
    if effort.reference is None:
        return []
    folders = [effort.reference / "data/profiles/pollux" / name for name in APPLICATIONS]
    return [Fit(folder, points) for folder in folders if folder.is_dir() for points in FITTED_POINTS]


def _read(effort: Effort, results: Sequence[Result]) -> Findings:
    if not results:
        what = "median error of the predicted points"
        return Findings([Row(what, "at most 15 %", "", "", Verdict.NOT_RUN, "needs MUSTER_REFERENCE")])
    rows, lines = [], []
    figures = ("all_fitted", "typical", "bad_draw", "worst_draw", "tail")
    for fit, found in zip(_pieces(effort), results, strict=True):
        if fit.points == GOAL_POINTS:
            rows.append(
                Row(
                    f"median error of the predicted points, ten fitted: {fit.folder.name}",
                    "",
                    "",
                    f"{found['typical']:.1%}",
                    Verdict.REACHED if found["typical"] <= GOAL else Verdict.NOT_REACHED,
                    f"goal: {GOAL:.0%}; worst of 100 draws {found['worst_draw']:.1%}",
                )
            )
        lines.append([fit.folder.name, f"{fit.points}", *(f"{found[figure]:.1%}" for figure in figures)])
    header = (
        "Application",
        "Fitted points",
        "All fitted: median",
        "Typical draw: median",
        "90th of 100 draws",
        "Worst of 100 draws",
        "90 % of points within",
    )
    return Findings(rows, tables=[Table("Relative errors of points that were not fitted", header, lines)])


FITS = Experiment(
    "fits",
    "The Optimus form on measured steps",
    "Optimus reports that its speed form, fitted with few samples, predicts well. Here the placements that the Pollux "
    "artefact measured (Apache-2.0; 1 to 16 T4 GPUs on up to 4 nodes); the jobs reduce in a ring, and the number of "
    "nodes stands for that of servers.",
    _pieces,
    _read,
)
