"""The figures of one run: what `summary.json` holds. Every definition stands beside its computation.

Statistics of jobs count the measured jobs that completed; the others are counted, never averaged. Use of the
cluster (utilization, fragmentation) counts all jobs, from the first submission to the last finish. Sums are
taken in a fixed order, so the same record gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from muster.report.fragmentation import fragmentation
from muster.report.timeline import (
    FloatArray,
    Steps,
    capacity,
    certified,
    compact_held,
    jobs_in_system,
    window,
)
from muster.runtime.records import Record

NOT_COMPLETED = ("unfinished", "timed_out", "failed", "cancelled", "refused")
QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
RESOURCES = {"gpu": "gpus", "cpu": "cpus", "memory": "memory_gb", "storage": "storage_gb_per_s"}
_ROUNDING = 1e-6
"""A speed so little below another is the same."""
_INSTANT = 1e-6
"""Seconds by which rounding may delay a finish."""
STAGES = ("input_stall_seconds", "compute_seconds", "communication_seconds", "restart_seconds")


def summarise(record: Record, measured_cost: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """All figures of a run, ready for JSON; what cannot be said (nothing completed) is None.

    The measured cost of the run itself (decision and wall seconds) is passed in and stands apart, under
    `measured`: it is the only part that differs between two runs of the same input.
    """
    _, end = window(record)
    jobs = record.jobs.with_columns(
        pl.Series("rho", _finish_time_fairness(record)), _slowdown().alias("slowdown")
    )
    measured = jobs.filter("measured")
    done = measured.filter(pl.col("outcome") == "completed")
    tenants = _tenants(measured)
    rows = compact_held(record)
    summary: dict[str, Any] = {
        "scheduler": record.scheduler,
        "trace": str(record.run["trace"]["source"]),
        "cluster": str(record.run["cluster"]["name"]),
        "jobs": measured.height,
        "completed": done.height,
        **{kind: measured.filter(pl.col("outcome") == kind).height for kind in NOT_COMPLETED},
        # No measured job is refused: those that the cluster could never hold are none of the `jobs`.
        "refused": jobs.filter(pl.col("outcome") == "refused").height,
        "jobs_in_record": jobs.height,
        "makespan_seconds": _makespan(done),
        "jct_seconds": distribution(done["jct_seconds"]),
        "wait_seconds": distribution(done["wait_seconds"]),
        "slowdown": distribution(done["slowdown"]),
        "utilization": _utilization(record, rows.numbers, end),
        "fragmentation": fragmentation(record, rows),
        "preemptions": int(measured["preemptions"].sum()),
        "restart_loss": _restart_loss(measured),
        "moves": int(measured["moves"].sum()),
        "stage_seconds": {
            stage.removesuffix("_seconds"): float(np.nansum(measured[stage].to_numpy())) for stage in STAGES
        },
        "fairness": {
            "jain": jain([tenant["mean_speed"] for tenant in tenants]),
            "rho_mean": _mean(done["rho"]),
            "rho_max": _greatest(done["rho"]),
        },
        "utility": _utility(measured),
        "deadlines": _deadlines(measured),
        "below_best": _below_best(record),
        "jct_bound": _jct_bound(record, done),
        "slowest_moment": _slowest_moment(measured),
        "tenants": tenants,
        "reasons": _reasons(record, end),
        "decisions": record.decisions.height,
        "rules": dict(record.run["rules"]),
        "knowledge": record.run["knowledge"],
        "notes": list(record.run["trace"].get("notes") or ()),
    }
    if measured_cost is not None:
        summary["measured"] = dict(measured_cost)
    return summary


def complete_the_same_jobs(summaries: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the means of these runs are of the same jobs: all of those measured, but for those that no run holds."""
    measured = {(summary["jobs"], summary["refused"]) for summary in summaries}
    return len(measured) == 1 and not any(
        summary[kind] for summary in summaries for kind in NOT_COMPLETED if kind != "refused"
    )


def value_at(summary: Mapping[str, Any], path: str) -> Any:
    """What stands in a summary at a path such as `jct_seconds.mean`."""
    value: Any = summary
    for part in path.split("."):
        value = value[part]
    return value


def distribution(values: pl.Series) -> dict[str, float | None]:
    """Mean, p50, p90, p95, p99 and max; quantiles by linear interpolation between the two nearest ranks."""
    known = _known(values)
    if known.size == 0:
        return dict.fromkeys(("mean", *QUANTILES, "max"))
    quantiles = np.quantile(known, list(QUANTILES.values()), method="linear")
    return {
        "mean": float(np.mean(known)),
        **dict(zip(QUANTILES, quantiles.tolist(), strict=True)),
        "max": float(np.max(known)),
    }


