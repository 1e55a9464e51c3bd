"""Several processes: what each walks through, that all count the same, and what a resume asks of each."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from muster.training.run_folder import EXIT_STOPPED, give_notice, read_progress
from tests.training.starting import HERE, alone, begin, start

pytestmark = pytest.mark.needs_torch
pytest.importorskip("torch")


def walked(
    env: dict[str, str], *arguments: object, status: int = 0, job: str = "ranks_job.py"
) -> tuple[list[list[str]], str]:
    """What each of two processes printed, and what the first one said went wrong."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    where["PYTHONPATH"] = str(HERE.parent.parent)
    ranks = [start(job, *arguments, env={**env, **where, "RANK": str(rank)}) for rank in range(2)]
    reply = [rank.communicate(timeout=60) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [status, status], reply
    return [output.splitlines() for output, _ in reply], reply[0][1]


@pytest.mark.parametrize("case", ["weighted", "random", "seeds", "divided"])
def test_each_walks_through_batches_of_its_own_and_goes_on(tmp_path: Path, case: str) -> None:
    """Also those that would all draw the same, and those that were each given a seed."""
    first, second = walked(alone(), case)[0]
    assert len(first) == len(second) == 8
    # Samples drawn with replacement may by chance make up one batch that both have.
    assert sum(one == other for one, other in zip(first, second, strict=True)) <= 1, (
        "the same batches on both"
    )
    begun, _ = walked(begin(tmp_path, 1), case, 1, status=EXIT_STOPPED)
    progress = read_progress(tmp_path)
    assert progress is not None
    assert progress["step"] < 8
    assert not progress["problems"]
    rest, _ = walked(begin(tmp_path, 2), case)
    assert [[*before, *after] for before, after in zip(begun, rest, strict=True)] == [first, second]


def test_the_same_data_in_the_same_order_is_said(tmp_path: Path) -> None:
    """It may be right: each may have files of its own."""
    walked(begin(tmp_path, 1), "in order")
    progress = read_progress(tmp_path)
    assert progress is not None
    assert "all processes walk through their data in the same order" in progress["problems"][0]


def test_different_numbers_of_batches_are_refused_by_all(tmp_path: Path) -> None:
    _, errors = walked(begin(tmp_path, 1), "uneven", status=2)
    assert "found [3, 4]; the processes have different numbers of batches an epoch" in errors


def test_one_process_that_differs_ends_all_with_a_reason(tmp_path: Path) -> None:
    walked(begin(tmp_path, 1), "seeds", 1, status=EXIT_STOPPED)
    _, errors = walked(begin(tmp_path, 2), "random", status=2)
    assert "seed: found 7; the checkpoint was made with 0" in errors
    assert "seed: found 7; the checkpoint was made with 1" in errors


EXAMPLE = str(HERE.parent.parent / "examples" / "train_distributed.py")


def test_the_example_ends_alike_alone_and_interrupted(tmp_path: Path) -> None:
    """Stopped by a signal to one of its processes before its first step, so after its first update."""
    (whole, other), _ = walked(alone(), job=EXAMPLE)
    assert (len(whole), other) == (1, [])
    begun = begin(tmp_path, 1)
    give_notice(tmp_path, 1, stop=True)
    assert walked(begun, job=EXAMPLE, status=EXIT_STOPPED)[0] == [[], []]
    progress = read_progress(tmp_path)
    assert progress is not None
    assert progress["step"] == progress["checkpoint_step"] == 2, "two batches an update"
    assert walked(begin(tmp_path, 2), job=EXAMPLE)[0] == [whole, []]
