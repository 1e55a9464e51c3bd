"""What went wrong in other simulators, each as a test: leaks, ticks, caches, settings that nothing reads."""

from __future__ import annotations

import itertools
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from muster import schedulers
from muster.cluster import Link, Links
from muster.problems import InputError
from muster.schedulers import registry
from muster.schedulers.parts import Part
from muster.simulation import Failures, Options, Progress, rules_named, simulate
from muster.simulation.engine import SimulationEngine
from muster.workload.models import synergy_models
from tests.building import cluster_of, column, finishes, job, jobs_of, run
from tests.schedulers.test_example_policies import TakesCpusBack, linear_model
from tests.simulation.cases import Case, WatchedEngine, shipped, simulated

CROWD = [job(at * 7 % 40, 20 + at * 13 % 50, gpus=1 + at % 4, tenant="ab"[at % 2]) for at in range(24)]
"""Enough jobs to queue, to preempt and to leave again."""


@pytest.mark.parametrize("order", shipped("queue_order"))
@pytest.mark.parametrize("round_seconds", [None, 10.0])
def test_no_gpu_leaks(monkeypatch: pytest.MonkeyPatch, order: str, round_seconds: float | None) -> None:
    """Blox lost 5 GPUs of 128, Dally 127: after all completions and preemptions everything is free again."""
    engines: list[SimulationEngine] = []

    class Kept(SimulationEngine):
        def __init__(self, *arguments: Any, **more: Any) -> None:
            super().__init__(*arguments, **more)
            engines.append(self)

    monkeypatch.setattr(sys.modules["muster.simulation.simulate"], "SimulationEngine", Kept)
    result = run(jobs_of(*CROWD), cluster_of(4, 3, 1), order, round_seconds=round_seconds)
    books = engines[0].ledger.books
    assert result.unfinished == 0
    assert (books.nodes["free"] == books.nodes["capacity"]).all()
    assert (books.devices["holders"] == 0).all()
    assert not books.nodes["releasing"].any()


def test_no_share_leaks_while_gpus_take_time_to_release() -> None:
    """A share of a GPU that is stopped for a gang in vain and put back is not left releasing for ever.

    At 10 s each node has one free GPU; the gang of two finds no node, but counts, so that the share must go.
    """
    trace = jobs_of(
        job(0, 5),
        job(0, 50, preemptible=False),
        job(1, 100, gpu_milli=400),
        job(10, 10, gpus=2, priority=2.0),
        job(10, 10, priority=1.0),
        job(200, 10, gpus=4),
    )
    result = run(trace, cluster_of(2, 2), "priority+proportional+consolidate", release_seconds_per_gpu=0.5)
    assert None not in finishes(result)


@pytest.mark.parametrize("gpus", [1, 2, 3, 5, 7, 16, 60])
def test_nodes_need_not_have_eight_gpus(gpus: int) -> None:
    trace = jobs_of(*(job(0, 10) for _ in range(gpus + 1)))
    assert sorted(column(run(trace, cluster_of(gpus), "fifo"), "finish_seconds")) == pytest.approx(
        [10.0] * gpus + [20.0]
    )


@pytest.mark.parametrize("scheduler", ["fifo", "srtf", "las", "ftf"])
@pytest.mark.parametrize("round_seconds", [None, 10.0])
def test_watching_does_not_change_the_result(scheduler: str, round_seconds: float | None) -> None:
    seen: list[Progress] = []
    trace, cluster = jobs_of(*CROWD * 12), cluster_of(4, 3, 1)
    options = Options(round_seconds=round_seconds)
    alone = simulate(trace_again(), cluster, registry.build(scheduler), options)
    watched = simulate(trace, cluster, registry.build(scheduler), options, progress=seen.append)
    assert alone.record.jobs.equals(watched.record.jobs)
    assert seen[-1].jobs_done == seen[-1].jobs == len(trace.jobs)
    assert all(one.jobs_done <= other.jobs_done for one, other in itertools.pairwise(seen))


def trace_again() -> Any:
    """The same trace made again."""
    return jobs_of(*CROWD * 12)


class SeldomAsked(WatchedEngine):
    """Gives up a run that asks its scheduler again and again."""

    DECISIONS_AT_MOST = 100


@pytest.mark.parametrize("order", [name for name in shipped("queue_order") if not name.endswith("-sim")])
@pytest.mark.parametrize("rest", ["proportional+pack", *shipped("allocation+placement")])
def test_an_empty_queue_asks_for_no_decision(order: str, rest: str) -> None:
    """Submissions in Unix time are 5.7 million quanta of 300 s after 0."""
    rows = [job(1.7e9, 10, job_id="0"), job(3.4e9, 10, job_id="1")]
    case = Case(cluster_of(2), rows, f"{order}+{rest}", {}, Options())
    assert finishes(simulated(case, SeldomAsked)) == [1.7e9 + 10, 3.4e9 + 10]


