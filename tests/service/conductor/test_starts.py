"""What a start tells, and where there is room for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.cluster.shipped import parse_cluster
from muster.service.conductor.occupied import Occupied
from muster.service.conductor.starts import Start, cache_gb, read_report
from muster.service.engines import Seat
from muster.service.home import job_folder
from muster.service.request import JobRequest
from muster.service.store.rows import JobRow

CLUSTER = parse_cluster("2x2gpu,4cpu,8gb")
NODE = CLUSTER.nodes[0].name


def row(**more: object) -> JobRow:
    request = JobRequest(name="job", command=("true",), directory="/", **more)  # type: ignore[arg-type]
    return JobRow(1, "", request, 0.0)


def seat(gpus: tuple[int, ...] = (0,), milli: int = 1000, cpus: float = 1.0, memory_gb: float = 2.0) -> Seat:
    return Seat(NODE, gpus, milli, cpus, memory_gb, 0.0, 1)


def start(*seats: Seat) -> Start:
    return Start(1, 1, seats, 0.0, 0.0)


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
    assert cache_gb(row(memory_gb=0.5), (seat(memory_gb=2.0),)) == 1.5
    assert cache_gb(row(), (seat(memory_gb=4.0),)) == 3.0
    assert cache_gb(row(), (seat(memory_gb=1.0),)) == 0.5
    assert cache_gb(row(memory_gb=3.0), (seat(memory_gb=2.0),)) == 0.0


def test_an_expression_that_would_search_for_ever_is_given_up(tmp_path: Path) -> None:
    job = row(progress=r"^(a+)+(?P<step>\d+)$", stop_signal="SIGTERM")
    output = job_folder(tmp_path, 1) / "output"
    output.mkdir(parents=True)
    (output / "0.log").write_text("a" * 5000 + "!\n")
    begun = start(seat())
    assert not read_report(job, begun, tmp_path)
    (output / "0.log").write_text("aaa17\n")
    begun.output_read = 0
    assert read_report(job, begun, tmp_path)
    assert begun.told == {"step": 17}
