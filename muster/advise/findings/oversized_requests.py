"""Jobs that ask for more CPUs or memory than they use."""

from __future__ import annotations

import polars as pl

from muster.advise.finding import Finding, Saving, not_judged, nothing
from muster.advise.site import Site
from muster.formatting import percent, three_figures

NAME = "oversized-requests"
_HEADROOM = 1.5
"""A request up to so many times what was used is not called too large; the other end of the range."""
_LEAST_HOURS = 0.1
_LARGE = 0.2
"""Share of what was held that must be unused, with headroom, to be a finding."""
_LISTED = 10


def judge(site: Site) -> Finding:
    """Compare what jobs held with what their steps used."""
    ran = site.ran
    kinds = [
        (name, unit)
        for name, unit in (("cpus", "core-hours"), ("memory_gb", "GB-hours"))
        if f"{name}_used" in ran.columns and (ran[name] * ran[f"{name}_used"]).is_not_null().any()
    ]
    if not kinds:
        return not_judged(NAME, "use of CPUs or memory (TotalCPU, MaxRSS, TRESUsageInTot, jobstats)")
    evidence, findings, most = [], [], 0.0
    for name, unit in kinds:
        used = pl.col(f"{name}_used")
        jobs = ran.filter(used.is_not_null() & pl.col(name).is_not_null() & (pl.col("hours") >= _LEAST_HOURS))
        held = float((jobs[name] * jobs["hours"]).sum())
        free = [
            float(jobs.select(((pl.col(name) - factor * used).clip(0) * pl.col("hours")).sum()).item())
            for factor in (_HEADROOM, 1.0)
        ]
        if not held:
            continue
        evidence.append(
            f"{jobs.height:,} of {ran.height:,} jobs say what they used: of {three_figures(held)} {unit} they left "
            f"{percent(free[0] / held)} (if each kept {_HEADROOM:g} times its use) to {percent(free[1] / held)} unused."
        )
        share = free[0] / held
        if share >= _LARGE and share > most:
            most = share
            findings = [(name, unit, jobs, free)]
    if not findings:
        return nothing(NAME, "Jobs use what they ask for, or little is recorded", ran.height, *evidence)
    name, unit, jobs, free = findings[0]
    what = "CPUs" if name == "cpus" else "memory"
    return Finding(
        NAME,
        f"Jobs ask for more {what} than they use",
        jobs=jobs.height,
        evidence=[
            *evidence,
            "Samples of memory can miss short peaks, and the largest task stands for the job "
            "where only MaxRSS is recorded.",
        ],
        saving=Saving(free[0], free[1], unit),
        what_to_do=[
            "Show the users of the table their use (seff, jobstats) and lower the defaults for each GPU.",
            "What is freed starts other jobs only where CPUs or memory are what they wait for: see stranded-gpus.",
        ],
        columns=("user", "jobs", f"{unit} held", "used"),
        rows=_by_user(jobs, name),
    )


def _by_user(jobs: pl.DataFrame, name: str) -> list[tuple[str, str, str, str]]:
    held, used = pl.col(name) * pl.col("hours"), pl.col(f"{name}_used") * pl.col("hours")
    table = (
        jobs.group_by("user")
        .agg(pl.len().alias("jobs"), held.sum().alias("held"), used.sum().alias("used"))
        .sort(pl.col("used") - pl.col("held"), "user")
        .head(_LISTED)
    )
    return [
        (user or "no name", f"{count:,}", three_figures(total), percent(part / total if total else None))
        for user, count, total, part in table.iter_rows()
    ]
