"""`muster.simulate` does what `muster simulate` does: inputs, checks, figures, records, pages."""

from __future__ import annotations

import html
import importlib.util
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

import muster
from muster.cli.app import run
from muster.cli.simulation_flags import CertifiedFlags
from muster.cluster.shipped import parse_cluster
from muster.inputs import RunOptions, knowledge_of, options_of
from muster.report.page import write_report
from muster.runtime.records import TABLES, Record
from muster.schedulers.parts import Order
from muster.schedulers.registry import build
from muster.workload.generators import mixed
from muster.workload.trace import read_trace, write_trace

CLUSTER = "2x8gpu,24cpu,500gb"
JOBS: dict[str, Any] = {
    "job_id": ["a", "b", "c"],
    "submit_seconds": [0, 60, 120],
    "gpus": [8, 16, 1],
    "duration_seconds": [7200.0, 3600.0, 600.0],
}
FILES = [*(f"{table}.parquet" for table in TABLES), "run.json"]


@pytest.fixture(scope="module")
def trace_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "trace.csv"
    write_trace(mixed.generate(40, gpus=16, load=1.2, seed=1), path)
    return path


def by_command(*arguments: str | Path) -> None:
    assert run(["simulate", *map(str, arguments)]) == 0


def tables_of(result: muster.Result) -> list[pl.DataFrame]:
    return [getattr(result, table) for table in TABLES]


def same_tables(one: muster.Result, other: muster.Result) -> bool:
    return all(a.equals(b, null_equal=True) for a, b in zip(tables_of(one), tables_of(other), strict=True))


@pytest.mark.parametrize(
    ("scheduler", "flags", "settings", "options"),
    [
        ("fifo", [], {}, {}),
        ("las", ["--round", "5min", "--restart-cost", "2min"], {}, {"round": 300, "restart_cost": 120}),
        ("srtf+tune", ["--failures", "30h:2h", "--seed", "3"], {}, {"failures": ("30h", 7200), "seed": 3}),
        (
            "gittins+tune-plus",
            ["--measure", "5:30", "--knowledge", "noisy:0.5", "--set", "preemptive=true"],
            {"preemptive": True},
            {"measure": (5, 30), "knowledge": "noisy:0.5"},
        ),
        (
            "dally",
            ["--congestion", "0", "--network", "physical"],
            {},
            {"congestion": 0, "network": "physical"},
        ),
    ],
)
def test_a_saved_record_has_the_bytes_of_the_command_line(
    scheduler: str,
    flags: list[str],
    settings: dict[str, object],
    options: RunOptions,
    trace_file: Path,
    tmp_path: Path,
) -> None:
    cluster = "dally-2x8x8" if scheduler == "dally" else CLUSTER
    by_command(trace_file, "--cluster", cluster, "--scheduler", scheduler, "--out", tmp_path / "one", *flags)
    result = muster.simulate(trace_file, cluster, scheduler, settings=settings, **options)
    result.save(tmp_path / "other")
    for name in FILES:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes(), name
    summaries = [json.loads((tmp_path / name / "summary.json").read_text()) for name in ("one", "other")]
    for summary in summaries:
        del summary["measured"]  # What the run itself cost.
    assert summaries[0] == summaries[1] == {k: v for k, v in result.summary.items() if k != "measured"}


def test_a_trace_and_a_cluster_may_be_objects(trace_file: Path) -> None:
    of_names = muster.simulate(trace_file, CLUSTER, "las")
    of_objects = muster.simulate(read_trace(trace_file), parse_cluster(CLUSTER), build("las"))
    assert same_tables(of_names, of_objects)
    assert of_names.record is not None
    assert of_objects.record is not None
    assert of_objects.record.run == {**of_names.record.run, "named": {}}


def test_every_option_is_a_flag_with_the_same_default() -> None:
    flags = {one.name for one in fields(CertifiedFlags)} - {"settings"}
    assert set(RunOptions.__annotations__) == flags
    assert options_of({}) == options_of(CertifiedFlags().options())


class FrameOfPandas:
    """What a data frame of pandas has and the reader of columns uses."""

    def __init__(self, columns: dict[str, NDArray[Any]]) -> None:
        self.columns = list(columns)
        self._columns = columns

    def __getitem__(self, name: str) -> ColumnOfPandas:
        return ColumnOfPandas(self._columns[name])

    def isna(self) -> None: ...


class ColumnOfPandas:
    """A column of it; a missing text is a NaN there."""

    def __init__(self, values: NDArray[Any]) -> None:
        self._values = values
        self.dtype = values.dtype

    def to_numpy(self) -> NDArray[Any]:
        return self._values

    def tolist(self) -> list[Any]:
        return list(self._values.tolist())

    def isna(self) -> NDArray[np.bool_]:
        return np.array([cell != cell for cell in self._values])


