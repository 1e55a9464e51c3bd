"""A mean JCT that no scheduler can beat on these jobs and this cluster.

Each of these is a lower bound of the sum of completion times less submissions, so the largest counts:

- every job alone, at its fastest speed from its submission on;
- one machine with all GPUs, or all CPUs, that works on any job at full speed: shortest remaining time first is
  optimal there (Schrage 1968);
- the same machine by mean busy times. Nothing works on a job faster than alone, so it completes half of its time
  alone after the mean moment of its work, at the earliest; smallest job first makes the sum of these moments least
  (Goemans et al. 2002).

Jobs with different constraints may also be bounded apart, each on the nodes that it may use; the sums are added. The
need of a job is the least over all sizes, places and amounts (`_Needs`). Restarts, failures, the network and neighbours
only add to it. `docs/explanation/synergy.md` has the proof.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

import numpy as np

from muster.cluster import Cluster
from muster.cluster.ledger_arrays import WHOLE, Bools, Floats, Ints
from muster.runtime.allocation_lifecycle import HeldArray
from muster.simulation.engine import World
from muster.simulation.options import Options
from muster.simulation.rules import EXACT
from muster.speed.input_pipeline import ModelTable
from muster.speed.local_batch import input_seconds, local_batches
from muster.workload.jobs import COMPLETED, JobTable
from muster.workload.sized import RIGID


def jct_bound(
    world: World, options: Options, counted: Bools, held: HeldArray
) -> dict[str, float | str | None]:
    """Return the bound of a run as its record has it, and why there is none where there is none."""
    table = world.table
    reason = ""
    if options.rules.name != EXACT.name:
        reason = f"the rules {options.rules.name} count work in their own way"
    elif (table.asked["sync"][counted] != RIGID).any():
        reason = "jobs have workers and servers that the scheduler counts"
    elif (held["group"] >= 0).any():
        reason = "jobs share GPUs"
    elif not counted.any() or (table.facts["state"][counted] != COMPLETED).any():
        reason = "not all jobs completed"
    seconds = None if reason else mean_jct_bound(table, world.cluster, world.models, counted)
    return {"mean_seconds": seconds, "reason": reason}


def mean_jct_bound(table: JobTable, cluster: Cluster, models: ModelTable, counted: Bools) -> float:
    """Return seconds below which no scheduler brings the mean JCT of these jobs; some must be counted.

    The jobs have a fixed number of workers, or any between `min_gpus` and `max_gpus`, and no GPU is shared.
    """
    jobs = np.flatnonzero(counted)
    needs = _needs(table, cluster, models, jobs)
    together = _sum_bound(needs, np.array(table.node_allowed.any(axis=0)))
    apart = [
        _sum_bound(needs.at(needs.constraint == one), table.node_allowed[one])
        for one in np.unique(needs.constraint).tolist()
    ]
    return max(together, sum(apart)) / len(jobs)


@dataclass(frozen=True)
class _Needs:
    """What each job needs at least for all of its work, by submission."""

    cluster: Cluster
    submit: Floats
    constraint: Ints
    alone: Floats
    """Seconds at its fastest."""
    gpu_seconds: Floats
    """By type of GPU, at its most economical size; infinite where it may not run on the type."""
    cpu_seconds: Floats

    def at(self, chosen: Bools) -> _Needs:
        """Those of some of the jobs."""
        return _Needs(
            self.cluster,
            self.submit[chosen],
            self.constraint[chosen],
            self.alone[chosen],
            self.gpu_seconds[chosen],
            self.cpu_seconds[chosen],
        )


def _needs(table: JobTable, cluster: Cluster, models: ModelTable, jobs: Ints) -> _Needs:
    asked = table.asked
    columns = (
        asked["model"],
        asked["constraint"],
        asked["gpus"],
        asked["milli"],
        asked["min_gpus"],
        asked["max_gpus"],
    )
    kinds, kind = np.unique(np.stack(columns)[:, jobs], axis=1, return_inverse=True)
    an_iteration = [_of_kind(table, cluster, models, tuple(one)) for one in kinds.T.tolist()]
    alone, gpu_seconds, cpu_seconds = (
        np.array(need)[kind.reshape(-1)] for need in zip(*an_iteration, strict=True)
    )
    iterations = asked["iterations"][jobs]
    return _Needs(
        cluster,
        asked["submit"][jobs],
        asked["constraint"][jobs],
        alone * iterations,
        np.where(np.isfinite(gpu_seconds), gpu_seconds * iterations[:, None], inf),
        cpu_seconds * iterations,
    )


def _of_kind(
    table: JobTable, cluster: Cluster, models: ModelTable, kind: tuple[int, ...]
) -> tuple[float, Floats, float]:
    """Of an iteration: seconds at its fastest, GPU-seconds by type of GPU, and CPU-seconds."""
    model, constraint, gpus, milli, least, most = kind
    types = len(cluster.gpu_types)
    if not gpus:
        return float(models["compute_seconds"][model]), np.zeros(types), 0.0
    nodes = [
        node
        for node, may in zip(cluster.nodes, table.node_allowed[constraint], strict=True)
        if may and node.gpus
    ]
    there = sum(node.gpus for node in nodes)
    asked = gpus * milli / WHOLE
    sizes = np.array([asked]) if least == most else np.arange(max(least, 1), min(most, there) + 1.0)
    amounts = np.array([[node.cpus, node.memory_gb, node.storage_gb_per_s] for node in nodes])
    # One GPU has no more than a node; the slowest of a gang has no more than the mean.
    limits = np.minimum(
        amounts.max(axis=0) / np.minimum(sizes, 1.0)[:, None], amounts.sum(axis=0) / sizes[:, None]
    )
    samples, passes, last_pass = local_batches(models, np.full(len(sizes), model), asked / sizes)
    gpu_seconds = np.full(types, inf)
    fastest = cpu_seconds = inf
    for number in sorted({cluster.gpu_types.index(node.gpu_type) for node in nodes}):
        record = int(models["on_type"][model, number])
        waits = input_seconds(models, np.full(len(sizes), record), samples, *limits.T.copy())
        seconds = np.maximum(waits, models["compute_seconds"][record] * passes * last_pass)
        fastest = min(fastest, float(seconds.min()))
        gpu_seconds[number] = (seconds * sizes).min()
        cpu_seconds = min(cpu_seconds, asked * _cpu_seconds(models, record))
    return fastest, gpu_seconds, cpu_seconds


def _cpu_seconds(models: ModelTable, record: int) -> float:
    """The least CPU-seconds that prepare the batch of a GPU, with all the memory it can use.

    Speed is linear in CPUs between measured points, so the least is at a point; below the first it is the same.
    """
    model = models[record]
    cpus, memory = int(model["n_cpus"]), int(model["n_memory"])
    if not cpus:
        return 0.0
    return float((model["cpus"][:cpus, None] * model["input_seconds"][:cpus, :memory]).min())


def _sum_bound(needs: _Needs, allowed: Bools) -> float:
    """The largest lower bound of the sum of JCTs that these jobs have on these nodes."""
    sums = [float(needs.alone.sum())]
    for work in _works(needs, allowed):
        sums += [_shortest_remaining_first(needs.submit, work), _mean_busy(needs.submit, work, needs.alone)]
    return max(sums)


def _works(needs: _Needs, allowed: Bools) -> Iterator[Floats]:
    """Seconds that all GPUs, or all CPUs, work on each job.

    GPUs of several types count by any weights: all the same, and by how much faster the jobs are on them.
    """
    cluster = needs.cluster
    nodes = [node for node, may in zip(cluster.nodes, allowed, strict=True) if may and node.gpus]
    gpus = np.zeros(len(cluster.gpu_types))
    for node in nodes:
        gpus[cluster.gpu_types.index(node.gpu_type)] += node.gpus
    here = np.flatnonzero(gpus)
    seconds = needs.gpu_seconds[:, here]
    weights = [np.ones(len(here))] if len(here) else []
    anywhere = np.isfinite(seconds).all(axis=1) & (seconds > 0).all(axis=1)
    if len(here) > 1 and anywhere.any():
        weights.append(seconds[anywhere].min(axis=1).sum() / seconds[anywhere].sum(axis=0))
    for weight in weights:
        yield (seconds * weight).min(axis=1) / float(gpus[here] @ weight)
    cpus = sum(node.cpus for node in nodes)
    if cpus > 0 and needs.cpu_seconds.any():
        yield needs.cpu_seconds / cpus


def _shortest_remaining_first(submit: Floats, work: Floats) -> float:
    """The least sum of JCTs on one machine that may interrupt jobs; by submission."""
    times, works = submit.tolist(), work.tolist()
    left: list[float] = []
    total = now = 0.0
    arrived = 0
    while arrived < len(times) or left:
        if not left:
            now = max(now, times[arrived])
        while arrived < len(times) and times[arrived] <= now:
            heapq.heappush(left, works[arrived])
            arrived += 1
        until = times[arrived] if arrived < len(times) else inf
        if now + left[0] <= until:
            now += heapq.heappop(left)
            total += now
        else:
            heapq.heapreplace(left, left[0] - (until - now))
            now = until
    return total - float(submit.sum())


def _mean_busy(submit: Floats, work: Floats, alone: Floats) -> float:
    """The least sum, over jobs, of the mean moment of their work and half of their time alone, less submissions.

    A job that the machine does not bound counts its time alone.
    """
    bounded = work > 0
    times, works = submit[bounded].tolist(), work[bounded].tolist()
    total = float(alone[~bounded].sum() + alone[bounded].sum() / 2 - submit[bounded].sum())
    left: list[tuple[float, int, float]] = []
    now = 0.0
    arrived = 0
    while arrived < len(times) or left:
        if not left:
            now = max(now, times[arrived])
        while arrived < len(times) and times[arrived] <= now:
            heapq.heappush(left, (works[arrived], arrived, works[arrived]))
            arrived += 1
        until = times[arrived] if arrived < len(times) else inf
        size, job, remaining = left[0]
        end = min(now + remaining, until)
        total += (end - now) / size * (now + end) / 2
        if now + remaining <= until:
            heapq.heappop(left)
        else:
            heapq.heapreplace(left, (size, job, remaining - (end - now)))
        now = end
    return total
