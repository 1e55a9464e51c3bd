"""One round of an allotment, outside any simulation: a view of waiting jobs, and what a plan makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from experiments.joint.seeing import Seeing
from muster.cluster import Cluster
from muster.cluster.ledger import Ledger
from muster.cluster.ledger_arrays import ENTRIES, Bools, Rows
from muster.schedulers.contract import Decision, Jobs, Proposal, Snapshot, Trigger
from muster.schedulers.parts import GangAllocator
from muster.schedulers.registry import build
from muster.speed.demands import ResourceProfiles
from muster.speed.input_pipeline import ModelTable, model_table
from muster.speed.points import held_speed, speed_at
from muster.workload.generators.synergy import models_in_turn
from muster.workload.jobs import WAITING, job_table
from muster.workload.models import Model, synergy_models
from tests.building import cluster_of, job, jobs_of, run
from tests.speed.random_models import datasets, monotone_models

TYPES = ("v100", "v100", "a100", "k80")


@dataclass(frozen=True)
class Round:
    """A view whose jobs all wait, and who of them may be served."""

    snapshot: Snapshot
    ranked: np.ndarray
    chosen: np.ndarray


def round_of(
    cluster: Cluster,
    jobs: Sequence[tuple[str, int]],
    models: Mapping[str, Model] | None = None,
    pins: Sequence[str] = (),
    asks: Sequence[Mapping[str, float]] = (),
) -> Round:
    """All jobs (model, GPUs) at once, in this order; chosen are those whose GPUs fit by the walk.

    `pins` are the constraints of the jobs, in the same order, "" or left out for none; `asks` the CPUs and memory that
    they request.
    """
    known = synergy_models() if models is None else models
    pinned, requested = [*pins, *[""] * len(jobs)], [*asks, *[{}] * len(jobs)]
    trace = jobs_of(
        *(
            job(0.0, 3600.0, gpus=gpus, model=model, constraint=pin, **ask)
            for (model, gpus), pin, ask in zip(jobs, pinned, requested, strict=False)
        )
    )
    table = job_table(trace, cluster, known, {})
    table.facts["state"] = WAITING
    ledger = Ledger(cluster, len(table))
    resource_profiles = ResourceProfiles(model_table(table.models, cluster.gpu_types), ledger.books.nodes)
    everybody = np.arange(len(table))
    snapshot = Snapshot(0.0, Trigger.ROUND, Jobs(table, everybody, 0.0), table, ledger, resource_profiles)
    chosen = np.zeros(len(table), np.bool_)
    budget = cluster.total_gpus
    for at, (_, gpus) in enumerate(jobs):
        if gpus <= budget:
            chosen[at] = True
            budget -= gpus
    return Round(snapshot, everybody, chosen)


@contextmanager
def tried(allocator: GangAllocator, given: Round) -> Iterator[Proposal]:
    """One round, in the ledger until the end of the block."""
    with given.snapshot.transaction() as transaction:
        plan = Proposal.blank(transaction, len(given.snapshot.jobs))
        allocator.allocate(given.snapshot, plan, given.ranked, given.chosen)
        yield plan


def allocate(allocator: GangAllocator, given: Round) -> Decision:
    """One round, carried out in the ledger."""
    with tried(allocator, given) as plan:
        decision = plan.decision()
    given.snapshot.ledger.carry_out(decision.changes)
    given.snapshot.ledger.books.totals[ENTRIES] = 0
    return decision


def speeds(given: Round) -> np.ndarray:
    """Speed of each job on what it holds, relative to the reference; 0 for those that hold nothing."""
    books, models = given.snapshot.ledger.books, given.snapshot.resource_profiles.models
    return np.array(
        [
            held_speed(books, books.heads[at], models, model)
            for at, model in enumerate(given.snapshot.jobs.model)
        ]
    )


def total_speed(given: Round) -> float:
    """GPUs times speed, summed: the goal of opt and tune-plus."""
    return float((speeds(given) * given.snapshot.jobs.gpus).sum())


def fair_speeds(given: Round) -> np.ndarray:
    """Speed that each job would have with the GPU-proportional share of its machines."""
    books, models = given.snapshot.ledger.books, given.snapshot.resource_profiles.models
    fair = np.zeros(len(given.snapshot.jobs))
    for at, model in enumerate(given.snapshot.jobs.model):
        nodes = [books.nodes[share.node] for share in given.snapshot.ledger.holding(at)]
        fair[at] = min((fair_speed_on(models, model, node) for node in nodes), default=0.0)
    return fair


def fair_speed_on(models: ModelTable, model: int, node: Rows) -> float:
    """Speed with the GPU-proportional share of a machine."""
    return float(speed_at(models, models[model]["on_type"][node["gpu_type"]], node["share"]))


def synergy_jobs(
    split: tuple[int, int, int], count: int, gpus: int = 1, skip: int = 0
) -> list[tuple[str, int]]:
    """The next jobs of Synergy's generator."""
    names = models_in_turn(split)
    for _ in range(skip):
        next(names)
    return [(next(names), gpus) for _ in range(count)]