def all_forms(columns: dict[str, Any]) -> Sequence[object]:
    arrays = {name: np.array(values) for name, values in columns.items()}
    objects = {
        name: values.astype(object) if values.dtype.kind == "U" else values for name, values in arrays.items()
    }
    return columns, arrays, objects, pl.DataFrame(columns), FrameOfPandas(objects)


def test_columns_may_be_lists_arrays_or_data_frames(tmp_path: Path) -> None:
    pl.DataFrame(JOBS).write_parquet(tmp_path / "trace.parquet")
    expected = muster.simulate(tmp_path / "trace.parquet", CLUSTER, "srtf")
    for columns in all_forms(JOBS):
        assert same_tables(muster.simulate(columns, CLUSTER, "srtf"), expected), type(columns)


def test_nan_and_none_are_empty_cells() -> None:
    columns = JOBS | {"deadline_seconds": [np.nan, 9000.0, np.nan], "tenant": ["x", None, "y"]}
    pandas = FrameOfPandas(
        {name: np.array(values) for name, values in JOBS.items()}
        | {
            "deadline_seconds": np.array([np.nan, 9000.0, np.nan]),
            "tenant": np.array(["x", np.nan, "y"], object),
        }
    )
    for given in (columns, pl.DataFrame(columns, strict=False), pandas):
        jobs = muster.simulate(given, CLUSTER, "edf").jobs
        assert jobs["deadline_seconds"].to_list() == [None, 9000.0, None]
        assert jobs["tenant"].to_list() == ["x", "", "y"]


def test_columns_of_other_names_are_mapped() -> None:
    renamed = {"at": JOBS["submit_seconds"], "n": JOBS["gpus"], "length": JOBS["duration_seconds"]}
    expected = muster.simulate(JOBS, CLUSTER, "fifo").jobs["finish_seconds"]
    mapping = {"submit": "at", "gpus": "n", "duration": "length"}
    for given in (mapping, "submit=at,gpus=n,duration=length"):
        result = muster.simulate(renamed, CLUSTER, "fifo", map=given)
        assert result.jobs["finish_seconds"].equals(expected)
        assert result.record is not None
        assert result.record.run["named"]["map"] == "submit=at,gpus=n,duration=length"


