"""Records in a file whose room was taken when the disk had it: a full disk loses none, a torn one is noticed.

A record is a line of JSON behind its CRC-32. The file is zeros at first and is written in place, so that no
block need be found later (a file system that copies on write makes no such promise).
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

RESERVED_BYTES = 32_768
"""Enough for the endings of 60 ranks, or the numbers of some thousand CPUs."""


def reserve(path: str | os.PathLike[str]) -> None:
    """Makes the file, with nothing in it but its room on the disk. OSError if there is none."""
    with open(path, "xb") as file:  # noqa: PTH123
        file.write(bytes(RESERVED_BYTES))


@contextmanager
def opened(path: str | os.PathLike[str], flags: int) -> Iterator[int]:
    """A file's descriptor."""
    descriptor = os.open(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_records(descriptor: int) -> list[dict[str, Any]]:
    """The whole records, up to the first that is not."""
    records = []
    for line in os.pread(descriptor, RESERVED_BYTES, 0).split(b"\n")[:-1]:
        checksum, _, text = line.partition(b" ")
        if checksum != _checksum(text):
            break
        records.append(json.loads(text))
    return records


def append_record(descriptor: int, record: dict[str, Any]) -> None:
    """Adds a record behind those that are there."""
    offset = sum(len(_line(known)) for known in read_records(descriptor))
    _put(descriptor, _line(record), offset)


def replace_records(descriptor: int, record: dict[str, Any]) -> None:
    """Makes this record the only one. Who reads meanwhile may find none."""
    _put(descriptor, _line(record).ljust(RESERVED_BYTES, b"\0"), 0)


def _put(descriptor: int, data: bytes, offset: int) -> None:
    if offset + len(data) > RESERVED_BYTES:
        raise ValueError(f"a record of {len(data)} bytes has no room in a file of {RESERVED_BYTES}")
    os.pwrite(descriptor, data, offset)


def _line(record: dict[str, Any]) -> bytes:
    text = json.dumps(record, sort_keys=True).encode()
    return _checksum(text) + b" " + text + b"\n"


def _checksum(text: bytes) -> bytes:
    return b"%08x" % zlib.crc32(text)
