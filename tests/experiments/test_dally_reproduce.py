"""`muster reproduce dally`: its traces, what it makes of results that are known, and its chart."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest

from experiments.papers.dally.field import FIELD, POLICIES
from experiments.papers.dally.pareto import pareto_chart, unbeaten
from experiments.papers.dally.same_input import SAME_INPUT, Twin, read_starts, same_starts, scheduler_of
from experiments.papers.dally.settings import (
    LEAST_SECONDS,
    MOST_SECONDS,
    Run,
    Setting,
    seeds,
    settings,
    trace,
)
from experiments.papers.experiment import Effort, Verdict
from muster.report.drawing import PHONE

QUICK = Effort(quick=True, reference=None)


def test_the_same_jobs_come_in_every_setting_of_a_seed() -> None:
    assert len(set(map(str, settings()))) == 8
    first, *others = (trace(setting, 200, 3).jobs for setting in settings())
    work = first["gpu_work_seconds"].to_numpy()
    assert LEAST_SECONDS <= work.min() <= work.max() <= MOST_SECONDS
    for jobs in others:
        assert jobs["gpus"].equals(first["gpus"])
        assert jobs["gpu_work_seconds"].equals(first["gpu_work_seconds"])
    assert not trace(settings()[0], 200, 4).jobs["gpus"].equals(first["gpus"])
    arrivals = trace(Setting("Poisson", False, "measured fits"), 2000, 1).jobs["submit_seconds"].to_numpy()
    assert np.diff(arrivals).mean() == pytest.approx(864, rel=0.1)


def figures(policy: str) -> dict[str, float]:
    """`dally` has 20 % of what the others have, dally-plus 4 % more mean JCT and makespan than dally."""
    times = {"dally": 20.0, "dally-plus": 20.8, "dally-plus-oracle": 10.0}.get(policy, 100.0)
    return dict.fromkeys(("makespan", "jct", "p95", "p99", "wait", "communication"), times * 86400) | {
        "unfinished": 0
    }


def test_verdicts_on_known_results() -> None:
    pieces = [piece for piece in FIELD.pieces(QUICK) if isinstance(piece, Run)]
    assert len(pieces) == 8 * len(POLICIES) * len(seeds(QUICK))
    assert {piece.needs_durations for piece in pieces if piece.scheduler == "dally-plus"} == {False}
    found = FIELD.read(QUICK, [figures(piece.scheduler) for piece in pieces])
    rows = {row.what: row for row in found.rows}
    assert len(rows) == len(found.rows)
    where = "batch, congested, authors' scales"
    against = rows[f"makespan shorter than consolidation's | against yarn-cs | {where}"]
    assert (against.muster, against.verdict) == ("80 % ± 0", Verdict.REACHED)
    jct = rows[f"mean JCT lower | against tiresias | {where}"]
    assert (jct.muster, jct.verdict) == ("80 % ± 0", Verdict.NOT_REACHED)
    assert rows[f"mean JCT, Tiresias over Dally | {where}"].muster == "5.00"
    plus = rows[f"mean jct of dally-plus against the best | {where}"]
    assert (plus.muster, plus.verdict, plus.remark) == (
        "+4.0 %",
        Verdict.NOT_REACHED,
        "the best other is dally",
    )
    oracle = rows[f"makespan of dally-plus-oracle against the best | {where}"]
    assert (oracle.muster, oracle.verdict) == ("-50.0 %", Verdict.REACHED)
    assert sum("communication" in what for what in rows) == 3 * 4, "under congestion only"
    assert len(found.tables) == 8


def test_a_point_is_unbeaten_if_none_is_better_in_both() -> None:
    points = {"a": (1.0, 3.0), "b": (2.0, 2.0), "c": (2.0, 3.0), "d": (3.0, 1.0), "e": (2.0, 2.0)}
    assert [name for name, at in points.items() if unbeaten(at, points)] == ["a", "b", "d", "e"]


def test_the_chart_has_every_policy_in_every_panel() -> None:
    runs = {policy: [figures(policy)] for policy in POLICIES}
    chart = pareto_chart({"one": runs, "two": runs})
    (points,) = chart.spec(PHONE)["datasets"].values()
    assert len(points) == 2 * len(POLICIES)
    assert [row["run"] for row in points if row["front"]] == ["dally-plus-oracle"] * 2


@pytest.mark.parametrize("policy", ["dally-plus", "gandiva"])
def test_a_run_is_whole(policy: str) -> None:
    result = Run(policy, False, Setting("batch", True, "authors' scales"), 12, 1).run()
    assert result["unfinished"] == 0
    assert 0 < result["jct"] <= result["makespan"]
    assert 0 <= result["communication"] < result["jct"]


def test_a_start_log_counts_up_to_its_first_difference(tmp_path: Path) -> None:
    folder = tmp_path / "parity" / "dally"
    folder.mkdir(parents=True)
    rows = [
        "trace,policy,makespan_s,avg_jct_s",
        "batch500_x10,Dally-auto24,1000,100",
        "batch500_x1,Tiresias,9,10",
    ]
    (folder / "authors_program_runs.csv").write_text("\n".join(rows))
    lines = [
        "time_s,event,job_id,level,places",
        "0,start,7,slot,0.1:3 0.0:c",
        "5,end,7,,",
        "6,start,8,slot,1.1:1",
    ]
    for policy in ("auto24", "manual6-12"):
        with lzma.open(folder / f"starts_batch500_x10_{policy}.csv.xz", "wt") as file:
            file.write("\n".join(lines))
    effort = Effort(quick=True, reference=tmp_path)
    pieces = SAME_INPUT.pieces(effort)
    twins = [piece for piece in pieces if isinstance(piece, Twin)]
    assert len(twins) == len(pieces)
    assert [(twin.policy, twin.trace) for twin in twins] == [
        ("auto24", "batch500_x10"),
        ("manual6-12", "batch500_x10"),
        ("Tiresias", "batch500_x1"),
    ]
    theirs = read_starts(twins[0].log)
    assert theirs == [(0.0, "7", ("0.0:c", "0.1:3")), (6.0, "8", ("1.1:1",))]
    later = [theirs[0], (6.00001, *theirs[1][1:])]
    assert [same_starts(ours, theirs) for ours in (theirs, theirs[:1], theirs * 2, later, [])] == [
        2,
        1,
        1,
        1,
        0,
    ]
    figures = {"makespan": 9, "jct": 10, "starts": 2}
    found = SAME_INPUT.read(
        effort, [{**figures, "same": 2}, {**figures, "same": 1}, {"makespan": 9, "jct": 11}]
    )
    (row,) = found.rows
    assert (row.muster, row.verdict, row.remark) == (
        "1 of 2",
        Verdict.NOT_REACHED,
        "manual6-12 on batch500_x10",
    )
    assert found.tables[1].rows == [("Tiresias", "batch500_x1", "9", "9", "+0.0 %", "10", "11", "+10.0 %")]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("auto24", ("dally", {"history_leases": "24"})),
        ("Dally-manual12-24", ("dally-manual", {"machine_leases": "12", "rack_leases": "24"})),
        ("noWait", ("dally-nowait", {})),
        ("Gandiva", ("gandiva-dally", {})),
    ],
)
def test_policies_by_the_names_of_the_authors(policy: str, expected: tuple[str, dict[str, str]]) -> None:
    assert scheduler_of(policy) == expected
