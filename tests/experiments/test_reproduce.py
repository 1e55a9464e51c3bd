"""`muster reproduce`: the frame says what came out and no better; Synergy's own pieces against brute force and hand."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import experiments.papers
from experiments.papers import paper_named, paper_names
from experiments.papers.experiment import Effort, Experiment, Findings, Paper, Row, Verdict, at_least, within
from experiments.papers.sweeps import pieces_of, ratios, sweep_of, table_of
from experiments.papers.synergy.gangs_together import GangsTogether, bound_together
from experiments.papers.synergy.low_load import CpuUse, _usable
from experiments.papers.synergy.one_round import OneRound, pooled_bound
from experiments.papers.synergy.philly import TRACE, PhillyJobs
from experiments.papers.synergy.random_mixes import (
    GANGS,
    ONE,
    RANDOM_MIXES,
    RandomMixes,
    all_at_once,
    random_mix,
    servers_of,
)
from experiments.papers.synergy.same_input import SAME_INPUT
from muster.cli.app import run
from muster.problems import InputError
from muster.schedulers.certify import bound_of_plan
from muster.simulation import Options
from muster.speed.input_pipeline import model_table
from muster.speed.input_stage import relative_speed
from muster.sweep.page import Table
from muster.workload.models import synergy_models
from muster.workload.trace import trace_of

from ..cli.conftest import Outcome

Reproduce = Callable[..., Outcome]


@dataclass(frozen=True)
class Square:
    """The smallest piece there is."""

    number: int

    def inputs(self) -> Mapping[str, Any]:
        return {"number": self.number}

    def run(self) -> Mapping[str, Any]:
        return {"square": self.number**2}


def squares(effort: Effort) -> Sequence[Square]:
    return [Square(number) for number in ((2, 3) if effort.quick else (2, 3, 4))]


def read_squares(effort: Effort, results: Sequence[Mapping[str, Any]]) -> Findings:
    rows = [Row("a | b", "4", "", str(result["square"]), at_least(result["square"], 5)) for result in results]
    return Findings(rows, tables=[Table("Numbers", ("n", "square"), [("2", "4")], "A note.")])


SMALL = Paper(
    "small",
    "A small paper",
    "no journal, no year",
    [Experiment("squares", "Squares", "They grow.", squares, read_squares)],
    ["One note."],
)


@pytest.fixture
def reproduce(capsys: pytest.CaptureFixture[str]) -> Reproduce:
    """Runs `muster reproduce` in this process."""

    def call(*arguments: str | Path) -> Outcome:
        status = run(["reproduce", *map(str, arguments)])
        captured = capsys.readouterr()
        return Outcome(status, captured.out, captured.err)

    return call


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A paper that is done in no time, under the name of a real one."""
    monkeypatch.setattr(experiments.papers, "paper_named", lambda name, only: SMALL)
    return tmp_path / "out"


def test_all_forms_of_the_table_say_the_same(reproduce: Reproduce, small: Path) -> None:
    done = reproduce("small", "--quick", "--out", small, "--json", "--workers", "1")
    assert done.status == 0
    content = json.loads(done.out)
    assert content == json.loads((small / "reproduction.json").read_text())
    rows = content["experiments"][0]["rows"]
    assert [(row["muster"], row["verdict"]) for row in rows] == [("4", "not reached"), ("9", "reached")]
    with (small / "reproduction.csv").open() as file:
        assert [(row["muster"], row["verdict"]) for row in csv.DictReader(file)] == [
            (row["muster"], row["verdict"]) for row in rows
        ]
    markdown = (small / "reproduction.md").read_text()
    assert "| a \\| b | 4 |  | 9 | reached |  |" in markdown
    page = (small / "report.html").read_text()
    assert page.count("not reached") >= 2
    assert "They grow." in page


