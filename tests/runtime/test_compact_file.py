"""A compact table in a file is read as the texts, numbers and lists that it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest

from muster.runtime.compact_file import write_compact
from muster.runtime.records import CompactTable

KINDS: Mapping[str, pl.DataType] = {
    "job_id": pl.String(),
    "role": pl.String(),
    "gpu_ids": pl.List(pl.Int64()),
    "slice_group": pl.Int64(),
    "cpus": pl.Float64(),
    "to_seconds": pl.Float64(),
}
LISTS: list[list[int]] = [[0, 1, 2, 3, 4, 5, 6, 7], [], [3], [62, 63], [0, 1, 2, 4, 5, 6, 7]]
ODD = (0.0, -0.0, 1.5, 1e308, np.inf, np.nan)


def compact_table(rows: int, names: int) -> CompactTable:
    """Rows at random; the names are those of no row, of one row and of runs of rows."""
    random = np.random.default_rng(rows)
    runs = np.sort(random.integers(0, names, rows))
    runs[: rows // 2] = random.integers(0, names, rows // 2)
    known = pl.Series(random.integers(0, 3, rows) > 0)
    numbers = pl.DataFrame(
        {
            "job_id": runs.astype(np.uint32),
            "role": np.zeros(rows, np.uint32),
            "gpu_ids": random.integers(0, len(LISTS), rows).astype(np.uint32),
            "slice_group": random.integers(-5, 5, rows),
            "cpus": random.choice(ODD, rows),
            "to_seconds": random.uniform(0, 1e6, rows),
        }
    ).with_columns(pl.when(known).then(pl.col("slice_group", "cpus")))
    texts = pl.Series([f"job {number} é" for number in range(names)])
    return CompactTable(
        numbers, {"job_id": texts, "role": pl.Series(["worker"]), "gpu_ids": pl.Series(LISTS)}
    )


def same_bits(one: pl.DataFrame, other: pl.DataFrame) -> bool:
    """Whether tables are equal, signs of zeros included."""
    signs = [np.signbit(table["cpus"].fill_null(0.0).to_numpy()) for table in (one, other)]
    return one.equals(other) and bool((signs[0] == signs[1]).all())


@pytest.mark.parametrize(
    ("rows", "names"), [(1, 1), (7, 2), (8, 3), (500, 300), (40, 9_000), (300_000, 70_000)]
)
def test_a_compact_file_is_read_as_expanded(rows: int, names: int, tmp_path: Path) -> None:
    table, path = compact_table(rows, names), tmp_path / "table.parquet"
    write_compact(table.numbers, table.names, KINDS, path)
    read = pl.read_parquet(path)
    assert dict(read.schema) == KINDS
    assert same_bits(read, table.expanded())


def test_another_reader_finds_the_same_rows(tmp_path: Path) -> None:
    table, path = compact_table(200_000, 70_000), tmp_path / "table.parquet"
    write_compact(table.numbers, table.names, KINDS, path)
    found = duckdb.read_parquet(str(path)).fetchall()
    # Two values that are not a number are never equal, but their texts are.
    assert list(map(str, found)) == list(map(str, table.expanded().rows()))


def test_names_of_no_row_take_no_room(tmp_path: Path) -> None:
    sizes = []
    for names in (40, 9_000):
        table, path = compact_table(40, 40), tmp_path / "table.parquet"
        more = {**table.names, "job_id": pl.Series([f"job {number} é" for number in range(names)])}
        write_compact(table.numbers, more, KINDS, path)
        sizes.append(path.stat().st_size)
    assert sizes[1] <= sizes[0]


def test_a_part_of_the_columns_is_read_as_expanded(tmp_path: Path) -> None:
    table, path = compact_table(500, 300), tmp_path / "table.parquet"
    write_compact(table.numbers, table.names, KINDS, path)
    some = table.expanded().select("gpu_ids", "to_seconds").slice(100, 50)
    assert pl.scan_parquet(path).select("gpu_ids", "to_seconds").slice(100, 50).collect().equals(some)


def test_more_rows_than_a_group_has_are_read_as_expanded(tmp_path: Path) -> None:
    table, path = compact_table(2**20 + 9, 5), tmp_path / "table.parquet"
    write_compact(table.numbers, table.names, KINDS, path)
    assert same_bits(pl.read_parquet(path), table.expanded())
