"""Elastic jobs beside the same jobs with fixed sizes: other sizes must gain more than they cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.joint.clusters import Network, Nodes, cluster_of
from experiments.joint.ground import geometric_mean
from muster.cluster import Cluster
from muster.cluster.ledger_arrays import Bools, Ints
from muster.schedulers.registry import build
from muster.simulation import Options, simulate
from muster.workload.trace import Trace, trace_of

JOBS = 120
NODES = 6
ON_NETWORK = ("vgg11", "bert-large", "resnet50", "mobilenetv3-small", "alexnet", "gnmt", "transformer-xl")
ON_SERVERS = (
    "resnet18",
    "alexnet",
    "gnmt",
    "transformer-xl",
    "m5",
    "deepspeech",
    "resnet50",
    "vgg11",
    "bert-large",
)
KINDS: Mapping[str, Sequence[Nodes]] = {
    "alike": [Nodes(4, 8, 32, 500)],
    "few CPUs": [Nodes(4, 8, 12, 500)],
    "little memory": [Nodes(4, 8, 32, 176)],
    "two kinds": [Nodes(2, 8, 32, 500), Nodes(2, 8, 12, 240)],
    "two sizes": [Nodes(2, 8, 32, 500), Nodes(4, 4, 16, 250)],
}
"""Clusters of 32 GPUs without a network."""
_FIRST_SEED = 100
_SHORTEST, _MEAN = 60.0, 8_000.0
_SIZES = (0.3, 0.3, 0.2, 0.2)


@dataclass(frozen=True)
class Queue:
    """Jobs with and without other sizes, and a cluster."""

    name: str
    elastic: Trace
    fixed: Trace
    cluster: Cluster


def on_network(number: int) -> Queue:
    """Two racks of three nodes and jobs that communicate; the same for a number for ever."""
    random = np.random.default_rng(_FIRST_SEED + number)
    gpus_of_node, gbit = int(random.choice([4, 8])), int(random.choice([10, 25, 100]))
    gpus = random.choice([1, 2, 4, 8], JOBS, p=_SIZES)
    part, load = (0.3, 1.0)[number % 2], (0.6, 1.2)[number // 2 % 2]
    elastic = random.random(JOBS) < part
    models = list(random.choice(ON_NETWORK, 3, replace=False))
    name = (
        f"{NODES}x{gpus_of_node} GPUs, {gbit} Gbit/s; {', '.join(models)}; {part:.0%} elastic, load {load:g}"
    )
    nodes = Nodes(NODES, gpus_of_node, 4 * gpus_of_node, 62 * gpus_of_node)
    cluster = cluster_of(name, [nodes], Network(gbit, gbit))
    model = random.choice(models, JOBS)
    return _queue(random, name, cluster, load, (gpus, model, elastic))


def on_servers(number: int) -> Queue:
    """A cluster of `KINDS` without a network and jobs of four models; the same for a number for ever."""
    random = np.random.default_rng(_FIRST_SEED + number)
    kind = list(KINDS)[number % len(KINDS)]
    part, load = (0.2, 0.6, 1.0)[number // len(KINDS) % 3], (0.6, 1.2)[number // len(KINDS) // 3 % 2]
    gpus = random.choice([1, 2, 4, 8], JOBS, p=_SIZES)
    models = list(random.choice(ON_SERVERS, 4, replace=False))
    name = f"{kind}; {', '.join(models)}; {part:.0%} elastic, load {load:g}"
    cluster = cluster_of(name, KINDS[kind])
    model, elastic = random.choice(models, JOBS), random.random(JOBS) < part
    return _queue(random, name, cluster, load, (gpus, model, elastic))


GROUNDS: Mapping[str, tuple[Callable[[int], Queue], int]] = {
    "elastic-network": (on_network, 14),
    "elastic-servers": (on_servers, 60),
}
"""By ground: the queue of a number, and how many there are by default."""


def lines(ground: str, orders: Sequence[str], queues: int, only: str) -> Iterator[str]:
    """A line for each queue and order: mean JCT with and without other sizes, and the ratio; then over all."""
    for order in orders:
        ratios = []
        for number in range(queues):
            queue = GROUNDS[ground][0](number)
            if only not in queue.name:
                continue
            own, other = (_mean_jct(order, trace, queue.cluster) for trace in (queue.elastic, queue.fixed))
            ratios.append(own / other)
            yield f"{order:8} {number:3} {own:10,.1f} {other:10,.1f} {ratios[-1]:.3f}  {queue.name}"
        if ratios:
            yield (
                f"{order}+joint, elastic over fixed sizes: {geometric_mean(ratios):.3f} in the geometric mean of "
                f"{len(ratios)} queues, {min(ratios):.3f} to {max(ratios):.3f}"
            )


def _queue(
    random: np.random.Generator, name: str, cluster: Cluster, load: float, jobs: tuple[Ints, object, Bools]
) -> Queue:
    """The queue of jobs with these GPUs and models, some of them elastic."""
    gpus, model, elastic = jobs
    seconds = (random.exponential(_MEAN, JOBS) + _SHORTEST).round(1)
    span = (gpus * seconds).sum() / (cluster.total_gpus * load)
    columns = {
        "job_id": np.arange(JOBS),
        "submit_seconds": np.sort(random.random(JOBS) * span).round(1),
        "duration_seconds": seconds,
        "gpus": gpus,
        "model": model,
    }
    sizes = {
        "min_gpus": np.where(elastic, np.maximum(1, gpus // 4), gpus),
        "max_gpus": np.where(elastic, gpus * 4, gpus),
    }
    return Queue(name, trace_of({**columns, **sizes}, name), trace_of(columns, name), cluster)


def _mean_jct(order: str, trace: Trace, cluster: Cluster) -> float:
    jobs = simulate(trace, cluster, build(f"{order}+joint"), Options()).record.jobs
    return float((jobs["finish_seconds"] - jobs["submit_seconds"]).to_numpy().mean())
