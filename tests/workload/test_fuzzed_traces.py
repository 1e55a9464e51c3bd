"""Every reader against nonsense: a trace that keeps its promises or an InputError, nothing else."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.problems import InputError
from muster.workload.trace import Trace, read_trace, write_trace
from muster.workload.traces.columns import NAMES, WORK
from muster.workload.traces.openb_nodes import read_nodes
from tests.workload import samples

Read = TypeVar("Read")

NATIVE = """job_id,submit_seconds,gpus,model,iterations,gpu_milli,preemptible
a,5,1,alexnet,60,500,true
b,0,8,m5,7,,no
"""
TEXTS = {
    "native": NATIVE,
    "philly": samples.PHILLY_SIZES,
    "philly tenants": samples.PHILLY_TENANTS,
    "philly log": samples.PHILLY_LOG,
    "helios": samples.HELIOS,
    "openb": samples.OPENB,
    "acme": samples.ACME,
    "acme pods": samples.ACME_PODS,
    "pai": samples.PAI,
    "spot gpu": samples.SPOT_GPU,
    "gpu 2026": samples.HOURLY_PODS,
    "swf": samples.SWF,
    "sacct": samples.SACCT,
    "sacct json, old": samples.SACCT_JSON_OLD,
    "sacct json, new": samples.SACCT_JSON_NEW,
    "csv": samples.MAPPED,
}
ODD_WORDS = """0 -1 NaN inf 1e308 1e12 999999999999999999999999999999 None null true [ {} "" " ; x,y a|b gpu: gres/gpu=
2017-10-03T14:05:02 0000-00-00 9999-12-31T23:59:59 1-02:03:04 gres/gpu:v=99999999999999999999,mem=1.2.3G ٣ 𝔘"""
ODD_CELLS = st.sampled_from(["", "\n", "\x00", "\ufeff", "2017-10-03 14:05:02", *ODD_WORDS.split()])
ANY_SETTINGS = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def assert_keeps_its_promises(trace: Trace) -> None:
    """The invariants that the engine builds on, checked cell by cell."""
    jobs = trace.jobs
    assert tuple(jobs.columns[: len(NAMES)]) == NAMES
    assert jobs.height > 0
    assert jobs["job_id"].is_unique().all()
    for job in jobs.iter_rows(named=True):
        assert job["job_id"]
        assert 0 <= job["submit_seconds"] <= 1e12
        assert 1 <= job["gpus"] <= 1_000_000
        work = [job[name] for name in WORK if job[name] is not None]
        assert len(work) == 1
        assert 0 < work[0] <= 1e12
        assert job["gpu_milli"] == 1000 or (1 <= job["gpu_milli"] < 1000 and job["gpus"] == 1)
        assert (job["min_gpus"] or 1) <= job["gpus"] <= (job["max_gpus"] or math.inf)
        assert (job["deadline_seconds"] is None) or job["deadline_seconds"] >= job["submit_seconds"]
        assert all(job[name] is None or 0 < job[name] <= 1e9 for name in ("cpus", "memory_gb"))
        assert math.isfinite(job["priority"])
        assert all(isinstance(job[name], str) for name in ("model", "tenant", "user", "constraint", "status"))


def read_or_refuse(path: Path, **how: Any) -> None:
    trace = unless_refused(lambda: read_trace(path, **how))
    if trace is None:
        return
    assert_keeps_its_promises(trace)
    if not any(dtype.is_nested() or dtype == pl.Binary for dtype in trace.jobs.schema.values()):
        write_trace(trace, path.with_suffix(".out.csv"))


def unless_refused(read: Callable[[], Read]) -> Read | None:
    """What was read; None where it was refused with an InputError. Any other exception is a failure."""
    try:
        return read()
    except InputError as refused:
        reply = str(refused)
    assert len(reply) > 10
    return None


@pytest.mark.parametrize("form", TEXTS)
def test_the_samples_are_read(tmp_path: Path, form: str) -> None:
    path = tmp_path / "log"
    path.write_text(TEXTS[form])
    assert_keeps_its_promises(read_trace(path, mapping=samples.MAPPING if form == "csv" else None))


@given(st.binary(max_size=200))
@ANY_SETTINGS
def test_random_bytes(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "log"
    for beginning in (
        b"",
        b"PAR1",
        b"\x1f\x8b",
        b"\xfd7zXZ\x00",
        b"\x28\xb5\x2f\xfd",
        b"\xff\xfe",
        b"[",
        b'{"jobs": [',
    ):
        path.write_bytes(beginning + data)
        read_or_refuse(path)


@pytest.mark.parametrize("form", TEXTS)
@given(data=st.data())
@ANY_SETTINGS
def test_valid_files_with_pieces_changed(tmp_path: Path, form: str, data: st.DataObject) -> None:
    text = TEXTS[form]
    for _ in range(data.draw(st.integers(1, 3), "changes")):
        begin = data.draw(st.integers(0, len(text)), "from")
        end = begin + data.draw(st.integers(0, 12), "length")
        text = text[:begin] + data.draw(ODD_CELLS | st.text(max_size=5), "put in") + text[end:]
    path = tmp_path / "log"
    path.write_text(text, newline="")
    read_or_refuse(path, mapping=samples.MAPPING if form == "csv" else None)


@pytest.mark.parametrize("form", [form for form in TEXTS if not {"log", "json,", "swf"} & {*form.split()}])
@given(data=st.data())
@ANY_SETTINGS
def test_valid_headers_over_random_cells(tmp_path: Path, form: str, data: st.DataObject) -> None:
    header = TEXTS[form].partition("\n")[0]
    separator = max(",;|", key=header.count)
    width = header.count(separator) + 1
    usual = st.integers(-2, 9).map(str) | st.floats(allow_nan=True).map(str)
    plain = (ODD_CELLS | usual).filter(
        lambda cell: separator not in cell and "\n" not in cell and '"' not in cell
    )
    rows = data.draw(st.lists(st.lists(plain, min_size=width, max_size=width), max_size=4))
    path = tmp_path / "log"
    path.write_text("\n".join([header, *(separator.join(row) for row in rows)]), newline="")
    read_or_refuse(path, mapping=samples.MAPPING if form == "csv" else None)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ODD_CELLS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["set", "number", "current", "type", "name", "count", "gpus"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


@pytest.mark.parametrize("form", ["philly log", "sacct json, old", "sacct json, new"])
@given(data=st.data())
@ANY_SETTINGS
def test_valid_json_with_values_replaced(tmp_path: Path, form: str, data: st.DataObject) -> None:
    document = json.loads(TEXTS[form])
    for _ in range(data.draw(st.integers(1, 3))):
        here: Any = document
        while True:
            keys = list(range(len(here))) if isinstance(here, list) else list(here)
            if not keys:
                break
            key = data.draw(st.sampled_from(keys))
            if not isinstance(here[key], list | dict) or data.draw(st.integers(0, 4)) == 0:
                here[key] = data.draw(VALUES)
                break
            here = here[key]
    path = tmp_path / "log"
    path.write_bytes(gzip.compress(json.dumps(document).encode("utf-8", "surrogatepass")))
    read_or_refuse(path)


CELLS: dict[type[pl.DataType] | pl.DataType, st.SearchStrategy[Any]] = {
    pl.Int64: st.integers(-2, 2**40),
    pl.UInt8: st.integers(0, 255),
    pl.Float64: st.floats(),
    pl.String: ODD_CELLS,
    pl.Boolean: st.booleans(),
    pl.Date: st.dates(),
    pl.Datetime: st.datetimes(),
    pl.Categorical: st.sampled_from(["a", "1"]),
    pl.Binary: st.binary(max_size=3),
    pl.List(pl.Int64): st.lists(st.integers(0, 3), max_size=2),
    pl.Null: st.none(),
}


@given(data=st.data())
@ANY_SETTINGS
def test_parquet_of_random_types(tmp_path: Path, data: st.DataObject) -> None:
    names = [
        "job_id",
        "submit_seconds",
        "gpus",
        data.draw(st.sampled_from(WORK)),
        *data.draw(st.sets(st.sampled_from([*NAMES, "other"]), max_size=3)),
    ]
    height = data.draw(st.integers(0, 3))
    columns = []
    for name in dict.fromkeys(names):
        dtype = data.draw(st.sampled_from(list(CELLS)))
        cells = data.draw(st.lists(st.none() | CELLS[dtype], min_size=height, max_size=height))
        columns.append(pl.Series(name, cells, dtype=dtype))
    path = tmp_path / "log"
    pl.DataFrame(columns).write_parquet(path)
    read_or_refuse(path)
    read_or_refuse(path, kind="csv", mapping={"submit": "submit_seconds"})


@given(data=st.data())
@ANY_SETTINGS
def test_lists_of_nodes_with_pieces_changed(tmp_path: Path, data: st.DataObject) -> None:
    text = samples.OPENB_NODES
    begin = data.draw(st.integers(0, len(text)))
    text = text[:begin] + data.draw(ODD_CELLS) + text[begin + data.draw(st.integers(0, 8)) :]
    path = tmp_path / "nodes.csv"
    path.write_text(text, newline="")
    cluster = unless_refused(lambda: read_nodes(path))
    assert cluster is None or cluster.total_gpus > 0
