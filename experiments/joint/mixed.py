"""Mixed ground: jobs that CPUs, memory or the network limit, elastic jobs and jobs with parameter servers, together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

import numpy as np
import polars as pl

from experiments.joint.clusters import Network, Nodes, cluster_of
from experiments.joint.ground import Case, Make
from muster.cluster import Cluster
from muster.schedulers.registry import build
from muster.simulation import Options, simulate
from muster.sweep.statistics import estimate
from muster.workload.generators import smd
from muster.workload.generators.draws import drawn, streams
from muster.workload.generators.philly_like import SIZES, durations_by_size, rhythmic_arrivals
from muster.workload.models import Model, shipped_models
from muster.workload.trace import Trace, trace_of

OWN_ORDER = ("dally", "dally-plus", "smd", "optimus")
PARTS = (
    "greedy",
    "tune",
    "tune-published",
    "tune-plus",
    "proportional",
    "requested+spread",
    "proportional+consolidate",
)
CLASSES = {
    "CPU": ("resnet18", "alexnet"),
    "memory": ("shufflenetv2", "mobilenetv2"),
    "network": ("vgg11", "bert-large"),
    "elastic": ("resnet50", "deepspeech"),
    "servers": (),
}
"""Models by what limits them; a job is of each class with the same chance, its model with the same chance."""
BAR = 0.85
JOBS, NODES, LOAD = 150, 8, 0.9
MOST_GPUS, SECONDS = 16, (300.0, 400_000.0)
FIRST_SEED = 201
_NOT_STATED = ("cpus", "memory_gb", "utility_priority", "utility_urgency_per_hour", "utility_target_seconds")
"""Of jobs with servers; their limits of CPUs and memory would be requests to schedulers that do not count servers."""


def cluster() -> Cluster:
    """Two racks of four servers with eight GPUs."""
    return cluster_of("mixed", [Nodes(NODES, 8, 24, 300)], Network(10, 25, oversubscription=4))


def trace(seed: int, elastic: bool = True) -> Trace:
    """Philly's sizes, durations and rhythm, of these classes; what a job with servers is comes from smd's generator.

    Without `elastic` the elastic jobs have the GPUs that they ask for.
    """
    arrivals, durations, sizes, kinds = streams(seed, 4)
    few = {count: often for count, often in SIZES.items() if count <= MOST_GPUS}
    gpus = drawn(sizes, list(few), list(few.values()), JOBS)
    seconds = np.clip(durations_by_size(durations, gpus), *SECONDS)
    per_hour = LOAD * NODES * 8 * 3600 / float((gpus * seconds).mean())
    names = list(CLASSES)
    kind = [names[at] for at in kinds.integers(len(names), size=JOBS).tolist()]
    pick = kinds.integers(2, size=JOBS).tolist()
    models = [CLASSES[name][at] if CLASSES[name] else "" for name, at in zip(kind, pick, strict=True)]
    known = shipped_models()
    iterations = [
        work / _seconds(known[model]) if model else None
        for work, model in zip(seconds.tolist(), models, strict=True)
    ]
    resizable = np.array([elastic and name == "elastic" for name in kind])
    table = pl.DataFrame(
        {
            "job_id": np.arange(JOBS),
            "submit_seconds": rhythmic_arrivals(arrivals, JOBS, per_hour),
            "gpus": gpus,
            "model": models,
            "iterations": iterations,
            "min_gpus": np.where(resizable, np.maximum(gpus // 2, 1), gpus),
            "max_gpus": np.where(resizable, gpus * 2, gpus),
        }
    )
    served = smd.generate(JOBS, seed=seed).jobs.drop("submit_seconds", "job_id", *_NOT_STATED)
    served = served.select([name for name in served.columns if served[name].null_count() < JOBS])
    has_servers = pl.Series([name == "servers" for name in kind])
    both = ("gpus", "model", "iterations", "min_gpus", "max_gpus")
    columns = [
        pl.when(has_servers).then(served[name]).otherwise(table[name]).alias(name) for name in both[:3]
    ]
    columns += [pl.when(has_servers).then(None).otherwise(table[name]).alias(name) for name in both[3:]]
    columns += [
        pl.when(has_servers).then(served[name]).otherwise(None).alias(name)
        for name in served.columns
        if name not in both
    ]
    made = table.select("job_id", "submit_seconds").with_columns(columns)
    return trace_of(made.to_dict(as_series=False), f"mixed ground, seed {seed}")


def _seconds(model: Model) -> float:
    """Of an iteration at the model's reference, or on a GPU where only its gradients are known."""
    return model.seconds_per_iteration if model.input_known else model.compute_seconds


def mean_jct(
    scheduler: str, seed: int, knowledge: str = "oracle", *, elastic: bool = True, make: Make = build
) -> float:
    """Seconds, with the default restart cost; infinite where some job never ends."""
    options = Options(knowledge=knowledge, seed=seed)
    run = simulate(trace(seed, elastic), cluster(), make(scheduler, {}), options)
    return inf if run.unfinished else float(np.mean(run.record.jobs["jct_seconds"].to_numpy()))


def cases(order: str, knowledge: str) -> Iterator[Case]:
    """The ground with the specialists of an order."""

    def figure(name: str, seed: int, make: Make) -> float:
        return mean_jct(name, seed, knowledge, make=make)

    rivals = [*(f"{order}+{part}" for part in PARTS), *OWN_ORDER]
    yield Case("mixed", f"{order}+joint", rivals, figure, FIRST_SEED)


def lines(orders: Sequence[str], seeds: int, only: str) -> Iterator[str]:
    """Mean JCT of each scheduler, then joint's over the best rival's, by order and knowledge of durations."""
    for order in orders:
        for knowledge in ("oracle", "noisy:0.3", "none"):
            if only not in knowledge or (knowledge == "none" and order.startswith("srtf")):
                continue
            names = [*(f"{order}+{part}" for part in PARTS), *OWN_ORDER, f"{order}+joint"]
            means = {
                name: np.array([mean_jct(name, FIRST_SEED + at, knowledge) for at in range(seeds)])
                for name in names
            }
            for name, mean in means.items():
                yield f"{knowledge:10} {name:35} {mean.mean() / 3600:8.2f} h"
            rival = min(names[:-1], key=lambda name: float(means[name].mean()))
            ours = means[names[-1]]
            width = estimate((ours / means[rival]).tolist()).half_width
            ratio = float(ours.mean() / means[rival].mean())
            shown = f"{ratio:.3f}" + ("" if width is None else f" ± {width:.3f}")
            if knowledge == "oracle":
                rigid = np.mean([mean_jct(names[-1], FIRST_SEED + at, elastic=False) for at in range(seeds)])
                yield f"{knowledge:10} {names[-1] + ', all jobs rigid':35} {rigid / 3600:8.2f} h"
            yield f"{knowledge:10} {names[-1]} / {rival}: {shown}{'' if ratio <= BAR else f'  above {BAR}'}"
