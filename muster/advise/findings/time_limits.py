"""Time limits far above what jobs take, so that backfill cannot see the holes that they leave."""

from __future__ import annotations

import polars as pl

from muster.advise.finding import Finding, Saving, not_judged, nothing
from muster.advise.site import Site
from muster.advise.trial import SiteTrial
from muster.formatting import HOUR, duration, percent, three_figures

NAME = "time-limits"
_FAR = 3.0
"""Median of limit over run time from which limits are called far too long."""
_MARGIN = 1.1
_LISTED = 10


def judge(site: Site) -> Finding:
    """Set limits beside run times, and ask the twin what shorter limits would bring."""
    jobs = _limited(site)
    if jobs.is_empty():
        return not_judged(NAME, "time limits (Timelimit)")
    middle, most = _ratios(jobs)
    said = (
        f"{jobs.height:,} of {site.ran.height:,} jobs have a limit; it is {middle:.1f} times the run time in the "
        f"median, {most:.1f} times at the 95th percentile."
    )
    if middle < _FAR:
        return nothing(NAME, "Time limits are near what jobs take", jobs.height, said)
    saving, more = _of_shorter_limits(site)
    return Finding(
        NAME,
        f"Time limits are {middle:.1f} times what jobs take (median)",
        jobs=jobs.height,
        evidence=[said, *more],
        saving=saving,
        what_to_do=[
            "Lower DefaultTime of the partition, and show users their own ratio (the table).",
            "`--time-min` lets Slurm shorten a limit so that a job fits into a hole.",
        ],
        columns=("user", "jobs", "median of limit over run time", "GPU-hours", "ended at the limit"),
        rows=_by_user(jobs),
    )


def trials(site: Site) -> dict[str, SiteTrial]:
    """Limits halved, and as if users knew the run time but for a margin; none where limits are not far too long."""
    jobs = _limited(site)
    if jobs.is_empty() or _ratios(jobs)[0] < _FAR:
        return {}
    limit, run = pl.col("time_limit_seconds"), pl.col("duration_seconds")
    halved = pl.when(limit.is_not_null()).then(pl.max_horizontal(limit / 2, run * _MARGIN))
    shorter = {"limits halved": halved, "limits known": run * _MARGIN}
    return {
        name: site.trial(
            trace=site.with_jobs(
                site.newest.jobs.with_columns(one.clip(upper_bound=limit).alias("time_limit_seconds"))
            )
        )
        for name, one in shorter.items()
    }


def _limited(site: Site) -> pl.DataFrame:
    return site.ran.filter(pl.col("time_limit_seconds").is_not_null())


def _ratios(jobs: pl.DataFrame) -> tuple[float, float]:
    """Limit over run time: the median and the 95th percentile."""
    ratios = (jobs["time_limit_seconds"] / jobs["duration_seconds"]).quantile
    return ratios(0.5) or 1.0, ratios(0.95) or 1.0


def _of_shorter_limits(site: Site) -> tuple[Saving | None, list[str]]:
    """What shorter limits bring in the twin."""
    twin = site.twin
    if twin is None:
        return None, []
    halved, known = (site.waits(name, one).mean for name, one in trials(site).items())
    evidence = [
        f"Of the site, {twin}.",
        f"With limits halved where the run time allows it the twin waits {duration(halved)} in the mean, with limits "
        f"of {_MARGIN:g} times the run time, which no user knows, {duration(known)}.",
    ]
    gains = sorted(twin.simulated.mean - wait for wait in (halved, known))
    low = gains[0] if gains[0] > twin.error else 0.0
    if gains[1] <= twin.error:
        evidence.append("Neither gain is larger than the twin's error: do not count on it.")
    hours = twin.jobs / HOUR
    return Saving(low * hours, max(gains[1], 0.0) * hours, "job-hours of waiting"), evidence


def _by_user(jobs: pl.DataFrame) -> list[tuple[str, ...]]:
    ratio = pl.col("time_limit_seconds") / pl.col("duration_seconds")
    table = (
        jobs.group_by("user")
        .agg(
            pl.len(),
            ratio.median().alias("ratio"),
            pl.col("gpu_hours").sum(),
            (pl.col("status") == "TIMEOUT").mean().alias("ended"),
        )
        .sort(-pl.col("ratio") * pl.col("gpu_hours"), "user")
        .head(_LISTED)
    )
    return [
        (user or "no name", f"{count:,}", f"{times:.1f}", three_figures(hours), percent(ended))
        for user, count, times, hours, ended in table.iter_rows()
    ]
