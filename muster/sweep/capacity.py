"""How a figure of a trace changes with more nodes, and the least number of nodes that meets a target."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from muster.cluster import Cluster, Node
from muster.cluster.cluster_file import MAX_MACHINES
from muster.cluster.more_nodes import joined, of_type, with_more
from muster.cluster.shipped import parse_cluster
from muster.formatting import UNKNOWN, as_json_text, counted, duration, markdown_cell, markdown_table
from muster.inputs import Inputs
from muster.parallel import run_all
from muster.problems import InputError, Problem
from muster.report import summarise
from muster.report.metrics import QUANTILES
from muster.schedulers.registry import clock_phases
from muster.units import seconds_of

PHASES = 4
"""Runs for each number of nodes, where the scheduler has clocks whose phase no log states."""
_ADD = re.compile(
    r"(?P<kind>\S+) nodes (?P<first>\d+)\.\.(?P<last>\d+)(?: step (?P<step>\d+))?(?: in (?P<partition>\S+))?"
)
_TARGET = re.compile(r"(?P<statistic>\S+) (?P<what>wait|jct) ?< ?(?P<limit>.+)")
_STATISTICS = ("mean", *QUANTILES, "max")
_MOST_POINTS = 200
MISSING = {
    "left_out": "refused",
    "unfinished": "unfinished",
    "timed_out": "timed_out",
    "cancelled": "cancelled",
}
"""Kinds of jobs that are not in the figure, by their name here; the name in `summary.json`."""


@dataclass(frozen=True)
class Target:
    """A bound on a figure: `p90 wait < 1h`."""

    statistic: str
    what: str
    """wait or jct."""
    limit: float
    """Seconds."""

    def of(self, summary: Mapping[str, Any]) -> float | None:
        """The figure of a run, in seconds; None if no job completed."""
        value: float | None = summary[f"{self.what}_seconds"][self.statistic]
        return value

    def met_by(self, seconds: float | None) -> bool:
        """Whether a figure is within the bound; never where no job completed."""
        return seconds is not None and seconds < self.limit

    @property
    def figure(self) -> str:
        """The figure's name, without its bound."""
        return f"{self.statistic} {self.what}"

    def __str__(self) -> str:
        """As a sentence names it."""
        return f"{self.figure} < {duration(self.limit)}"


@dataclass(frozen=True)
class CapacityPoint:
    """The figure with so many more nodes: mean over the phases of the scheduler's clocks."""

    nodes: int
    gpus: int
    """Of the whole cluster."""
    seconds: float | None
    deviation_seconds: float
    left_out: int
    """Jobs that can never run on so many nodes, with --skip-impossible: they are not in the figure."""
    unfinished: int
    """Jobs that have not ended when the run ends, of the phase with the most; not in the figure."""
    timed_out: int
    """Jobs that end at their time limit, of the phase with the most; not in the figure."""
    cancelled: int
    """Jobs that the scheduler cancels, of the phase with the most; not in the figure."""
    meets: bool
    """Never where the figure lacks jobs that it must have: see `_tolerated`."""

    @property
    def missing(self) -> str:
        """The jobs that are not in the figure, as `2 unfinished, 1 timed out`."""
        counts = {kind.replace("_", " "): getattr(self, kind) for kind in MISSING}
        return ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)


@dataclass(frozen=True)
class CapacityResult:
    """What one run of one number of nodes says."""

    seconds: float | None
    missing: Mapping[str, int]
    """Jobs that are not in the figure, by the kinds of `MISSING`."""
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Added:
    """Nodes that are tried: a node like them, and how many."""

    like: Node
    counts: tuple[int, ...]
    assumed: str = ""
    """What stands for the resources that `--add` leaves out."""
    notes: tuple[str, ...] = ()

    def to(self, cluster: Cluster, count: int) -> Cluster:
        """The cluster with so many of these nodes."""
        return with_more(cluster, self.like, count, self.assumed, self.notes)


def parse_added(text: str, cluster: Cluster) -> Added:
    """Read `h100 nodes 0..16 step 2 in train`, the last for one partition.

    The kind is a type of GPU of the cluster, or nodes such as 1x8h100,96cpu,1tb.
    """
    match = _ADD.fullmatch(" ".join(text.split()))
    if match is None:
        what = "allowed: KIND nodes FIRST..LAST [step N] [in PARTITION], as 'h100 nodes 0..16 step 2'"
        raise InputError(Problem("--add", what, found=text))
    first, last, step = int(match["first"]), int(match["last"]), int(match["step"] or 1)
    if last < first or last > MAX_MACHINES or step < 1 or (last - first) // step >= _MOST_POINTS:
        what = (
            f"allowed: FIRST up to LAST, which is at most {MAX_MACHINES}, a step from 1 on, at most {_MOST_POINTS} "
            "numbers of nodes"
        )
        raise InputError(Problem("--add", what, found=text))
    kind, partition, counts = match["kind"], match["partition"], tuple(range(first, last + 1, step))
    if re.match(r"\d+x", kind):
        more = parse_cluster(kind)
        if len(more.nodes) != 1:
            what = (
                f"allowed: one node, as 1{kind[kind.index('x') :]}; nodes FIRST..LAST says how many are added"
            )
            raise InputError(Problem("--add", what, found=kind))
        both = joined(cluster, more, f"--add {kind}", partition, f"--add {kind}")
        return Added(both.nodes[-1], counts, more.assumed, both.notes[len(cluster.notes) :])
    like, notes = of_type(cluster, kind, "--add", partition)
    return Added(like, counts, notes=tuple(notes))


