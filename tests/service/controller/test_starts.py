"""What a start tells, and where there is room for one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import ValidationError

from muster.cluster.shipped import parse_cluster
from muster.service.controller.occupied import Occupied
from muster.service.controller.starts import cache_gb
from muster.service.engines import Seat
from muster.service.request import JobRequest
from muster.service.store.rows import JobRow

CLUSTER = parse_cluster("2x2gpu,4cpu,8gb")
NODE = CLUSTER.nodes[0].name


def row(**more: object) -> JobRow:
    request = JobRequest(name="job", command=("true",), directory="/", **more)  # type: ignore[arg-type]
    return JobRow(1, "", request, 0.0)


def seat(gpus: tuple[int, ...] = (0,), milli: int = 1000, cpus: float = 1.0, memory_gb: float = 2.0) -> Seat:
    return Seat(NODE, gpus, milli, cpus, memory_gb, 0.0, 1)


@pytest.mark.parametrize(
    ("wanted", "there_is"),
    [
        (seat((1,)), True),
        (seat((0,)), False),
        (seat((0,), milli=400), False),
        (seat((1,), cpus=3.0), True),
        (seat((1,), cpus=3.5), False),
        (seat((1,), memory_gb=6.5), False),
    ],
)
def test_a_start_waits_until_its_seats_are_empty(wanted: Seat, there_is: bool) -> None:
    occupied = Occupied(CLUSTER)
    occupied.take([seat()])
    assert occupied.has_room([wanted]) is there_is


def test_two_shares_fit_on_a_gpu_and_three_do_not() -> None:
    occupied = Occupied(CLUSTER)
    occupied.take([seat(milli=400)])
    assert occupied.has_room([seat(milli=400)])
    occupied.take([seat(milli=400)])
    assert not occupied.has_room([seat(milli=400)])
    assert occupied.has_room([seat(milli=600)], instead_of=[seat(milli=400)])
    assert not occupied.has_room([seat(milli=400)]), "it was only asked what would be"
    occupied.give_back([seat(milli=400)])
    assert occupied.has_room([seat(milli=400)])


def test_the_cache_is_what_the_process_itself_does_not_need() -> None:
    assert cache_gb(row(own_memory_gb=0.5), (seat(memory_gb=2.0),)) == 1.5
    assert cache_gb(row(own_memory_gb=3.0), (seat(memory_gb=2.0),)) == 0.0
    assert cache_gb(row(), (seat(memory_gb=1.0),)) == 0.5, "where it is little, half of it"
    assert cache_gb(row(), (seat(memory_gb=62.5),)) == 58.5
    assert cache_gb(row(memory_gb=62.5), (seat(memory_gb=62.5),)) == 58.5, "asked for in all, cache and all"


def test_every_process_has_memory_of_its_own_and_the_poorest_seat_decides() -> None:
    four = replace(seat(gpus=(0, 1, 2, 3), memory_gb=40.0), ranks=4)
    assert cache_gb(row(), (four,)) == (40 - 4 * 4) / 4
    assert cache_gb(row(own_memory_gb=8.0), (four,)) == (40 - 8) / 4
    assert cache_gb(row(own_memory_gb=8.0), (seat(memory_gb=10.0), seat(memory_gb=6.0))) == 2.0


def test_memory_of_its_own_is_a_part_of_what_is_asked_for() -> None:
    assert row(memory_gb=4.0, own_memory_gb=4.0).request.own_memory_gb == 4
    with pytest.raises(ValidationError, match="own_memory_gb is a part of memory_gb, which is 4"):
        row(memory_gb=4.0, own_memory_gb=5.0)
