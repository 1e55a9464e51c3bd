"""What a run takes for granted about its jobs and models, a sentence each, for the reader of its figures."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from muster.cluster import Cluster
from muster.cluster.ledger import Ledger
from muster.cluster.ledger_arrays import CPU, MEMORY, MICRO, Bools, Floats, Ints
from muster.cluster.resources import BUILT_IN_COUNT, FURTHER, RESOURCES
from muster.formatting import counted
from muster.problems import did_you_mean
from muster.schedulers.honours import (
    BATCH,
    DEADLINE,
    FEWER_GPUS,
    FURTHER_RESOURCES,
    NODES,
    PRIORITY,
    REQUESTS,
    SIZES,
)
from muster.speed.input_pipeline import untold_gpu_types
from muster.speed.network_of_jobs import AUTO, NONE
from muster.workload.jobs import JobTable
from muster.workload.models import shipped_models
from muster.workload.sized import RIGID


def unknown_resources(table: JobTable) -> list[str]:
    """The resources beside GPUs that nothing is known of: no job has a model, or a request for it."""
    asked = table.asked
    rigid = asked["sync"] == RIGID
    if not rigid.all() or any(_input_known(table, number) for number in np.unique(asked["model"])):
        return []
    known = {
        "cpu": (asked["requested"][:, CPU] >= 0).any(),
        "memory": (asked["requested"][:, MEMORY] >= 0).any(),
    }
    return [resource for resource in ("cpu", "memory", "storage") if not known.get(resource, False)]


def assumptions(table: JobTable, cluster: Cluster, honours: frozenset[str]) -> list[str]:
    """Resources that cannot matter or are assumed; models that were changed, are unknown or lack a type of GPU;
    columns that have no effect.
    """
    used = np.unique(table.asked["model"][table.asked["sync"] == RIGID]).tolist()
    models = [table.models[number] for number in used]
    said = [note for model in models if model is not None for note in model.notes]
    said += _about_resources(unknown_resources(table), cluster)
    said += _without_profile(table, used)
    said += untold_gpu_types([model for model in models if model and model.input_known], cluster.gpu_types)
    said += _without_effect(table, honours)
    if SIZES in honours:
        said += _proportional_compute(table)
    if REQUESTS not in honours:
        said += _beyond_their_share(table, cluster)
    return list(dict.fromkeys(said))


def _input_known(table: JobTable, number: int) -> bool:
    """Whether a model's sensitivity to CPUs and memory is known."""
    model = table.models[number]
    return model is not None and model.input_known


def _without_profile(table: JobTable, used: Iterable[int]) -> list[str]:
    """That models have no file, or a file that says nothing of their sensitivity to CPUs and memory."""
    unknown = [number for number in used if table.model_names[number] and not _input_known(table, number)]
    said = []
    for has_file, what, shown in (
        (False, "model file for", _with_hint),
        (True, "CPU and memory profile of", str),
    ):
        own = [number for number in unknown if (table.models[number] is not None) == has_file]
        names = sorted(table.model_names[number] for number in own)
        if names:
            first = ", ".join(map(shown, names[:10])) + (
                f" and {len(names) - 10} more" if len(names) > 10 else ""
            )
            said.append(f"no {what} {first}: taken as insensitive to CPU, memory and storage")
    return said


def _with_hint(name: str) -> str:
    """An unknown model with the shipped ones that it may stand for."""
    known = [model.name for model in shipped_models().values() if model.input_known]
    hint = did_you_mean(name, known)
    return f"{name} ({hint})" if hint else name


def _about_resources(unknown: list[str], cluster: Cluster) -> list[str]:
    """That CPUs or memory cannot matter; else what is assumed where the cluster does not state them."""
    names = [name for resource, name in (("cpu", "CPUs"), ("memory", "memory")) if resource in unknown]
    if names:
        they = "they" if len(names) > 1 or names == ["CPUs"] else "it"
        return [
            f"no job names a known model or requests {' or '.join(names)}: {they} cannot change this result, "
            "and no use is reported"
        ]
    if cluster.assumed:
        what = f"does not state all resources of its nodes: assumed {cluster.assumed}"
        return [f"cluster {cluster.name} {what}"]
    return []