def parse_target(text: str) -> Target:
    """Read `p90 wait < 1h`."""
    match = _TARGET.fullmatch(" ".join(text.split()))
    if match is None or match["statistic"] not in _STATISTICS:
        what = f"allowed: FIGURE wait|jct < TIME, as 'p90 wait < 1h'; figures: {', '.join(_STATISTICS)}"
        raise InputError(Problem("--target", what, found=text))
    return Target(match["statistic"], match["what"], seconds_of("--target", match["limit"]))


@dataclass(frozen=True)
class CapacityRun:
    """One run of one number of nodes, as a process of its own carries it out."""

    scheduler: str
    target: Target
    inputs: Inputs
    """With the cluster to which nodes are added."""
    added: Added
    count: int

    def __call__(self, report: Callable[[Any], None]) -> CapacityResult:
        """The figure, and what the run says beside it."""
        options = replace(self.inputs.options, records=False)
        cluster = self.added.to(self.inputs.cluster, self.count)
        inputs = replace(self.inputs, options=options, cluster=cluster)
        summary = summarise(inputs.run(inputs.scheduler(self.scheduler), report).record)
        known = {*inputs.trace.notes, *self.inputs.cluster.notes}
        notes = tuple(note for note in summary["notes"] if note not in known)
        missing = {name: summary[kind] for name, kind in MISSING.items()}
        return CapacityResult(self.target.of(summary), missing, notes)


def runs_of(inputs: Inputs, scheduler: str, added: Added, target: Target) -> dict[str, CapacityRun]:
    """All runs of a curve, by `NODES/PHASE`."""
    phased = clock_phases(scheduler, inputs.settings, PHASES)
    return {
        f"{count}/{number}": CapacityRun(scheduler, target, replace(inputs, settings=settings), added, count)
        for count in added.counts
        for number, settings in enumerate(phased)
    }


@dataclass(frozen=True)
class CapacityBatch:
    """Some runs of a curve for one process, whose start takes longer than a run with few jobs."""

    runs: Mapping[str, CapacityRun]

    def __call__(self, report: Callable[[Any], None]) -> dict[str, CapacityResult]:
        """The results by name; each report is a name and how far its run is."""
        return {name: self._run(name, report) for name in self.runs}

    def _run(self, name: str, report: Callable[[Any], None]) -> CapacityResult:
        return self.runs[name](lambda progress: report((name, progress)))


def run_batches(
    runs: Mapping[str, CapacityRun], at_once: int, on_report: Callable[[str, Any], None]
) -> dict[str, CapacityResult]:
    """The results by name, in the order of `runs`; spread over `at_once` processes in turn."""
    names = list(runs)
    batches = [names[first::at_once] for first in range(min(at_once, len(names)))]
    works = {batch[0]: CapacityBatch({name: runs[name] for name in batch}) for batch in batches}
    found = run_all(works, at_once, lambda _, report: on_report(*report))
    results = {name: result for batch in found.values() for name, result in batch.items()}
    return {name: results[name] for name in names}


def curve_of(
    results: Mapping[str, CapacityResult], inputs: Inputs, added: Added, target: Target
) -> list[CapacityPoint]:
    """The figures by number of nodes."""
    points = []
    for count in added.counts:
        found = [result for name, result in results.items() if name.startswith(f"{count}/")]
        missing = {kind: max(result.missing[kind] for result in found) for kind in MISSING}
        known = [result.seconds for result in found if result.seconds is not None]
        seconds = float(np.mean(known)) if known else None
        deviation = float(np.std(known)) if known else 0.0
        gpus = inputs.cluster.total_gpus + count * added.like.gpus
        points.append(CapacityPoint(count, gpus, seconds, deviation, **missing, meets=False))
    tolerated = _tolerated(points)
    return [
        replace(point, meets=target.met_by(point.seconds) and not _too_many(point, tolerated))
        for point in points
    ]


def _tolerated(points: Sequence[CapacityPoint]) -> dict[str, int]:
    """How many jobs of each kind a figure may lack and yet meet the target.

    Jobs that never fit and those that reach their time limit may be missing where they are missing with every number
    of nodes. A job that does not finish waits without end, and a cancelled one has lost its work.
    """
    return {
        kind: 0 if kind in ("unfinished", "cancelled") else min(getattr(point, kind) for point in points)
        for kind in MISSING
    }


