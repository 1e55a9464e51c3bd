"""Reports of jobs, valid or not: an invalid one harms no other job."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.service.home import job_folder
from muster.service.store.rows import State, StateRequest, Submission

from .test_fake_nodes import World, a_job


def run_dir_of(home: Path, job: int) -> Path:
    folder = job_folder(home, job) / "run"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def output_of(home: Path, job: int = 1) -> Path:
    folder = job_folder(home, job) / "output"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "0.log"


def reply(text: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "progress-1.json").write_text(text)

    return write


def a_pipe(folder: Path) -> None:
    os.mkfifo(folder / "progress-1.json")


def a_folder(folder: Path) -> None:
    (folder / "progress-1.json").mkdir()


def no_folder(folder: Path) -> None:
    folder.rmdir()
    folder.write_text("mine")


NONSENSE = {
    "word": reply('{"epoch": 1, "step": "x"}'),
    "null": reply('{"epoch": 1, "step": null}'),
    "none": reply('{"epoch": 1}'),
    "list": reply('{"epoch": 1, "step": [7]}'),
    "true": reply('{"epoch": 1, "step": true}'),
    "minus": reply('{"epoch": 1, "step": -1}'),
    "nan": reply('{"epoch": 1, "step": NaN}'),
    "nan rate": reply('{"epoch": 1, "step": 3, "steps_per_second": NaN}'),
    "null rate": reply('{"epoch": 1, "step": 3, "steps_per_second": null}'),
    "endless rate": reply('{"epoch": 1, "step": 3, "steps_per_second": 1e400}'),
    "endless": reply('{"epoch": 1, "step": 1e400}'),
    "400 digits": reply('{"epoch": 1, "step": 1' + 400 * "0" + "}"),
    "5000 digits": reply('{"epoch": 1, "step": ' + 5000 * "9" + "}"),
    "deep": reply(100_000 * "["),
    "deep enough": reply(900 * "[" + 900 * "]"),
    "not utf-8": lambda folder: (folder / "progress-1.json").write_bytes(b'{"epoch": 1, "step": "\xff\xfe"}') and None,
    "a pipe": a_pipe,
    "a folder": a_folder,
    "no folder": no_folder,
}  # fmt: skip


@pytest.mark.parametrize("nonsense", NONSENSE.values(), ids=NONSENSE)
def test_a_report_without_sense_costs_its_own_job_only(
    tmp_path: Path, nonsense: Callable[[Path], None]
) -> None:
    """Not the daemon, not the next one, not the other job; its history says so once, and its owner can cancel it."""
    world = World(tmp_path, "fifo")
    bad, good = world.store.submit([Submission("ann", a_job(steps)) for steps in (1000, 5)])
    world.turn(1.0)
    nonsense(run_dir_of(tmp_path, bad))
    for _ in range(3):
        world.turn(2.0)
    world.die()
    for _ in range(3):
        world.turn(2.0)
    ended = world.store.job(good)
    assert ended is not None
    assert ended.state is State.COMPLETED
    kinds = [event.kind for event in world.store.events(bad)]
    assert kinds.count("report not understood") == 2, "once by each of the two daemons"
    world.store.request_state(bad, StateRequest.CANCEL)
    for _ in range(3):
        world.turn(61.0)  # It does not read its notices either.
    row = world.store.job(bad)
    assert row is not None
    assert (row.state, row.message) == (State.CANCELLED, "cancelled as asked")
    assert row.steps_done < 1000
    world.store.close()


def test_an_event_keeps_500_characters_of_a_problem(tmp_path: Path) -> None:
    world = World(tmp_path, "fifo")
    progress = rf"^(a+)+(?P<step>\d+)$|{900 * 'x'}"
    request = a_job(400).model_copy(update={"progress": progress})
    (job,) = world.store.submit([Submission("ann", request)])
    world.turn(1.0)
    output_of(tmp_path, job).write_text("a" * 5000 + "!\n")
    world.turn(2.0)
    (event,) = (event for event in world.store.events(job) if event.kind == "report not understood")
    assert event.detail.startswith("--progress")
    assert len(event.detail) == 500
    world.store.close()


def test_output_of_an_earlier_start_is_no_progress_of_this_one(tmp_path: Path) -> None:
    """A job that began from scratch is not credited with what went before; the next daemon knows where it began."""
    world = World(tmp_path, "fifo")
    request = a_job(400).model_copy(update={"progress": r"step (?P<step>\d+)"})
    (job,) = world.store.submit([Submission("ann", request)])
    world.turn(1.0)
    world.store.request_state(job, StateRequest.HOLD)
    for _ in range(2):
        world.turn(1.0)
    output = output_of(tmp_path, job)
    output.write_text("step 399\n")
    world.store.request_state(job, StateRequest.RELEASE)
    world.turn(1.0)
    for _ in range(3):
        world.turn(20.0)
        world.die()
    world.turn(20.0)
    begun = world.store.job(job)
    assert begun is not None
    assert (begun.steps_done, begun.output_read, begun.steps_before) == (0, 9, 0)
    with output.open("a") as more:
        more.write("step 7\n")
    world.turn(20.0)
    far = world.store.job(job)
    assert far is not None
    assert far.steps_done == 7
    assert far.steps_per_second == pytest.approx(7 / (world.seconds - 4.0)), "since it began"
    world.store.close()


def test_progress_never_goes_backwards(tmp_path: Path) -> None:
    """A job that repeats steps after its last checkpoint does not lose what it had reported."""
    world = World(tmp_path, "fifo")
    (job,) = world.store.submit([Submission("ann", a_job(1000))])
    world.turn(1.0)
    for reported, done in ((50, 50), (20, 50), (49, 50), (51, 51)):
        reply(f'{{"epoch": 1, "step": {reported}, "steps_per_second": 1.0}}')(run_dir_of(tmp_path, job))
        world.turn(11.0)
        kept = world.store.job(job)
        assert kept is not None
        assert kept.steps_done == done
    world.store.close()
