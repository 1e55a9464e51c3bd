"""The same input as the published simulator, row by row (needs the reference folder)."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.papers.experiment import Effort, Experiment, Findings, Result, Row, Verdict, within
from muster.simulation import Options, rules_named
from muster.sweep.cell import Cell, FromFile
from muster.sweep.page import Table
from muster.sweep.pieces import Piece

HOUR = 3600.0
ROUND_SECONDS = 300.0
ORIGINS: dict[str, float | str] = {
    "single_9perhour_20-70-10_12000.csv": 0.0,
    "static_60-30-10_100.csv": 1.0,
}
"""Where rounds start; those of the other traces start at the first arrival, rounded up."""

PLACEMENTS = {"first-fit": "first-fit", "consolidating": "pack"}
TOLERANCE = {"proportional": 0.005, "greedy": 0.01, "tune": 0.01}
LOOSE = {"DRF": 0.02, "TETRIS": 0.02}
"""Orders of which the published ties are not known in every detail."""
ORDERS = {"FIFO": "fifo", "SRTF": "srtf-speed", "LAS": "las", "FTF": "ftf"}
QUICK_TRACES = ("static_60-30-10_100.csv", "single_9perhour_20-70-10_1000.csv")


@dataclass(frozen=True)
class _Expected:
    """A row of the published program's results."""

    trace: str
    servers: int
    policy: str
    mechanism: str
    gpu_choice: str
    measured: str
    mean_hours: float
    p99_hours: float

    @property
    def is_judged(self) -> bool:
        """Optima tie, and the published FTF sorts upside down: such rows are shown only."""
        return self.mechanism in TOLERANCE and self.policy != "FTF"

    @property
    def tolerance(self) -> float:
        return LOOSE.get(self.policy, TOLERANCE[self.mechanism])


def _expected(effort: Effort) -> list[_Expected]:
    """All rows; in a quick run those of the short traces."""
    if effort.reference is None:
        return []
    with (effort.reference / "parity" / "synergy" / "expected.csv").open(encoding="utf-8") as file:
        rows = [
            _Expected(
                row["trace"],
                int(row["servers"]),
                row["policy"],
                row["mechanism"],
                row["gpu_choice"],
                row["measured_ids"],
                float(row["mean_jct_hours"]),
                float(row["p99_jct_hours"]),
            )
            for row in csv.DictReader(file)
        ]
    return [row for row in rows if not effort.quick or row.trace in QUICK_TRACES]


def _piece(row: _Expected, folder: Path) -> Cell:
    name = f"synergy-published:{row.policy.lower()}{'-greedy' if row.mechanism == 'greedy' else ''}"
    settings = {"gpu_choice": row.gpu_choice}
    if row.mechanism == "proportional":
        settings = {}
        name = f"{row.policy.lower()}+proportional+{PLACEMENTS[row.gpu_choice]}"
    elif row.mechanism == "opt":
        settings = {}
        name = f"{ORDERS[row.policy]}+opt"
    elif not row.is_judged:
        name = f"{ORDERS[row.policy]}+{'tune-published' if row.mechanism == 'tune' else row.mechanism}"
    first, _, last = row.measured.partition(":")
    options = Options(
        round_seconds=ROUND_SECONDS,
        round_origin=ORIGINS.get(row.trace, "first-arrival"),
        measure=(int(first), int(last)),
        rules=rules_named("synergy-published"),
    )
    workload = FromFile(folder / row.trace)
    return Cell(workload, f"synergy-{row.servers}", name, options, settings)


def _pieces(effort: Effort) -> Sequence[Piece]:
    if effort.reference is None:
        return []
    folder = effort.reference / "parity" / "synergy"
    return [_piece(row, folder) for row in _expected(effort)]


def _read(effort: Effort, results: Sequence[Result]) -> Findings:
    rows = _expected(effort)
    if not rows:
        remark = "the published inputs are not on this machine; MUSTER_REFERENCE names their folder"
        return Findings(
            [Row("the published simulator on the same input", "", "", "", Verdict.NOT_RUN, remark)]
        )
    judged, shown, verdicts = [], [], []
    for row, result in zip(rows, results, strict=True):
        mean, p99 = (float(result["jct_seconds"][key]) / HOUR for key in ("mean", "p99"))
        cells = [
            f"{row.policy} + {row.mechanism}, {row.gpu_choice}",
            row.trace.removesuffix(".csv"),
            f"{row.mean_hours:.3f}",
            f"{mean:.3f}",
            f"{100 * (mean / row.mean_hours - 1):+.2f} %",
            f"{row.p99_hours:.2f}",
            f"{p99:.2f}",
            f"{100 * (p99 / row.p99_hours - 1):+.2f} %",
        ]
        if not row.is_judged:
            shown.append(cells)
            continue
        good = all(
            within(measured, expected, row.tolerance) is Verdict.REACHED
            for measured, expected in ((mean, row.mean_hours), (p99, row.p99_hours))
        )
        verdicts.append((row.mechanism, good))
        judged.append([*cells, "yes" if good else "no"])
    counted = []
    for mechanism in TOLERANCE:
        of = [good for name, good in verdicts if name == mechanism]
        verdict = Verdict.REACHED if all(of) else Verdict.NOT_REACHED
        counted.append(
            Row(
                f"same input, {mechanism}: mean and 99th percentile of JCT",
                "",
                f"{len(of)} rows",
                f"{sum(of)} of {len(of)} within tolerance",
                verdict,
                f"tolerance {100 * TOLERANCE[mechanism]:g} %, DRF and Tetris 2 %",
            )
        )
    header = (
        "Order + mechanism",
        "Trace",
        "Mean, theirs (h)",
        "Mean, ours",
        "off",
        "p99, theirs (h)",
        "p99, ours",
        "off",
    )
    note = "Under the published rules (`--rules synergy-published`); `tune` is theirs, `tune-published` here."
    unlike = (
        "Not judged: optima tie, so that theirs and ours give other jobs the same total; and their FTF serves the "
        "job first that is treated best, ours the one that is treated worst, as Themis has it."
    )
    return Findings(
        counted,
        tables=[
            Table("Row by row", (*header, "within"), judged, note),
            Table("Their optimum and their finish-time fairness", header, shown, unlike),
        ],
    )


SAME_INPUT = Experiment(
    "same-input",
    "Same input as the published simulator",
    "The authors' program and Muster under its rules, on the same jobs: mean and 99th percentile of completion "
    "time of the measured jobs agree.",
    _pieces,
    _read,
)
