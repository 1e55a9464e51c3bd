"""The queue that a log of Slurm leaves at its end: what runs, what waits, on which nodes."""

from __future__ import annotations

from pathlib import Path

from muster.advise.would import Shape, queue_at, would_start

from .sites import job, node, site

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


def test_the_earlier_run_of_a_requeued_job_does_not_wait(tmp_path: Path) -> None:
    first = job("8", (4, 4, 5), "n1", 4, 1).replace("COMPLETED", "REQUEUED")
    again = job("8", (5, 6, 7), "n1", 4, 1)
    once_more = job("9", (5, 6, 7), "n1", 4, 1).replace("COMPLETED", "REQUEUED")
    waits = job("9", (7, None, None), "None assigned", 4, 1)
    state = queue_at(site(tmp_path, [*ENDED, first, again, once_more, waits], NODES), None)
    assert state.waiting["job_id"].to_list() == ["9"]
    assert state.running.is_empty()
    assert state.ended["job_id"].to_list().count("8") == 2
