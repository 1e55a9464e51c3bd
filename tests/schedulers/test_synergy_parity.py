"""The Synergy authors' simulator on its own inputs: every row of greedy and tune under FIFO, SRTF, LAS, DRF, Tetris."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from muster.cli.app import run
from muster.cluster.shipped import parse_cluster
from muster.schedulers.presets import known_presets
from muster.schedulers.registry import build
from muster.simulation import Options, rules_named, simulate
from muster.workload.trace import read_trace

RULES = rules_named("synergy-published")
POLICIES = ("FIFO", "SRTF", "LAS", "DRF", "TETRIS")
PRESETS = {"tune": "synergy-published:{}", "greedy": "synergy-published:{}-greedy"}
TOLERANCE = {"DRF": 0.02, "TETRIS": 0.02}
"""Elsewhere 1 %; measured: under 0.001 %, but for Tetris, whose language models ask 20 GB there and 20.83 here."""

pytestmark = pytest.mark.reference


@pytest.fixture(scope="module")
def expected(reference: Path) -> pl.DataFrame:
    rows = pl.read_csv(reference / "parity" / "synergy" / "expected.csv")
    rows = rows.filter(pl.col("mechanism").is_in(list(PRESETS)) & pl.col("policy").is_in(POLICIES))
    assert len(rows) == 36
    return rows


@pytest.mark.parametrize("policy", POLICIES)
def test_published_figures(policy: str, expected: pl.DataFrame, reference: Path) -> None:
    for row in expected.filter(policy=policy).iter_rows(named=True):
        name = PRESETS[row["mechanism"]].format(policy.lower())
        settings = {**RULES.settings_for(name), "gpu_choice": row["gpu_choice"]}
        jct = completion_hours(reference, row["trace"], row["servers"], name, settings, row["measured_ids"])
        ours = (jct.mean(), np.quantile(jct, 0.5), np.quantile(jct, 0.99))
        theirs = (row["mean_jct_hours"], row["p50_jct_hours"], row["p99_jct_hours"])
        assert ours == pytest.approx(theirs, rel=TOLERANCE.get(policy, 0.01)), (row["trace"], name)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("mechanism", PRESETS)
def test_the_rules_bring_what_the_presets_have(policy: str, mechanism: str) -> None:
    """`las+tune-published` under the rules is the preset: nothing else need be typed."""
    preset = PRESETS[mechanism].format(policy.lower())
    spelled = known_presets()[preset].parts
    assert build(spelled, RULES.settings_for(spelled)) == build(preset, RULES.settings_for(preset))


def test_the_command_of_the_docs(reference: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No --round and no --set; the list of 100 jobs, whose rounds begin at 1 s: 5.0828 h."""
    trace = reference / "parity" / "synergy" / "static_60-30-10_100.csv"
    typed = ("--cluster", "synergy-4", "--scheduler", "fifo+tune-published", "--rules", "synergy-published")
    assert (
        run(["simulate", str(trace), *typed, "--round-origin", "1", "--out", str(tmp_path / "out"), "--json"])
        == 0
    )
    jct = json.loads(capsys.readouterr().out)["summary"]["jct_seconds"]
    with (reference / "parity" / "synergy" / "expected.csv").open() as lines:
        (row,) = (
            row
            for row in csv.DictReader(lines)
            if (row["trace"], row["policy"], row["mechanism"], row["gpu_choice"])
            == (trace.name, "FIFO", "tune", "first-fit")
        )
    expected = [3600 * float(row[f"{what}_jct_hours"]) for what in ("mean", "p99")]
    assert [jct["mean"], jct["p99"]] == pytest.approx(expected, rel=0.01)


def completion_hours(
    reference: Path, trace: str, servers: int, name: str, settings: dict[str, str], measured: str
) -> np.ndarray:
    """Job completion times of the measured jobs under the published rules."""
    first, last = map(int, measured.split(":"))
    origin: float | str = "first-arrival"
    if trace.startswith("static"):
        origin = 1.0
    elif "12000" in trace:
        origin = 0.0
    options = Options(round_origin=origin, measure=(first, last), rules=RULES)
    jobs = read_trace(reference / "parity" / "synergy" / trace)
    result = simulate(jobs, parse_cluster(f"synergy-{servers}"), build(name, settings), options)
    counted = result.record.jobs.filter(pl.col("job_id").cast(pl.Int64).is_between(first, last))
    hours: np.ndarray = (counted["finish_seconds"] - counted["submit_seconds"]).to_numpy() / 3600
    assert len(hours) == last - first + 1
    return hours