def test_rounds_without_effect_do_not_change_event_driven_orders() -> None:
    """A tick that every arrival and completion falls on is no tick at all."""
    crowd = [job(at * 20 % 100, 10 * (1 + at % 5), gpus=1 + at % 3) for at in range(12)]
    for order in ("fifo", "srtf", "sjf", "priority"):
        by_event = run(jobs_of(*crowd), cluster_of(4), order)
        assert finishes(run(jobs_of(*crowd), cluster_of(4), order, round_seconds=5.0)) == finishes(by_event)


def test_no_result_is_remembered() -> None:
    """Different settings one after the other in one process, then the first again."""
    runs = [run(jobs_of(*CROWD), cluster_of(4), "las", {"quantum_seconds": q}) for q in ("5", "50", "5")]
    ends = [finishes(result) for result in runs]
    assert ends[0] != ends[1]
    assert ends[0] == ends[2]


def test_models_without_a_cpu_are_named_in_trace_order() -> None:
    """Not in the order of a hash, which may be another one in another process."""
    names = list(synergy_models())[::-1]
    with pytest.raises(InputError) as bad:
        run(jobs_of(*(job(0, 10, model=name) for name in names)), cluster_of(2, cpus_per_gpu=0.0), "fifo")
    assert [problem.found for problem in bad.value.problems] == names
    assert {problem.where for problem in bad.value.problems} == {"--cluster"}


def test_a_seed_is_all_that_chance_depends_on() -> None:
    def ends(seed: int) -> list[float | None]:
        return finishes(run(jobs_of(*CROWD), cluster_of(4), "srtf", knowledge="noisy:2", seed=seed))

    first = ends(1)
    assert ends(2) != first
    assert ends(1) == first


QUEUE = jobs_of(*CROWD)
STOPPED = [job(0, 100, gpus=4), job(10, 5)]
SOMETIMES = Failures(200.0, 20.0)
OPTIONS: dict[str, tuple[list[dict[str, Any]], str, dict[str, Any], dict[str, Any]]] = {
    "round_seconds": (STOPPED, "srtf", {}, {"round_seconds": 60.0}),
    "round_origin": (STOPPED, "srtf", {"round_seconds": 60.0}, {"round_origin": 7.0}),
    "restart_cost_seconds": (STOPPED, "srtf", {}, {"restart_cost_seconds": 9.0}),
    "release_seconds_per_gpu": (STOPPED, "srtf", {}, {"release_seconds_per_gpu": 3.0}),
    "measure": (STOPPED, "fifo-strict", {}, {"measure": (0, 0)}),
    "rules": (STOPPED, "srtf", {"round_seconds": 60.0}, {"rules": rules_named("synergy-published")}),
    "knowledge": (CROWD, "srtf", {}, {"knowledge": "none"}),
    "end_at_limit": ([job(0, 100, time_limit_seconds=50.0)], "fifo", {}, {"end_at_limit": True}),
    "failures": (CROWD, "fifo", {}, {"failures": SOMETIMES}),
    "checkpoint_seconds": (CROWD, "fifo", {"failures": SOMETIMES}, {"checkpoint_seconds": 2.0}),
    "seed": (CROWD, "fifo", {"failures": SOMETIMES}, {"seed": 5}),
}
"""For each option a queue, a scheduler, what else must be set, and a value that must make a difference."""

ELSEWHERE = {
    "resize_restarts": "test_a_resize_restarts_only_if_asked",
    "skip_impossible": "test_impossible_jobs_are_left_out_only_if_asked",
    "network": "test_the_network_options_slow_a_gang_over_two_racks",
    "congestion": "test_the_network_options_slow_a_gang_over_two_racks",
    "contention": "test_the_network_options_slow_a_gang_over_two_racks",
    "records": "test_without_records_the_rows_have_no_names",
    "certify": "test_certify_adds_bounds_and_changes_nothing_else",
}
"""Options that need a case of their own."""


def test_every_option_has_its_case() -> None:
    assert {field.name for field in fields(Options)} == {*OPTIONS, *ELSEWHERE}
    assert all(name in globals() for name in ELSEWHERE.values())


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_is_read(name: str) -> None:
    rows, scheduler, given, value = OPTIONS[name]
    without = run(jobs_of(*rows), cluster_of(4), scheduler, **given)
    with_it = run(jobs_of(*rows), cluster_of(4), scheduler, **given, **value)
    assert not without.record.jobs.equals(with_it.record.jobs)


