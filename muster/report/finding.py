"""The first sentences of a comparison: how much less jobs wait, how much sooner they finish, and which jobs gain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muster.formatting import change, counted, duration, three_figures
from muster.report.metrics import complete_the_same_jobs

CLEARLY = 1.01
"""A mean that differs by less than this factor is the same."""


def best_run(summaries: Sequence[Mapping[str, Any]]) -> int | None:
    """The run with the shortest mean completion time; None where runs leave jobs out: their means are of other jobs.

    Those that no run could hold are left out of all.
    """
    jcts = [summary["jct_seconds"]["mean"] for summary in summaries]
    if len(jcts) < 2 or None in jcts or not complete_the_same_jobs(summaries):
        return None
    return min(range(len(jcts)), key=lambda run: (jcts[run], run))


def finding(names: Sequence[str], summaries: Sequence[Mapping[str, Any]]) -> str:
    """The run with the shortest mean completion time against the first run, and against the best of the rest.

    Where it has another cluster and another scheduler, what each of them does alone takes the place of the latter.
    Empty for a single run, and where `best_run` knows no best.
    """
    best = best_run(summaries)
    if best is None:
        return ""
    jcts = [summary["jct_seconds"]["mean"] for summary in summaries]
    waits = [summary["wait_seconds"]["mean"] for summary in summaries]
    if jcts[0] < CLEARLY * jcts[best]:
        least, most = duration(jcts[best]), duration(max(jcts))
        times = f"all {least}" if least == most else f"{least} to {most}"
        return f"No run here finishes jobs clearly sooner than {names[0]}: mean completion times are {times}."
    finish = f"the mean completion time {_from_to(jcts[0], jcts[best])}"
    wait = f"the mean wait {_from_to(waits[0], waits[best])}"
    if waits[0] >= CLEARLY * waits[best]:
        parts = [f"{names[best]} shortens {wait} and {finish}"]
    elif waits[best] >= CLEARLY * waits[0]:
        parts = [f"{names[best]} shortens {finish}", f"{wait.replace('wait', 'wait grows', 1)}"]
    else:
        parts = [f"{names[best]} shortens {finish}", f"the mean wait stays at {duration(waits[best])}"]
    parts += [*_tenants(summaries[0], summaries[best]), _makespan(summaries[0], summaries[best])]
    text = "; ".join(parts) + "."
    apart = _each_alone(summaries, best)
    others = [run for run in range(1, len(names)) if run != best]
    if others and not apart:
        apart = [("The best of the others", min(others, key=lambda run: (jcts[run], run)))]
    return text + "".join(
        f" {what}, {names[run]}: {duration(waits[run])} of waiting, {duration(jcts[run])} to the end."
        for what, run in apart
    )


def _each_alone(summaries: Sequence[Mapping[str, Any]], best: int) -> list[tuple[str, int]]:
    """Where the best run differs from the first in cluster and scheduler: the runs that differ in one of them."""
    cluster, scheduler = (
        [one[what] for one in (summaries[0], summaries[best])] for what in ("cluster", "scheduler")
    )
    if cluster[0] == cluster[1] or scheduler[0] == scheduler[1]:
        return []
    pairs = [(one["cluster"], one["scheduler"]) for one in summaries]
    alone = (
        ("The cluster alone", (cluster[1], scheduler[0])),
        ("The scheduler alone", (cluster[0], scheduler[1])),
    )
    return [(what, pairs.index(pair)) for what, pair in alone if pair in pairs]


def _from_to(first: float, best: float) -> str:
    return f"from {duration(first)} to {duration(best)} ({change(best, first)})"


def _tenants(first: Mapping[str, Any], best: Mapping[str, Any]) -> list[str]:
    """How many tenants finish clearly sooner and how many later, by mean completion time; nothing of a single one."""
    before = {tenant["tenant"]: tenant["jct_seconds"]["mean"] for tenant in first["tenants"]}
    pairs = [
        (before[tenant["tenant"]], tenant["jct_seconds"]["mean"])
        for tenant in best["tenants"]
        if before.get(tenant["tenant"]) and tenant["jct_seconds"]["mean"]
    ]
    if len(pairs) < 2:
        return []
    gain = sum(one >= CLEARLY * other for one, other in pairs)
    lose = sum(other >= CLEARLY * one for one, other in pairs)
    loss = f" and {lose} {'loses' if lose == 1 else 'lose'}" if lose else ""
    return [f"{gain} of {counted(len(pairs), 'tenant')} {'gains' if gain == 1 else 'gain'}{loss}"]


def _makespan(first: Mapping[str, Any], best: Mapping[str, Any]) -> str:
    before, after = first["makespan_seconds"], best["makespan_seconds"]
    if max(before, after) < CLEARLY * min(before, after):
        return "makespan unchanged"
    return f"makespan {_from_to(before, after)}"


def jct_bound_text(summary: Mapping[str, Any]) -> str:
    """The mean completion time of a certified run against what no scheduler can beat; empty for another run."""
    bound = summary["jct_bound"]
    if bound["reason"]:
        return f"no bound of the mean JCT, {bound['reason']}"
    if bound["mean_over_bound"] is None:
        return ""
    times, least = three_figures(bound["mean_over_bound"]), duration(bound["mean_seconds"])
    return f"mean JCT is {times} times {least}, below which no scheduler can bring it"
