"""The grounds of Sia and Rubick: their jobs under Muster's schedulers, beside what was recorded."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from experiments.elastic.files import FOLDER, read_table
from experiments.elastic.ground import elastic, rubick
from experiments.elastic.iteration_work import RubickSpeeds
from experiments.elastic.step_times import closest
from experiments.joint.ground import table
from muster.schedulers.composed import Composed
from muster.schedulers.contract import Decision, Snapshot, State
from muster.schedulers.registry import build
from muster.simulation import Options, simulate

SAME_UNTIL_SECONDS = 21_055.0
"""The first job of llama30 on 24 GPUs comes then, which Synergy places on six nodes whatever is free."""


def test_the_closest_placement_fills_nodes() -> None:
    assert [closest(gpus, 4) for gpus in (1, 4, 6, 8)] == [(1,), (4,), (4, 2), (4, 4)]


@pytest.mark.reference
def test_the_ground_of_sia_has_its_recorded_figures(reference: Path) -> None:
    cells = {cell.name: cell for cell in elastic(reference)}
    assert list(cells) == ["pollux-1 homog rigid", "pollux-1 homog fixed-batch"]
    rigid = {each.name: each for each in cells["pollux-1 homog rigid"].recorded}
    assert rigid["recorded: sia"].mean_jct == pytest.approx(4972.77, abs=0.01)
    assert rigid["recorded: sia"].p99_jct == pytest.approx(70254.8, abs=0.1)
    assert rigid["recorded: gavel"].makespan == 138592
    assert cells["pollux-1 homog rigid"].trace.jobs["max_gpus"].to_list() == [
        *cells["pollux-1 homog rigid"].trace.jobs["gpus"]
    ]


@pytest.mark.reference
def test_fifo_repeats_synergy_until_it_places_otherwise(reference: Path) -> None:
    (cell,) = rubick(reference)
    options = Options(rules=cell.rules, network="none", round_origin=60.0)
    jobs = simulate(cell.trace, cell.cluster, build("fifo"), options, models={}).record.jobs
    expected = read_table(reference / FOLDER / "rubick" / "jobs_base_synergy.csv")
    both = jobs.join(expected.select(job_id="job", expected="end_s"), on="job_id")
    early = both.filter(both["submit_seconds"] < SAME_UNTIL_SECONDS)
    assert len(early) == 60
    assert (early["finish_seconds"] - early["expected"]).abs().to_numpy().max() < 1e-6
    # Afterwards a few gangs on other nodes decide: 6,340 s beside 6,104.
    assert jobs["jct_seconds"].to_numpy().mean() == pytest.approx(6104.1, rel=0.05)


@pytest.mark.reference
def test_a_table_has_a_line_for_each_run(reference: Path) -> None:
    (cell,) = rubick(reference)
    lines = list(table(cell, ["fifo"]))
    assert len(lines) == 1 + 4 + 1
    assert lines[-1].split()[0] == "fifo"


@pytest.mark.reference
def test_a_size_that_was_not_measured_does_not_run(reference: Path) -> None:
    speeds = RubickSpeeds(reference / FOLDER / "tables" / "rubick_seconds_per_iteration.csv")
    on_three, on_six = (speeds.seconds("llama30", placement, "") for placement in ((8,) * 3, (4,) * 6))
    assert on_three == on_six < float("inf")
    assert speeds.seconds("llama30", (8, 8), "") == float("inf")


@pytest.mark.reference
def test_speeds_of_other_sizes_are_those_of_the_table(reference: Path) -> None:
    (cell,) = rubick(reference)
    asked: list[list[float]] = []

    class Asks(Composed):
        def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
            assert snapshot.size_speeds is not None
            jobs, gpus, nodes = np.array([0, 1, 1, 1]), np.array([2, 48, 40, 4]), np.array([1, 6, 8, 5])
            asked.append(snapshot.size_speeds.seconds_per_iteration(jobs, gpus, nodes, "a800").tolist())
            return super().decide(snapshot, state)

    fifo = build("fifo")
    assert isinstance(fifo, Composed)
    fields = {field.name: getattr(fifo, field.name) for field in dataclasses.fields(fifo) if field.init}
    options = Options(rules=cell.rules, network="none")
    simulate(cell.trace, cell.cluster, Asks(**fields), options, models={})
    speeds = RubickSpeeds(reference / FOLDER / "tables" / "rubick_seconds_per_iteration.csv")
    vit = speeds.seconds("vit", (2,), "zero-dp")
    spread, packed = (speeds.seconds("llama30", placement, "") for placement in ((5,) * 8, (8,) * 6))
    assert asked[0] == [vit, packed, spread, float("inf")]
