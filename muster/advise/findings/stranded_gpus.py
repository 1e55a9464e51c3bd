"""GPUs that no job can use, because the CPUs or the memory of their node are taken."""

from __future__ import annotations

from collections import Counter

import numpy as np

from muster.advise.finding import Finding, Saving, not_judged, nothing
from muster.advise.occupancy import CPUS, GPUS, MEMORY
from muster.advise.site import Site
from muster.formatting import HOUR, counted, three_figures

NAME = "stranded-gpus"
_SMALL = 0.1
"""Quantile of CPUs and memory per GPU: what a modest job asks for."""
_LISTED = 10


def judge(site: Site) -> Finding:
    """Sum free GPUs whose node lacks what even a modest job asks for beside a GPU."""
    occupancy = site.occupancy
    ran = site.ran
    if occupancy is None:
        return not_judged(NAME, "node names (NodeList) of this cluster")
    if ran["cpus"].is_null().all():
        return not_judged(NAME, "CPUs (ReqTRES)")
    need = [(ran[name] / ran["gpus"]).quantile(_SMALL) or 0.0 for name in ("cpus", "memory_gb")]
    gpus = occupancy.jobs["gpus"].fill_null(0.0).to_numpy()
    number = {pair: at for at, pair in enumerate(site.usable)}
    kinds = np.array([number[pair] for pair in occupancy.jobs.select("partition", "constraint").iter_rows()])
    stranded = needed = 0.0
    for moment in occupancy.moments():
        lacking = (moment.free[:, CPUS] < need[0]) | (moment.free[:, MEMORY] < need[1])
        free = np.where(lacking, np.floor(moment.free[:, GPUS] + 1e-9), 0.0)
        wanted = np.bincount(kinds[moment.waiting], gpus[moment.waiting], len(number))
        of_use = sum(
            min(count, float(free[usable].sum()))
            for count, usable in zip(wanted.tolist(), site.usable.values(), strict=True)
            if count
        )
        stranded += float(free.sum()) * moment.seconds / HOUR
        needed += min(float(free.sum()), of_use) * moment.seconds / HOUR
    jobs = occupancy.jobs.height
    if needed <= 0:
        return nothing(NAME, "No GPU was stranded by CPUs or memory while a job waited", jobs)
    rows = _largest(site)
    return Finding(
        NAME,
        f"CPUs or memory stranded GPUs for {three_figures(stranded)} GPU-hours while jobs waited",
        jobs=jobs,
        evidence=[
            f"A modest job (the least tenth) asks for {need[0]:.3g} CPU cores and {need[1]:.3g} GB for each GPU.",
            f"While jobs waited, {three_figures(stranded)} GPU-hours lay free on nodes that had less than that left.",
            f"The jobs that waited wanted {three_figures(needed)} GPU-hours of them, in their partitions and of the "
            "type of GPU that they ask for; the table has those that took more than their GPUs' share of a node.",
        ],
        saving=Saving(0.0, needed, "GPU-hours"),
        what_to_do=[
            "Cap CPUs and memory for each GPU at the node's own ratio: DefCpuPerGPU and DefMemPerGPU, and "
            "MaxTRESPerJob for those that ask for more.",
            "Keep jobs without GPUs off these nodes, or leave cores for the GPUs by MaxCPUsPerNode of their partition.",
        ],
        columns=("user", "jobs", "core-hours above the share of their GPUs"),
        rows=rows,
    )


def _largest(site: Site) -> list[tuple[str, str, str]]:
    """Users whose jobs took more CPUs than the share of their GPUs."""
    share = float(site.cluster.share_per_gpu[0])
    extra: Counter[str] = Counter()
    jobs: Counter[str] = Counter()
    table = site.jobs.with_columns(
        ((site.jobs["end_seconds"] - site.jobs["start_seconds"]) / HOUR).alias("hours")
    ).drop_nulls(["hours", "cpus"])
    for user, gpus, cpus, hours in table.select("user", "gpus", "cpus", "hours").iter_rows():
        above = cpus - share * (gpus or 0.0)
        if above > 0:
            extra[user or "no name"] += above * hours
            jobs[user or "no name"] += 1
    return [
        (user, counted(jobs[user], "job"), three_figures(hours)) for user, hours in extra.most_common(_LISTED)
    ]
