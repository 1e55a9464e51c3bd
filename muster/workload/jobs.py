"""Jobs as columns: what was asked of each (`ASKED`) and what has happened to it so far (`FACTS`).

A job is a number: its place in arrival order. The first table never changes; the second is written by
the world alone. Times are seconds on the trace's clock; CPU cores and GB are in millionths, as in the ledger.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
import polars as pl

from muster.cluster import Cluster
from muster.cluster.description import PARTITION
from muster.cluster.ledger_arrays import CPU, GPU, MICRO, NONE, WHOLE, Bools, Floats, Ints
from muster.cluster.resources import RESOURCE_COUNT, RESOURCES
from muster.cluster.structured import Structured, layout_of, zero_records
from muster.formatting import counted
from muster.problems import InputError, Problem
from muster.workload.models import Model
from muster.workload.sized import MOST_TERMS, RIGID, SYNCS, SizedArray, sized_columns
from muster.workload.trace import Trace

ASKED = layout_of(
    ("submit", np.float64),
    ("gpus", np.int64),
    ("milli", np.int64),  # thousandths of the one GPU that a job of a share asks for; else 1000
    ("min_gpus", np.int64),
    ("max_gpus", np.int64),
    ("requested", np.int64, (RESOURCE_COUNT,)),  # beside GPUs, as the owner states it; -1: not stated
    ("model", np.int64),
    ("tenant", np.int64),
    ("user", np.int64),
    ("constraint", np.int64),
    ("nodes", np.int64),  # that the owner requests; 0: not stated
    ("partition", np.int64),
    ("qos", np.int64),
    ("priority", np.float64),
    ("preemptible", np.int64),
    ("min_runtime", np.float64),
    ("deadline", np.float64),
    ("time_limit", np.float64),  # seconds with an allocation after which the job is ended; inf: none
    ("iterations", np.float64),  # the truth; schedulers see `believed`
    ("believed", np.float64),  # iterations, as far as schedulers know; NaN: unknown
    ("ideal", np.float64),  # seconds for all the work at the reference
    ("sync", np.int64),  # RIGID, or PS or RING: how many workers and servers is the scheduler's to say
    ("worker_gpus", np.int64),  # of one worker, in millionths
    ("server_cpu", np.int64),  # of one parameter server, in millionths
    ("terms", np.float64, (MOST_TERMS, 3)),  # of a step (`speed.parameter_server`), for PS and RING
    ("most_doublings", np.int64),  # of the total batch, that the owner allows; 0: it is fixed
    ("exact_nodes", np.int64),  # on which it has to be, as its script needs as many processes; 0: any number
)
AskedArray: TypeAlias = Structured[
    Literal[
        "submit",
        "gpus",
        "milli",
        "min_gpus",
        "max_gpus",
        "requested",
        "model",
        "tenant",
        "user",
        "constraint",
        "nodes",
        "partition",
        "qos",
        "priority",
        "preemptible",
        "min_runtime",
        "deadline",
        "time_limit",
        "iterations",
        "believed",
        "ideal",
        "sync",
        "worker_gpus",
        "server_cpu",
        "terms",
        "most_doublings",
        "exact_nodes",
    ]
]

GPU_TYPE = "gpu_type="
"""What a constraint on the type of GPU begins with."""
_SEPARATOR = "\n"
"""Between a constraint and a partition."""

MOST_DOUBLINGS = 30
"""Of a total batch: from one sample, as many as no batch has."""
FUTURE, WAITING, RUNNING, COMPLETED, REFUSED, TIMED_OUT, CANCELLED = range(7)
STATES = ("future", "waiting", "running", "completed", "refused", "timed_out", "cancelled")

FACTS = layout_of(
    ("state", np.int64),
    ("held", np.float64),  # GPUs held now
    ("done", np.float64),  # iterations, as of `settled`
    ("rate", np.float64),  # iterations a second, while productive
    ("exposed", np.float64),  # exposed communication, seconds per second of compute, where it runs now
    ("doublings", np.int64),  # the total batch is the initial one times two to the power of it
    ("extra_progress", np.float64),  # of an iteration with that batch, beside one of the initial batch
    ("noise", np.float64),  # gradient noise scale, in initial batches, as the job measures it now
    ("settled", np.float64),
    ("resumes", np.float64),  # restarting until then, productive after
    ("finish", np.float64),  # when the work will be done at this rate; when it was done
    ("attained", np.float64),  # GPU-seconds, as of `settled`
    ("run", np.float64),  # seconds with an allocation, as of `settled`
    ("restart", np.float64),  # of them, seconds spent restarting
    ("restart_cost", np.float64),  # expected seconds of stop and start-up when it is interrupted
    (
        "unsaved_since",
        np.float64,
    ),  # a stop now loses the work since then; NaN: it saves when it is stopped
    ("input", np.float64),  # seconds stalled on input
    ("compute", np.float64),
    ("communication", np.float64),
    ("input_share", np.float64),  # of each productive second, at the present rate
    ("communication_share", np.float64),
    ("first_start", np.float64),  # NaN: never started
    ("last_start", np.float64),  # NaN: never started
    ("last_stop", np.float64),  # when it last lost its GPUs; its submission if it never ran
    ("lease_end", np.float64),
    (
        "sensitivity",
        np.float64,
    ),  # Nw_sens, where the rules state it; NaN: follows from `done` and `run`
    ("saved", np.float64),  # iterations in the last checkpoint
    ("preemptions", np.int64),
    ("moves", np.int64),
    ("reason", np.int64),
    ("reason_a", np.float64),
    ("reason_b", np.float64),
    ("reason_since", np.float64),
)
FactArray: TypeAlias = Structured[
    Literal[
        "state",
        "held",
        "done",
        "rate",
        "exposed",
        "doublings",
        "extra_progress",
        "noise",
        "settled",
        "resumes",
        "finish",
        "attained",
        "run",
        "restart",
        "restart_cost",
        "unsaved_since",
        "input",
        "compute",
        "communication",
        "input_share",
        "communication_share",
        "first_start",
        "last_start",
        "last_stop",
        "lease_end",
        "sensitivity",
        "saved",
        "preemptions",
        "moves",
        "reason",
        "reason_a",
        "reason_b",
        "reason_since",
    ]
]


@dataclass(frozen=True)
class JobTable:
    """All jobs of a workload, by arrival."""

    asked: AskedArray
    facts: FactArray
    sized: SizedArray
    """What jobs that a scheduler sizes need and are worth (`sized.SIZED`)."""
    ids: pl.Series
    model_names: tuple[str, ...]
    """By `asked.model`."""
    models: tuple[Model | None, ...]
    """Likewise; None where the model is unknown and the job insensitive."""
    tenants: tuple[str, ...]
    users: tuple[str, ...]
    node_allowed: Bools
    """By `asked.constraint` and node; row 0 is no constraint."""
    partitions: tuple[str, ...] = ("",)
    qos: tuple[str, ...] = ("",)
    ring_seconds: Floats = dataclasses.field(default_factory=lambda: np.zeros((2, 1, 0)))
    """What a ring of 1, 2, ... workers adds to a step on its best place (`speed.parameter_server.ring`), by
    `sized.ring`: what compute does not hide, and all of it."""
    unmet: Mapping[int, Problem] = dataclasses.field(default_factory=dict)
    """By `asked.constraint`, why no node meets it. Its jobs can never run; its row of `node_allowed` means nothing."""

    def __len__(self) -> int:
        """Number of jobs."""
        return len(self.asked)

    @cached_property
    def id_ranks(self) -> Ints:
        """The place of each job's id among all ids: by number where all ids are whole numbers, else by arrival."""
        numbers = self.ids.head(len(self)).cast(pl.Int64, strict=False)
        ranks = np.arange(len(self))
        if not numbers.null_count():
            ranks[np.argsort(numbers.to_numpy(), kind="stable")] = np.arange(len(self))
        return ranks

    @cached_property
    def some_pinned(self) -> bool:
        """Whether there are jobs that may not be stopped at any time."""
        limited = self.asked["min_runtime"].any() or not self.asked["preemptible"].all()
        return bool(limited or self.facts["restart_cost"].any())

    @cached_property
    def some_request(self) -> bool:
        """Whether there are jobs that request a resource beside GPUs, or have no GPU."""
        asked = self.asked
        return bool((asked["requested"] > 0).any() or (asked["gpus"] == 0).any())


