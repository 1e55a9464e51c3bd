"""Several workers on this machine: which are measured, and real ranks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from muster.cli.app import run as run_command_line
from muster.problems import InputError
from muster.profiling.job import JobToProfile, running
from muster.profiling.workers import measure_workers, worker_counts

from . import shared_job, shared_ranks
from .test_compute import QUICK
from .test_real_jobs import silent


@pytest.mark.parametrize(
    ("wanted", "gpus", "cores", "counts"),
    [
        (None, "", 8.0, (1,)),
        (2, "", 2.0, (1, 2)),
        (3, "", 8.0, (1, 2, 3)),
        (None, "0", 8.0, (1,)),
        (None, "0,1", 1.0, (1, 2)),
        (None, "0,1,2,3,4,5", 8.0, (1, 2, 4)),
        (6, "0,1,2,3,4,5", 8.0, (1, 2, 4, 6)),
        (1, "0,1", 8.0, (1,)),
    ],
)
def test_numbers_of_workers(wanted: int | None, gpus: str, cores: float, counts: tuple[int, ...]) -> None:
    assert worker_counts(wanted, JobToProfile(["x"], gpu=gpus).gpu_names, cores) == counts


@pytest.mark.parametrize(
    ("wanted", "gpus", "said"),
    [
        (3, "0,1", "found 3; allowed: 1 to 2, as many as free GPUs"),
        (3, "", "found 3; allowed: 1 to 2, as many as cores, without GPUs one for each worker"),
        (0, "", "found 0; allowed: 1 to 2"),
    ],
)
def test_more_workers_than_there_is_room_for(wanted: int, gpus: str, said: str) -> None:
    with pytest.raises(InputError, match=f"--workers: {said}"):
        worker_counts(wanted, JobToProfile(["x"], gpu=gpus).gpu_names, 2.9)


def test_a_script_that_does_not_share_has_one_worker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["profile", "--workers", "2", "--gpu", "", "--out", str(tmp_path / "never.toml"), "--"]
    assert run_command_line([*words, sys.executable, str(Path(shared_job.__file__))]) == 2
    assert "--workers: found 2; allowed: 1 for a script that does not share" in capsys.readouterr().err


@pytest.mark.needs_torch
def test_real_ranks_share_a_batch() -> None:
    """Two workers compute for their half, and then wait for each other."""
    pytest.importorskip("torch")
    job = JobToProfile([sys.executable, "-m", shared_ranks.__name__])
    with running(job, silent) as run:
        workers = measure_workers(run, (2,), 1.0, shared_job.BATCH, QUICK)
    assert list(workers.rates) == [(2, 6), (2, 12), (2, 24)]
    assert workers.compared == (2, 12)
    for (_, samples), found in workers.rates.items():
        least = shared_job.FIXED_CPU_SECONDS + samples * shared_job.SAMPLE_CPU_SECONDS
        assert 1 / found.steps_per_s > least + shared_ranks.EXCHANGE_CPU_SECONDS


@pytest.mark.needs_torch
def test_a_rank_that_fails_is_named() -> None:
    pytest.importorskip("torch")
    job = JobToProfile([sys.executable, "-m", shared_ranks.__name__, "fails"])
    with running(job, silent) as run, pytest.raises(InputError) as refused:
        measure_workers(run, (2,), 1.0, shared_job.BATCH, QUICK)
    assert "rank 1 of 2 ended with status 1; it said last:\n  no second one" in str(refused.value)
