"""`--map` names the columns of any table, for every command that reads a trace."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import TRACE, Outcome

Muster = Callable[..., Outcome]

MAPPING = "id=name,submit=arrival_s,gpus=num_gpu,duration=run_s,tenant=team"
RENAMED = TRACE.replace(
    "job_id,submit_seconds,gpus,duration_seconds,tenant", "name,arrival_s,num_gpu,run_s,team"
)
CLUSTER = ("--cluster", "1x8gpu")


@pytest.fixture
def renamed(tmp_path: Path) -> Path:
    """The jobs of `trace` under other column names."""
    path = tmp_path / "log.csv"
    path.write_text(RENAMED)
    return path


def test_simulate_reads_mapped_columns(muster: Muster, trace: Path, renamed: Path, tmp_path: Path) -> None:
    native = muster("simulate", trace, *CLUSTER, "--out", tmp_path / "native")
    mapped = muster("simulate", renamed, *CLUSTER, "--map", MAPPING, "--out", tmp_path / "mapped")
    assert (native.status, mapped.status) == (0, 0), mapped.err
    for table in ("jobs", "allocations"):
        path = f"{table}.parquet"
        assert (tmp_path / "native" / path).read_bytes() == (tmp_path / "mapped" / path).read_bytes()


def test_the_page_of_a_mapped_trace_gives_the_mapping(muster: Muster, renamed: Path, tmp_path: Path) -> None:
    flags = (
        *CLUSTER,
        "--map",
        MAPPING,
        "--scheduler",
        "fifo",
        "--scheduler",
        "las",
        "--out",
        tmp_path / "out",
    )
    assert muster("compare", renamed, *flags).status == 0
    assert f"--map {MAPPING}" in (tmp_path / "out" / "report.html").read_text()


def test_the_hint_about_unknown_columns_can_be_followed(
    muster: Muster, renamed: Path, tmp_path: Path
) -> None:
    refused = muster("simulate", renamed, *CLUSTER, "--out", tmp_path / "out")
    assert refused.status == 2
    assert "--map submit=COLUMN,gpus=COLUMN,duration=COLUMN" in refused.err


@pytest.mark.parametrize("command", ["simulate", "compare"])
def test_a_wrong_mapping_is_refused_with_the_rest(muster: Muster, renamed: Path, command: str) -> None:
    refused = muster(command, renamed, "--cluster", "philli", "--map", "submit=arrival_s,gpu=num_gpu")
    assert refused.status == 2
    assert "--map: found 'gpu'; is no column of a trace; allowed: " in refused.err
    assert "Hint: did you mean philly?" in refused.err
    assert len(refused.err.splitlines()) == 2


def test_a_sweep_reads_mapped_columns(muster: Muster, trace: Path, renamed: Path, tmp_path: Path) -> None:
    sweep = 'schedulers = ["fifo"]\nclusters = "1x8gpu"\ntraces = "{}"\n'
    summaries = []
    for name, path, flags in (("native", trace, ()), ("mapped", renamed, ("--map", MAPPING))):
        file = tmp_path / f"{name}.toml"
        file.write_text(sweep.format(path))
        done = muster("sweep", file, "--out", tmp_path / name, *flags)
        assert done.status == 0, done.err
        (cell,) = (tmp_path / name / "cells").glob("*.json")
        summaries.append(json.loads(cell.read_text())["result"]["jct_seconds"])
    assert summaries[0] == summaries[1]
    assert f"--map {MAPPING}" in (tmp_path / "mapped" / "report.html").read_text()


def test_a_sweep_file_may_hold_the_mapping_once(muster: Muster, renamed: Path, tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(f'schedulers = ["fifo"]\nclusters = "1x8gpu"\ntraces = "{renamed}"\nmap = "{MAPPING}"\n')
    assert muster("sweep", file, "--out", tmp_path / "out").status == 0
    refused = muster("sweep", file, "--map", MAPPING, "--out", tmp_path / "again")
    assert refused.status == 2
    assert "--map: the sweep file has a map of its own; give one of the two" in refused.err


def test_a_sweep_without_traces_has_no_columns_to_map(muster: Muster, tmp_path: Path) -> None:
    generated = "[[mixed]]\njobs = 5\ngpus = 8\nloads = 1\n"
    what = "its columns are those of traces, and the sweep has none; leave it out"
    file = tmp_path / "sweep.toml"
    words = ("sweep", file, "--out", tmp_path / "out")
    file.write_text(f'schedulers = ["fifo"]\nclusters = "1x8gpu"\n{generated}')
    assert f"--map: found '{MAPPING}'; {what}" in muster(*words, "--map", MAPPING).err
    file.write_text(f'schedulers = ["fifo"]\nclusters = "1x8gpu"\nmap = "{MAPPING}"\n{generated}')
    assert f"sweep.toml:3: map: found '{MAPPING}'; {what}" in muster(*words).err


def test_an_empty_mapping_is_refused(muster: Muster, trace: Path, tmp_path: Path) -> None:
    sweep = tmp_path / "sweep.toml"
    sweep.write_text(f'schedulers = ["fifo"]\nclusters = "1x8gpu"\ntraces = "{trace}"\n')
    for words in (
        ("convert", trace, "-o", tmp_path / "ours.csv"),
        ("sweep", sweep, "--out", tmp_path / "out"),
    ):
        refused = muster(*words, "--map", "")
        assert (refused.status, "--map: found ''; allowed: pairs such as" in refused.err) == (2, True), (
            refused.err
        )