def job_table(
    trace: Trace,
    cluster: Cluster,
    profiled: Mapping[str, Model],
    reference_seconds: Mapping[str, float],
    restart_cost_seconds: float = 0.0,
) -> JobTable:
    """The columns of a trace's jobs on a cluster; `profiled` are the models known by the trace's names.

    `restart_cost_seconds` holds for jobs whose own cost the trace does not state.

    `reference_seconds` are seconds an iteration by model at the reference: the requested GPUs with their
    proportional share of CPU, memory and storage, placed best. An unknown model takes 1 s an iteration.
    """
    jobs = trace.jobs.sort("submit_seconds", maintain_order=True)
    asked: AskedArray = zero_records(len(jobs), ASKED)
    asked["submit"] = jobs["submit_seconds"].to_numpy()
    asked["gpus"] = jobs["gpus"].to_numpy()
    asked["milli"] = jobs["gpu_milli"].to_numpy()
    asked["priority"] = jobs["priority"].to_numpy()
    asked["min_runtime"] = jobs["min_runtime_seconds"].to_numpy()
    asked["preemptible"] = jobs["preemptible"].to_numpy()
    asked["min_gpus"] = jobs["min_gpus"].fill_null(jobs["gpus"]).to_numpy()
    asked["max_gpus"] = jobs["max_gpus"].fill_null(jobs["gpus"]).to_numpy()
    asked["requested"] = NONE
    for at, resource in enumerate(RESOURCES):
        if resource.requested:
            amount = jobs[resource.name] * MICRO * (asked["gpus"] if resource.per_gpu else 1)
            asked["requested"][:, at] = amount.round().fill_null(NONE).cast(pl.Int64).to_numpy()
    asked["deadline"] = jobs["deadline_seconds"].fill_null(np.inf).to_numpy()
    asked["time_limit"] = jobs["time_limit_seconds"].fill_null(np.inf).to_numpy()
    sized = sized_columns(jobs)
    asked["sync"] = jobs["sync"].replace_strict(SYNCS, range(len(SYNCS)), return_dtype=pl.Int64).to_numpy()
    asked["worker_gpus"] = np.rint(sized["worker"][:, GPU] * MICRO)
    asked["server_cpu"] = np.rint(sized["server"][:, CPU] * MICRO)
    worker_gpus = jobs["worker_gpus"].fill_null(0).to_numpy()
    is_rigid = asked["sync"] == RIGID
    asked["min_gpus"] = np.where(is_rigid, asked["min_gpus"], sized["min_workers"] * worker_gpus)
    asked["max_gpus"] = np.where(is_rigid, asked["max_gpus"], sized["max_workers"] * worker_gpus)
    models, asked["model"] = _numbered(jobs["model"])
    tenants, asked["tenant"] = _numbered(jobs["tenant"])
    users, asked["user"] = _numbered(jobs["user"])
    asked["nodes"] = jobs["nodes"].fill_null(0).to_numpy()
    partitions, asked["partition"] = _numbered(jobs["partition"])
    qos, asked["qos"] = _numbered(jobs["qos"])
    places, asked["constraint"] = _numbered(_places(jobs, cluster), first="")
    node_allowed, unmet = _places_allowed(places, cluster, trace.source)
    asked["most_doublings"] = _most_doublings(jobs, profiled, trace.source)

    seconds = np.array([reference_seconds.get(model, 1.0) for model in models])[asked["model"]]
    gang_seconds = jobs["duration_seconds"].fill_null(jobs["gpu_work_seconds"] / jobs["gpus"].clip(1))
    asked["iterations"] = jobs["iterations"].fill_null(gang_seconds / pl.Series(seconds)).to_numpy()
    asked["believed"] = asked["iterations"]
    asked["ideal"] = asked["iterations"] * seconds

    facts: FactArray = zero_records(len(jobs), FACTS)
    facts["finish"] = facts["lease_end"] = np.inf
    facts["first_start"] = facts["last_start"] = facts["unsaved_since"] = facts["sensitivity"] = np.nan
    facts["last_stop"] = asked["submit"]
    facts["restart_cost"] = jobs["restart_cost_seconds"].fill_null(restart_cost_seconds).to_numpy()
    facts["reason"] = -1
    return JobTable(
        asked=asked,
        facts=facts,
        sized=sized,
        ids=jobs["job_id"],
        model_names=tuple(models),
        models=tuple(profiled.get(name) for name in models),
        tenants=tuple(tenants),
        users=tuple(users),
        partitions=tuple(partitions),
        qos=tuple(qos),
        node_allowed=node_allowed,
        unmet=unmet,
    )


