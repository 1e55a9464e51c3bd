"""Utility, completion times and targets met, under one accounting at a time: SMD's claim against its field."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product

from experiments.papers.experiment import Effort, Experiment, Findings, Result, Row, Verdict
from experiments.papers.smd.cells import FIELD, OBLIVIOUS, Cell
from muster.report.drawing import Chart
from muster.sweep.charts import Spot, load_chart, point_chart
from muster.sweep.page import Table
from muster.sweep.pieces import Piece
from muster.sweep.statistics import Estimate, estimate

JOBS = {"usage": (20, 100, 200), "reservation": (50,)}
CAPACITIES = (0.3, 0.6, 0.9)
PER_HOUR = 6.0
"""Poisson arrivals: the jobs come over some hours instead of at once."""
SEEDS = 10
QUICK_JOBS, QUICK_CAPACITIES, QUICK_SEEDS = (30,), (0.3, 0.9), 3
CLAIMED = ("optimus", "equal-1to1")
"""Whom SMD says to be better than; equal-1to1 stands for ESW."""
GOAL = (*CLAIMED, "drf-1to1", "tetris-1to1", "oasis")
"""Whom it should be better than by our own goal, in every cell."""
LITTLE_LEFT = 0.02
"""Of the utility that all jobs have alone: a scheduler as near to it leaves hardly anything to be won."""

Place = tuple[int, float, float | None]
"""Jobs, capacity, arrivals an hour."""


def accounting(name: str) -> Experiment:
    """The experiment under one accounting."""
    return Experiment(
        f"utility-{name}",
        f"Utility, a job being charged {'what it holds' if name == 'usage' else 'the limit of its owner'}",
        "SMD says that it gains more utility than Optimus and ESW; by how much is not known to us. Utility is a share "
        "of what all jobs would be worth alone in the cluster, which bounds every scheduler; beside it the share of "
        "jobs that meet their target, and the mean completion time of those that completed. Capacity is a share of "
        "all the owners' limits together.",
        _pieces_under(name),
        _read_under(name),
    )


def _places(effort: Effort, name: str) -> list[Place]:
    if effort.quick:
        return list(product(QUICK_JOBS, QUICK_CAPACITIES, (None, PER_HOUR)))
    return list(product(JOBS[name], CAPACITIES, (None, PER_HOUR)))


def _seeds(effort: Effort) -> range:
    return range(QUICK_SEEDS if effort.quick else SEEDS)


def _schedulers(name: str) -> tuple[str, ...]:
    return ("smd", OBLIVIOUS, *FIELD) if name == "usage" else ("smd", *FIELD)


def _pieces_under(name: str) -> Callable[[Effort], Sequence[Piece]]:
    def pieces(effort: Effort) -> Sequence[Piece]:
        return [
            Cell(scheduler, name, *place, seed)
            for place in _places(effort, name)
            for scheduler in _schedulers(name)
            for seed in _seeds(effort)
        ]

    return pieces


def _read_under(name: str) -> Callable[[Effort, Sequence[Result]], Findings]:
    def read(effort: Effort, results: Sequence[Result]) -> Findings:
        left = iter(results)
        rows, tables, spots = [], [], []
        for place in _places(effort, name):
            found = {other: [next(left) for _ in _seeds(effort)] for other in _schedulers(name)}
            rows += [_row(place, other, found) for other in found if other != "smd"]
            tables.append(_table(place, found))
            spots += [_spot(place, other, runs) for other, runs in found.items()]
        return Findings(rows, [_chart(name, spots, len(_seeds(effort)))], tables)

    return read


def place_name(place: Place) -> str:
    """A place as rows name it."""
    jobs, capacity, per_hour = place
    return f"{jobs} jobs, capacity {capacity:g}, {arrivals(per_hour)}"


def arrivals(per_hour: float | None) -> str:
    """How jobs come."""
    return "all at once" if per_hour is None else f"{per_hour:g} an hour"


def _row(place: Place, other: str, found: Mapping[str, Sequence[Result]]) -> Row:
    """How many times the other's utility SMD's is: a ratio a seed."""
    pairs = list(zip(found["smd"], found[other], strict=True))
    ratio = estimate([own["utility"] / theirs["utility"] for own, theirs in pairs])
    better = ratio.mean - (ratio.half_width or 0.0) > 1.0
    verdict = Verdict.REACHED if better else Verdict.NOT_REACHED
    return Row(
        f"utility over {other}: {place_name(place)}",
        "more than 1" if other in CLAIMED else "",
        "",
        shown(ratio),
        verdict if other in GOAL else Verdict.OTHER_SETTING,
        "" if better else _why_not_better(ratio, [theirs["utility"] for _, theirs in pairs]),
    )


def _why_not_better(ratio: Estimate, theirs: Sequence[float]) -> str:
    """What the interval says, and whether there was anything to win."""
    most = sum(theirs) / len(theirs)
    side = "lies below 1" if ratio.mean + (ratio.half_width or 0.0) < 1.0 else "holds 1"
    if most >= 1 - LITTLE_LEFT:
        return f"the interval {side}: the other already has {most:.1%} of what there is"
    ahead = "more" if ratio.mean > 1 else "less"
    return f"the interval {side}: {ahead} in the mean, but seeds differ by more than that"


def _table(place: Place, found: Mapping[str, Sequence[Result]]) -> Table:
    header = ("Scheduler", "Utility", "On target", "Mean JCT, h", "Makespan, h", "Not completed")
    figures = ("utility", "on_target", "jct_hours", "makespan_hours", "unfinished")
    lines = [
        [name, *(shown(estimate([run[figure] for run in runs])) for figure in figures)]
        for name, runs in found.items()
    ]
    return Table(place_name(place), header, lines)


def _spot(place: Place, name: str, runs: Sequence[Result]) -> Spot:
    jobs, capacity, per_hour = place
    utility = estimate([run["utility"] for run in runs])
    return Spot(f"{jobs} jobs, {arrivals(per_hour)}", name, capacity, utility.mean, utility.half_width)


def _chart(name: str, spots: Sequence[Spot], seeds: int) -> Chart:
    note = f"Means over {seeds} seeds; bars: 95 % interval. 1: every job as if alone in the cluster."
    title = f"Utility under {name} accounting"
    return load_chart(f"utility-{name}", title, note, spots, "Capacity, share of all limits", "Utility")


def below_chart(spots: Sequence[Spot], seeds: int) -> Chart:
    """How far decisions stay below their bound, a panel a place."""
    note = f"All intervals of a run together; means over {seeds} seeds, bars: 95 % interval."
    return point_chart(
        "below-best", "Below the best possible decision", note, spots, "Below the bound, share"
    )


def shown(value: Estimate) -> str:
    """`1.93 ± 0.12`, the interval of the mean over seeds."""
    return f"{value.mean:.2f}" + ("" if value.half_width is None else f" ± {value.half_width:.2f}")
