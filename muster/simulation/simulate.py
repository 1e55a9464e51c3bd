"""One simulation from end to end: checks the inputs against each other, runs the engine, keeps the record."""

from __future__ import annotations

import hashlib
import resource
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

import muster
from muster.cluster import Cluster
from muster.cluster.ledger_arrays import WHOLE, Bools, Floats
from muster.cluster.portable_math import exp
from muster.formatting import counted
from muster.problems import InputError, Problem
from muster.runtime.allocation_lifecycle import HeldArray
from muster.runtime.recording import allocations_table, decisions_frame, jobs_frame, reasons_table
from muster.runtime.records import FIGURE_COLUMNS, TABLES, Record
from muster.runtime.slowest_core import slowest_by_job
from muster.schedulers.contract import Scheduler
from muster.schedulers.honours import WITHOUT_GPUS, divides_gpus, honoured
from muster.schedulers.presets import DEFAULT_SCHEDULER
from muster.schedulers.user_code import errors_of_policies, plan_problem
from muster.simulation.assumptions import assumptions, network_not_known, unknown_resources
from muster.simulation.engine import PlanRefused, Progress, SimulationEngine, World
from muster.simulation.idle_options import options_without_effect
from muster.simulation.impossible import at_their_lines, left_out_note, set_impossible_aside
from muster.simulation.jct_bound import jct_bound
from muster.simulation.network import NetworkOfRun
from muster.simulation.options import LIMIT, Options
from muster.simulation.sizes import with_sizes
from muster.simulation.survival import refuse_unsurvivable
from muster.simulation.variable_batches import variable_batches
from muster.speed.input_pipeline import ModelTable, model_table
from muster.speed.network.models import NetworkModel
from muster.speed.network_of_jobs import network_of_jobs
from muster.speed.rates import reference_seconds
from muster.workload.jobs import REFUSED, JobTable, job_table, untyped_cluster_note
from muster.workload.models import Model, shipped_models
from muster.workload.sized import RIGID
from muster.workload.trace import Trace, in_range
from muster.workload.traces.columns import LOG_COLUMNS, NAMES

_NOISE_STREAM = 0xBE11EF
_ROWS_AT_A_TIME = 50_000
_INSTANT = 1e-6
"""Seconds that rounding may add."""


@dataclass(frozen=True)
class Cost:
    """What the run itself cost; the only figures that differ from one run to the next."""

    decision_seconds: dict[str, float]
    """mean, p99, max"""
    wall_seconds: float
    cpu_seconds: float
    """User and system time of this process from the first event to the finished tables."""
    jobs_per_second: float
    """Jobs of the trace over CPU seconds."""
    peak_memory_mb: float


@dataclass(frozen=True)
class Continued:
    """What is known of the jobs of a queue that is gone on with, by arrival."""

    attained: Floats
    """GPU-seconds that they had before the trace begins."""
    believed_seconds: Floats | None = None
    """How long schedulers take them to be; NaN: by `Options.knowledge`."""
    awaited: Bools | None = None
    """The run ends with these jobs; None: with all."""

    def note(self, table: JobTable) -> None:
        """Write it into the columns of the jobs."""
        table.facts["attained"] = self.attained
        if self.believed_seconds is not None:
            seconds, asked = self.believed_seconds, table.asked
            known = ~np.isnan(seconds)
            asked["believed"][known] = (seconds * asked["iterations"] / asked["ideal"])[known]


@dataclass(frozen=True)
class Run:
    """What a simulation left behind."""

    record: Record
    cost: Cost
    unfinished: int
    """Measured jobs that could not be completed."""
    refused: tuple[str, ...]
    """Ids of the jobs that no empty cluster could hold."""