def _most_doublings(jobs: pl.DataFrame, profiled: Mapping[str, Model], source: str) -> Ints:
    """How often the initial batch of each job, GPUs times the model's batch, doubles within `max_batch`.

    InputError if a model is not known with its noise scale, though the trace was read with one that is.
    """
    doublings = np.zeros(len(jobs), np.int64)
    stated = np.flatnonzero(jobs["max_batch"].is_not_null())
    rows = jobs.select("model", "gpus", "max_batch")[stated].iter_rows()
    for row, (name, gpus, most) in zip(stated.tolist(), rows, strict=True):
        model = profiled.get(name)
        if model is None or model.efficiency is None:
            what = "max_batch needs a model whose noise scale is known to the run, [efficiency] of its file"
            raise InputError(Problem(source, what, column="model", found=name))
        times = most / (gpus * model.batch)
        doublings[row] = min(max(math.frexp(times)[1] - 1, 0), MOST_DOUBLINGS)
    return doublings


def requested_gpus(asked: AskedArray) -> Floats:
    """GPUs that each job asks for, a share of one below 1."""
    gpus: Floats = asked["gpus"] * (asked["milli"] / WHOLE)
    return gpus


def _numbered(names: pl.Series, first: str | None = None) -> tuple[list[str], Ints]:
    """The distinct names, in order of appearance (`first` before them), and each row's number among them."""
    distinct = names.unique(maintain_order=True).to_list()
    if first is not None:
        distinct = [first, *(name for name in distinct if name != first)]
    numbers = names.replace_strict(distinct, range(len(distinct)), return_dtype=pl.Int64)
    return distinct, numbers.to_numpy()