def test_without_records_the_rows_have_no_names() -> None:
    kept = run(QUEUE, cluster_of(5), "las").record
    figures = run(QUEUE, cluster_of(5), "las", records=False).record
    assert {"job_id", "gpu_ids"} <= set(kept.allocations.columns) - set(figures.allocations.columns)
    assert kept.jobs.equals(figures.jobs)


def test_a_resize_restarts_only_if_asked() -> None:
    trace = jobs_of(*(job(0 if n < 2 else 10, 90, model="linear") for n in range(3)))
    restarts = [
        sum(
            column(
                run(
                    trace,
                    cluster_of(4),
                    TakesCpusBack(),
                    models={"linear": linear_model()},
                    restart_cost_seconds=5.0,
                    resize_restarts=asked,
                ),
                "restart_seconds",
            )
        )
        for asked in (False, True)
    ]
    assert restarts == [0.0, 5.0]


def test_impossible_jobs_are_left_out_only_if_asked() -> None:
    result = run(jobs_of(job(0, 10), job(0, 10, gpus=9)), cluster_of(4), "fifo", skip_impossible=True)
    assert column(result, "outcome") == ["completed", "refused"]
    assert result.refused == ("1",)


def test_the_network_options_slow_a_gang_over_two_racks() -> None:
    slow = Links(cluster=Link(400.0, 50e-6, oversubscription=8.0))
    cluster = replace(cluster_of(1, 1, 1, 1, racks=2), links=slow)
    rows = [job(0, 1000, gpus=2, model="vgg11"), job(0, 1000, gpus=2, model="vgg11")]

    def ends(**options: Any) -> float:
        jobs = run(jobs_of(*rows), cluster, "fifo+proportional+first-fit", **options).record.jobs
        return float(jobs["communication_seconds"].to_numpy().sum())

    free = ends(network="none")
    alone = ends(network="physical")
    assert free == 0.0 < alone < ends(network="physical", congestion=0.5)
    assert alone < ends(network="physical", contention=True)


def test_certify_adds_bounds_and_changes_nothing_else() -> None:
    """A strict queue leaves GPUs idle that a job behind its head could use: below the best possible."""
    plain, certified = (
        run(jobs_of(*CROWD), cluster_of(4, 3, 1), "fifo-strict", certify=asked).record
        for asked in (False, True)
    )
    assert certified.jobs.equals(plain.jobs)
    stretch = ("job_id", "node", "from_seconds")
    assert certified.allocations.sort(stretch).equals(plain.allocations.sort(stretch))
    assert plain.decisions["bound"].is_null().all()
    value, bound = certified.decisions["value"].to_numpy(), certified.decisions["bound"].to_numpy()
    assert (value <= bound + 1e-9).all()
    assert (value < bound - 1e-9).any()


def kinds(of: type[Part] = Part) -> dict[str, type[Part]]:
    """Every class of part of Muster and the experiments, by name; other tests load parts of users."""
    found = {of.name: of} if of.__module__.startswith(("muster.", "experiments.")) else {}
    for kind in of.__subclasses__():
        found |= kinds(kind)
    return found


PARTS = [info for info in registry.parts() if info.name in kinds()]


@pytest.mark.parametrize("info", PARTS, ids=lambda info: info.name)
def test_every_setting_of_a_part_is_read(info: registry.PartInfo) -> None:
    """Somewhere in the schedulers each setting's name stands after a dot, outside its own declaration."""
    module = sys.modules[kinds()[info.name].__module__]
    files = [Path(str(module.__file__)), *Path(schedulers.__file__).parent.rglob("*.py*")]
    sources = [file.read_text() for file in files if file.suffix in (".py", ".pyx")]
    for setting in info.settings:
        assert any(f".{setting.name}" in source for source in sources), setting.name


SETTINGS = {
    "las.quantum_seconds": ("las", "3"),
    "las.queues": ("las", "30,90"),
    "quota.limits": ("quota+fifo", "a:2"),
    "quota.guaranteed": ("quota+priority", "b:4"),
    "quota.weights": ("quota+priority", "a:5,b:1"),
    "preemptive": ("fifo", "true"),
    "strict": ("fifo", "true"),
    "promote_after_seconds": ("srtf", "40"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_changes_something(name: str) -> None:
    scheduler, value = SETTINGS[name]
    without = run(QUEUE, cluster_of(5), scheduler)
    with_it = run(QUEUE, cluster_of(5), scheduler, {name: value})
    assert not without.record.jobs.equals(with_it.record.jobs)
    assert value.split(":")[0] in str(with_it.record.run["scheduler"]) or value in ("true", "30,90")