def jain(shares: list[float]) -> float | None:
    """Jain's index, (sum x)^2 / (n sum x^2): 1 where all get the same, 1/n where one gets all (Jain 1984)."""
    amounts = np.asarray(shares, dtype=np.float64)
    squares = float(np.sum(amounts**2))
    return float(np.sum(amounts)) ** 2 / (amounts.size * squares) if squares > 0 else None


def _slowdown() -> pl.Expr:
    """JCT over the time the job takes at its reference, never waiting; null where there is no work.

    Also null where the JCT rounds to 0: the work is too short for the clock so long after time 0.
    """
    known = (pl.col("ideal_seconds") > 0) & (pl.col("jct_seconds") > 0)
    return pl.when(known).then(pl.col("jct_seconds") / pl.col("ideal_seconds"))


def _finish_time_fairness(record: Record) -> FloatArray:
    """Rho of every job: JCT over the time it takes alone on its fair share (Themis, NSDI 2020).

    The fair share is 1/N of the cluster's GPUs, N being the mean number of jobs in the system while this one
    is. A job asking for no more runs at its reference speed there; one asking for k times as much, k times
    slower. Up to 1 is fair; NaN for jobs that did not finish.
    """
    jobs = record.jobs
    submit = jobs["submit_seconds"].to_numpy()
    finish = jobs["finish_seconds"].fill_null(np.nan).to_numpy()
    ideal = jobs["ideal_seconds"].fill_null(np.nan).to_numpy()
    in_system = jobs_in_system(record)
    there = capacity(record, "gpus")
    gpus = float(there.values[0]) if there.values.size == 1 else there.mean()
    with np.errstate(divide="ignore", invalid="ignore"):
        contention = (in_system.integral_until(finish) - in_system.integral_until(submit)) / (finish - submit)
        alone = ideal * np.maximum(1.0, jobs["gpus"].to_numpy() * contention / gpus)
        rho = (finish - submit) / alone
    return np.where(np.isfinite(rho), rho, np.nan)


def _makespan(done: pl.DataFrame) -> float | None:
    """First submission to last finish of the completed measured jobs, in seconds."""
    if done.is_empty():
        return None
    return float(np.max(done["finish_seconds"].to_numpy()) - np.min(done["submit_seconds"].to_numpy()))


def _utilization(record: Record, rows: pl.DataFrame, end: float) -> dict[str, float | None]:
    """Allocated over capacity, weighted by time; None where the cluster states no capacity or no job any need."""
    seconds = (rows["to_seconds"] - rows["from_seconds"]).to_numpy()
    shares: dict[str, float | None] = {}
    for name, column in RESOURCES.items():
        there = float(capacity(record, column).integral_until(np.array([end]))[0])
        used = float(np.sum(rows[column].fill_null(0.0).to_numpy() * seconds))
        known = there > 0 and name not in record.run.get("unknown_resources", ())
        shares[name] = used / there if known else None
    return shares


def _restart_loss(measured: pl.DataFrame) -> float | None:
    """GPU time that went into restarts over all GPU time that jobs had; None where they had none."""
    attained = float(np.nansum(measured["attained_gpu_seconds"].to_numpy()))
    lost = float(np.nansum((measured["restart_seconds"] * measured["gpus"]).to_numpy()))
    return lost / attained if attained > 0 else None


def _utility(measured: pl.DataFrame) -> dict[str, float | None]:
    """SMD's utility summed over the jobs that have one, and the share of them done by their target.

    A job that was not completed has none and misses its target.
    """
    rated = measured.filter(pl.col("utility").is_not_null())
    if rated.is_empty():
        return {"total": None, "on_target": None}
    late = rated["utility_target_seconds"].to_numpy() < rated["jct_seconds"].fill_null(np.inf).to_numpy()
    return {"total": float(np.sum(rated["utility"].to_numpy())), "on_target": 1.0 - float(np.mean(late))}


def _deadlines(measured: pl.DataFrame) -> dict[str, float | int | None]:
    """How many jobs state a deadline, and the share of them that completed by it. None where no job states one."""
    stated = measured.filter(pl.col("deadline_seconds").is_not_null())
    if stated.is_empty():
        return {"jobs": 0, "met": None}
    done = stated.filter(pl.col("outcome") == "completed")
    met = done.filter(pl.col("finish_seconds") <= pl.col("deadline_seconds") + _INSTANT).height
    return {"jobs": stated.height, "met": met / stated.height}


