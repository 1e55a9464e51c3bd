"""A site from files, or from the Slurm of this machine: its log, its nodes, its settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import polars as pl

from muster.advise.node_parts import on_parts
from muster.advise.site import TWIN, TWIN_JOBS, Site
from muster.cluster.shipped import parse_cluster
from muster.cluster.slurm_nodes import SlurmSite, read_slurm_site
from muster.files import read_text
from muster.formatting import DAY, counted
from muster.problems import InputError, Problem, Unable
from muster.schedulers.registry import build
from muster.slurm_config import SlurmConfig, read_slurm_config
from muster.slurm_partitions import PartitionLimits
from muster.slurm_queries import SlurmError, SlurmQueries
from muster.workload.jobs import without_nodes
from muster.workload.site_log import read_site_log
from muster.workload.traces import sacct

FIELDS = (
    "JobID,User,Account,Partition,QOS,Priority,State,ExitCode,Submit,Start,End,Elapsed,Timelimit,NNodes,NodeList,"
    "Restarts,ReqTRES,AllocTRES,TotalCPU,MaxRSS,TRESUsageInTot,TRESUsageInAve,AdminComment"
)
"""What sacct is asked for."""
_NOTHING = SlurmConfig({}, ())
_BY_QOS = re.compile(r"preempt/qos|^AccountingStorageEnforce\s*=.*\b(?:limits|qos|safe)\b", re.MULTILINE)
"""Settings of Slurm under which its QOS count."""


def read_site(
    log: Path,
    cluster: str,
    *,
    slurm_config: Path | None = None,
    settings: Mapping[str, str] | None = None,
    scheduler: str = TWIN,
    twin_jobs: int = TWIN_JOBS,
) -> tuple[Site, list[tuple[str, str]]]:
    """Return the site that files describe, and notes on what was cleaned or is not simulated, each after its file."""
    found = read_site_cluster(cluster)
    if slurm_config is not None and scheduler != TWIN:
        what = (
            f"these are settings of the scheduler {TWIN}, and {scheduler} stands for the site's; leave it out"
        )
        raise InputError(Problem("--slurm-config", what, found=str(slurm_config)))
    config = _config_of(slurm_config, cluster)
    if scheduler != TWIN:
        config = _for_another(config, scheduler)
    known = {**config.settings, **(settings or {})}
    build(scheduler, known)
    whole = read_site_log(log)
    jobs, filled = _with_limits_of_partitions(on_parts(whole.jobs, found.cluster), config.partitions)
    site = Site(
        whole.trace,
        jobs,
        found.cluster,
        known,
        scheduler,
        twin_jobs,
        found.away,
        whole.lacks,
        config.partitions,
    )
    if filled:
        what = f"{counted(filled, 'waiting job')} without a time limit: the partition's counts"
        found = replace(found, notes=(*found.notes, what))
    if found.cluster.assumed and not (jobs["cpus"].is_null() & jobs["memory_gb"].is_null()).all():
        what = f"it does not state all resources of its nodes: assumed {found.cluster.assumed}"
        found = replace(found, notes=(*found.notes, what))
    gone = int(without_nodes(whole.trace, found.cluster).sum())
    if gone:
        what = f"{counted(gone, 'job')} of a partition or a type of GPU that no node has now: not simulated"
        found = replace(found, notes=(*found.notes, what))
    if site.too_large:
        what = f"{counted(len(site.too_large), 'job')} that the cluster of now cannot hold: not simulated"
        found = replace(found, notes=(*found.notes, what))
    sources = ((str(log), whole.notes), (cluster, found.notes), (str(slurm_config or cluster), config.notes))
    return site, [(source, note) for source, own in sources for note in own]


def _with_limits_of_partitions(
    jobs: pl.DataFrame, partitions: Mapping[str, PartitionLimits]
) -> tuple[pl.DataFrame, int]:
    """The jobs, those that wait without a time limit with their partition's; how many that are.

    Slurm gives a job that limit when it starts, and its log has it from then on.
    """
    limits = {
        name: seconds
        for name, one in partitions.items()
        if (seconds := one.default_seconds or one.max_seconds) is not None
    }
    waits = pl.col(sacct.OPEN) & pl.col("start_seconds").is_null() & pl.col("time_limit_seconds").is_null()
    theirs = pl.col("partition").replace_strict(limits, default=None, return_dtype=pl.Float64)
    filled = int(jobs.select((waits & theirs.is_not_null()).sum()).item()) if limits else 0
    if not filled:
        return jobs, 0
    limit = pl.when(waits).then(theirs).otherwise(pl.col("time_limit_seconds"))
    return jobs.with_columns(limit.alias("time_limit_seconds")), filled


def read_site_cluster(text: str) -> SlurmSite:
    """Return a cluster as any command takes it, or from a file of what scontrol show node or sinfo --json prints."""
    if not _is_of_slurm(text):
        return SlurmSite(parse_cluster(text), ())
    path = Path(text)
    return read_slurm_site(read_text(path), str(path), path.stem)


def _is_of_slurm(text: str) -> bool:
    return not text.endswith(".toml") and Path(text).is_file()


def _config_of(slurm_config: Path | None, cluster: str) -> SlurmConfig:
    """The settings of a file of their own, else of the cluster's, if `scontrol show config` is in it too."""
    if slurm_config is not None:
        return read_slurm_config(slurm_config)
    if not _is_of_slurm(cluster):
        return _NOTHING
    try:
        return read_slurm_config(Path(cluster))
    except InputError:
        hint = "scheduling settings are Slurm's defaults. Hint: add the output of scontrol show config to the file"
        return SlurmConfig({}, (hint,))


def _for_another(config: SlurmConfig, scheduler: str) -> SlurmConfig:
    """What counts where another scheduler stands for the site's: which jobs its partitions take."""
    what = f"scheduling settings of Slurm are left out: {scheduler} stands for the site's own"
    return SlurmConfig({}, (what,) if config.settings else (), config.partitions)


def read_running_slurm(folder: Path, days: float, queries: SlurmQueries | None = None) -> tuple[Path, str]:
    """Write what the Slurm of this machine says of its last days and of itself into a folder; the log and the cluster.

    Unable if Slurm does not answer.
    """
    queries = queries or SlurmQueries(patience_seconds=600.0)
    log, cluster = folder / "sacct.txt", folder / "scontrol.txt"
    since = f"now-{round(days * DAY / 3600)}hours"
    try:
        log.write_text(queries.ask(["sacct", "-a", "-P", "-S", since, f"--format={FIELDS}"]), "utf-8")
        config = queries.ask(["scontrol", "show", "config"])
        parts = [
            config,
            queries.ask(["scontrol", "show", "partition"]),
            queries.ask(["scontrol", "show", "node"]),
            queries.ask(["scontrol", "show", "topology"]),
            queries.ask(["scontrol", "show", "reservation"]),
        ]
        if _BY_QOS.search(config):
            parts.append(queries.ask(["sacctmgr", "show", "qos", "-P"]))
    except SlurmError as error:
        raise Unable(str(error)) from error
    cluster.write_text("\n".join(parts), "utf-8")
    return log, str(cluster)
