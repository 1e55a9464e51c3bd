"""Elastic jobs on a network, beside the same jobs with fixed sizes: other sizes must gain more than they cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from experiments.joint.ground import geometric_mean
from muster.cluster import Cluster
from muster.cluster.cluster_file import cluster_from_toml
from muster.schedulers.registry import build
from muster.simulation import Options, simulate
from muster.workload.trace import Trace, trace_of

QUEUES = 14
JOBS = 120
NODES = 6
MODELS = ("vgg11", "bert-large", "resnet50", "mobilenetv3-small", "alexnet", "gnmt", "transformer-xl")
_FIRST_SEED = 100
_SHORTEST, _MEAN = 60.0, 8_000.0
_CLUSTER = """
machines_per_rack = 3
[types.node]
gpus = {gpus}
gpu_type = "V100"
cpus = {cpus}
memory_gb = {memory_gb}
nic_gb_per_s = {nic}
storage_gb_per_s = "500MB/s"
[[nodes]]
type = "node"
count = {nodes}
[links.rack]
gb_per_s = "{gbit}Gbit/s"
latency_seconds = "5us"
[links.cluster]
gb_per_s = "{gbit}Gbit/s"
latency_seconds = "50us"
"""


def queue(number: int) -> tuple[str, Trace, Trace, Cluster]:
    """A name, the jobs with and without other sizes, and two racks of three nodes; the same for a number for ever."""
    random = np.random.default_rng(_FIRST_SEED + number)
    gpus_of_node, gbit = int(random.choice([4, 8])), int(random.choice([10, 25, 100]))
    gpus = random.choice([1, 2, 4, 8], JOBS, p=[0.3, 0.3, 0.2, 0.2])
    part, load = (0.3, 1.0)[number % 2], (0.6, 1.2)[number // 2 % 2]
    elastic = random.random(JOBS) < part
    models = list(random.choice(MODELS, 3, replace=False))
    model = random.choice(models, JOBS)
    seconds = (random.exponential(_MEAN, JOBS) + _SHORTEST).round(1)
    span = (gpus * seconds).sum() / (NODES * gpus_of_node * load)
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
    text = _CLUSTER.format(
        gpus=gpus_of_node,
        cpus=4 * gpus_of_node,
        memory_gb=62 * gpus_of_node,
        nic=gbit / 8,
        nodes=NODES,
        gbit=gbit,
    )
    name = (
        f"{NODES}x{gpus_of_node} GPUs, {gbit} Gbit/s; {', '.join(models)}; {part:.0%} elastic, load {load:g}"
    )
    cluster = cluster_from_toml(text, where="elastic jobs on a network", name=name)
    return name, trace_of({**columns, **sizes}, name), trace_of(columns, name), cluster


def lines(orders: Sequence[str], queues: int, only: str) -> Iterator[str]:
    """A line for each queue and order: mean JCT with and without other sizes, and the ratio; then over all."""
    for order in orders:
        ratios = []
        for number in range(queues):
            name, elastic, fixed, cluster = queue(number)
            if only not in name:
                continue
            own, other = (_mean_jct(order, trace, cluster) for trace in (elastic, fixed))
            ratios.append(own / other)
            yield f"{order:8} {number:3} {own:10,.1f} {other:10,.1f} {ratios[-1]:.3f}  {name}"
        if ratios:
            yield (
                f"{order}+joint, elastic over fixed sizes: {geometric_mean(ratios):.3f} in the geometric mean of "
                f"{len(ratios)} queues, {min(ratios):.3f} to {max(ratios):.3f}"
            )


def _mean_jct(order: str, trace: Trace, cluster: Cluster) -> float:
    jobs = simulate(trace, cluster, build(f"{order}+joint"), Options()).record.jobs
    return float((jobs["finish_seconds"] - jobs["submit_seconds"]).to_numpy().mean())
