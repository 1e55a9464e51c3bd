"""Writes a compact table of a record as a Parquet file: from its numbers of names, which the file has too.

The file is what Polars would write of the table with text and lists; its writer would look for the distinct texts
again. Names of parts and their numbers are those of the format (github.com/apache/parquet-format).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muster.runtime.parquet_core import join_texts, number_distinct, pack_numbers, write_out_lists

if sys.version_info >= (3, 14):
    from compression.zstd import compress
else:
    from backports.zstd import compress

_ROWS_IN_GROUP, _ROWS_IN_PAGE = 2**20, 2**17
_MAGIC = b"PAR1"
_INT64, _DOUBLE, _BYTE_ARRAY = 2, 5, 6
_OPTIONAL, _REPEATED = 1, 2
_PLAIN, _RLE, _RLE_DICTIONARY = 0, 3, 8
_ZSTD = 6
_UTF8, _LIST = 0, 3

Numbers = NDArray[np.uint32]


@dataclass(frozen=True)
class _Values:
    """The values of one column in a row group."""

    numbers: NDArray[Any]
    """Of each row the number of its value, or the value."""
    distinct: tuple[int, bytes] | None
    """How many values are numbered, and these; None: `numbers` are the values."""
    lists: tuple[NDArray[np.int64], Numbers] | None = None
    """Where the list of each number begins and the numbers of its elements; None: a value a row."""
    known: NDArray[np.bool_] | None = None
    """Which rows have a value; None: all."""

    def pages(self) -> Iterator[tuple[int, bytes]]:
        """How many values each data page has, and its content."""
        for begin in range(0, len(self.numbers), _ROWS_IN_PAGE):
            yield self._page(slice(begin, begin + _ROWS_IN_PAGE))

    def _page(self, rows: slice) -> tuple[int, bytes]:
        numbers = self.numbers[rows]
        if self.lists is not None:
            goes_on, filled, elements = write_out_lists(numbers.astype(np.uint32), *self.lists)
            return len(goes_on), _levels(goes_on, 1) + _levels(filled, 2) + self._content(elements)
        if self.known is None:
            return len(numbers), _all_known(len(numbers)) + self._content(numbers)
        known = self.known[rows]
        return len(known), _levels(known.astype(np.uint32), 1) + self._content(numbers[known])

    def _content(self, numbers: NDArray[Any]) -> bytes:
        if self.distinct is None:
            return numbers.tobytes()
        width = max(self.distinct[0] - 1, 1).bit_length()
        return bytes([width]) + pack_numbers(numbers.astype(np.uint32, copy=False), width)


def write_compact(
    numbers: pl.DataFrame, names: Mapping[str, pl.Series], kinds: Mapping[str, pl.DataType], path: Path
) -> None:
    """Write a compact table with rows; `kinds` are those of its columns once expanded: texts, numbers or lists."""
    groups, offset = [], len(_MAGIC)
    with path.open("wb") as file:
        file.write(_MAGIC)
        for part in numbers.iter_slices(_ROWS_IN_GROUP):
            chunks, size = [], 0
            for column in part.iter_columns():
                content, chunk, uncompressed = _chunk(
                    column, names.get(column.name), kinds[column.name], offset
                )
                file.write(content)
                offset += len(content)
                size += uncompressed
                chunks.append(chunk)
            groups.append(_fields(_list(1, 12, chunks), _i64(2, size), _i64(3, part.height)))
        footer = _footer(numbers, kinds, groups)
        file.write(footer + len(footer).to_bytes(4, "little") + _MAGIC)


def _values(column: pl.Series, names: pl.Series | None) -> _Values:
    if names is not None and names.dtype == pl.String:
        numbers = column.to_numpy()
        if len(numbers) < len(names):  # some are of no row
            used, numbers = np.unique(numbers, return_inverse=True)
            names = names.gather(used)
        return _Values(numbers, (len(names), join_texts(names.to_list())))
    if names is not None:
        first = np.array([0, *accumulate(names.list.len())], np.int64)
        flat = names.explode().drop_nulls().to_numpy()
        elements, of_lists = np.unique(flat, return_inverse=True)
        return _Values(
            column.to_numpy(), (len(elements), elements.tobytes()), (first, of_lists.astype(np.uint32))
        )
    known = column.is_not_null().to_numpy() if column.null_count() else None
    values = column.fill_null(0).to_numpy()
    found = number_distinct(values.view(np.uint64))
    if found is None:
        return _Values(values, None, known=known)
    return _Values(found[0], (len(found[1]), found[1].tobytes()), known=known)


def _type(kind: pl.DataType) -> int:
    """The type of the single values of a column."""
    return _BYTE_ARRAY if kind == pl.String else _DOUBLE if kind == pl.Float64 else _INT64


def _levels(levels: Numbers, width: int) -> bytes:
    return _after_its_length(pack_numbers(levels, width))


def _all_known(rows: int) -> bytes:
    return _after_its_length(_varint(rows << 1) + b"\x01")  # one run


def _after_its_length(content: bytes) -> bytes:
    return len(content).to_bytes(4, "little") + content


def _chunk(
    column: pl.Series, names: pl.Series | None, kind: pl.DataType, offset: int
) -> tuple[bytes, bytes, int]:
    """The pages of a column of a row group, which begin at a place of the file, their description and length."""
    values = _values(column, names)
    encoding, count, parts = _PLAIN, 0, []
    if values.distinct is not None:
        encoding = _RLE_DICTIONARY
        head = _struct(7, _i32(1, values.distinct[0]), _i32(2, _PLAIN))
        parts.append(_page(2, values.distinct[1], head))
    for places, content in values.pages():
        head = _struct(5, _i32(1, places), _i32(2, encoding), _i32(3, _RLE), _i32(4, _RLE))
        parts.append(_page(0, content, head))
        count += places
    compressed, size = b"".join(content for content, _ in parts), sum(size for _, size in parts)
    has_dictionary = values.distinct is not None
    path = [column.name, "list", "element"] if kind == pl.List else [column.name]
    described = (
        _i32(1, _type(kind)),
        _list(2, 5, [_zigzag(one) for one in sorted({encoding, _RLE, _PLAIN})]),
        _list(3, 8, [_text(name) for name in path]),
        _i32(4, _ZSTD),
        _i64(5, count),
        _i64(6, size),
        _i64(7, len(compressed)),
        _i64(9, offset + (len(parts[0][0]) if has_dictionary else 0)),
        *([_i64(11, offset)] if has_dictionary else []),
    )
    return compressed, _fields(_i64(2, offset), _struct(3, *described)), size


def _page(kind: int, content: bytes, head: _Field) -> tuple[bytes, int]:
    """A page with its header, and how long it is uncompressed."""
    data = compress(content, 1)
    header = _fields(_i32(1, kind), _i32(2, len(content)), _i32(3, len(data)), head)
    return header + data, len(header) + len(content)


def _footer(table: pl.DataFrame, kinds: Mapping[str, pl.DataType], groups: Sequence[bytes]) -> bytes:
    names = table.columns
    elements = [_fields(_binary(4, "schema"), _i32(5, len(names)))]
    for name in names:
        kind = kinds[name]
        if isinstance(kind, pl.List):
            as_list = _i32(6, _LIST), _struct(10, _struct(3))
            elements.append(_fields(_i32(3, _OPTIONAL), _binary(4, name), _i32(5, 1), *as_list))
            elements.append(_fields(_i32(3, _REPEATED), _binary(4, "list"), _i32(5, 1)))
            name = "element"
        as_text = (_i32(6, _UTF8), _struct(10, _struct(1))) if kind == pl.String else ()
        elements.append(_fields(_i32(1, _type(kind)), _i32(3, _OPTIONAL), _binary(4, name), *as_text))
    return _fields(
        _i32(1, 1), _list(2, 12, elements), _i64(3, table.height), _list(4, 12, groups), _binary(6, "Muster")
    )


# The compact protocol of Thrift: a field is its number, its kind and its content.

_Field = tuple[int, int, bytes]


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _zigzag(number: int) -> bytes:
    return _varint(number << 1)  # of numbers from 0 on


def _text(text: str) -> bytes:
    content = text.encode()
    return _varint(len(content)) + content


def _i32(place: int, number: int) -> _Field:
    return place, 5, _zigzag(number)


def _i64(place: int, number: int) -> _Field:
    return place, 6, _zigzag(number)


def _binary(place: int, text: str) -> _Field:
    return place, 8, _text(text)


def _list(place: int, kind: int, items: Sequence[bytes]) -> _Field:
    head = bytes([len(items) << 4 | kind]) if len(items) < 15 else bytes([0xF0 | kind]) + _varint(len(items))
    return place, 9, head + b"".join(items)


def _struct(place: int, *fields: _Field) -> _Field:
    return place, 12, _fields(*fields)


def _fields(*fields: _Field) -> bytes:
    places = [0, *(place for place, _, _ in fields)]
    heads = [
        bytes([place - before << 4 | kind]) for before, (place, kind, _) in zip(places, fields, strict=False)
    ]
    return b"".join(head + content for head, (_, _, content) in zip(heads, fields, strict=True)) + b"\x00"