def simulate(
    trace: Trace,
    cluster: Cluster,
    scheduler: Scheduler,
    options: Options | None = None,
    progress: Callable[[Progress], None] | None = None,
    models: Mapping[str, Model] | None = None,
    layers: Mapping[str, NetworkModel] | None = None,
    continued: Continued | None = None,
) -> Run:
    """Replay a trace on a cluster under a scheduler; `layers` are network profiles beside the shipped ones."""
    options = options or Options()
    known = shipped_models() if models is None else models
    table, truth = _prepared(trace, cluster, known, options, layers)
    if continued is not None:
        continued.note(table)
    network = _network(table, truth, trace, cluster, options, layers)
    make_blocks = options.rules.blocks
    blocks, unblocked = (None, ()) if make_blocks is None else make_blocks(table, trace, network)
    _refuse_short_rounds(table, options)
    _refuse_shares(scheduler, table, trace)
    honours = honoured(scheduler)
    _refuse_without_gpus(scheduler, honours, table)
    refused = set_impossible_aside(table, cluster, trace, options, honours)
    measured = _measured(table, options, continued)
    refuse_unsurvivable(table, measured, cluster, options)
    began, began_cpu = time.perf_counter(), time.process_time()
    with errors_of_policies(), _refused_plans_of(scheduler):
        asked = _certified(scheduler) if options.certify else scheduler
        work = None if options.rules.work is None else options.rules.work(table, cluster)
        batches = variable_batches(table, truth, network, options, honours)
        world = World(table, cluster, truth, network, blocks, work, batches)
        engine = SimulationEngine(world, asked, options, measured)
        engine.run(progress)
        held, explained, unfinished = engine.held(), engine.explained(), engine.unfinished()
        nodes = engine.ledger.books.nodes
        slowest = slowest_by_job(held, table.asked, table.node_allowed, truth, nodes)
    notes, decisions, at_the_end = _notes_of(engine), engine.decisions, engine.progress()
    seconds = (
        np.append(engine.decision_seconds, 0.0)
        if not len(engine.decision_seconds)
        else engine.decision_seconds
    )
    del engine  # whose arrays take as much memory as the tables will
    described = _described(trace, scheduler, options, world, refused, [*unblocked, *notes])
    if options.certify:
        described["jct_bound"] = jct_bound(world, options, measured, held)
    record = Record(
        jobs=jobs_frame(table, measured, slowest),
        compact_allocations=allocations_table(
            held, table, cluster, _columns_of("allocations", options, held)
        ),
        decisions=decisions_frame(decisions),
        compact_reasons=reasons_table(explained, table, _columns_of("reasons", options, held)),
        run=described,
    )
    cpu = time.process_time() - began_cpu
    if progress is not None:
        progress(at_the_end)
    cost = Cost(
        decision_seconds={
            "mean": float(seconds.mean()),
            "p99": float(np.quantile(seconds, 0.99)),
            "max": float(seconds.max()),
        },
        wall_seconds=time.perf_counter() - began,
        cpu_seconds=cpu,
        jobs_per_second=len(table) / max(cpu, 1e-9),
        peak_memory_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
    )
    return Run(record, cost, unfinished, refused)


def _columns_of(table: str, options: Options, held: HeldArray) -> Collection[str]:
    """The columns of a table to make: all, or those from which figures follow."""
    if options.records:
        return TABLES[table]
    in_turns = table == "allocations" and bool((held["group"] >= 0).any())
    return {*FIGURE_COLUMNS[table], *(["gpu_ids"] if in_turns else [])}


def _certified(scheduler: Scheduler) -> Scheduler:
    """The scheduler with the optimality gap of each decision."""
    from muster.schedulers.certify import Certified

    return Certified(scheduler)


@contextmanager
def _refused_plans_of(scheduler: Scheduler) -> Iterator[None]:
    """Turn a refused plan of a user's policy into the user's problem."""
    try:
        yield
    except PlanRefused as refused:
        problem = plan_problem(scheduler, str(refused))
        if problem is None:
            raise
        raise InputError(problem) from refused


def never_able(trace: Trace, cluster: Cluster, scheduler: Scheduler) -> tuple[str, ...]:
    """The ids of the jobs that the empty cluster could not hold under a scheduler."""
    options = Options(skip_impossible=True)
    table, _ = _prepared(trace, cluster, shipped_models(), options, None)
    return set_impossible_aside(table, cluster, trace, options, honoured(scheduler))


def _prepared(
    trace: Trace,
    cluster: Cluster,
    known: Mapping[str, Model],
    options: Options,
    layers: Mapping[str, NetworkModel] | None,
) -> tuple[JobTable, ModelTable]:
    """The jobs' columns, with what schedulers believe, and the true speeds."""
    if not cluster.total_gpus:
        raise InputError(Problem("--cluster", f"cluster {cluster.name} has no GPU; training jobs need some"))
    by_any_name = {name.lower(): model for model in known.values() for name in (model.name, *model.aliases)}
    names = trace.jobs["model"].unique(maintain_order=True).to_list()
    profiled = {name: by_any_name[name.lower()] for name in names if name.lower() in by_any_name}
    speeds = model_table(list(profiled.values()))
    seconds = {
        name: reference_seconds(speeds, number, cluster.share_per_gpu) for number, name in enumerate(profiled)
    }
    unfed = [name for name, value in seconds.items() if value == np.inf]
    if unfed:
        what = f"cluster {cluster.name} has no CPU to feed it; give its nodes CPU cores"
        raise InputError(*(Problem("--cluster", what, column="model", found=name) for name in unfed))
    assert options.restart_cost_seconds is not None
    table = job_table(trace, cluster, profiled, seconds, options.restart_cost_seconds)
    table = with_sizes(
        table,
        cluster,
        trace.source,
        layers,
        flavour=options.network_flavour,
        congestion=options.congestion,
        skip_impossible=options.skip_impossible,
    )
    if options.rules.speed_law is not None:
        table = options.rules.speed_law(table, cluster)
    noise = options.noise
    assert noise is not None
    if options.knowledge == LIMIT:
        limits = np.where(np.isfinite(table.asked["time_limit"]), table.asked["time_limit"], np.nan)
        table.asked["believed"] = limits * table.asked["iterations"] / table.asked["ideal"]
    elif np.isnan(noise):
        table.asked["believed"] = np.nan
    elif noise > 0:
        draws = np.random.default_rng([options.seed, _NOISE_STREAM]).normal(0.0, noise, len(table))
        table.asked["believed"] *= exp(draws)
    return table, model_table(table.models, cluster.gpu_types)


