"""Jobs whose owners let the total batch vary: closed forms by brute force over batches, and what must hold always."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import ceil
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster import Cluster
from muster.problems import InputError
from muster.schedulers.allocation.draft_allocator import AllocationInput
from muster.schedulers.joint import modelled_speeds, sizes
from muster.schedulers.joint.modelled_speeds import TotalBatches, TypedSizes, best_batches
from muster.schedulers.registry import build
from muster.simulation import Run
from muster.simulation.failures import Failures
from muster.simulation.rules import Rules
from muster.speed.input_pipeline import model_table
from muster.speed.network.forms import PlacementShapes
from muster.speed.network.model_file import network_of
from muster.speed.network.models import CompactModel
from muster.speed.network.placement import shapes_of
from muster.speed.network.speed import NetworkSpeed
from muster.speed.worker_options import worker_options
from muster.workload.models import Compute, Efficiency, Model, shipped_models
from tests.building import cluster_of, column, every_place, finishes, jobs_of, run
from tests.schedulers.test_conformance import conforming

NAME, SAMPLES = "pollux-cifar10", 128
"""By a name that traces may count iterations of, with its batch."""
JOINT = "gittins+joint"
SecondsOfIteration = Callable[[int, int], float]
"""Of a total batch on so many GPUs."""
Chosen = tuple[int, float, int, int]
"""The initial batch of a job, its noise scale and the batch that was chosen, in samples, and the GPUs for it."""


def model_of(
    *noise: float, fixed: float = 30.0, largest: int = 256, cpu_seconds: float = 0.0
) -> dict[str, Model]:
    """A model of a second an iteration, with these noise scales in equal parts of the work.

    `cpu_seconds` are those in which one core prepares a batch; 0: its input stage is not known.
    """
    axes: dict[str, Any] = {}
    if cpu_seconds:
        axes = {
            "seconds_per_iteration": cpu_seconds,
            "cpus_per_gpu": (1.0, 100.0),
            "memory_gb_per_gpu": (50.0,),
            "speed": ((1.0,), (cpu_seconds,)),
        }
    made = Model(
        **{
            "name": NAME,
            "family": "image",
            "batch": SAMPLES,
            "seconds_per_iteration": 1.0,
            "reference_cpus_per_gpu": 1.0,
            "reference_memory_gb_per_gpu": 50.0,
            "cpus_per_gpu": (),
            "memory_gb_per_gpu": (),
            "speed": (),
            "source": "a test",
            "licence": "none",
            **axes,
        },
        compute=Compute(fixed_samples=fixed, largest_batch=max(largest, SAMPLES)),
        efficiency=Efficiency(
            tuple(at / len(noise) for at in range(len(noise))), noise, "a test", "none", "none"
        ),
    )
    return {NAME: made}


def one_job(gpus: int, most: int | None, **more: Any) -> dict[str, Any]:
    return {
        "submit_seconds": 0,
        "iterations": 1000.0,
        "gpus": gpus,
        "model": NAME,
        "max_batch": most,
        **more,
    }


def seconds_of_iteration(model: Model, batch: int, gpus: int) -> float:
    """Of a total batch, by hand: passes over whole samples, a fixed part in each."""
    assert model.compute is not None
    fixed, largest = model.compute.fixed_samples, model.compute.largest_batch
    assert largest is not None
    if batch == SAMPLES * gpus:
        return 1.0
    samples = ceil(batch / gpus)
    passes = ceil(samples / largest)
    return passes * (fixed + ceil(samples / passes)) / (fixed + SAMPLES)


def progress_rate(model: Model, noise: float, initial: int, batch: int, gpus: int) -> float:
    """Iterations of the initial batch a second."""
    gained = batch / initial * (noise + initial) / (noise + batch)
    return gained / seconds_of_iteration(model, batch, gpus)


def batches_up_to(initial: int, most: int) -> list[int]:
    return [initial << times for times in range(20) if initial << times <= most]


@settings(max_examples=40, deadline=None)
@given(
    gpus=st.integers(1, 8),
    times=st.floats(1, 40),
    noise=st.lists(st.floats(0.5, 1e5), min_size=1, max_size=4),
    fixed=st.floats(0, 500),
    largest=st.integers(SAMPLES, 1000),
)
def test_a_job_takes_the_best_batch_at_each_progress(
    gpus: int, times: float, noise: list[float], fixed: float, largest: int
) -> None:
    models = model_of(*noise, fixed=fixed, largest=largest)
    initial = SAMPLES * gpus
    most = int(times * initial)
    rates = [
        max(progress_rate(models[NAME], each, initial, batch, gpus) for batch in batches_up_to(initial, most))
        for each in noise
    ]
    result = run(jobs_of(one_job(gpus, most)), cluster_of(8), JOINT, models=models)
    assert finishes(result) == [pytest.approx(sum(1000 / len(noise) / rate for rate in rates), rel=1e-9)]
    assert column(result, "iterations_done") == [pytest.approx(1000.0)]


@settings(max_examples=40, deadline=None)
@given(
    gpus=st.integers(1, 4),
    doublings=st.integers(0, 5),
    noise=st.floats(1, 1e5),
    fixed=st.floats(0, 500),
)
def test_an_elastic_job_alone_has_the_best_size_and_batch(
    gpus: int, doublings: int, noise: float, fixed: float
) -> None:
    models = model_of(noise, fixed=fixed)
    initial = SAMPLES * gpus
    best = max(
        progress_rate(models[NAME], noise, initial, batch, size)
        for batch in batches_up_to(initial, initial << doublings)
        for size in range(1, 9)
    )
    trace = jobs_of(one_job(gpus, initial << doublings, min_gpus=1, max_gpus=8))
    result = run(trace, cluster_of(8), JOINT, models=models)
    assert finishes(result) == [pytest.approx(1000 / best, rel=1e-9)]


def test_a_job_that_waits_for_input_keeps_its_batch() -> None:
    models, one_core = model_of(1e5, cpu_seconds=50.0), cluster_of(1, cpus_per_gpu=1.0)
    (varying,) = finishes(run(jobs_of(one_job(1, 8 * SAMPLES)), one_core, JOINT, models=models))
    (fixed,) = finishes(run(jobs_of(one_job(1, SAMPLES)), one_core, JOINT, models=models))
    assert varying == fixed == pytest.approx(50_000)
    (fed,) = finishes(run(jobs_of(one_job(1, 8 * SAMPLES)), one_core, JOINT, models=model_of(1e5)))
    assert fed is not None
    assert fed < 950


def test_on_a_network_a_larger_batch_hides_communication() -> None:
    model = shipped_models()[NAME]
    cluster = cluster_of(4, 4, 4, 4, racks=2)
    network = network_of(model)
    assert network is not None
    speed = NetworkSpeed([network.model], cluster)
    trace = jobs_of(one_job(8, 8 * 8 * SAMPLES))
    shapes, models, asked = PlacementShapes(speed, cluster), model_table([model]), 8
    rates = []
    assert model.efficiency is not None
    for doublings in range(4):
        whole = np.array([asked << doublings])
        seconds = worker_options(models, shapes, np.zeros(1, np.int64), whole, np.array([asked])).seconds[
            0, 0
        ]
        scale, initial = 2.0**doublings, SAMPLES * asked
        rates.append(
            [
                scale * (noise + initial) / (noise + scale * initial) / seconds
                for noise in model.efficiency.noise_scale
            ]
        )
    ends = (*model.efficiency.progress[1:], 1.0)
    parts = [1000 * (end - begin) for begin, end in zip(model.efficiency.progress, ends, strict=True)]
    expected = sum(part / max(at) for part, at in zip(parts, zip(*rates, strict=True), strict=True))
    assert finishes(run(trace, cluster, JOINT)) == [pytest.approx(expected, rel=1e-9)]
    assert finishes(run(trace, cluster, JOINT, contention=True)) == [pytest.approx(expected, rel=1e-9)]
    assert expected < 0.9 * (finishes(run(trace, cluster, "las"))[0] or 0.0)


def mixed(seed: int, most: int | None) -> list[dict[str, Any]]:
    """Jobs of several sizes, half of which are elastic, with this many times their initial batch."""
    draws = np.random.default_rng(seed)
    rows = []
    for at in range(12):
        gpus = int(draws.choice([1, 2, 4]))
        row = one_job(
            gpus, None if most is None else SAMPLES * gpus * most, iterations=float(draws.integers(50, 900))
        )
        row["submit_seconds"] = float(draws.integers(0, 2000))
        if at % 2:
            row |= {"min_gpus": 1, "max_gpus": 8}
        rows.append(row)
    return rows


def compare_with_every_batch(monkeypatch: pytest.MonkeyPatch, seconds: SecondsOfIteration) -> set[Chosen]:
    """Compare each batch that joint chooses from now on, on so many GPUs, with all others; returns those seen."""
    seen: set[Chosen] = set()

    def against_all(given: AllocationInput, options: TypedSizes) -> TotalBatches:
        found, jobs = best_batches(given, options), given.snapshot.jobs
        for at, gpus, whole, gained in zip(options.at, options.gpus, *found, strict=True):
            initial = SAMPLES * int(jobs.gpus[at])
            noise = float(jobs.noise[at]) * initial
            batch = SAMPLES * int(whole)
            rates = {
                each: each / initial * (noise + initial) / (noise + each) / seconds(each, int(gpus))
                for each in batches_up_to(initial, 8 * initial)
            }
            assert rates[batch] == pytest.approx(max(rates.values()), rel=1e-9)
            assert gained == pytest.approx(batch / initial * (noise + initial) / (noise + batch))
            seen.add((initial, noise, batch, int(gpus)))
        return found

    for user in (sizes, modelled_speeds):
        monkeypatch.setattr(user, "best_batches", against_all)
    return seen


def test_joint_counts_each_size_with_its_best_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    models = model_of(300.0, 5000.0, fixed=60.0)
    seen = compare_with_every_batch(
        monkeypatch, lambda batch, gpus: seconds_of_iteration(models[NAME], batch, gpus)
    )
    run(jobs_of(*mixed(4, 8)), cluster_of(4, 4), JOINT, models=models)
    assert len({batch // initial for initial, _, batch, _ in seen}) > 1


def seconds_at_best_place(model: Model, layers: CompactModel, cluster: Cluster) -> SecondsOfIteration:
    """Return the seconds of a total batch on so many GPUs of the one of all places that communicates least."""

    @cache
    def seconds(batch: int, gpus: int) -> float:
        assert model.compute is not None
        passes = ceil(batch / gpus / (model.compute.largest_batch or SAMPLES))
        computing = seconds_of_iteration(model, batch, gpus)
        speed = NetworkSpeed([layers.scaled(computing / passes)], cluster)
        places = every_place(cluster, gpus)
        exposed = speed.exposed_seconds(np.zeros(places.jobs, np.int64), shapes_of(places, speed.tree))
        return computing + float(exposed.min())

    return seconds


@pytest.mark.parametrize("gradient_gb", [0.5, 1.0, 4.0])
def test_joint_counts_what_larger_batches_hide(monkeypatch: pytest.MonkeyPatch, gradient_gb: float) -> None:
    models, cluster = model_of(2000.0, fixed=10.0), cluster_of(4, 4, racks=2)
    layers = CompactModel(NAME, 1.0, 20, gradient_gb, 0.3, 1.0, 1.0, 0.2, 0.5, 0.0, 0.0)
    seen = compare_with_every_batch(monkeypatch, seconds_at_best_place(models[NAME], layers, cluster))
    run(jobs_of(*mixed(4, 8)), cluster, JOINT, models=models, layers={NAME: layers})
    alone = {
        (initial, noise, gpus): max(
            batches_up_to(initial, 8 * initial),
            key=lambda batch: progress_rate(models[NAME], noise, initial, batch, gpus),
        )
        for initial, noise, _, gpus in seen
    }
    assert any(batch > alone[initial, noise, gpus] for initial, noise, batch, gpus in seen)


def same_tables(one: Run, other: Run) -> bool:
    return all(
        getattr(one.record, table).equals(getattr(other.record, table))
        for table in ("jobs", "allocations", "decisions", "reasons")
    )


def test_the_initial_batch_as_the_largest_changes_nothing() -> None:
    models = model_of(100.0, 5000.0)
    without = run(jobs_of(*mixed(1, None)), cluster_of(4, 4), JOINT, models=models)
    with_it = run(jobs_of(*mixed(1, 1)), cluster_of(4, 4), JOINT, models=models)
    assert same_tables(without, with_it)
    assert not same_tables(without, run(jobs_of(*mixed(1, 8)), cluster_of(4, 4), JOINT, models=models))


@pytest.mark.parametrize("scheduler", ["las", "gittins+tune-plus", "gandiva"])
def test_another_scheduler_keeps_the_initial_batch(scheduler: str) -> None:
    models = model_of(100.0, 5000.0)
    without = run(jobs_of(*mixed(2, None)), cluster_of(4, 4), scheduler, models=models)
    with_it = run(jobs_of(*mixed(2, 8)), cluster_of(4, 4), scheduler, models=models)
    assert same_tables(without, with_it)
    assert any("ignores max_batch, which 12 jobs" in note for note in with_it.record.run["trace"]["notes"])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"round_seconds": 60.0, "restart_cost_seconds": 30.0},
        {"failures": Failures(4000.0, 300.0), "checkpoint_seconds": 100.0},
    ],
)
def test_every_job_does_its_work_at_possible_speeds(seed: int, options: dict[str, Any]) -> None:
    models = model_of(50.0, 800.0, 20_000.0, fixed=60.0)
    trace = jobs_of(*mixed(seed, 8))
    result = run(trace, cluster_of(4, 4), conforming(build(JOINT)), models=models, seed=seed, **options)
    jobs = result.record.jobs
    assert jobs["outcome"].to_list() == ["completed"] * 12
    assert jobs["iterations_done"].to_list() == pytest.approx(
        trace.jobs.join(jobs, on="job_id", how="right")["iterations"].to_list()
    )
    fastest = max(
        progress_rate(models[NAME], 20_000.0, SAMPLES * gpus, SAMPLES * gpus << times, size)
        for gpus in (1, 2, 4)
        for size in range(1, 9)
        for times in range(4)
    )
    assert (jobs["iterations_done"] / jobs["run_seconds"] <= fastest * (1 + 1e-9)).all()
    assert (jobs["preemptions"] + jobs["moves"] > 0).any()


def test_batches_make_a_queue_faster() -> None:
    models = model_of(5000.0, fixed=60.0)
    fixed = column(run(jobs_of(*mixed(3, None)), cluster_of(4, 4), JOINT, models=models), "jct_seconds")
    varying = column(run(jobs_of(*mixed(3, 8)), cluster_of(4, 4), JOINT, models=models), "jct_seconds")
    assert np.mean(varying) < 0.8 * np.mean(fixed)


def test_what_has_no_law_for_batches_is_refused() -> None:
    trace, models = jobs_of(one_job(1, 512)), model_of(5000.0)
    with pytest.raises(InputError, match="--certify: has no law for jobs with max_batch"):
        run(trace, cluster_of(4), JOINT, models=models, certify=True)
    whole = Rules("whole", "Whole iterations.", whole_iterations=True, round_seconds=60.0)
    with pytest.raises(InputError, match="--rules: found 'whole'; has no law for jobs with max_batch"):
        run(trace, cluster_of(4), JOINT, models=models, rules=whole)
    with pytest.raises(InputError, match="max_batch needs a model whose noise scale is known to the run"):
        run(trace, cluster_of(4), JOINT, models={NAME: replace(models[NAME], efficiency=None)})
    assert finishes(run(trace, cluster_of(4), "las", models=models, certify=True)) == [1000.0]


def test_the_record_names_the_jobs_whose_batch_varied() -> None:
    trace = jobs_of(one_job(1, 512), one_job(1, SAMPLES), one_job(1, None))
    record = run(trace, cluster_of(4), JOINT, models=model_of(5000.0)).record
    assert record.run["variable_batches"] == ["0"]
    assert "variable_batches" not in run(trace, cluster_of(4), "las", models=model_of(5000.0)).record.run
    assert pl.Series(record.jobs["job_id"]).to_list() == ["0", "1", "2"]