def _too_many(point: CapacityPoint, tolerated: Mapping[str, int]) -> bool:
    """Whether the figure of a number of nodes lacks jobs that it must have."""
    return any(getattr(point, kind) > most for kind, most in tolerated.items())


def answer_of(points: Sequence[CapacityPoint], added: Added, target: Target) -> str:
    """The least number of nodes that meets the target, or that none does, in a sentence; then what the figures lack."""
    tolerated = _tolerated(points)
    whole = [point for point in points if not _too_many(point, tolerated)]
    lacking = "".join(_missing_sentences(points, tolerated))
    meets = [point for point in points if point.meets]
    if not meets:
        known = [point for point in whole if point.seconds is not None]
        least = min(known, key=lambda point: point.seconds or 0.0) if known else None
        best = "" if least is None else f"; the least is {duration(least.seconds)} with {least.nodes} more"
        return f"No number of more nodes that was tried meets {target}{best}.{lacking}"
    first = meets[0]
    later = [point.nodes for point in whole if point.nodes > first.nodes and not point.meets]
    but = f" With {', '.join(map(str, later))} it is missed again: the figure is not smooth." if later else ""
    close = (
        " It is met by less than the phases of the scheduler's clocks change it."
        if target.limit - (first.seconds or 0.0) < first.deviation_seconds
        else ""
    )
    kind = added.like.kind
    more = f"1 more node of {kind} meets" if first.nodes == 1 else f"{first.nodes} more nodes of {kind} meet"
    if first.nodes == 0:
        more = "Without more nodes the cluster meets"
    return f"{more} {target}: {duration(first.seconds)}.{but}{close}{lacking}"


def _missing_sentences(points: Sequence[CapacityPoint], tolerated: Mapping[str, int]) -> list[str]:
    """With which numbers of nodes the figure lacks jobs that it must have, and what every figure lacks."""
    found = []
    if nodes := _nodes_with_more(points, "left_out", tolerated):
        found.append(f" With {nodes} more, jobs are left out that fit on more nodes: not met.")
    for kind, one, several in (
        ("unfinished", "does not finish", "do not finish"),
        ("cancelled", "is cancelled", "are cancelled"),
        ("timed_out", "reaches its time limit", "reach their time limit"),
    ):
        most, fewest = max(getattr(point, kind) for point in points), tolerated[kind]
        if nodes := _nodes_with_more(points, kind, tolerated):
            than = f", with others {fewest:,}" if fewest else ""
            jobs = f"{counted(most, 'job')} {one if most == 1 else several}"
            found.append(f" With {nodes} more, {'' if most == 1 else 'up to '}{jobs}{than}: not met.")
        elif fewest:
            jobs = f"{counted(fewest, 'job')} {one if fewest == 1 else several}"
            found.append(f" With any number {jobs}: not in the figures.")
    return found


def _nodes_with_more(points: Sequence[CapacityPoint], kind: str, tolerated: Mapping[str, int]) -> str:
    """The numbers of nodes whose figure lacks more jobs of a kind than it may."""
    return ", ".join(str(point.nodes) for point in points if getattr(point, kind) > tolerated[kind])


def rows_of(points: Sequence[CapacityPoint]) -> list[tuple[str, ...]]:
    """The curve as a table: more nodes, GPUs, figure, its deviation, whether it meets the target, jobs not in it."""
    return [
        (
            str(point.nodes),
            f"{point.gpus:,}",
            duration(point.seconds),
            duration(point.deviation_seconds) if point.deviation_seconds else UNKNOWN,
            "yes" if point.meets else "no",
            point.missing,
        )
        for point in points
    ]


def write_curve(folder: Path, answer: Mapping[str, Any]) -> None:
    """Write what `as_dict` says as `capacity.json`, its curve as `capacity.csv` and `capacity.md`."""
    (folder / "capacity.json").write_text(as_json_text(answer), encoding="utf-8")
    curve = pl.DataFrame(answer["curve"])
    (folder / "capacity.csv").write_text(curve.write_csv(), encoding="utf-8")
    table = markdown_table(curve.columns, [[markdown_cell(cell) for cell in row] for row in curve.rows()])
    (folder / "capacity.md").write_text(f"{answer['answer']}\n\n{table}", encoding="utf-8")


def as_dict(points: Sequence[CapacityPoint], added: Added, target: Target) -> dict[str, Any]:
    """For machines."""
    least = next((point.nodes for point in points if point.meets), None)
    return {
        "target": asdict(target),
        "node": {"gpus": added.like.gpus, "gpu_type": added.like.gpu_type},
        "least_nodes": least,
        "answer": answer_of(points, added, target),
        "curve": [asdict(point) for point in points],
    }
