"""What a job of a recorded run had at one moment, and what it would have gained from more then."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import polars as pl

from muster.cluster import Cluster
from muster.cluster.ledger import NodeAllocation
from muster.cluster.ledger_arrays import ROLES, SERVER
from muster.cluster.recorded import cluster_of_record
from muster.formatting import duration, enumerated, natural_order, thousandths
from muster.formatting import gpus as describe_gpus
from muster.problems import InputError, Problem
from muster.runtime.holding import AllHeld, HoldingJob, what_it_would_gain
from muster.runtime.records import Record
from muster.speed.network.model_file import network_of
from muster.speed.network.models import NetworkModel
from muster.speed.network.speed import NetworkSpeed, places_count
from muster.workload.models import Model

_NAMED_AT_MOST = 5


@dataclass(frozen=True)
class Knowledge:
    """What is known of the models of a run, beside its record."""

    models: Mapping[str, Model]
    """By lower-case name, aliases included."""
    layers: Mapping[str, NetworkModel]
    """Network profiles that go before those of the models, by lower-case name."""


@dataclass(frozen=True)
class HeldThen:
    """What a job held at one moment of a recorded run."""

    at_seconds: float
    from_seconds: float
    """From when to when it held exactly this."""
    to_seconds: float
    gpus: float
    nodes: list[str]
    sentences: list[str]
    """What it was, and what the job would have gained from more; the moment in the first, the others in the present."""


def holding_of(record: Record, job_id: str, at: float | None, known: Knowledge) -> HeldThen | None:
    """Return what a job of the record held at a moment; None: when its longest stretch began. None: it never ran.

    InputError if it held nothing at that moment.
    """
    own = record.allocations.filter(
        (pl.col("job_id") == job_id) & (pl.col("to_seconds") > pl.col("from_seconds"))
    )
    if at is None:
        if own.is_empty():
            return None
        longest = own.with_columns((pl.col("to_seconds") - pl.col("from_seconds")).alias("seconds"))
        at = float(longest.sort(["seconds", "from_seconds"], descending=[True, False])["from_seconds"][0])
    present = _at(record.allocations, at)
    here = present.filter(pl.col("job_id") == job_id)
    if here.is_empty():
        raise InputError(Problem("--at", _when_it_ran(own), found=at))
    since, until = float(here["from_seconds"].max()), float(here["to_seconds"].min())  # type: ignore[arg-type]
    nodes = sorted(here["node"].unique().to_list(), key=natural_order)
    gpus = float(here["gpus"].sum())
    where = nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes"
    what = describe_gpus(gpus) if gpus else f"{thousandths(float(here['cpus'].sum()))} CPU cores"
    first = f"It ran on {what} of {where} from {since:,.0f} to {until:,.0f} s ({duration(until - since)})."
    gains = _gains(record, job_id, at, present, known)
    if gains:
        first += f" At {at:,.0f} s:"
    return HeldThen(at, since, until, gpus, nodes, [first, *gains])


def without_models(gone: InputError) -> str:
    """Return what is said in place of gains where the files of the run's models are not there any more."""
    return f"What more would have brought is not known, as the run's models cannot be read: {gone}."


def _at(allocations: pl.DataFrame, at: float) -> pl.DataFrame:
    """Return what was held at a moment; what ends there is over."""
    return allocations.filter((pl.col("from_seconds") <= at) & (pl.col("to_seconds") > at))


def _when_it_ran(own: pl.DataFrame) -> str:
    stretches = own.select("from_seconds", "to_seconds").unique().sort("from_seconds").rows()
    shown = ", ".join(f"{since:,.0f} to {until:,.0f}" for since, until in stretches[:_NAMED_AT_MOST])
    more = ", ..." if len(stretches) > _NAMED_AT_MOST else ""
    return (
        f"allowed: a moment at which the job ran, in seconds: {shown}{more}" if shown else "the job never ran"
    )


def _gains(record: Record, job_id: str, at: float, present: pl.DataFrame, known: Knowledge) -> list[str]:
    described = next(content for since, content in reversed(record.clusters()) if since <= at)
    cluster = cluster_of_record(described, "run.json")
    held = [
        (
            str(row["job_id"]),
            NodeAllocation(
                str(row["node"]),
                tuple(row["gpu_ids"] or ()),
                row["cpus"] or 0.0,
                row["memory_gb"] or 0.0,
                row["storage_gb_per_s"] or 0.0,
                round(1000 * row["gpus"] / max(len(row["gpu_ids"] or ()), 1)),
            ),
        )
        for row in present.sort("job_id").iter_rows(named=True)
    ]
    job = record.jobs.filter(pl.col("job_id") == job_id).row(0, named=True)
    model = known.models.get(job["model"].lower())
    own = present.filter(pl.col("job_id") == job_id)
    if own["slice_group"].is_not_null().any():
        return ["It shares its GPUs with other jobs, so what more would bring is not known."]
    if (own["role"] == ROLES[SERVER]).any():
        return ["It has parameter servers: what more would bring is in `muster size`."]
    if job_id in record.run.get("sized_jobs", ()):
        return [
            "Its speed follows from the number of its workers: what more would bring is in `muster size`."
        ]
    if job_id in record.run.get("variable_batches", ()):
        return ["Its total batch went by what it held, so what more would bring is not known."]
    asked = job["gpus"]
    running = HoldingJob(
        job_id,
        asked,
        (
            asked if job["min_gpus"] is None else job["min_gpus"],
            asked if job["max_gpus"] is None else job["max_gpus"],
        ),
        model,
        f"no model {job['model']} is known here" if job["model"] else "the trace names no model of it",
        None if model is None else _network(record, cluster, known.layers.get(job["model"].lower()), model),
    )
    return what_it_would_gain(running, AllHeld(cluster, held, _listed))


def _network(
    record: Record, cluster: Cluster, layers: NetworkModel | None, model: Model
) -> NetworkSpeed | None:
    """Return the network of the run; None where it did not count."""
    settings = record.run.get("settings") or {}
    flavour = settings.get("network") or "auto"
    file = network_of(model)
    own = layers or (None if file is None else file.model)
    if own is None or flavour == "none" or (flavour == "auto" and not places_count(cluster)):
        return None
    law = "physical" if flavour == "auto" else flavour
    return NetworkSpeed([own], cluster, flavour=law, congestion=settings.get("congestion") or 0.0)


def _listed(jobs: Collection[str]) -> str:
    """Return `job 3`, or `jobs 3, 4 and 2 more`."""
    named = sorted(jobs, key=natural_order)
    parts = named[:_NAMED_AT_MOST]
    if more := len(named) - len(parts):
        parts.append(f"{more} more")
    return f"{'job' if len(named) == 1 else 'jobs'} {enumerated(parts)}"
