"""The tables of docs/how-to/profiling.md, from what `muster profile --exhaustive --json` printed of each job.

python -m benchmarks.profiles eyes.json brain.json
"""

from __future__ import annotations

import json
import sys
from dataclasses import fields
from pathlib import Path
from statistics import fmean, median
from typing import Any

from muster.formatting import percent
from muster.profiling.miss_cost import rate_beside
from muster.profiling.rates import Rate


def main(paths: list[str]) -> None:
    """A table and what it comes to for each document."""
    for path in paths:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        if document["grid"] is None:
            sys.exit(f"{path}: no point was measured to compare with; profile with --exhaustive")
        print("\n".join([*_table(document), "", *_sums(document), ""]))


def _table(document: dict[str, Any]) -> list[str]:
    """Measured steps a second, their interval, and how far off the prediction is; a row a CPU point."""
    memory, cores, points = _axes(document)
    full = memory[-1]
    heads = [f"{100 * gigabytes / full:g} % cached" if full else "" for gigabytes in memory]
    lines = [
        f"| {document['model']}: cores | {' | '.join(heads)} |",
        "|---|" + "---|" * len(memory),
    ]
    for at in cores:
        row = (points[at, gigabytes] for gigabytes in memory)
        cells = (
            f"{point['steps_per_s']:.1f} ± {100 * point['error']:.0f} % ({100 * point['predicted_off_by']:+.0f} %)"
            for point in row
        )
        lines.append(f"| {at:g} | {' | '.join(cells)} |")
    return lines


def _sums(document: dict[str, Any]) -> list[str]:
    name, grid, visited = document["model"], document["grid"], document["cpu_points"]
    off = [abs(point["predicted_off_by"]) for point in grid["points"]]
    within = sum(error <= point["error"] for error, point in zip(off, grid["points"], strict=True))
    lines = [
        f"`{name}`: {len(visited)} CPU points"
        f"{'' if document['reading'] is None else ' and one for storage'} in {document['seconds']:.0f} s, "
        f"all {len(off) + len(grid['shares'])} points in {grid['seconds']:.0f} s: "
        f"{grid['times_as_long']:.1f} times as long.",
        f"Predicted off by {_three(off)}; {within} of {len(off)} within the measured interval.",
    ]
    memory, _, points = _axes(document)
    ran = {point["cores"]: point["steps_per_s"] for point in visited}
    again = [points[at, memory[-1]]["steps_per_s"] / ran[at] - 1 for at in ran]
    lines.append(
        "What the profile itself had run, run again by the grid minutes later: "
        + ", ".join(f"{100 * change:+.0f} % at {at:g}" for at, change in zip(ran, again, strict=True))
        + " cores."
    )
    cpu = {
        at: (point["cpu_seconds"], points[at, memory[-1]]["cpu_seconds"])
        for at, point in zip(ran, visited, strict=True)
    }
    if all(None not in pair for pair in cpu.values()):
        lines.append(
            "CPU time a step then and there: "
            + ", ".join(
                f"{1000 * then:.0f} and {1000 * there:.0f} ms at {at:g}" for at, (then, there) in cpu.items()
            )
            + " cores."
        )
    if grid["shares"]:
        parts = [abs(point["predicted_off_by"]) for point in grid["shares"]]
        lines.append(
            f"Of shares of the batch, with their input: off by {_three(parts)} over {len(parts)} points."
        )
    for law, column in (("compute", "line_off_by"), ("workers", "law_off_by")):
        of_law = () if document[law] is None else document[law]["points"]
        if apart := [abs(point[column]) for point in of_law if point[column] is not None]:
            lines.append(f"The law of {law}: off by {_three(apart)} over {len(apart)} points of the profile.")
    if document["reading"] is not None:
        alone = [abs(error) for error in _off_by_law_alone(document)]
        lines.append(
            f"The computed axis alone, from the CPU column as the grid found it: off by {_three(alone)} "
            f"over its {len(alone)} points."
        )
    return lines


def _off_by_law_alone(document: dict[str, Any]) -> list[float]:
    """Of the points that are computed, if the grid's own column of full memory stood in the profile.

    So a machine that changed between profile and grid is left out, and what is left is the law's own error.
    """
    memory, cores, points = _axes(document)
    reading, full = document["reading"], memory[-1]
    column = {
        at: Rate(**{field.name: points[at, full][field.name] for field in fields(Rate)}) for at in cores
    }
    found = []
    for at in cores:
        for gigabytes in memory[:-1]:
            share = gigabytes / full
            prepared = rate_beside(column, at, (1 - share) * reading["miss_cpu_seconds"])
            fetched = reading["batch_gb"] * (
                share / reading["memory_gb_per_s"] + (1 - share) / reading["storage_gb_per_s"]
            )
            found.append(min(prepared, 1 / fetched) / points[at, gigabytes]["steps_per_s"] - 1)
    return found


def _axes(document: dict[str, Any]) -> tuple[list[float], list[float], dict[tuple[float, float], Any]]:
    """Memory points, CPU points, and what stands where."""
    points = {(point["cores"], point["memory_gb"]): point for point in document["grid"]["points"]}
    return sorted({at[1] for at in points}), sorted({at[0] for at in points}), points


def _three(errors: list[float]) -> str:
    return (
        f"{percent(fmean(errors))} in the mean, {percent(median(errors))} in the median, "
        f"{percent(max(errors))} at most"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