def test_a_second_time_only_what_is_new_is_run(reproduce: Reproduce, small: Path) -> None:
    assert reproduce("small", "--quick", "--out", small, "--workers", "1").status == 0
    before = {path: path.stat().st_mtime_ns for path in (small / "cells").glob("*.json")}
    full = reproduce("small", "--out", small, "--workers", "1")
    assert full.status == 0
    assert "16" in full.out
    after = {path: path.stat().st_mtime_ns for path in (small / "cells").glob("*.json")}
    assert (len(before), len(after)) == (2, 3)
    assert before.items() <= after.items()


def test_an_unknown_paper_is_refused_with_the_known_ones(reproduce: Reproduce, tmp_path: Path) -> None:
    refused = reproduce("tiresias", "--out", tmp_path / "out")
    assert refused.status == 2
    assert "found 'tiresias'; there are experiments of: " in refused.err
    assert "Hint: did you mean synergy?" in reproduce("synrgy", "--out", tmp_path / "out").err
    with pytest.raises(InputError):
        paper_named("write")


def test_experiments_can_be_chosen_by_name(reproduce: Reproduce, tmp_path: Path) -> None:
    assert [each.name for each in paper_named("smd", ["fits", "layers"]).experiments] == ["layers", "fits"]
    done = reproduce("smd", "--only", "layers", "--only", "layer", "--out", tmp_path / "smd")
    assert done.status == 2
    assert "--only" in done.err
    assert "utility-usage, layers, decisions" in done.err.replace("\n", " ")
    assert not (tmp_path / "smd").exists()


@pytest.mark.parametrize("name", paper_names())
def test_every_paper_has_experiments_with_names_of_their_own(name: str) -> None:
    paper = paper_named(name)
    names = [experiment.name for experiment in paper.experiments]
    assert paper.name == name
    assert len(set(names)) == len(names) > 0
    for experiment in paper.experiments:
        assert experiment.claim.endswith(".")


@pytest.mark.parametrize(
    ("name", "measured"),
    [
        ("static", None),
        ("four-servers", (100, 299)),
        *[
            (name, (400, 799))
            for name in ("single-gpu", "splits", "multi-gpu", "fairness", "servers", "big-data")
        ],
    ],
)
def test_synergys_runs_have_the_papers_options(name: str, measured: tuple[int, int] | None) -> None:
    """Rounds of five minutes, free restarts as in the authors' simulator, and jobs of the steady state."""
    (experiment,) = paper_named("synergy", [name]).experiments
    expected = asdict(Options(round_seconds=300.0, restart_cost_seconds=0.0, measure=measured))
    for piece in experiment.pieces(Effort(quick=True, reference=None)):
        options = piece.inputs()["options"]
        varied = {"rules": "exact", "seed": options["seed"]}
        assert options == {key: expected[key] for key in options} | varied


def test_what_cannot_be_run_here_is_said() -> None:
    effort = Effort(quick=True, reference=None)
    assert SAME_INPUT.pieces(effort) == []
    (row,) = SAME_INPUT.read(effort, []).rows
    assert row.verdict is Verdict.NOT_RUN
    assert "MUSTER_REFERENCE" in row.remark


