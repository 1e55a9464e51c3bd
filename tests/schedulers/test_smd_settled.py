"""SMD keeps what follows from its last decision: a run without that memory, and one that solves each knapsack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.schedulers.contract import Decision, Scheduler, Snapshot, State
from muster.schedulers.registry import build
from muster.schedulers.workers_and_servers.interval import SizingSolution
from muster.schedulers.workers_and_servers.sizing_problem import SizingProblem
from muster.schedulers.workers_and_servers.smd import Smd, SmdReservation
from muster.simulation.failures import Failures
from tests.building import run
from tests.schedulers.smd_cases import machines, trace_of_seed
from tests.schedulers.wrapped import Counted, Wrapped

TABLES = ("jobs", "allocations", "decisions", "reasons")


class Forgets(Wrapped):
    """Decides without what it has kept of its last decision."""

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        return super().decide(snapshot, {**state, "settled": None})


@dataclass(frozen=True)
class AlwaysSolves(Smd):
    def fastest(self, question: SizingProblem) -> SizingSolution | None:
        return None


@dataclass(frozen=True)
class AlwaysSolvesReservation(SmdReservation):
    def fastest(self, question: SizingProblem) -> SizingSolution | None:
        return None


@given(
    st.integers(0, 1000),
    st.sampled_from([1.0, 3.0, 8.0]),
    st.sampled_from(["smd", "smd-reservation"]),
    st.sampled_from(
        [
            {},
            {"round_seconds": 250.0},
            {"restart_cost_seconds": 0.0},
            {"restart_cost_seconds": 60.0, "release_seconds_per_gpu": 5.0},
        ]
    ),
    st.booleans(),
)
@settings(max_examples=8, deadline=None)
def test_a_decision_from_scratch_is_the_same(
    seed: int, per_hour: float, name: str, options: dict[str, Any], fails: bool
) -> None:
    given_settings = {"interval_seconds": "1800"}
    kept = build(name, given_settings)
    solves = {"smd": AlwaysSolves, "smd-reservation": AlwaysSolvesReservation}[name](interval_seconds=1800.0)
    if fails:
        options = options | {"failures": Failures(90_000.0, 3000.0), "seed": seed}

    def record(scheduler: Scheduler) -> Any:
        trace = trace_of_seed(seed, jobs=10, per_hour=per_hour)
        return run(trace, machines(5, gpus=8, cpus=64), scheduler, **options).record

    expected = record(solves)
    for scheduler in (kept, Forgets(kept)):
        found = record(scheduler)
        for table in TABLES:
            assert getattr(found, table).equals(getattr(expected, table)), table


def test_settled_jobs_are_not_asked_about() -> None:
    counted = Counted(build("smd"))
    run(trace_of_seed(3, jobs=6, per_hour=0.2), machines(20, gpus=8, cpus=64), counted)
    assert len(counted.asked_at) == 2 * 6, "arrivals and completions alone"