def _network(
    table: JobTable,
    truth: ModelTable,
    trace: Trace,
    cluster: Cluster,
    options: Options,
    layers: Mapping[str, NetworkModel] | None,
) -> NetworkOfRun | None:
    """The network of the run; a job's reference is its best place, and the best place communicates too.

    Work given as a duration is what the gang did in that time there; work given as iterations takes that
    much longer; work given as single-GPU seconds is compute alone, and so is its ideal (Dally "Job").
    What communicates behind an input stage that takes longer makes no iteration longer.
    """
    speed = network_of_jobs(
        table,
        cluster,
        flavour=options.network_flavour,
        congestion=options.congestion,
        profiles=layers,
    )
    if speed is None:
        return None
    network = NetworkOfRun(speed, cluster, table, truth, contention=options.contention)
    asked = table.asked
    kinds, kind = np.unique(np.stack([asked["model"], asked["gpus"]]), axis=1, return_inverse=True)
    best = np.array([network.best_exposed(model, gpus) for model, gpus in kinds.T.tolist()])
    waits = np.array(
        [reference_seconds(truth, model, cluster.share_per_gpu) for model in range(len(table.models))]
    )
    waits /= truth["compute_seconds"][: len(waits)]
    longer = np.maximum((1.0 + best) / waits[kinds[0]], 1.0)[kind.reshape(-1)]
    work = trace.jobs.sort("submit_seconds", maintain_order=True)
    timed = work["duration_seconds"].is_not_null().to_numpy()
    counted = work["iterations"].is_not_null().to_numpy() & (asked["sync"] == RIGID)
    for field in ("iterations", "believed"):
        asked[field][timed] /= longer[timed]
    asked["ideal"][counted] *= longer[counted]
    return network


def _refuse_short_rounds(table: JobTable, options: Options) -> None:
    """Refuse rounds shorter than an iteration where whole ones count: such a job would run for ever."""
    if not options.rules.whole_iterations:
        return
    seconds = table.asked["ideal"] / table.asked["iterations"]
    long = np.flatnonzero(seconds > (options.round_seconds or np.inf))
    if len(long):
        job, least = table.ids[int(long[0])], float(seconds[long].max())
        what = f"--rules {options.rules.name} count whole iterations, and one of job {job} takes longer"
        raise InputError(
            Problem("--round", f"{what}; allowed: {least:g} s or more", found=options.round_seconds)
        )


def _refuse_shares(scheduler: Scheduler, table: JobTable, trace: Trace) -> None:
    """Refuse shares of GPUs to a scheduler that parts none: they would wait for ever."""
    if divides_gpus(scheduler):
        return
    shares = np.flatnonzero(table.asked["milli"] < WHOLE)
    if len(shares):
        what = f"asks for a share, and scheduler {scheduler.name} gives whole GPUs alone"
        raise at_their_lines(
            trace,
            {
                job: Problem(
                    trace.source,
                    f"allowed: {WHOLE}, a whole GPU; job {table.ids[job]} {what}",
                    column="gpu_milli",
                    found=int(table.asked["milli"][job]),
                )
                for job in shares[:20].tolist()
            },
        )


def _refuse_without_gpus(scheduler: Scheduler, honours: frozenset[str], table: JobTable) -> None:
    """Refuse jobs without GPUs where the scheduler has no place for them: they would wait for ever."""
    jobs = np.flatnonzero((table.asked["gpus"] == 0) & (WITHOUT_GPUS not in honours))
    if len(jobs):
        what = f"{scheduler.name} has no place for jobs with gpus = 0; {DEFAULT_SCHEDULER} and fifo+proportional have"
        raise InputError(
            *(Problem("--scheduler", what, column="job", found=table.ids[job]) for job in jobs[:20].tolist())
        )


def _measured(table: JobTable, options: Options, continued: Continued | None) -> Bools:
    """Which jobs count, with which the run ends."""
    possible: Bools = table.facts["state"] != REFUSED
    if continued is not None and continued.awaited is not None:
        return possible & continued.awaited
    if options.measure is None:
        return possible
    measured: Bools = possible & in_range(table.ids, options.measure).to_numpy()
    if not measured.any():
        first, last = options.measure
        what = "no job of the trace has an id in this range; the statistics would be empty"
        raise InputError(Problem("--measure", what, found=f"{first}:{last}"))
    return measured