def network_not_known(table: JobTable, cluster: Cluster, flavour: str) -> list[str]:
    """That no model is known for the network that the gangs of a run use; stated once."""
    if flavour == NONE or (flavour == AUTO and len(cluster.racks) < 2):
        return []
    gangs = table.asked[(table.asked["sync"] == RIGID) & (table.asked["gpus"] > 1)]
    names = [table.model_names[number] for number in np.unique(gangs["model"])]
    unknown = ", ".join(name for name in names if name)
    return [f"no network model for {unknown}: taken as insensitive to the network"] if unknown else []


def _elastic(table: JobTable) -> Bools:
    """Gangs that may hold other GPUs than they ask for."""
    asked = table.asked
    other_sizes = (asked["min_gpus"] != asked["gpus"]) | (asked["max_gpus"] != asked["gpus"])
    elastic: Bools = (asked["sync"] == RIGID) & other_sizes
    return elastic


def _proportional_compute(table: JobTable) -> list[str]:
    """That elastic jobs have models of which only one batch is known."""
    used = np.unique(table.asked["model"][_elastic(table)]).tolist()
    names = [table.model_names[at] for at in used if (known := table.models[at]) and known.compute is None]
    shown = ", ".join(sorted(names))
    what = "on other numbers of GPUs, their compute is taken as proportional to the samples of each GPU"
    return [f"the model files of {shown} have no [compute] table: {what}"] if names else []


def _without_effect(table: JobTable, honours: frozenset[str]) -> list[str]:
    """Columns that jobs state and that the scheduler ignores, each with the number of jobs."""
    asked = table.asked
    stated = (
        (PRIORITY, "priority", asked["priority"] != 0),
        (DEADLINE, "deadline_seconds", np.isfinite(asked["deadline"])),
        _of_sizes(table, honours),
        (BATCH, "max_batch", asked["most_doublings"] > 0),
        (NODES, "nodes", (asked["nodes"] > 0) & (asked["gpus"] > 1)),
        *(
            (FURTHER_RESOURCES, resource.name, asked["requested"][:, RESOURCES.index(resource)] > 0)
            for resource in FURTHER
        ),
    )
    return [
        f"this scheduler ignores {columns}, which {counted(int(jobs.sum()), 'job')} of {len(table):,} state"
        for kind, columns, jobs in stated
        if kind not in honours and jobs.any()
    ]


def _of_sizes(table: JobTable, honours: frozenset[str]) -> tuple[str, str, Bools]:
    """What a scheduler must honour about sizes, the columns without effect otherwise, and the jobs that state them."""
    asked = table.asked
    if SIZES in honours:
        return FEWER_GPUS, "min_gpus", _elastic(table) & (asked["min_gpus"] < asked["gpus"])
    return SIZES, "min_gpus and max_gpus", _elastic(table)


def _beyond_their_share(table: JobTable, cluster: Cluster) -> list[str]:
    """Jobs that ask for more of a resource than goes with their GPUs on any machine that they may use."""
    nodes = Ledger(cluster, 0).books.nodes
    usable: Bools = table.node_allowed & (nodes["gpus"] > 0)
    asked = table.asked
    gpus: Floats = asked["gpus"] * asked["milli"] / 1000
    found = []
    for resource in range(1, BUILT_IN_COUNT):
        requested, unit = asked["requested"][:, resource], RESOURCES[resource].unit
        share: Ints = np.where(usable, nodes["share"][:, resource], 0).max(axis=1)[asked["constraint"]]
        beyond = np.flatnonzero((asked["sync"] == RIGID) & (requested > gpus * share + 1))
        if len(beyond):
            one = int(beyond[0])
            found.append(
                f"{len(beyond):,} of {counted(len(table), 'job')} ask for more {unit} than the proportional share of "
                f"their GPUs (job {table.ids[one]}: {requested[one] / MICRO:g} {unit}, its share is "
                f"{gpus[one] * share[one] / MICRO:g}); this scheduler ignores such requests"
            )
    return found