def servers(count: int) -> Cluster:
    """Synergy's servers."""
    return cluster_of(*[8] * count)


def typed(cluster: Cluster, types: Sequence[str]) -> Cluster:
    """The same machines with GPUs of these types."""
    nodes = (replace(node, gpu_type=name) for node, name in zip(cluster.nodes, types, strict=True))
    return replace(cluster, nodes=tuple(nodes))


def on_types(model: Model, times_as_fast: Mapping[str, float | None]) -> Model:
    """A model that is so many times as fast on some types of GPU, whatever limits it; None: the model file has none."""
    tables = tuple(
        (name, tuple(tuple(times * speed for speed in row) for row in model.speed))
        for name, times in times_as_fast.items()
        if times is not None
    )
    return replace(model, on_gpu_type=tables)


@st.composite
def random_round(draw: st.DrawFn, most_nodes: int = 4, most_jobs: int = 14, most_gpus: int = 64) -> Round:
    """Machines of one to five shapes and three types of GPU, models with any matrix, gangs up to 64 GPUs."""
    nodes = draw(st.lists(st.sampled_from([1, 2, 4, 8, 8, 8, 16]), min_size=1, max_size=most_nodes))
    cluster = cluster_of(
        *nodes,
        cpus_per_gpu=draw(st.sampled_from([1.0, 2.5, 3.0, 6.0])),
        memory_gb_per_gpu=draw(st.sampled_from([15.0, 62.5, 100.0])),
    )
    cluster = typed(cluster, draw(st.lists(st.sampled_from(TYPES), min_size=len(nodes), max_size=len(nodes))))
    times_as_fast = st.sampled_from([None, 0.3, 1.0, 2.5])
    some = st.tuples(monotone_models(), st.none() | datasets(), times_as_fast, times_as_fast)
    models = {
        name: on_types(replace(model, name=name, dataset=dataset), {"a100": a100, "k80": k80})
        for name, (model, dataset, a100, k80) in zip(
            ("one", "two", "three"), draw(st.tuples(some, some, some)), strict=True
        )
    }
    sizes = st.sampled_from([gpus for gpus in (1, 1, 1, 2, 3, 4, 5, 8, 16, 33, 64) if gpus <= most_gpus])
    jobs = draw(
        st.lists(
            st.tuples(st.sampled_from(["one", "two", "three", "unknown"]), sizes),
            min_size=1,
            max_size=most_jobs,
        )
    )
    return round_of(cluster, jobs, models)


def asked_at_first(
    question: Callable[[Snapshot], Bools],
    rows: Sequence[Mapping[str, Any]],
    cluster: Cluster,
    models: Mapping[str, Model],
) -> list[bool]:
    """What a question answers of each job at the first decision of a run."""
    answers: list[list[bool]] = []

    def look(snapshot: Snapshot) -> Snapshot:
        answers.append(question(snapshot).tolist())
        return snapshot

    run(jobs_of(*rows), cluster, Seeing(build("fifo+tune-plus"), look), models=models)
    return answers[0]
