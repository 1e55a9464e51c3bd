"""Worlds drawn at random, each with one queue: where joint loses on inputs that nothing was chosen on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from experiments.joint.clusters import Network, Nodes, cluster_of
from experiments.joint.ground import Figures, figures, geometric_mean
from muster.cluster import Cluster
from muster.cluster.ledger_arrays import Floats
from muster.schedulers.registry import build
from muster.simulation import Options, simulate
from muster.workload.models import shipped_models, synergy_models
from muster.workload.trace import Trace, trace_of

PARTS = ("tune-plus", "tune", "greedy", "requested+spread", "proportional+consolidate")
ON_NETWORK, OWN_ORDER = "least-loss", "dally-plus"
"""Further rivals where places differ."""
NEARLY = 1.01
"""A mean completion time that is at most so many times that of the best rival."""
JOBS = 250
WORLDS = range(150)
"""Numbers of the worlds on which nothing of joint was chosen."""
TUNING = range(1_000, 1_200)
"""Those on which it was decided; they are drawn in the same way."""
BETWEEN_QUEUES = 100_000
"""How far the seed of a world's next queue is from that of the one before."""
_NETWORK_MODELS = ("vgg11", "bert-large", "resnet50", "mobilenetv3-small")
_SIZES: Sequence[Mapping[int, float]] = (
    {1: 1.0},
    {1: 0.5, 2: 0.2, 4: 0.2, 8: 0.1},
    {1: 0.4, 2: 0.2, 4: 0.2, 8: 0.15, 16: 0.05},
    {4: 0.5, 8: 0.3, 16: 0.2},
    {1: 0.4, 3: 0.2, 5: 0.2, 6: 0.2},
)
"""How often jobs ask for so many GPUs."""
_SHORTEST, _LONGEST = 60.0, 40.0
"""Seconds of a job at least, and how many times the mean at most."""


@dataclass(frozen=True)
class World:
    """A cluster and a queue."""

    name: str
    trace: Trace
    cluster: Cluster
    network: bool
    """Whether a gang's place counts."""
    further: tuple[str, ...] = ()
    """Further allocations that joint is compared with."""

    def rivals(self, order: str) -> list[str]:
        """The schedulers that joint with an order is compared with."""
        rivals = [f"{order}+{part}" for part in (*PARTS, *self.further)]
        return [*rivals, f"{order}+{ON_NETWORK}", OWN_ORDER] if self.network else rivals

    def figures(self, scheduler: str) -> Figures:
        """Of a run with the default options."""
        options = Options() if self.network else Options(network="none")
        jobs = simulate(self.trace, self.cluster, build(scheduler), options).record.jobs
        submit, finish = (jobs[f"{what}_seconds"].to_numpy() for what in ("submit", "finish"))
        return figures(scheduler, submit, finish)