def errors_of(jobs: object, cluster: Any = CLUSTER, scheduler: Any = "fifo", **options: Any) -> str:
    with pytest.raises(muster.InputError) as caught:
        muster.simulate(jobs, cluster, scheduler, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        (JOBS | {"gpus": [8, "x", 1]}, "jobs:2: gpus: found 'x'; allowed: a whole number of GPUs"),
        (JOBS | {"gpus": np.array([8, 1, -1])}, "jobs:3: gpus: found -1; allowed: a whole number of GPUs"),
        (JOBS | {"job_id": ["a", "b", "a"]}, "jobs:3: job_id: found 'a'; is a second job of this id"),
        (JOBS | {"gpus": [8, 1]}, "jobs: gpus: found 2; allowed: 3 rows, as in column job_id"),
        (JOBS | {"gpus": 8}, "jobs: gpus: found 8; allowed: a list or an array, a value a job"),
        (JOBS | {"gpus": "8"}, "jobs: gpus: found '8'; allowed: a list or an array, a value a job"),
        (JOBS | {"gpus": np.ones((3, 2))}, "jobs: gpus: holds Array(Float64, shape=(2,)) values; allowed:"),
        ({name: [] for name in JOBS}, "jobs: there is no job in it: no rows"),
        ({"job_id": ["a"]}, "jobs: this is no trace that is known here; found columns job_id"),
        (pl.LazyFrame(JOBS), "jobs: found 'LazyFrame'; allowed: a path, a Trace, a data frame"),
        (17, "jobs: found 'int'; allowed: a path, a Trace, a data frame, or a mapping of column names"),
        ("missing.csv", "missing.csv: there is no such file"),
    ],
)
def test_wrong_jobs_are_named_with_row_and_column(jobs: object, message: str) -> None:
    assert errors_of(jobs).startswith(message)


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        (["--round", "0"], {"round": 0.0}),
        (["--round", "often"], {"round": "often"}),
        (["--round-origin", "noon"], {"round_origin": "noon"}),
        (["--round-origin", "first-arrival"], {"round_origin": "first-arrival"}),
        (["--round-origin", "100"], {"round_origin": 100}),
        (["--restart-cost", "1 year"], {"restart_cost": "1 year"}),
        (["--measure", "5:3"], {"measure": (5, 3)}),
        (["--measure", "5"], {"measure": "5"}),
        (["--rules", "exakt"], {"rules": "exakt"}),
        (["--knowledge", "noisy:x"], {"knowledge": "noisy:x"}),
        (["--network", "astral"], {"network": "astral"}),
        (["--congestion", "1.5"], {"congestion": 1.5}),
        (["--failures", "30d"], {"failures": "30d"}),
        (["--checkpoint", "0"], {"checkpoint": "0"}),
        (["--layers", "none.csv"], {"layers": "none.csv"}),
        (["--models", "nowhere"], {"models": "nowhere"}),
        (["--map", "submit"], {"map": "submit"}),
        (["--cluster", "2xgpu"], {"cluster": "2xgpu"}),
        (["--scheduler", "lass"], {"scheduler": "lass"}),
        (["--scheduler", "fifo", "--set", "quantum=60"], {"settings": {"quantum": 60}}),
        (
            ["--round", "0", "--congestion", "2", "--cluster", "x"],
            {"round": "0", "congestion": 2.0, "cluster": "x"},
        ),
    ],
)
def test_errors_are_those_of_the_command_line(
    flags: list[str],
    options: dict[str, Any],
    trace_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = ["--cluster", CLUSTER] if "--cluster" not in flags else []
    assert run(["simulate", str(trace_file), *given, *flags, "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == errors_of(trace_file, **options) + "\n"


@pytest.mark.parametrize(
    "options",
    [
        {"round": [300]},
        {"measure": 7},
        {"measure": ("a", "b")},
        {"failures": 5},
        {"seed": -1},
        {"seed": 1.5},
        {"seed": True},
        {"congestion": "0.5"},
        {"contention": "yes"},
        {"rules": 3},
        {"network": None, "knowledge": 1},
        {"cluster": 16},
        {"scheduler": 16},
        {"map": 5},
        {"map": {1: "gpus"}},
        {"map": {"gpus": 2}},
        {"models": 5},
        {"layers": 5},
    ],
)
def test_a_value_of_another_type_is_an_input_error(options: dict[str, Any]) -> None:
    wrong = next(name for name, value in options.items() if value is not None)
    assert errors_of(JOBS, **options).startswith(f"--{wrong}: found ")


@pytest.mark.parametrize("settings", [["a=1"], "a=1", {1: 2}, 5])
def test_settings_are_a_mapping_of_names(settings: Any) -> None:
    found = errors_of(JOBS, settings=settings)
    assert found == f"--set: found {settings!r}; allowed: a mapping of names to values, as {{'strict': True}}"


def test_records_is_true_or_false() -> None:
    assert errors_of(JOBS, records="no") == "records: found 'no'; allowed: True or False"


def test_a_record_is_saved_at_a_path() -> None:
    result = muster.simulate(JOBS, CLUSTER, "fifo")
    with pytest.raises(muster.InputError, match="folder: found 5; allowed: the path of a folder"):
        result.save(5)  # type: ignore[arg-type]


def test_numbers_of_numpy_are_numbers() -> None:
    options: RunOptions = {"round": np.int64(60), "seed": np.int32(1), "congestion": np.float32(0.5)}  # type: ignore[typeddict-item]
    expected = muster.simulate(JOBS, CLUSTER, "las", round=60, seed=1, congestion=0.5)
    assert same_tables(muster.simulate(JOBS, CLUSTER, "las", **options), expected)


def test_an_unknown_option_is_a_type_error_with_a_hint() -> None:
    with pytest.raises(TypeError, match=r"argument 'restartcost'\. Hint: did you mean restart_cost or"):
        muster.simulate(JOBS, CLUSTER, "fifo", restartcost=1)  # type: ignore[call-arg]


class FewestGpus(Order):
    """Fewest GPUs first."""

    name = "fewest"
    static_priority = True

    def key(self, jobs: Any) -> Any:
        return jobs.gpus


class NeverDecides:
    """A whole scheduler that starts nothing."""

    def __init__(self, answer: str) -> None:
        self.answer = answer


def test_a_class_of_a_part_is_a_scheduler() -> None:
    crowd = JOBS | {"gpus": [16, 16, 1], "submit_seconds": [0, 60, 60]}
    result = muster.simulate(crowd, CLUSTER, FewestGpus, settings={"preemptive": False})
    assert result.summary["scheduler"] == "fewest+proportional+pack"
    assert result.jobs["start_seconds"].to_list() == [0.0, 7800.0, 7200.0]


def test_settings_belong_to_a_name_or_a_class() -> None:
    found = errors_of(JOBS, scheduler=build("las"), settings={"strict": True})
    assert found.startswith("--set: found 'strict'; a scheduler that exists takes no settings")
    assert errors_of(JOBS, scheduler=FewestGpus, settings={"fast": 1}).startswith(
        "--set fast: found '1'; FewestGpus"
    )
    assert errors_of(JOBS, scheduler=NeverDecides).startswith(
        "--scheduler: found 'NeverDecides'; allowed: a class"
    )


def test_a_trace_takes_no_mapping(trace_file: Path) -> None:
    assert errors_of(read_trace(trace_file), map="gpus=n").startswith("--map: columns are mapped for files")


@pytest.mark.parametrize("scheduler", ["las", "gandiva"])
def test_without_records_the_figures_are_the_same(trace_file: Path, tmp_path: Path, scheduler: str) -> None:
    whole = muster.simulate(trace_file, CLUSTER, scheduler)
    figures = muster.simulate(trace_file, CLUSTER, scheduler, records=False)
    assert {**figures.summary, "measured": 0} == {**whole.summary, "measured": 0}
    assert figures.record is None
    for use in (lambda: figures.jobs, lambda: figures.save(tmp_path / "out"), figures.page):
        with pytest.raises(muster.InputError, match="simulate with records=True"):
            use()
    assert not (tmp_path / "out").exists()
    assert repr(figures) == repr(whole)
    assert figures._repr_html_() == f"<pre>{html.escape(repr(whole))}</pre>"


def test_without_records_no_long_column_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Record] = []

    def keep(record: Record, _: object) -> dict[str, Any]:
        made.append(record)
        return {}

    monkeypatch.setattr(muster.api, "summarise", keep)
    muster.simulate(JOBS, CLUSTER, "las", records=False)
    assert not {"job_id", "role", "gpu_ids"} & set(made[0].allocations.columns)
    assert "parameters" not in made[0].reasons.columns


def test_a_notebook_shows_the_page_of_muster_report(tmp_path: Path) -> None:
    result = muster.simulate(JOBS, CLUSTER, "las")
    result.save(tmp_path / "run")
    page = write_report(tmp_path / "run", knowledge_of=knowledge_of).read_text()
    assert result.page() == page
    assert html.escape(page) in result._repr_html_()
    assert result._repr_html_().startswith("<iframe srcdoc=")


def test_a_printed_result_is_the_table_of_the_command(
    trace_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    by_command(trace_file, "--cluster", CLUSTER, "--scheduler", "las", "--out", tmp_path / "run")
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    table = [line for line in repr(muster.simulate(trace_file, CLUSTER, "las")).splitlines() if line]
    assert len(table) == 5, "three lines of heads, with the units, a rule and the run"
    assert [line for line in printed if line] == [*table, printed[-1]]


def test_a_missing_extra_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    result = muster.simulate(JOBS, CLUSTER, "las")
    found = importlib.util.find_spec
    monkeypatch.setattr("muster.extras.find_spec", lambda name: None if name == "altair" else found(name))
    with pytest.raises(muster.InputError, match=r"pip install 'muster-scheduler\[charts\]'"):
        result.page()
    shown = html.unescape(result._repr_html_())
    assert shown.startswith(f"<pre>{result!r}\n\nno charts: package altair: needed here")
    assert "pip install 'muster-scheduler[charts]'" in shown


def in_new_process(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    return done.stdout.strip()


def test_importing_muster_imports_no_package() -> None:
    code = (
        "import sys; before = set(sys.modules); import muster; print(*{*sys.modules} - before - {'typing'})"
    )
    beyond = {name.partition(".")[0] for name in in_new_process(code).split()} - set(sys.stdlib_module_names)
    assert beyond == {"muster"}


def test_the_simulator_without_its_packages_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['polars'] = None; import muster\n"
        "try: muster.simulate\n"
        "except muster.InputError as error: print(error)"
    )
    assert in_new_process(code).endswith("python -m pip install 'muster-scheduler[simulator]'")


def test_what_muster_offers_is_listed() -> None:
    assert set(muster.__all__) == set(dir(muster)) == {"InputError", "Result", "__version__", "simulate"}
    with pytest.raises(AttributeError, match="no attribute 'simulat'"):
        _ = muster.simulat


def test_a_saved_result_replaces_a_folder_only_when_asked(tmp_path: Path) -> None:
    result = muster.simulate(JOBS, CLUSTER, "fifo")
    result.save(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(muster.InputError, match="not empty"):
        result.save(tmp_path)
    result.save(str(tmp_path), overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == before == sorted([*FILES, "summary.json"])
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(muster.InputError, match=r"found 'thesis\.txt'; allowed"):
        result.save(tmp_path, overwrite=True)
    assert (tmp_path / "thesis.txt").exists()
    with pytest.raises(muster.InputError, match="cannot be written: File name too long"):
        result.save(tmp_path / ("x" * 300))
