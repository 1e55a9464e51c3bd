"""Why a running job has what it has: what it would gain from more, and which jobs have it, in a sentence each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Generic, TypeVar

from muster.cluster import Cluster
from muster.cluster.ledger import NodeAllocation
from muster.formatting import gpus as describe_gpus
from muster.speed.gains import MEMORY_STEP_GB, Gains, gains_of
from muster.speed.network.speed import NetworkSpeed
from muster.workload.models import Model

_NOTICEABLE = 0.01
"""A job counts as no faster below this relative gain."""
_RESOURCES = {"cpus": "CPU cores", "memory_gb": "GB of memory"}

JobName = TypeVar("JobName", int, str)


@dataclass(frozen=True)
class HoldingJob(Generic[JobName]):
    """What is known of a job that runs."""

    name: JobName
    requested_gpus: float
    gpu_bounds: tuple[float, float]
    """Fewest and most GPUs that it may have."""
    model: Model | None
    unknown: str = ""
    """Why nothing is known of its model."""
    network: NetworkSpeed | None = None
    """How fast its model, which is model 0, communicates; None: the network does not count."""
    measured_gain: float | None = None
    """How many times as fast it is with one more GPU, from measured steps; None: its model says it."""
    one_size_because: str = "its owner asks for exactly that"
    """Why its bounds are equal, if they are."""


@dataclass(frozen=True)
class AllHeld(Generic[JobName]):
    """What all jobs hold at one moment."""

    cluster: Cluster
    held: Sequence[tuple[JobName, NodeAllocation[str]]]
    listed: Callable[[Collection[JobName]], str]
    """Names jobs, as far as the asker may see them."""
    others: Mapping[str, NodeAllocation[str]] = field(default_factory=dict)
    """What jobs that are not Muster's hold, by node."""

    def of(self, job: JobName) -> list[NodeAllocation[str]]:
        """Return what a job holds on its nodes with GPUs."""
        return [
            here
            for name, here in self.held
            if name == job and here.gpu_ids and here.node in self.cluster.node_index
        ]


def what_it_would_gain(job: HoldingJob[JobName], holdings: AllHeld[JobName]) -> list[str]:
    """Return sentences about the size, the share and the place of a running job; none if it holds no GPU."""
    own = holdings.of(job.name)
    if not own:
        return []
    gpus = sum(here.gpus for here in own)
    if job.model is None:
        unknown = f"What more CPU, memory or a better place would bring is not known: {job.unknown}."
        return [_size(job, gpus, job.measured_gain, holdings), unknown]
    gains = gains_of(job.model, holdings.cluster, own, job.requested_gpus, job.network)
    if not isfinite(gains.more_memory):
        still = "with what it holds, its model by itself says that it stands still"
        unknown = f"What more CPU, memory or a better place would bring is not known: {still}."
        return [_size(job, gpus, job.measured_gain, holdings), unknown]
    one_more = gains.one_more_gpu if job.measured_gain is None else job.measured_gain
    sentences: list[str] = [_size(job, gpus, one_more, holdings)]
    nodes = {here.node for here in own}
    each = "" if len(nodes) == 1 else " on each of its nodes"
    more = (
        ("one more CPU core", gains.one_more_cpu, "cpus"),
        (f"{MEMORY_STEP_GB:g} GB more memory", gains.more_memory, "memory_gb"),
    )
    for what, factor, resource in more:
        if factor - 1 < _NOTICEABLE:
            sentences.append(f"With {what}{each} it would be no faster.")
        else:
            who = _who_has(resource, job.name, nodes, holdings)
            sentences.append(f"With {what}{each} it would be {_percent(factor)} faster; {who}.")
    return [*sentences, _place(gains, len(nodes))]


def _size(job: HoldingJob[JobName], gpus: float, one_more: float | None, holdings: AllHeld[JobName]) -> str:
    """Return why it has this number of GPUs, what one more would bring, and who has the others."""
    fewest, most = job.gpu_bounds
    if fewest == most:
        return f"It has {describe_gpus(gpus)} because {job.one_size_because}."
    words = f"Its owner allows {fewest:g} to {most:g} GPUs, and the scheduler gives it {gpus:g}"
    if gpus >= most or one_more is None:
        return f"{words}."
    if one_more - 1 < _NOTICEABLE:
        return f"{words}; with one more like these it would be no faster."
    others = _who_has_gpus(job.name, holdings)
    return f"{words}; with one more like these it would be {_percent(one_more)} faster; {others}."


def _who_has_gpus(job: JobName, holdings: AllHeld[JobName]) -> str:
    """Return how many GPUs of its types no job holds, else which jobs hold them."""
    cluster = holdings.cluster
    types = {cluster.nodes[cluster.node_index[here.node]].gpu_type for here in holdings.of(job)}
    nodes = {node.name: node.gpus for node in cluster.nodes if node.gpu_type in types}
    everywhere = [*(here for _, here in holdings.held), *holdings.others.values()]
    left = int(sum(nodes.values()) - sum(here.gpus for here in everywhere if here.node in nodes))
    if left > 0:
        return f"no job holds {left:,} others" if left > 1 else "no job holds 1 other"
    holders = sorted(
        {name for name, here in holdings.held if here.gpus and here.node in nodes and name != job}
    )
    if not holders:
        return "there are no others"
    return f"{holdings.listed(holders)} {'holds' if len(holders) == 1 else 'hold'} the others"


def _who_has(resource: str, job: JobName, nodes: Collection[str], holdings: AllHeld[JobName]) -> str:
    """Return how much of a resource is free on the fullest of its nodes, and which jobs hold the rest."""
    cluster = holdings.cluster
    used = dict.fromkeys(nodes, 0.0)
    for here in [*(here for _, here in holdings.held), *holdings.others.values()]:
        if here.node in used:
            used[here.node] += getattr(here, resource)
    free = {
        name: getattr(cluster.nodes[cluster.node_index[name]], resource) - amount
        for name, amount in used.items()
    }
    fullest = min(sorted(free), key=free.__getitem__)
    holders = {name for name, here in holdings.held if here.node == fullest and name != job}
    left = f"{fullest} has {max(round(free[fullest], 6), 0.0):.4g} {_RESOURCES[resource]} free"
    hold = "holds" if len(holders) == 1 else "hold"
    return f"{left}, {holdings.listed(sorted(holders))} {hold} the others" if holders else left


def _place(gains: Gains, nodes: int) -> str:
    if gains.best_place - 1 < _NOTICEABLE:
        return "No other place would make it faster." if nodes > 1 else "Its place is as good as any."
    faster = _percent(gains.best_place)
    return f"On a better place ({gains.best_place_kind}) it would be {faster} faster, if no others used its links."


def _percent(factor: float) -> str:
    return f"{100 * (factor - 1):.0f} %"