@pytest.mark.reference
def test_a_row_outside_its_tolerance_is_seen(reference: Path) -> None:
    """The published figures themselves are within; 3 % more in one row are not."""
    effort = Effort(quick=True, reference=reference)
    pieces = SAME_INPUT.pieces(effort)
    traces = {Path(piece.inputs()["workload"]["file"]).name for piece in pieces}
    with (reference / "parity" / "synergy" / "expected.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["trace"] in traces]
    results: list[dict[str, dict[str, float]]] = []
    for piece, row in zip(pieces, rows, strict=True):
        name = piece.inputs()["scheduler"].removeprefix("synergy-published:")
        assert name.startswith(row["policy"].lower())
        assert row["mechanism"] in name or (row["mechanism"] == "tune" and name == row["policy"].lower())
        hours = {"mean": float(row["mean_jct_hours"]), "p99": float(row["p99_jct_hours"])}
        results.append({"jct_seconds": {key: 3600 * value for key, value in hours.items()}})
    assert {row.verdict for row in SAME_INPUT.read(effort, results).rows} == {Verdict.REACHED}
    judged = next(at for at, row in enumerate(rows) if (row["policy"], row["mechanism"]) == ("LAS", "tune"))
    results[judged]["jct_seconds"]["p99"] *= 1.03
    verdicts = [row.verdict for row in SAME_INPUT.read(effort, results).rows]
    assert verdicts.count(Verdict.NOT_REACHED) == 1
    shown = next(at for at, row in enumerate(rows) if row["policy"] == "FTF")
    results[shown]["jct_seconds"]["p99"] *= 1.03
    assert [row.verdict for row in SAME_INPUT.read(effort, results).rows] == verdicts


@pytest.mark.reference
def test_the_static_trace_is_as_published(reference: Path) -> None:
    """Mean JCT of FIFO with proportional shares and with tune: 5.631 h and 5.083 h."""
    of_static = {
        piece.inputs()["scheduler"]: piece
        for piece in SAME_INPUT.pieces(Effort(quick=True, reference=reference))
        if "static" in piece.inputs()["workload"]["file"]
    }
    for name, hours in (("fifo+proportional+first-fit", 5.631097), ("synergy-published:fifo", 5.082764)):
        assert float(of_static[name].run()["jct_seconds"]["mean"]) / 3600 == pytest.approx(hours, rel=0.005)


def test_the_bound_by_hand() -> None:
    """One server: an alexnet at its knee takes 12 CPUs and 125 GB and runs at 2.94; seven gnmt need little."""
    models = synergy_models()
    assert pooled_bound({models["gnmt"]: 8}, 24, 500) == pytest.approx(8.0)
    assert pooled_bound({models["gnmt"]: 7, models["alexnet"]: 1}, 24, 500) == pytest.approx(
        7 + 2.94, rel=1e-3
    )


@pytest.mark.parametrize(
    "names", [("alexnet", "m5", "resnet18"), ("mobilenetv2", "m5", "gnmt"), ("m5", "m5", "alexnet")]
)
def test_the_bound_is_above_every_choice(names: tuple[str, ...]) -> None:
    """Every combination of measured points of three jobs that fits and keeps everybody fair."""
    models = synergy_models()
    cpus, memory = 9.0, 187.5
    table = model_table([models[name] for name in names])
    ways = []
    for number, name in enumerate(names):
        model = models[name]
        fair = relative_speed(table, number, 3.0, 62.5, np.inf)
        ways.append(
            [
                (c, m, speed)
                for c in model.cpus_per_gpu
                for m in model.memory_gb_per_gpu
                if (speed := relative_speed(table, number, c, m, np.inf)) >= fair
            ]
        )
    best = max(
        sum(speed for _, _, speed in chosen)
        for chosen in itertools.product(*ways)
        if sum(c for c, _, _ in chosen) <= cpus and sum(m for _, m, _ in chosen) <= memory
    )
    counts = {models[name]: names.count(name) for name in names}
    bound = pooled_bound(counts, cpus, memory)
    assert best <= bound + 1e-9
    assert bound <= 1.35 * best


def test_one_round_is_ordered() -> None:
    """Bound >= opt >= tune-plus >= tune >= proportional, with no job left out."""
    found = {
        name: OneRound(2, (33, 33, 33), name).run() for name in ("proportional", "tune", "tune-plus", "opt")
    }
    assert {result["jobs"] for result in found.values()} == {16}
    speeds = [result["speed"] for result in found.values()]
    assert speeds[0] == pytest.approx(16.0)
    assert speeds == sorted(speeds)
    assert speeds[-1] <= found["opt"]["bound"] + 1e-9


def test_random_mixes_are_ordered_and_read() -> None:
    """On one server: bound >= opt >= tune-plus >= tune >= proportional in every mix; goals are judged from 128 GPUs."""
    result = RandomMixes(1, ONE, 3).run()
    names = ("proportional", "tune", "tune-plus", "opt", "bound")
    for less, more in itertools.pairwise(np.array(result[name]) for name in names):
        assert (less <= more * (1 + 1e-6)).all()
    assert result["proportional"] == pytest.approx([8.0] * 3)
    gangs = random_mix(32, GANGS, np.random.default_rng(1)).jobs
    assert gangs["gpus"].sum() == 32
    effort = Effort(quick=True, reference=None)
    good = {name: [1.0] * 50 for name in (*names, "tune-published")}
    for worst, verdict in ((0.97, Verdict.REACHED), (0.80, Verdict.NOT_REACHED)):
        large = {**good, "tune-plus": [1.0] * 48 + [worst] * 2}
        rows = RANDOM_MIXES.read(effort, [large, good]).rows
        assert rows[0].verdict is verdict
        assert rows[0].what == "tune-plus below the bound, 128 GPUs, jobs of one GPU"


def test_gangs_together_is_a_bound_below_the_pooled_one() -> None:
    """By hand: a gang of 16 on its two machines at speed 1, and 8 alexnets on the third, of 24 cores, at 1."""
    found = GangsTogether(3, 5).run()
    for less, more in itertools.pairwise(
        np.array(found[name]) for name in ("tune-plus", "together", "pooled")
    ):
        assert (less <= more * (1 + 1e-6)).all()
    columns = {
        "job_id": range(9),
        "submit_seconds": [0.0] * 9,
        "duration_seconds": [60.0] * 9,
        "gpus": [16, *[1] * 8],
        "model": ["gnmt", *["alexnet"] * 8],
    }
    assert bound_together(trace_of(columns, "by hand"), 3) == pytest.approx(24.0)
    view = all_at_once(trace_of(columns, "by hand"), servers_of(3))
    # 16 gnmt need 16 of 72 cores: the pooled bound gives 7 to each alexnet.
    assert bound_of_plan(view) > 16 + 8 * 1.75


@pytest.mark.reference
def test_the_philly_jobs_are_as_they_are(reference: Path) -> None:
    jobs = PhillyJobs(reference / TRACE, 100, 139).trace().jobs
    assert jobs["job_id"].to_list() == [str(number) for number in range(100, 140)]
    assert jobs["submit_seconds"][0] == 0
    assert jobs["model"].n_unique() == 10


def test_cpus_in_use_by_hand() -> None:
    assert _usable("gnmt", 1.0, 3.0, 62.5) == 1.0
    assert _usable("alexnet", 1.0, 3.0, 62.5) == 3.0
    assert _usable("resnet50", 2.0, 24.0, 125.0) == 8.0
    language = CpuUse(40, (0, 100, 0), "proportional").run()
    assert language["used"] == pytest.approx(language["held"] / 3)


def test_ratios_are_taken_seed_by_seed() -> None:
    sweep = sweep_of(
        schedulers=["fifo+proportional", "fifo+tune"],
        clusters=["1x8gpu"],
        seeds=2,
        synergy=[{"jobs": 12, "loads": [1.0]}],
    )
    cells = table_of(sweep, [piece.run() for piece in pieces_of(sweep)])
    times = cells["jct_mean_seconds"].to_list()
    (ratio,) = ratios(cells, "jct_mean_seconds", {"fifo+tune": "fifo+proportional"})
    assert ratio.value.mean == pytest.approx((times[0] / times[1] + times[2] / times[3]) / 2)
    assert isinstance(cells, pl.DataFrame)


def test_verdicts() -> None:
    assert at_least(3.4, 3.4) is Verdict.REACHED
    assert at_least(3.3, 3.4) is Verdict.NOT_REACHED
    assert within(99.0, 100.0, 0.01) is Verdict.REACHED
    assert within(98.9, 100.0, 0.01) is Verdict.NOT_REACHED
