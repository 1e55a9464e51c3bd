"""The native form: what every cell may hold, all problems reported together, and the way out and back in."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.problems import InputError
from muster.workload.trace import Trace, read_trace, trace_of, write_trace
from muster.workload.traces.columns import COLUMNS, NAMES, WORK, default_of, dtype_of

SMALL = "job_id,submit_seconds,gpus,model,duration_seconds\na,5,1,alexnet,60\nb,0,8,,7.5\n"


def written(folder: Path, text: str, name: str = "trace.csv") -> Path:
    path = folder / name
    path.write_text(text, newline="")
    return path


def problems_of(path: Path, **how: Any) -> list[str]:
    with pytest.raises(InputError) as refused:
        read_trace(path, **how)
    return [
        str(problem).replace(f"{path}: ", "").replace(f"{path}:", ":") for problem in refused.value.problems
    ]


def with_cell(column: str, cell: str) -> str:
    """A trace of one job in which one cell is this."""
    row = {"job_id": "a", "submit_seconds": "5", "gpus": "4", "duration_seconds": "60"}
    if column == "iterations":
        del row["duration_seconds"]
        row["model"] = "alexnet"
    if column == "gpu_work_seconds":
        del row["duration_seconds"]
    row[column] = cell
    return ";".join(row) + "\n" + ";".join(row.values()) + "\n"


def test_all_native_columns_are_there_with_types_and_defaults(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, SMALL))
    assert tuple(trace.jobs.columns) == NAMES
    assert [trace.jobs.schema[column.name] for column in COLUMNS] == [dtype_of(column) for column in COLUMNS]
    assert trace.jobs["job_id"].to_list() == ["a", "b"]
    assert trace.jobs["submit_seconds"].to_list() == [5.0, 0.0]
    assert trace.jobs["duration_seconds"].to_list() == [60.0, 7.5]
    assert trace.jobs["model"].to_list() == ["alexnet", ""]
    given_columns = SMALL.partition("\n")[0].split(",")
    for column in COLUMNS:
        if column.name not in given_columns:
            assert trace.jobs[column.name].to_list() == [default_of(column)] * 2
    assert trace.notes == ()


GOOD = [
    ("submit_seconds", "0", 0.0),
    ("submit_seconds", "1e12", 1e12),
    ("submit_seconds", "1000000000", 1e9),
    ("gpus", "4.0", 4),
    ("gpus", "1e3", 1000),
    ("duration_seconds", "1e-3", 0.001),
    ("duration_seconds", "1e9", 1e9),
    ("iterations", "12", 12.0),
    ("gpu_work_seconds", "0.5", 0.5),
    ("priority", "-3", -3.0),
    ("min_gpus", "4", 4),
    ("max_gpus", "4", 4),
    ("preemptible", "False", False),
    ("preemptible", "yes", True),
    ("preemptible", "0", False),
    ("preemptible", "", True),
    ("constraint", "gpu_type=V100", "gpu_type=V100"),
    ("constraint", "label=fast|big", "label=fast|big"),
    ("constraint", "", ""),
    ("deadline_seconds", "5", 5.0),
    ("cpus", "", None),
    ("tenant", " vc 1 ", "vc 1"),
]


@pytest.mark.parametrize(("column", "cell", "value"), GOOD)
def test_what_a_cell_may_hold(tmp_path: Path, column: str, cell: str, value: object) -> None:
    assert read_trace(written(tmp_path, with_cell(column, cell))).jobs[column].to_list() == [value]


NUMBERS = [
    column.name
    for column in COLUMNS
    if default_of(column) is None or column.name in ("gpu_milli", "priority")
]
BAD = [
    *((column, cell) for column in NUMBERS for cell in ("NaN", "inf", "-inf", "x", "1,5", "1e400", "2e12")),
    *((column, "-1") for column in NUMBERS if column != "priority"),
    *((column, "1.5") for column in ("gpus", "gpu_milli", "min_gpus", "max_gpus")),
    ("server_cpus", "0.0000009"),
    *((column, "0") for column in (*WORK, "gpu_milli", "cpus", "memory_gb", "min_gpus", "max_gpus")),
    *((column, "") for column in (*WORK, "job_id", "submit_seconds", "gpus")),
    ("gpus", "-1"),
    ("gpus", "1000001"),
    ("gpus", "99999999999999999999"),
    ("gpu_milli", "1001"),
    ("gpu_milli", "500"),
    ("min_gpus", "5"),
    ("max_gpus", "3"),
    ("preemptible", "maybe"),
    ("constraint", "V100"),
    ("constraint", "gpu_type="),
    ("constraint", "gpu_type=A100 40GB"),
    ("deadline_seconds", "4"),
    ("min_runtime_seconds", "-1"),
    ("job_id", "a\x07"),
]


@pytest.mark.parametrize(("column", "cell"), BAD)
def test_a_wrong_cell_is_reported_with_its_place(tmp_path: Path, column: str, cell: str) -> None:
    [reply] = problems_of(written(tmp_path, with_cell(column, cell)))
    assert reply.startswith(f":2: {column}: ")
    if cell:
        assert f"found {cell!r}" in reply or "found 500" in reply or f"found {cell}" in reply
    else:
        assert "is empty" in reply


@pytest.mark.parametrize(
    ("row", "reply"),
    [
        (
            "4,resnet50,512,,,1000",
            "model: found 'resnet50'; max_batch needs a model whose noise scale is known; ",
        ),
        ("4,,512,,,1000", "model: found ''; max_batch needs a model whose noise scale is known; known: "),
        (
            "4,cifar10,511,,,1000",
            "max_batch: found 511; is below the initial batch; allowed: at least gpus times",
        ),
        ("1,cifar10,512,500,,1000", "max_batch: found 512; only a job with whole GPUs"),
        ("0,,512,,2,1000", "max_batch: found 512; is stated for a job with gpus = 0; leave it empty"),
        ("4,cifar10,1.5,,,1000", "max_batch: found '1.5'; allowed: a whole number of samples from 1 to 1e9"),
    ],
)
def test_what_a_batch_that_varies_needs_is_said(tmp_path: Path, row: str, reply: str) -> None:
    columns = "job_id,submit_seconds,gpus,model,max_batch,gpu_milli,cpus,duration_seconds"
    replies = problems_of(written(tmp_path, f"{columns}\na,0,{row}\n"))
    assert len(replies) == 1
    assert replies[0].startswith(f":2: {reply}")


def test_a_batch_may_vary_up_from_the_initial_one(tmp_path: Path) -> None:
    columns = "job_id,submit_seconds,gpus,model,max_batch,duration_seconds"
    trace = read_trace(written(tmp_path, f"{columns}\na,0,4,CIFAR10,512,60\nb,0,4,,,60\n"))
    assert trace.jobs["max_batch"].to_list() == [512, None]


def test_all_problems_are_reported_in_the_order_of_lines(tmp_path: Path) -> None:
    text = "job_id,submit_seconds,gpus,duration_seconds\n\na,0,1,NaN\na,-1,1,5\nc,0,-1,0\n"
    assert [":".join(reply.split(":")[:3]) for reply in problems_of(written(tmp_path, text))] == [
        ":3: duration_seconds",
        ":4: submit_seconds",
        ":4: job_id",
        ":5: gpus",
        ":5: duration_seconds",
    ]


def test_twenty_problems_are_shown_and_the_others_counted(tmp_path: Path) -> None:
    text = "job_id,submit_seconds,gpus,duration_seconds\n" + "".join(f"{job},0,0,1\n" for job in range(50))
    with pytest.raises(InputError) as refused:
        read_trace(written(tmp_path, text))
    lines = str(refused.value).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "and 30 more problems like these"


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("", "the file is empty"),
        ("\n \n", "the file is empty"),
        ("job_id,submit_seconds,gpus,duration_seconds\n", "no job in it"),
        ("job_id,submit_seconds,gpus,duration_seconds\n\n,,,\n", "no job in it"),
        ("job_id\na\n", "one column only"),
        (
            "job_id,submit_seconds;gpus,duration_seconds\na,0,1,2\n",
            ":1: the header mixes commas and semicolons",
        ),
        (
            "job_id,submit_seconds,gpus,iterations\na;0;1;2\n",
            ":2: separated by semicolons, the header by commas",
        ),
        ("job_id,submit_seconds,gpus,iterations\na,0,1\n", ":2: has 3 cells; the header has 4"),
        ("job_id,submit_seconds,gpus,iterations\na,0,1,2,3\n", ":2: has 5 cells; the header has 4"),
        ('job_id,submit_seconds,gpus,iterations\n"a",0,1,2,3\n', ":2: has 5 cells; the header has 4"),
        ('job_id,submit_seconds,gpus,iterations\n"a,0,1,2,3\n', ":2: this line cannot be split"),
        (
            "job_id,submit_seconds,gpus,gpus,iterations\na,0,1,1,2\n",
            "gpus: the header has this column twice",
        ),
        (
            "job_id,submit_seconds,num_gpus,duration_seconds\na,0,1,1\n",
            "gpus: is missing; rename a column or map one (is it num_gpus?)",
        ),
        (
            "job_id,gpus,duration_seconds\na,1,1\n",
            "submit_seconds: is missing; rename a column or map one; found: job_id, gpus, duration_seconds",
        ),
        (
            "job_id,submit_seconds,gpus\na,0,1\n",
            "exactly one of iterations, duration_seconds, gpu_work_seconds",
        ),
        (
            "job_id,submit_seconds,gpus,iterations,duration_seconds\na,0,1,1,1\n",
            "both iterations and duration_seconds",
        ),
        (
            "job_id,submit_seconds,gpus,model,iterations\na,0,1,vgg99,5\n",
            ":2: model: found 'vgg99'; iterations need a model",
        ),
        ("job_id,submit_seconds,gpus,model,iterations\na,0,1,alexnett,5\n", "Hint: did you mean alexnet"),
        ("job_id,submit_seconds,gpus,iterations\na,0,1,5\n", "iterations need a model"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(tmp_path: Path, text: str, reply: str) -> None:
    found = "\n".join(problems_of(written(tmp_path, text)))
    assert reply in found


def test_quoted_cells_may_hold_separators_and_line_ends(tmp_path: Path) -> None:
    text = (
        'job_id,submit_seconds,gpus,duration_seconds,"a, note"\n"a,1",0,1,5,"two\nlines"\n"b ""x""",0,1,-5,\n'
    )
    assert problems_of(written(tmp_path, text))[0].startswith(":4: duration_seconds: found '-5'")
    trace = read_trace(written(tmp_path, text.replace("-5", "5")))
    assert trace.jobs["job_id"].to_list() == ["a,1", 'b "x"']
    assert trace.jobs["a, note"].to_list() == ["two\nlines", None]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_separators_and_line_ends_make_no_difference(tmp_path: Path, separator: str, line_end: str) -> None:
    text = SMALL.replace(",", separator).replace("\n", line_end)
    assert read_trace(written(tmp_path, text)).jobs.equals(
        read_trace(written(tmp_path, SMALL, "plain.csv")).jobs
    )


