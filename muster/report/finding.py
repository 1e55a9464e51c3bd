"""The first sentences of a comparison: how much less jobs wait, and how much sooner they finish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muster.formatting import duration, three_figures

CLEARLY = 1.01
"""A mean that differs by less than this factor is the same."""


def finding(names: Sequence[str], summaries: Sequence[Mapping[str, Any]]) -> str:
    """The run with the shortest mean completion time against the first run, and against the best of the rest.

    Empty for a single run, and where runs leave jobs unfinished: their means are of different jobs.
    """
    jcts = [summary["jct_seconds"]["mean"] for summary in summaries]
    if len(names) < 2 or None in jcts or any(one["unfinished"] or one["refused"] for one in summaries):
        return ""
    waits = [summary["wait_seconds"]["mean"] for summary in summaries]
    ranked = sorted(range(len(names)), key=lambda run: (jcts[run], run))
    best = ranked[0]
    if jcts[0] < CLEARLY * jcts[best]:
        return (
            f"No run here finishes jobs clearly sooner than {names[0]}: mean completion times are "
            f"{duration(jcts[best])} to {duration(jcts[ranked[-1]])}."
        )
    sooner = three_figures(jcts[0] / jcts[best])
    finish = f"{duration(jcts[best])} instead of {duration(jcts[0])}"
    wait = f"{duration(waits[best])} instead of {duration(waits[0])}"
    if waits[best] > 0 and waits[0] >= CLEARLY * waits[best]:
        less = three_figures(waits[0] / waits[best])
        text = (
            f"Jobs wait {less} times less under {names[best]} than under {names[0]}: {wait} on average. "
            f"They finish {sooner} times sooner: {finish}."
        )
    else:
        text = (
            f"Jobs finish {sooner} times sooner under {names[best]} than under {names[0]}: {finish} on average. "
            f"They wait {wait}."
        )
    next_best = ranked[1]
    if next_best:
        text += (
            f" The best of the others, {names[next_best]}: {duration(waits[next_best])} of waiting, "
            f"{duration(jcts[next_best])} to the end."
        )
    return text


def jct_bound_text(summary: Mapping[str, Any]) -> str:
    """The mean completion time of a certified run against what no scheduler can beat; empty for another run."""
    bound = summary["jct_bound"]
    if bound["reason"]:
        return f"no bound of the mean JCT, {bound['reason']}"
    if bound["mean_over_bound"] is None:
        return ""
    times, least = three_figures(bound["mean_over_bound"]), duration(bound["mean_seconds"])
    return f"mean JCT is {times} times {least}, below which no scheduler can bring it"
