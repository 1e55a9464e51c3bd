"""When a job that is not submitted would start, and which smaller shape of it would start sooner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from muster.advise.site import Site
from muster.cluster import Node
from muster.cluster.slurm_nodes import expand_hosts
from muster.formatting import counted, duration
from muster.problems import InputError, Problem
from muster.schedulers.queue_order.multifactor import Multifactor
from muster.schedulers.registry import build, clock_phases
from muster.simulation.start_estimates import (
    QueueState,
    StartEstimate,
    estimate_starts,
    last_tick,
    smaller_sizes,
    state_at,
    usage_at,
)

ASKED = "asked"
"""The id of the job that is not submitted."""
_PHASES = 8


@dataclass(frozen=True)
class Shape:
    """What the job asks for."""

    gpus: int
    time_limit_seconds: float
    cpus: float | None = None
    memory_gb: float | None = None
    nodes: int | None = None
    user: str = ""
    tenant: str = ""
    partition: str = ""

    def smaller(self) -> list[Shape]:
        """The same for half the GPUs, and so on down to one, with their parts of CPUs and memory."""
        shapes = []
        for gpus in smaller_sizes(self.gpus):
            part = gpus / self.gpus
            shapes.append(
                Shape(
                    gpus,
                    self.time_limit_seconds,
                    None if self.cpus is None else self.cpus * part,
                    None if self.memory_gb is None else self.memory_gb * part,
                    None,
                    self.user,
                    self.tenant,
                    self.partition,
                )
            )
        return shapes


def without_away(site: Site) -> Site:
    """The site with the nodes alone on which jobs start when the log ends; InputError if none of these has a GPU."""
    left = [node for node in site.cluster.nodes if node.gpus and node.name not in site.away]
    if not left:
        what = "all nodes with GPUs are down or drained. Hint: with --at they are taken to be up"
        raise InputError(Problem("--cluster", what))
    return replace(site, cluster=site.cluster.without(site.away), jobs=_parts_on_others(site))


def _parts_on_others(site: Site) -> pl.DataFrame:
    """The jobs, of which those that run have what they hold on nodes that are not away."""
    hosts = [expand_hosts(text) for text in site.jobs["node_list"].to_list()]
    left = [[name for name in names if name not in site.away] for names in hosts]
    parts = [len(here) / len(names) if names else 1.0 for here, names in zip(left, hosts, strict=True)]
    runs = pl.col("start_seconds").is_not_null() & pl.col("end_seconds").is_null()
    part = pl.when(runs).then(pl.Series(parts, dtype=pl.Float64)).otherwise(1.0)
    nodes = pl.when(runs).then(pl.Series([",".join(here) for here in left], dtype=pl.String))
    return site.jobs.with_columns(
        (pl.col("gpus") * part).round().cast(site.jobs["gpus"].dtype),
        *(pl.col(name) * part for name in ("cpus", "memory_gb", "nodes")),
        nodes.otherwise("node_list").alias("node_list"),
    )


def queue_at(site: Site, now: float | None) -> QueueState:
    """The state of the site at a moment of its log; None: when the log ends. InputError if the log does not say it."""
    if site.lacks:
        hint = f"Hint: add {', '.join(site.lacks)} to sacct --format"
        what = f"does not say which jobs wait and run. {hint}"
        raise InputError(Problem(site.trace.source, what))
    index = site.cluster.node_index
    moments = site.jobs.select(pl.max_horizontal("submit_seconds", "start_seconds", "end_seconds").max())
    end = float(moments.item())
    at = end if now is None else now
    if at > end:
        what = f"the log ends {duration(end)} after its first submission; allowed: up to then"
        raise InputError(Problem("--at", what, found=duration(at)))
    jobs = site.jobs.with_columns(pl.lit("").alias("qos"), pl.lit(0.0).alias("priority"))
    return state_at(jobs, at, lambda text: [index[name] for name in expand_hosts(text) if name in index])


def estimates_at(site: Site, state: QueueState, draws: int, seed: int = 0) -> Mapping[str, StartEstimate]:
    """The start of each job that waits, under the site's own scheduler; without those that some draw never starts."""
    usage, tick = _usage(site, state)
    settings = {**site.settings, **usage}
    phased = clock_phases(site.scheduler, settings, _PHASES)
    return estimate_starts(
        state,
        site.cluster,
        lambda draw: build(site.scheduler, phased[draw % len(phased)]),
        draws=range(draws),
        seed=seed,
        tick=tick,
    ).starts


def would_start(
    site: Site, state: QueueState, shapes: Sequence[Shape], draws: int, seed: int = 0
) -> list[StartEstimate | None]:
    """The start of each shape, submitted alone; None where some draw never starts it."""
    found = []
    for shape in shapes:
        waiting = pl.concat([state.waiting, _row(shape, state)], how="diagonal_relaxed")
        asked = QueueState(state.now, state.running, state.places, waiting, state.ended, of=(ASKED,))
        found.append(estimates_at(site, asked, draws, seed).get(ASKED))
    return found