def test_a_compressed_file_with_a_mark_is_read(tmp_path: Path) -> None:
    path = tmp_path / "trace.bin"
    path.write_bytes(gzip.compress(("\ufeff" + SMALL).encode()))
    assert read_trace(path).jobs["job_id"].to_list() == ["a", "b"]


def test_unknown_columns_are_kept_and_named(tmp_path: Path) -> None:
    text = "job_id,queue,submit_seconds,gpus,duration_seconds,note\na,q1,0,1,5,\n"
    trace = read_trace(written(tmp_path, text))
    assert trace.jobs.columns[-2:] == ["queue", "note"]
    assert trace.jobs["queue"].to_list() == ["q1"]
    assert trace.other_columns == ["queue", "note"]
    assert trace.notes == ()


@pytest.mark.parametrize(
    ("columns", "meant"),
    [
        ("time_limit", ["time_limit_seconds"]),
        ("Memory,cpu", ["memory_gb", "cpus"]),
        ("tenant,tennant", []),
        ("team,node_list,cpus_used,cost_center", []),
    ],
)
def test_a_slip_in_the_name_of_a_column_is_asked_about(
    tmp_path: Path, columns: str, meant: list[str]
) -> None:
    cells = ",".join("1" for _ in columns.split(","))
    text = f"job_id,submit_seconds,gpus,duration_seconds,{columns}\n1,0,1,60,{cells}\n"
    notes = read_trace(written(tmp_path, text)).notes
    assert [note.partition("did you mean ")[2] for note in notes] == [f"{name}?" for name in meant]


