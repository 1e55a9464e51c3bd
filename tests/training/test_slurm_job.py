"""A job that its owner submitted to Slurm finds its start by its number there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muster.problems import InputError
from muster.training.environment import read_environment
from muster.training.run_folder import RunFolder, Stale, make_older_starts_stale
from muster.training.slurm_job import start_of_slurm_job


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Job 17 of Slurm, restarted twice, is the third start of a job of Muster."""
    for name in ("MUSTER_RUN_DIR", "MUSTER_EPOCH"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "run").mkdir()
    variables = {"MUSTER_RUN_DIR": str(tmp_path / "run"), "MUSTER_EPOCH": "3", "MUSTER_CACHE_GB": "2.5"}
    found = start_of_slurm_job(tmp_path, 17)
    found.parent.mkdir()
    found.write_text(json.dumps({"restarts": 2, "environment": variables}))
    monkeypatch.setenv("MUSTER_JOBS", str(tmp_path))
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "2")
    return tmp_path


def test_it_finds_what_the_scheduler_passes(jobs: Path) -> None:
    found = read_environment()
    assert (found.run_dir, found.epoch, found.cache_gb) == (jobs / "run", 3, 2.5)
    assert read_environment() == found  # as another rank does


def test_it_makes_older_starts_stale(jobs: Path) -> None:
    make_older_starts_stale(jobs / "run", 2)
    read_environment()
    with pytest.raises(Stale):
        RunFolder(jobs / "run", 2).check_newest()
    make_older_starts_stale(jobs / "run", 4)
    with pytest.raises(InputError, match="start 4 has begun"):
        read_environment()


@pytest.mark.parametrize(
    ("name", "value"), [("SLURM_RESTART_COUNT", "1"), ("SLURM_JOB_ID", "18"), ("SLURM_JOB_ID", "")]
)
def test_another_start_or_job_runs_alone(
    jobs: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert read_environment().run_dir is None


def test_what_a_launcher_passes_takes_precedence(
    jobs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("MUSTER_EPOCH", "1")
    assert read_environment().run_dir == tmp_path