def world(kind: int, queue: int = 0) -> World:
    """The same for a number for ever; another queue is of the same kind."""
    chance = Random(kind)
    nodes, gpus = chance.choice([4, 6, 8, 12]), chance.choice([2, 4, 8, 8])
    cpus, memory = chance.choice([1.5, 2, 3, 4, 6, 8]), chance.choice([20, 30, 45, 62.5])
    network, two_types = chance.random() < 0.5, chance.random() < 0.25
    gbit, oversubscription = chance.choice([10, 25, 100]), chance.choice([1, 2, 4])
    gpu_type = chance.choice(["V100", "A100"])
    other = Nodes(
        nodes - nodes // 2, gpus, gpus * chance.choice([2, 4, 8]), gpus * chance.choice([30, 62.5]), gpu_type
    )
    first = Nodes(nodes // 2 if two_types else nodes, gpus, int(gpus * cpus), gpus * memory)
    random = np.random.default_rng(kind + BETWEEN_QUEUES * queue)
    asked, lengths, columns = _jobs(chance, random, nodes * gpus)
    places = f"{gbit} Gbit/s, 1:{oversubscription}" if network else "alike"
    kinds = "two kinds of nodes, " if two_types else ""
    name = f"{nodes}x{gpus} GPUs, {cpus:g} CPUs and {memory:g} GB each, {kinds}places {places}; {asked}; {lengths}"
    trace = trace_of(columns, name)
    links = Network(gbit, gbit, oversubscription)
    cluster = cluster_of("random world", [first, other] if two_types else [first], links)
    return World(name, trace, cluster, network)


def _jobs(chance: Random, random: np.random.Generator, total_gpus: int) -> tuple[str, str, dict[str, Any]]:
    """What jobs are, how long they take, and their columns."""
    synergy = sorted(synergy_models())
    known = [*sorted(shipped_models()), *synergy, *synergy, *_NETWORK_MODELS]
    pool = [chance.choice(known) for _ in range(chance.choice([2, 4, 8]))]
    unknown, sizes = chance.choice([0.0, 0.0, 0.2, 0.5]), chance.choice(_SIZES)
    kind, mean = (
        chance.choice(["exponential", "lognormal", "pareto", "two"]),
        chance.choice([600.0, 3_600.0, 14_400.0]),
    )
    load = chance.choice([0.6, 0.9, 1.2, 2.0])
    gpus = np.minimum(random.choice(list(sizes), JOBS, p=list(sizes.values())), total_gpus // 2)
    seconds = np.clip(_seconds(kind, mean, random), _SHORTEST, _LONGEST * mean).round(1)
    span = float((gpus * seconds).sum()) / (total_gpus * load)
    submit = np.sort(random.random(JOBS) * span).round(1)
    models = np.array(pool)[random.integers(0, len(pool), JOBS)]
    models[random.random(JOBS) < unknown] = ""
    columns = {"submit_seconds": submit, "duration_seconds": seconds, "gpus": gpus, "model": models}
    asked = f"{', '.join(sorted(set(pool)))}, {unknown:.0%} unknown, {', '.join(map(str, sizes))} GPUs"
    lengths = f"{kind} lengths, {mean:g} s in the mean, load {load:g}"
    return asked, lengths, {"job_id": np.arange(JOBS), **columns}


def _seconds(kind: str, mean: float, random: np.random.Generator) -> Floats:
    """Lengths of jobs of a kind of distribution, with about this mean."""
    if kind == "exponential":
        return random.exponential(mean, JOBS)
    if kind == "lognormal":
        return mean / 3 * random.lognormal(0, 1.5, JOBS)
    if kind == "pareto":
        return mean / 2 * (random.pareto(1.3, JOBS) + 0.1)
    return np.where(random.random(JOBS) < 0.8, mean / 5, mean * 4)


def lines(
    orders: Sequence[str],
    count: int,
    only: str,
    worlds: range = WORLDS,
    make: Callable[[int, int], World] = world,
) -> Iterator[str]:
    """A line for each world: mean JCT, p99 and makespan of joint over the best rival in each; then over all.

    `make` is given the number of a world and of a queue. After all worlds each comes again, with another queue.
    """
    for order in orders:
        ratios: dict[str, list[float]] = {}
        best = []
        for number in range(count):
            given = make(worlds[number % len(worlds)], number // len(worlds))
            if only not in given.name:
                continue
            joint = given.figures(f"{order}+joint")
            rivals = {name: given.figures(name) for name in given.rivals(order)}
            for name, each in rivals.items():
                ratios.setdefault(name, []).append(joint.mean_jct / each.mean_jct)
            best.append(joint.mean_jct / min(each.mean_jct for each in rivals.values()))
            yield f"{order} {number:4} {_beside(joint, rivals)} {given.name}"
        if best:
            yield from _over_all(order, ratios, best)


def _beside(joint: Figures, rivals: Mapping[str, Figures]) -> str:
    """The three figures of joint over the least of the rivals, and who has it."""
    shown = []
    for what in ("mean_jct", "p99_jct", "makespan"):
        name = min(rivals, key=lambda each: float(getattr(rivals[each], what)))
        shown.append(f"{getattr(joint, what) / getattr(rivals[name], what):.3f} {name:32}")
    return " ".join(shown)


def _over_all(order: str, ratios: Mapping[str, Sequence[float]], best: Sequence[float]) -> Iterator[str]:
    """The geometric mean of the mean JCT over each rival, and over the best one of each world."""
    for name, each in [*ratios.items(), ("the best rival", best)]:
        mean = geometric_mean(each)
        within = sum(ratio <= NEARLY for ratio in each)
        yield (
            f"{order}+joint over {name:32} {len(each)} worlds: {mean:.3f} in the geometric mean, "
            f"at most {NEARLY} in {within}, worst {max(each):.3f}"
        )
