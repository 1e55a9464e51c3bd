"""The queue that a log of Slurm leaves at its end: what runs, what waits, on which nodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from muster.advise import read_site
from muster.advise.would import Shape, estimates_at, queue_at, without_away, would_start
from muster.problems import InputError
from muster.workload.traces import sacct
from muster.workload.traces.content import Document

from .sites import HEADER, job, node, site

ENDED = [job(f"{number}", (number, number, number + 1), "n1", 1, 1) for number in range(1, 4)]
NODES = (node("n1"), node("n2"))


def with_limit(line: str, word: str) -> str:
    return line.replace("|01:00:00|1|", f"|{word}|1|")


def test_jobs_without_a_limit_run_and_wait(tmp_path: Path) -> None:
    running = with_limit(job("8", (5, 5, None), "n1", 4, 1), "UNLIMITED")
    waiting = with_limit(job("9", (6, None, None), "None assigned", 4, 1), "Partition_Limit")
    seen = site(tmp_path, [*ENDED, running, waiting], NODES[:1])
    state = queue_at(seen, None)
    assert state.running["job_id"].to_list() == ["8"]
    assert state.waiting["job_id"].to_list() == ["9"]
    (start,) = would_start(seen, state, [Shape(4, 60.0)], draws=5)
    assert start is not None
    assert start.low > 60.0


def test_a_running_job_may_be_older_than_those_that_ended(tmp_path: Path) -> None:
    # Submitted an hour before the first that ended; job 0, without GPUs, half an hour before that.
    jobs = [
        job("0", (0, 0, 5), "n1", 0, 1),
        job("1", (30, 30, None), "n1", 4, 4, limit=120),
        *(job(str(at), (90, 90, 100), "n2", 1, 1, limit=20) for at in range(2, 6)),
    ]
    seen = site(tmp_path, jobs, NODES)
    state = queue_at(seen, None)
    assert state.now == 100 * 60
    assert state.running["submit_seconds"].to_list() == [30 * 60]
    (start,) = would_start(seen, state, [Shape(8, 60.0)], draws=5)
    assert start is not None
    assert start.low > 0


@pytest.mark.parametrize(
    ("times", "limit"),
    [
        ("DefaultTime=00:20:00 MaxTime=02:00:00", 1200.0),
        ("DefaultTime=NONE MaxTime=02:00:00", 7200.0),
        ("MaxTime=UNLIMITED", None),
    ],
)
def test_a_waiting_job_has_its_partitions_time_limit(tmp_path: Path, times: str, limit: float | None) -> None:
    """A running one has the limit that it started with, which is none here."""
    running = with_limit(job("8", (5, 5, None), "n1", 4, 1), "UNLIMITED")
    waiting = with_limit(job("9", (6, None, None), "None assigned", 4, 1), "Partition_Limit")
    elsewhere = with_limit(
        job("10", (6, None, None), "None assigned", 4, 1, partition="b"), "Partition_Limit"
    )
    nodes = (node("n1", partitions="a,b"), f"PartitionName=a State=UP {times}", "PartitionName=b State=UP")
    site(tmp_path, [*ENDED, running, waiting, elsewhere], nodes)
    seen, notes = read_site(tmp_path / "sacct.txt", str(tmp_path / "scontrol.txt"))
    state = queue_at(seen, None)
    assert dict(state.waiting.select("job_id", "time_limit_seconds").iter_rows()) == {"9": limit, "10": None}
    assert state.running["time_limit_seconds"].to_list() == [None]
    said = "1 waiting job without a time limit: the partition's counts"
    assert (said in [note for _, note in notes]) == (limit is not None)


def test_the_earlier_run_of_a_requeued_job_does_not_wait(tmp_path: Path) -> None:
    first = job("8", (4, 4, 5), "n1", 4, 1).replace("COMPLETED", "REQUEUED")
    again = job("8", (5, 6, 7), "n1", 4, 1)
    once_more = job("9", (5, 6, 7), "n1", 4, 1).replace("COMPLETED", "REQUEUED")
    waits = job("9", (7, None, None), "None assigned", 4, 1)
    state = queue_at(site(tmp_path, [*ENDED, first, again, once_more, waits], NODES), None)
    assert state.waiting["job_id"].to_list() == ["9"]
    assert state.running.is_empty()
    assert state.ended["job_id"].to_list().count("8") == 2


def test_each_task_of_a_waiting_array_waits(tmp_path: Path) -> None:
    array = job("8_[1-3,7%2]", (5, None, None), "None assigned", 1, 1)
    steps = job("9_[0-9:4]", (5, None, None), "None assigned", 1, 1)
    state = queue_at(site(tmp_path, [*ENDED, array, steps], NODES), None)
    assert state.waiting["job_id"].to_list() == ["8_1", "8_2", "8_3", "8_7", "9_0", "9_4", "9_8"]


def test_long_arrays_and_their_limits_are_noted(tmp_path: Path) -> None:
    array = job("8_[1-2,4,...%2]", (5, None, None), "None assigned", 1, 1)
    site(tmp_path, [*ENDED, array], NODES)
    seen, notes = read_site(tmp_path / "sacct.txt", str(tmp_path / "scontrol.txt"))
    said = " ".join(note for _, note in notes)
    assert queue_at(seen, None).waiting.height == 3
    assert "1 array with more tasks than written. Hint: set SLURM_BITSTR_LEN=0" in said
    assert "tasks of an array may run at a time (%) is not simulated" in said


def test_a_waiting_array_of_json_has_its_tasks() -> None:
    waits = {"job_id": 8, "array": {"job_id": 8, "task_id": {"set": False, "number": 0}, "task": "1-3%2"}}
    times = {"submission": 5, "start": 0, "end": 0, "elapsed": 0}
    jobs = [{**waits, "time": times, "state": {"current": ["PENDING"]}}]
    reading = sacct.read_all(Document("sacct.json", {"jobs": jobs}))
    sacct.each_task(reading)
    assert reading.frame["job_id"].to_list() == ["8_1", "8_2", "8_3"]


@pytest.mark.parametrize("state", ["IDLE+DRAIN", "DOWN*+NOT_RESPONDING", "IDLE+MAINT+RESERVED"])
def test_nothing_starts_on_nodes_that_are_away(tmp_path: Path, state: str) -> None:
    held = job("8", (5, 5, None), "n1", 4, 1)
    seen = site(tmp_path, [*ENDED, held], [NODES[0], node("n2").replace("IDLE", state)])
    now = without_away(seen)
    (start,) = would_start(now, queue_at(now, None), [Shape(4, 60.0)], draws=5)
    assert start is not None
    assert start.low > 1.0
    with pytest.raises(InputError, match="all nodes with GPUs are down"):
        without_away(replace(seen, away=frozenset(("n1", "n2"))))


@pytest.mark.parametrize("state", ["IDLE+CLOUD+POWERED_DOWN", "MIXED+PLANNED", "IDLE+RESERVED"])
def test_other_states_of_nodes_let_jobs_start(tmp_path: Path, state: str) -> None:
    seen = site(tmp_path, ENDED, [NODES[0], node("n2").replace("IDLE", state)])
    assert not seen.away


def test_a_job_on_a_draining_node_holds_its_other_part(tmp_path: Path) -> None:
    both = job("8", (5, 5, None), "n1,n2", 4, 2)
    only = job("9", (5, 5, None), "n2", 1, 1)
    seen = site(tmp_path, [*ENDED, both, only], [NODES[0], node("n2").replace("IDLE", "MIXED+DRAIN")])
    now = without_away(seen)
    small, large = would_start(now, queue_at(now, None), [Shape(2, 60.0), Shape(3, 60.0)], draws=5)
    assert small is not None
    assert large is not None
    assert small.high <= 5.0 < large.low


def test_a_waiting_job_waits_for_its_type_of_gpu(tmp_path: Path) -> None:
    """It asks for an a100, all of which are held, and leaves the v100 of the other node to the job behind it."""
    typed = [node(name).replace("gpu:4", f"gpu:{kind}:4") for name, kind in (("n1", "a100"), ("n2", "v100"))]
    held = job("8", (5, 5, None), "n1", 4, 1)
    waits = job("9", (6, None, None), "None assigned", 4, 1).replace("gres/gpu=4", "gres/gpu:a100=4")
    seen = site(tmp_path, [*ENDED, held, waits], typed)
    state = queue_at(seen, None)
    (start,) = would_start(seen, state, [Shape(4, 60.0)], draws=5)
    assert start is not None
    assert start.high < 10.0


MIXED = node("n1", gpus=2, cpus=12).replace("gpu:2", "gpu:a100:2,gpu:t4:4")


def test_a_job_runs_on_the_part_with_its_type_of_gpu(tmp_path: Path) -> None:
    """The job without a type takes the part that has room, and what a part lacks waits for that part alone."""
    held = job("8", (5, 5, None), "n1", 2, 1).replace("gres/gpu=2", "gres/gpu:a100=2")
    untyped = job("9", (6, 6, None), "n1", 2, 1)
    waits = job("10", (7, None, None), "None assigned", 2, 1).replace("gres/gpu=2", "gres/gpu:a100=2")
    seen = site(tmp_path, [*ENDED, held, untyped, waits], [MIXED, node("n2")])
    assert seen.jobs.filter(pl.col("job_id").is_in(["8", "9"]))["node_list"].to_list() == ["n1:a100", "n1:t4"]
    state = queue_at(seen, None)
    assert set(estimates_at(seen, state, draws=5)) == {"10"}
    (start,) = would_start(seen, state, [Shape(2, 60.0)], draws=5)
    assert start is not None
    assert start.high < 10.0


def test_an_untyped_job_without_room_is_on_the_roomiest_part(tmp_path: Path) -> None:
    jobs = [job(str(at), (5 + at, 5 + at, 50), "n1", gpus, 1) for at, gpus in enumerate((2, 3, 3))]
    later = [job("3", (60, 60, 70), "n1", 2, 1), job("4", (60, 60, 70), "n1", 0, 1)]
    seen = site(tmp_path, [*jobs, *later], [MIXED, node("n2")])
    parts = ["n1:a100", "n1:t4", "n1:t4", "n1:a100", "n1:a100,n1:t4"]
    assert seen.jobs["node_list"].to_list() == parts


@pytest.mark.parametrize("column", ["State", "Start", "End", "ReqTRES"])
def test_a_log_that_hides_its_queue_is_refused(tmp_path: Path, column: str) -> None:
    lines = [HEADER, *ENDED, job("8", (5, 5, None), "n1", 4, 1)]
    cells = [line.split("|") for line in lines]
    cells = [[*row, "AllocTRES" if row is cells[0] else "cpu=1,gres/gpu=1"] for row in cells]
    at = HEADER.split("|").index(column)
    site(tmp_path, ENDED, NODES)
    log = tmp_path / "short.txt"
    log.write_text("".join("|".join([*row[:at], *row[at + 1 :]]) + "\n" for row in cells))
    seen, _ = read_site(log, str(tmp_path / "scontrol.txt"))
    with pytest.raises(InputError, match=f"add {column} to sacct --format"):
        queue_at(seen, None)
