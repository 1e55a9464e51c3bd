"""The block of a page: read back by a decoder of its own, it says what the records say."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest

from muster.report import embedded as module
from muster.report.embedded import embedded, run_tables
from muster.runtime.records import Record
from tests.report.hand_made import scheduled

TICK = 1.0
"""Of runs as long as these, seconds."""


class Block:
    """A decoder as slow and plain as it can be; columns are read in the order of the page's own reader."""

    def __init__(self, text: str) -> None:
        self.bytes = gzip.decompress(base64.b64decode(text))
        size = int.from_bytes(self.bytes[:4], "little")
        self.header: dict[str, Any] = json.loads(self.bytes[4 : 4 + size])
        self.at = 4 + size

    def column(self, described: dict[str, int]) -> list[int]:
        count, values, before = described["count"], [], 0
        for row in range(count):
            value = sum(
                self.bytes[self.at + place * count + row] << 8 * place for place in range(described["width"])
            )
            if described["signed"]:
                value = -(value + 1) // 2 if value % 2 else value // 2
            before = value + before if described["delta"] else value
            values.append(before)
        self.at += count * described["width"]
        return values

    def named(self, described: dict[str, Any]) -> list[Any]:
        return [described["names"][number] for number in self.column(described["column"])]


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return [scheduled(order, jobs=40, tenants=["a", "b"]) for order in ("fifo", "las")]


def read_back(records: list[Record]) -> Iterator[tuple[Record, dict[str, Any], list[int]]]:
    """Each record with its columns read back, and when jobs were submitted."""
    block = Block(embedded(["one", "other"], [run_tables(record) for record in records]))
    header = block.header
    assert header["tick_seconds"] == TICK
    submit = block.column(header["submit"])
    assert [header["ids"], *(block.named(header[what]) for what in ("model", "tenant", "user", "gpus"))] == [
        records[0].jobs["job_id"].to_list(),
        *(records[0].jobs[what].fill_null("").to_list() for what in ("model", "tenant", "user")),
        records[0].jobs["gpus"].to_list(),
    ]
    first = [0] * len(submit)
    for number, (record, run) in enumerate(zip(records, header["runs"], strict=True)):
        columns = {what: block.column(run[what]) for what in ("gap", "span", "more_wait", "preemptions")}
        columns |= {"outcome": block.named(run["outcome"]), "measured": block.column(run["measured"])}
        columns["span"] = [span + before for span, before in zip(columns["span"], first, strict=True)]
        if not number:
            first = columns["span"]
        held = {what: block.column(run["held"][what]) for what in ("count", "since", "until", "node")}
        held["gpus"] = block.named(run["held"]["gpus"])
        for part in ("count", "since", "length"):
            block.column(run["reasons"][part])
        block.named(run["reasons"]["text"])
        yield record, columns | {"held": held, "nodes": run["nodes"]}, submit
    assert block.at == len(block.bytes)


def test_jobs_are_read_back_to_the_tick(records: list[Record]) -> None:
    start = records[0].jobs["submit_seconds"].min()
    for record, columns, submit in read_back(records):
        jobs = record.jobs.select(
            pl.col("submit_seconds", "start_seconds", "finish_seconds") - start, "wait_seconds"
        )
        for at, job in enumerate(jobs.iter_rows(named=True)):
            begin = submit[at] + columns["gap"][at]
            assert submit[at] * TICK == pytest.approx(job["submit_seconds"], abs=TICK)
            assert begin * TICK == pytest.approx(job["start_seconds"], abs=TICK)
            assert (begin + columns["span"][at]) * TICK == pytest.approx(job["finish_seconds"], abs=TICK)
            waited = (columns["gap"][at] + columns["more_wait"][at]) * TICK
            assert waited == pytest.approx(job["wait_seconds"], abs=TICK)
        assert columns["preemptions"] == record.jobs["preemptions"].to_list()
        assert columns["outcome"] == record.jobs["outcome"].to_list()


def test_places_are_read_back_by_job_and_time(records: list[Record]) -> None:
    start = records[0].jobs["submit_seconds"].min()
    order = {name: at for at, name in enumerate(records[0].jobs["job_id"])}
    for record, columns, submit in read_back(records):
        held, rows, found = columns["held"], iter(range(len(columns["held"]["node"]))), []
        for job, count in enumerate(held["count"]):
            since, until = submit[job] + columns["gap"][job], 0
            end = since + columns["span"][job]
            for place in range(count):
                row = next(rows)
                same = place > 0 and held["since"][row] == 0
                since += held["since"][row]
                until = held["until"][row] + (until if same else end)
                found.append((job, since, until, columns["nodes"][held["node"][row]], held["gpus"][row]))
        expected = [
            (
                order[row["job_id"]],
                round((row["from_seconds"] - start) / TICK),
                round((row["to_seconds"] - start) / TICK),
                row["node"],
                f"{row['gpus']}:{','.join(map(str, row['gpu_ids']))}",
            )
            for row in record.allocations.iter_rows(named=True)
        ]
        assert sorted(found) == sorted(expected)


def test_places_are_left_out_where_there_are_too_many(
    records: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [run_tables(record) for record in records]
    whole = embedded(["one", "other"], runs)
    assert whole == embedded(["one", "other"], runs)
    monkeypatch.setattr(module, "GREATEST_BLOCK", 100)
    short = Block(embedded(["one", "other"], runs))
    assert not short.header["detailed"]
    assert all("held" not in run for run in short.header["runs"])
    assert len(short.bytes) < len(Block(whole).bytes)