def _places(jobs: pl.DataFrame, cluster: Cluster) -> pl.Series:
    """Constraint and partition of each job, as one text; a cluster that states no partitions has none."""
    if not any(label.startswith(PARTITION) for node in cluster.nodes for label in node.labels):
        return jobs["constraint"]
    partitioned = pl.when(jobs["partition"] != "").then(_SEPARATOR + jobs["partition"]).otherwise(pl.lit(""))
    return jobs.select(pl.col("constraint") + partitioned).to_series()


def _places_allowed(places: Sequence[str], cluster: Cluster, source: str) -> tuple[Bools, dict[int, Problem]]:
    """Which nodes each place has, by its number, and why where it has none."""
    allowed = np.ones((len(places), len(cluster.nodes)), np.bool_)
    unmet = {}
    for number, place in enumerate(places):
        try:
            allowed[number] = _place_allowed(place, cluster, source)
        except InputError as error:
            unmet[number] = error.problems[0]
    return allowed, unmet


def without_nodes(trace: Trace, cluster: Cluster) -> pl.Series:
    """Whether no node of the cluster meets the constraint and partition of each job."""
    places, numbers = _numbered(_places(trace.jobs, cluster), first="")
    _, unmet = _places_allowed(places, cluster, trace.source)
    return pl.Series(np.isin(numbers, list(unmet)))


def _place_allowed(place: str, cluster: Cluster, source: str) -> Bools:
    """Which nodes jobs may use whose constraint and partition this is; InputError if there is none."""
    constraint, _, names = place.partition(_SEPARATOR)
    constraint = "" if _any_type_serves(constraint, cluster) else constraint
    allowed: Bools = np.array(nodes_allowed(constraint, cluster, source))
    if not names:
        return allowed
    # A job that Slurm may start in several partitions names all of them.
    wanted = {PARTITION + name for name in names.split(",")}
    own = np.array([not wanted.isdisjoint(node.labels) for node in cluster.nodes])
    if not (allowed & own).any():
        labels = {label for node in cluster.nodes for label in node.labels if label.startswith(PARTITION)}
        known = ", ".join(sorted(label.removeprefix(PARTITION) for label in labels))
        meeting = f" that meets {constraint}" if constraint and own.any() else ""
        what = f"no node of cluster {cluster.name}{meeting} is in it; partitions: {known}"
        raise InputError(Problem(source, what, column="partition", found=names))
    both: Bools = allowed & own
    return both


def _any_type_serves(constraint: str, cluster: Cluster) -> bool:
    """Whether a request for a type of GPU is met by any GPU, because the cluster states no type."""
    return constraint.startswith(GPU_TYPE) and not cluster.states_gpu_types


def untyped_cluster_note(trace: Trace, cluster: Cluster) -> list[str]:
    """How many jobs request a type of GPU of a cluster that states none."""
    requests = trace.jobs["constraint"].filter(trace.jobs["constraint"].str.starts_with(GPU_TYPE))
    if cluster.states_gpu_types or requests.is_empty():
        return []
    names = sorted({name for one in requests.unique() for name in one.removeprefix(GPU_TYPE).split("|")})
    return [
        f"{len(requests):,} of {counted(len(trace.jobs), 'job')} request a type of GPU ({', '.join(names)}); "
        f"cluster {cluster.name} states no type: they may use any GPU"
    ]


def nodes_allowed(constraint: str, cluster: Cluster, source: str) -> Sequence[bool]:
    """Which nodes a job with this constraint may use; one that no node meets is refused."""
    key, _, value = constraint.partition("=")
    match key:
        case "":
            return [True] * len(cluster.nodes)
        case "gpu_type":
            wanted = value.casefold().split("|")
            allowed = [node.gpu_type.casefold() in wanted for node in cluster.nodes]
            known = ", ".join(cluster.gpu_types)
        case _:
            names = set(value.split("|"))
            allowed = [not names.isdisjoint(node.labels) for node in cluster.nodes]
            known = ", ".join(sorted({label for node in cluster.nodes for label in node.labels})) or "none"
    if not any(allowed):
        what = f"no node of cluster {cluster.name} has it; there are: {known}"
        raise InputError(Problem(source, what, column="constraint", found=constraint))
    return allowed
