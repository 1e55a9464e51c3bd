"""Reading records back: what was written comes out, and all that is wrong is reported."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from muster.problems import InputError
from muster.report import read_record, record_folders, summarise
from tests.report.hand_made import scheduled, write, write_comparison


def problems_of(folder: Path) -> list[str]:
    with pytest.raises(InputError) as bad:
        read_record(folder)
    return [str(problem).replace(str(folder), "DIR") for problem in bad.value.problems]


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    record = scheduled("las", jobs=20)
    back = read_record(str(write(record, tmp_path)))
    for name in ("jobs", "allocations", "decisions", "reasons"):
        assert_frame_equal(getattr(back, name), getattr(record, name))
    assert back.run == record.run
    assert summarise(back) == summarise(record)


def test_no_such_folder(tmp_path: Path) -> None:
    assert (
        "there is no such folder; allowed: a folder that muster simulate"
        in problems_of(tmp_path / "absent")[0]
    )


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text("job_id\n")
    (reply,) = problems_of(tmp_path / "trace.csv")
    assert "this is a file; allowed: a folder that muster simulate, compare or export wrote" in reply


def test_a_folder_without_a_record_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine\n")
    said = "DIR: this is no record; allowed: a folder that muster simulate, compare or export wrote"
    assert problems_of(tmp_path) == [said]


@pytest.mark.parametrize("kept", ["run.json", "reasons.parquet"])
def test_every_missing_file_is_reported(tmp_path: Path, kept: str) -> None:
    write(scheduled("las", jobs=20), tmp_path)
    names = ["jobs.parquet", "allocations.parquet", "decisions.parquet", "reasons.parquet", "run.json"]
    names.remove(kept)
    for name in names:
        (tmp_path / name).unlink()
    reply = problems_of(tmp_path)
    assert [name in line for name, line in zip(names, reply, strict=True)] == [True] * 4


def test_wrong_tables_and_wrong_run_are_reported_together(tmp_path: Path) -> None:
    folder = write(scheduled("fifo", jobs=5), tmp_path)
    pl.read_parquet(folder / "jobs.parquet").drop("tenant").with_columns(
        pl.col("gpus").cast(pl.String)
    ).write_parquet(folder / "jobs.parquet")
    (folder / "reasons.parquet").write_bytes(b"not a table")
    run = json.loads((folder / "run.json").read_text())
    run["cluster"]["nodes"][1]["gpus"] = -1
    del run["cluster"]["nodes"][2]["name"], run["scheduler"]["name"]
    (folder / "run.json").write_text(json.dumps(run))
    reply = problems_of(folder)
    assert reply[0] == "DIR/jobs.parquet: tenant: this column of String values is missing"
    assert reply[1] == "DIR/jobs.parquet: gpus: found 'String'; allowed: Float64 values"
    assert reply[2].startswith("DIR/reasons.parquet: not a readable Parquet file")
    assert reply[3] == "DIR/run.json: scheduler.name: allowed: a text"
    assert any("cluster.nodes[1].gpus: found -1" in line for line in reply)
    assert any("cluster.nodes[2]" in line for line in reply)


@pytest.mark.parametrize("text", ["{", "[]", '"run"', "\x00"])
def test_a_run_that_is_no_object_is_refused(tmp_path: Path, text: str) -> None:
    folder = write(scheduled("fifo", jobs=5), tmp_path)
    (folder / "run.json").write_text(text)
    assert problems_of(folder)[0].startswith("DIR/run.json")


def test_a_column_of_nulls_is_any_kind(tmp_path: Path) -> None:
    folder = write(scheduled("fifo", jobs=5), tmp_path)
    jobs = pl.read_parquet(folder / "jobs.parquet").with_columns(pl.lit(None).alias("user"))
    jobs.write_parquet(folder / "jobs.parquet")
    assert read_record(folder).jobs["user"].dtype == pl.String()


def test_a_comparison_names_its_runs_in_order(tmp_path: Path) -> None:
    folder = write_comparison([scheduled("sjf", jobs=5), scheduled("fifo", jobs=5)], tmp_path)
    assert [path.name for path in record_folders(folder)] == [
        "sjf+proportional+pack",
        "fifo+proportional+pack",
    ]
    assert "comparison of several runs" in problems_of(folder)[0]
    assert record_folders(folder / "sjf+proportional+pack") == (folder / "sjf+proportional+pack",)


@pytest.mark.parametrize("runs", ['{"runs": []}', '{"runs": 3}', "{}", "[]"])
def test_a_comparison_without_runs_is_refused(tmp_path: Path, runs: str) -> None:
    (tmp_path / "comparison.json").write_text(runs)
    with pytest.raises(InputError, match="a list of folder names"):
        record_folders(tmp_path)


@pytest.mark.parametrize("field", ["settings", "named"])
def test_what_a_run_may_leave_out_is_an_object_where_it_is_there(tmp_path: Path, field: str) -> None:
    folder = write(scheduled("las", jobs=5), tmp_path)
    run = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(run | {field: ["3"]}))
    (reply,) = problems_of(folder)
    assert field in reply
    assert "allowed: an object, or nothing" in reply