def test_models_of_ones_own_may_count_iterations(tmp_path: Path) -> None:
    path = written(tmp_path, "job_id,submit_seconds,gpus,model,iterations\na,0,1,alexnet,5\n")
    assert "known: none" in problems_of(path, models={})[0]
    assert read_trace(path).jobs["iterations"].to_list() == [5.0]


def test_a_parquet_trace_takes_numbers_as_ids_not_lists(tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    columns: dict[str, Any] = {
        "job_id": [7, 8],
        "submit_seconds": [0, 1],
        "gpus": [1.0, 2.0],
        "duration_seconds": [3, 4],
    }
    pl.DataFrame(columns).write_parquet(path)
    assert read_trace(path).jobs["job_id"].to_list() == ["7", "8"]
    pl.DataFrame(columns | {"gpus": [[1], [2]], "tenant": [[1], [2]], "cpus": [True, False]}).write_parquet(
        path
    )
    reply = problems_of(path)
    assert [line.partition(":")[0] for line in reply] == ["gpus", "tenant", "cpus"]
    assert "true and false" in reply[2]
    pl.DataFrame(columns | {"duration_seconds": [1.0, float("nan")]}).write_parquet(path)
    assert problems_of(path)[0].startswith(":3: duration_seconds: found nan")
    path.write_bytes(path.read_bytes()[:-30])
    assert "Parquet file cannot be read" in problems_of(path)[0]


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_only_columns_that_say_something_are_written(tmp_path: Path, name: str) -> None:
    trace = read_trace(written(tmp_path, SMALL))
    write_trace(trace, tmp_path / name)
    reread = pl.read_csv(tmp_path / name) if name.endswith("csv") else pl.read_parquet(tmp_path / name)
    assert reread.columns == ["job_id", "submit_seconds", "gpus", "model", "duration_seconds"]


def test_what_cannot_be_written_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, SMALL))
    nested = Trace(trace.jobs.with_columns(pl.Series("tags", [[1], [2]])), "code")
    mixed = Trace(trace.jobs.with_columns(pl.Series("iterations", [1.0, None])), "code")
    for bad, name in ((trace, "out.xlsx"), (nested, "out.csv"), (mixed, "out.parquet")):
        with pytest.raises(InputError):
            write_trace(bad, tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["trace.csv"]


def test_a_made_trace_is_checked_like_a_file() -> None:
    with pytest.raises(InputError, match="generator:2: gpus: found -1"):
        trace_of(
            {"job_id": [1, 2], "submit_seconds": [0, 0], "gpus": [1, -1], "duration_seconds": [1, 1]},
            "generator",
        )


NAME_LETTERS = st.characters(exclude_categories=("Cc", "Cs"))
NAMES_OF_ANYTHING = st.text(NAME_LETTERS, max_size=6).map(str.strip)
SECONDS = st.floats(0, 1e12, exclude_min=True)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Any trace that fits the checks."""
    count = draw(st.integers(1, 6))

    def column(cells: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(cells, min_size=count, max_size=count))

    gpus = column(st.sampled_from([1, 2, 8, 1_000_000]))
    submit = column(st.floats(0, 1e12))
    columns: dict[str, Any] = {
        "job_id": draw(st.lists(NAMES_OF_ANYTHING.filter(bool), min_size=count, max_size=count, unique=True)),
        "submit_seconds": submit,
        "gpus": gpus,
        "model": column(st.sampled_from(["alexnet", "M5"])),
        draw(st.sampled_from(WORK)): column(SECONDS),
        "gpu_milli": [draw(st.integers(1, 1000)) if gpu == 1 else 1000 for gpu in gpus],
        "tenant": column(NAMES_OF_ANYTHING),
        "user": column(NAMES_OF_ANYTHING),
        "priority": column(st.floats(-1e12, 1e12)),
        "cpus": column(st.none() | st.floats(0, 1e9, exclude_min=True)),
        "memory_gb": column(st.none() | st.floats(0, 1e9, exclude_min=True)),
        "min_gpus": [draw(st.none() | st.integers(1, gpu)) for gpu in gpus],
        "max_gpus": [draw(st.none() | st.integers(gpu, 1_000_000)) for gpu in gpus],
        "preemptible": column(st.booleans()),
        "min_runtime_seconds": column(st.floats(0, 1e12)),
        "constraint": column(st.sampled_from(["", "gpu_type=V100", "label=a|b"])),
        "deadline_seconds": [draw(st.none() | st.floats(begin, 1e12)) for begin in submit],
        "status": column(NAMES_OF_ANYTHING),
    }
    return trace_of(columns, "made")


@given(traces(), st.sampled_from(["out.csv", "out.parquet"]))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_trace_comes_back_as_it_was_written(tmp_path: Path, trace: Trace, name: str) -> None:
    write_trace(trace, tmp_path / name)
    reread = read_trace(tmp_path / name)
    assert reread.jobs.equals(trace.jobs)
    assert reread.notes == ()
    before = (tmp_path / name).read_bytes()
    write_trace(reread, tmp_path / name)
    assert (tmp_path / name).read_bytes() == before