def _notes_of(engine: SimulationEngine) -> list[str]:
    """What schedulers noted in deciding, and how often."""
    asked = len(engine.decision_seconds)
    return [f"{note} (in {times:,} of {counted(asked, 'decision')})" for note, times in engine.noted.items()]


def _digest(jobs: pl.DataFrame) -> str:
    """SHA-256 of a table as CSV, made in parts: the text of a large trace takes as much memory as the trace."""
    digest = hashlib.sha256(jobs.clear().write_csv().encode())
    for part in jobs.iter_slices(_ROWS_AT_A_TIME):
        digest.update(part.write_csv(include_header=False).encode())
    return digest.hexdigest()


def _native(jobs: pl.DataFrame) -> pl.DataFrame:
    """The native columns; `max_batch` only where it is stated, so that older digests hold."""
    unstated = {"max_batch"} if jobs["max_batch"].is_null().all() else set()
    return jobs.select(name for name in NAMES if name not in unstated)


def _past_their_limits(table: JobTable) -> list[str]:
    """That jobs were not ended at their time limits, where that made a difference."""
    count = int(np.count_nonzero(table.facts["run"] > table.asked["time_limit"] + _INSTANT))
    return (
        [f"{counted(count, 'job')} ran past the time limit; --end-at-limit ends jobs there"] if count else []
    )


def _described(
    trace: Trace,
    scheduler: Scheduler,
    options: Options,
    world: World,
    refused: Sequence[str],
    of_decisions: Sequence[str],
) -> dict[str, Any]:
    """All that is needed to run it again."""
    table, cluster, network = world.table, world.cluster, world.network
    rules = options.rules
    described = scheduler.describe()
    strict = described.get("settings", {}).get("strict", False)
    placement = described.get("parts", {}).get("placement", "its own")
    assumed = assumptions(table, cluster, honoured(scheduler))
    left_out = left_out_note(refused, cluster)
    untyped = untyped_cluster_note(trace, cluster)
    used = (*LOG_COLUMNS, *(() if world.blocks is None else world.blocks.used_columns))
    others = ", ".join(name for name in trace.other_columns if name not in used)
    unused = [f"columns of the trace that this run does not use: {others}"] if others else []
    past = _past_their_limits(table)
    unheard = network.notes if network else network_not_known(table, cluster, options.network_flavour)
    return {
        "muster_version": muster.__version__,
        "trace": {
            "source": trace.source,
            "jobs": len(trace.jobs),
            "sha256": _digest(_native(trace.jobs)),
            "notes": [
                *trace.notes,
                *cluster.notes,
                *unused,
                *left_out,
                *untyped,
                *unheard,
                *past,
                *options_without_effect(table, network, options, scheduler),
                *assumed,
                *of_decisions,
            ],
        },
        "cluster": cluster.to_dict(),
        "scheduler": described,
        "settings": {
            "round_seconds": options.round_seconds,
            "round_origin": options.round_origin,
            "restart_cost_seconds": options.restart_cost_seconds,
            "resize_restarts": options.resize_restarts,
            "release_seconds_per_gpu": options.release_seconds_per_gpu,
            "measure": list(options.measure) if options.measure else None,
            "failures": vars(options.failures) if options.failures else None,
            "checkpoint_seconds": options.checkpoint_seconds,
            "end_at_limit": options.end_at_limit,
            "skip_impossible": options.skip_impossible,
            "certify": options.certify,
            "network": options.network_flavour,
            "congestion": options.congestion,
            "contention": options.contention,
        },
        "rules": {
            "name": rules.name,
            "queue": "a job that does not fit blocks all behind it" if strict else "skips what does not fit",
            "gang": f"all GPUs at once, placed by {placement}",
            "rounding": rules.sentence,
            "tie_break": "arrival, then the order of the trace",
        },
        "unknown_resources": unknown_resources(table),
        "knowledge": options.knowledge,
        "seed": options.seed,
        **_sized(world.table),
        **_varying(world),
    }


def _sized(table: JobTable) -> dict[str, list[str]]:
    """The ids of the jobs whose speed follows from their workers and servers, if there were any."""
    sized = np.flatnonzero(table.asked["sync"] != RIGID)
    return {"sized_jobs": table.ids.gather(sized).to_list()} if len(sized) else {}


def _varying(world: World) -> dict[str, list[str]]:
    """The ids of the jobs whose total batch varied, if there were any."""
    batches = world.batches
    return {} if batches is None else {"variable_batches": world.table.ids.gather(batches.jobs).to_list()}