def in_default_partition(site: Site, shape: Shape) -> Shape:
    """The shape in the partition that Slurm puts it into where it names none."""
    names = [name for name, one in site.limits.items() if one.is_default]
    return replace(shape, partition=names[0]) if names and not shape.partition else shape


def check_shape(site: Site, shape: Shape) -> None:
    """Refuse a shape that the cluster could never hold, or that its partition does not take."""
    may = site.allowed(shape.partition)
    with_gpus = [node for node, allowed in zip(site.cluster.nodes, may, strict=True) if allowed and node.gpus]
    total = sum(node.gpus for node in with_gpus)
    if shape.gpus > total:
        of = f"partition {shape.partition}" if shape.partition in site.partitions else "the cluster"
        what = f"allowed: up to the {counted(total, 'GPU')} of {of}"
        raise InputError(Problem("--gpus", what, found=shape.gpus))
    if problems := [*_impossible_amounts(shape, with_gpus)]:
        raise InputError(*problems)
    if problems := list(_over_limits(site, shape, max((node.gpus for node in with_gpus), default=1))):
        raise InputError(*problems)
    most = min(shape.gpus, len(with_gpus))
    if shape.nodes is not None and shape.nodes > most:
        what = f"allowed: up to {most}, as a node of the job has a GPU at least"
        raise InputError(Problem("--nodes", what, found=shape.nodes))
    if shape.partition and site.partitions and shape.partition not in site.partitions:
        what = f"allowed: {', '.join(site.partitions)}"
        raise InputError(Problem("--partition", what, found=shape.partition))


def _impossible_amounts(shape: Shape, nodes: Sequence[Node]) -> Iterator[Problem]:
    """CPUs and memory that are no amounts, or that all nodes together do not have."""
    for flag, asked, unit, most in (
        ("--cpus", shape.cpus, "CPU cores", sum(node.cpus for node in nodes)),
        ("--memory", shape.memory_gb, "GB", sum(node.memory_gb for node in nodes)),
    ):
        if asked is not None and not 0 < asked <= most:
            what = f"allowed: above 0, up to the {most:,.6g} {unit} of the nodes with GPUs that it may use"
            yield Problem(flag, what, found=f"{asked:g} {unit}")


def _over_limits(site: Site, shape: Shape, gpus_a_node: int) -> Iterator[Problem]:
    """What the partition does not take: Slurm refuses such a job, or it waits for good without EnforcePartLimits."""
    limits = site.limits.get(shape.partition)
    if limits is None:
        return
    of = f"of partition {limits.name}"
    if limits.state != "UP":
        yield Problem("--partition", f"no job starts in it: its State is {limits.state}", found=limits.name)
    if limits.max_seconds is not None and shape.time_limit_seconds > limits.max_seconds:
        what = f"allowed: up to {duration(limits.max_seconds)}, the MaxTime {of}"
        yield Problem("--time-limit", what, found=duration(shape.time_limit_seconds))
    nodes = shape.nodes or -(-shape.gpus // gpus_a_node)
    if limits.max_nodes is not None and nodes > limits.max_nodes:
        what = f"it takes {counted(nodes, 'node')}; allowed: up to {limits.max_nodes}, the MaxNodes {of}"
        flag, found = ("--nodes", shape.nodes) if shape.nodes else ("--gpus", shape.gpus)
        yield Problem(flag, what, found=found)
    if shape.nodes is not None and shape.nodes < limits.min_nodes:
        what = f"allowed: from {limits.min_nodes}, the MinNodes {of}"
        yield Problem("--nodes", what, found=shape.nodes)


def _usage(site: Site, state: QueueState) -> tuple[Mapping[str, str], float | None]:
    """What users had used at the last tick, where the site's priorities go by it, and when that was."""
    policy = build(site.scheduler, dict(site.settings))
    order: Any = getattr(policy, "order", None)
    if not isinstance(order, Multifactor) or not order.weight_fair_share or order.usage:
        return {}, None
    ticks = order.calc_period_seconds, order.calc_phase_seconds
    used = usage_at(state, order.half_life_seconds, *ticks)
    tick = last_tick(state.now, *ticks)
    return {"usage": ",".join(f"{user}:{amount:.6g}" for user, amount in used.items() if user)}, tick


def _row(shape: Shape, state: QueueState) -> pl.DataFrame:
    values = {
        **vars(shape),
        "job_id": ASKED,
        "submit_seconds": state.now,
        "qos": "",
        "priority": 0.0,
        "constraint": "",
    }
    known = {name: kind for name, kind in state.waiting.schema.items() if name in values}
    return pl.DataFrame({name: [values[name]] for name in known}, schema=known)