def _below_best(record: Record) -> dict[str, float | None]:
    """How far decisions stayed below the best possible, as a share of it: mean and 99th percentile over time.

    Only while there was something to reach; None without a bound in the record.
    """
    known = certified(record)
    steps = known.below() if known else Steps(np.zeros(1), np.zeros(0))
    busy = ~np.isnan(steps.values)
    if not busy.any():
        return {"mean": None, "p99": None}
    below, seconds = steps.values[busy], np.diff(steps.times)[busy]
    order = np.argsort(below, kind="stable")
    upto = np.cumsum(seconds[order])
    p99 = below[order][np.searchsorted(upto, 0.99 * upto[-1])]
    return {"mean": float(np.sum(below * seconds) / np.sum(seconds)), "p99": float(p99)}


def _jct_bound(record: Record, done: pl.DataFrame) -> dict[str, Any]:
    """Seconds below which no scheduler brings the mean JCT of these jobs, and the run's mean as a multiple of it.

    None without `--certify`, and where the run has no such bound: then `reason` says why.
    """
    bound = record.run.get("jct_bound", {"mean_seconds": None, "reason": ""})
    mean, least = _mean(done["jct_seconds"]), bound["mean_seconds"]
    return {**bound, "mean_over_bound": mean / least if mean is not None and least else None}


def _slowest_moment(measured: pl.DataFrame) -> dict[str, float | int | None]:
    """The slowest moment of any job against the GPU-proportional share, and how many jobs had one below it.

    The share of the machines that it was on then, and that of the slowest machines that it may use (Synergy's promise
    on machines that differ). None where no job has it.
    """
    figures: dict[str, float | int | None] = {}
    for name, column in (
        ("share", "min_speedup_vs_fair_share"),
        ("slowest_share", "min_speedup_vs_slowest_fair_share"),
    ):
        known = _known(measured[column])
        figures[f"of_{name}"] = float(np.min(known)) if known.size else None
        figures[f"jobs_below_{name}"] = int(np.count_nonzero(known < 1 - _ROUNDING)) if known.size else None
    return figures


def _tenants(measured: pl.DataFrame) -> list[dict[str, Any]]:
    """One entry a tenant, by name; jobs without one are the tenant ''.

    `mean_speed` is the mean of ideal over JCT of its completed jobs (1: nothing ever waited or was slowed), 0
    where none completed; it is what Jain's index compares.
    """
    entries = []
    named = measured.with_columns(pl.col("tenant").fill_null("")).sort("tenant", maintain_order=True)
    for (name,), jobs in named.group_by("tenant", maintain_order=True):
        done = jobs.filter(pl.col("outcome") == "completed")
        speed = _mean(1 / done["slowdown"])
        entries.append(
            {
                "tenant": name,
                "jobs": jobs.height,
                "completed": done.height,
                "gpu_seconds": float(np.nansum(jobs["attained_gpu_seconds"].to_numpy())),
                "jct_seconds": distribution(done["jct_seconds"]),
                "wait_seconds": distribution(done["wait_seconds"]),
                "mean_speed": 0.0 if speed is None else speed,
                "rho_mean": _mean(done["rho"]),
                "rho_max": _greatest(done["rho"]),
                "preemptions": int(jobs["preemptions"].sum()),
            }
        )
    return entries


def _reasons(record: Record, end: float) -> dict[str, dict[str, float]]:
    """Why measured jobs waited: per reason the waiting seconds and the jobs it held up, longest first."""
    table, counted = record.compact_reasons, record.jobs["measured"].to_numpy()
    if table.numbers.is_empty() or not len(counted):
        return {}
    names = table.names["reason"] if "reason" in table.names else table.numbers["reason"].unique()
    job = table.numbers_among("job_id", record.jobs["job_id"])
    code = table.numbers_among("reason", names).to_numpy()
    seconds = (table.numbers["to_seconds"].fill_null(end) - table.numbers["from_seconds"]).to_numpy()
    if job.null_count() or not counted.all():
        kept = job.is_not_null().to_numpy() & counted[job.fill_null(0).to_numpy()]
        job, code, seconds = job.filter(pl.Series(kept)), code[kept], seconds[kept]
    totals = {}
    for number in np.flatnonzero(np.bincount(code)).tolist():
        of_reason = np.flatnonzero(code == number)
        jobs = np.zeros(len(counted), np.bool_)
        jobs[job.to_numpy()[of_reason]] = True
        totals[names[number]] = {
            "seconds": float(np.sum(seconds[of_reason])),
            "jobs": int(np.count_nonzero(jobs)),
        }
    return dict(sorted(totals.items(), key=lambda total: (-total[1]["seconds"], total[0])))


def _known(values: pl.Series) -> FloatArray:
    return values.drop_nulls().drop_nans().to_numpy().astype(np.float64, copy=False)


def _mean(values: pl.Series) -> float | None:
    known = _known(values)
    return float(np.mean(known)) if known.size else None


def _greatest(values: pl.Series) -> float | None:
    known = _known(values)
    return float(np.max(known)) if known.size else None
