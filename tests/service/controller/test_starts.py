"""Room for a start, and the cache that it may fill."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from muster.cluster.ledger import NodeAllocation
from muster.cluster.shipped import parse_cluster
from muster.service.controller.running_starts import RunningStarts
from muster.service.controller.starts import JobStart, cache_gb
from muster.service.request import JobRequest
from muster.service.store.rows import JobRow

CLUSTER = parse_cluster("2x2gpu,4cpu,8gb")
NODE = CLUSTER.nodes[0].name


def row(**more: object) -> JobRow:
    request = JobRequest(name="job", command=("true",), directory="/", **more)  # type: ignore[arg-type]
    return JobRow(1, "", request, 0.0)


def allocation(
    gpus: tuple[int, ...] = (0,), milli: int = 1000, cpus: float = 1.0, memory_gb: float = 2.0
) -> NodeAllocation[str]:
    return NodeAllocation(NODE, gpus, cpus, memory_gb, milli=milli)


def started(job: int = 1, **amounts: Any) -> JobStart:
    return JobStart(job, 1, (allocation(**amounts),), 0.0, 0.0)


@pytest.mark.parametrize(
    ("wanted", "there_is"),
    [
        (allocation((1,)), True),
        (allocation((0,)), False),
        (allocation((0,), milli=400), False),
        (allocation((1,), cpus=3.0), True),
        (allocation((1,), cpus=3.5), False),
        (allocation((1,), memory_gb=6.5), False),
    ],
)
def test_a_start_waits_until_its_gpus_cpu_and_memory_are_free(
    wanted: NodeAllocation[str], there_is: bool
) -> None:
    starts = RunningStarts(CLUSTER)
    starts.add(started())
    assert starts.has_room([wanted]) is there_is


def test_two_shares_fit_on_a_gpu_and_three_do_not() -> None:
    starts = RunningStarts(CLUSTER)
    starts.add(started(1, milli=400))
    assert starts.has_room([allocation(milli=400)])
    starts.add(started(2, milli=400))
    assert not starts.has_room([allocation(milli=400)])
    assert starts.has_room([allocation(milli=600)], instead_of=[allocation(milli=400)])
    assert not starts.has_room([allocation(milli=400)]), "the check alone changes nothing"
    starts.resize(starts[2], (allocation(milli=300),))
    assert starts.has_room([allocation(milli=300)])
    assert not starts.has_room([allocation(milli=301)])
    starts.remove(starts[1])
    assert starts.has_room([allocation(milli=700)])
    assert list(starts) == [2]


def test_the_cache_is_what_the_process_itself_does_not_need() -> None:
    assert cache_gb(row(own_memory_gb=0.5), (allocation(memory_gb=2.0),)) == 1.5
    assert cache_gb(row(own_memory_gb=3.0), (allocation(memory_gb=2.0),)) == 0.0
    assert cache_gb(row(), (allocation(memory_gb=1.0),)) == 0.5, "where it is little, half of it"
    assert cache_gb(row(), (allocation(memory_gb=62.5),)) == 58.5
    assert cache_gb(row(memory_gb=62.5), (allocation(memory_gb=62.5),)) == 58.5, (
        "asked for in all, cache and all"
    )


def test_the_node_with_least_memory_per_process_sets_the_cache() -> None:
    four = allocation(gpus=(0, 1, 2, 3), memory_gb=40.0)
    assert cache_gb(row(ranks="per-gpu"), (four,)) == (40 - 4 * 4) / 4
    assert cache_gb(row(own_memory_gb=8.0, ranks="per-gpu"), (four,)) == (40 - 8) / 4
    assert cache_gb(row(own_memory_gb=8.0), (allocation(memory_gb=10.0), allocation(memory_gb=6.0))) == 2.0


def test_memory_of_its_own_is_a_part_of_what_is_asked_for() -> None:
    assert row(memory_gb=4.0, own_memory_gb=4.0).request.own_memory_gb == 4
    with pytest.raises(ValidationError, match="own_memory_gb is a part of memory_gb, which is 4"):
        row(memory_gb=4.0, own_memory_gb=5.0)
