"""What a user or a scheduler can get wrong, and the errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from muster import training
from muster.problems import InputError
from muster.training.run_folder import RunFolder, begin_start, give_notice


def test_all_wrong_variables_are_raised_together(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MUSTER_RUN_DIR", str(tmp_path / "absent"))
    monkeypatch.setenv("MUSTER_EPOCH", "0")
    monkeypatch.setenv("MUSTER_CACHE_GB", "nan")
    monkeypatch.setenv("MUSTER_CHECKPOINT_SECONDS", "-1")
    monkeypatch.setenv("MUSTER_CACHED_ONLY", "yes")
    with pytest.raises(InputError) as refused:
        training.join()
    reply = [problem.where for problem in refused.value.problems]
    numbers = ["MUSTER_CACHE_GB", "MUSTER_CHECKPOINT_SECONDS"]
    assert reply == [*numbers, "MUSTER_RUN_DIR", "MUSTER_EPOCH", "MUSTER_CACHED_ONLY"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"loader": iter([1])}, "a map-style DataLoader or a sequence of batches"),
        ({"epochs": -1}, "epochs: found -1"),
        ({"epochs": 1.5}, "epochs: found 1.5"),
        ({"state": {"model": 3, "weights": {}, "other": []}}, r"state\['model'\].*\n.*state\['other'\]"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        training.join().steps(**{"loader": [1], "state": {}, **arguments})


def test_steps_once_a_run() -> None:
    run = training.join()
    assert list(run.steps([1, 2], state={}, epochs=2)) == [1, 2, 1, 2]
    with pytest.raises(InputError, match="once a run"):
        run.steps([1], state={})


@pytest.mark.parametrize("seed", [-1, True, "3"])
def test_wrong_seed(seed: Any) -> None:
    with pytest.raises(InputError, match=r"training\.join: seed"):
        training.join(seed=seed)


def test_ranks_without_a_process_group(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    begin_start(tmp_path, 1)
    monkeypatch.setenv("MUSTER_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("MUSTER_EPOCH", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match=r"init_process_group before run\.steps"):
        next(iter(training.join().steps([1], state={})))


def test_starts_count_up(tmp_path: Path) -> None:
    begin_start(tmp_path, 2)
    for epoch in (1, 2):
        with pytest.raises(InputError, match="start 2 has begun"):
            begin_start(tmp_path, epoch)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "allowed: a JSON object"),
        ('{"epoch": 1, "cache_gb": "x"}', ": cache_gb"),
    ],
)
def test_a_notice_that_cannot_be_read(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "notice.json").write_text(content)
    with pytest.raises(InputError, match=words):
        RunFolder(tmp_path, 1).new_notice()


def test_a_notice_is_read_once_and_by_its_start_alone(tmp_path: Path) -> None:
    job = RunFolder(tmp_path, 1)
    assert job.new_notice() is None
    give_notice(tmp_path, 1, cache_gb=0.5)
    notice = job.new_notice()
    assert notice is not None
    assert (notice.stop, notice.cache_gb) == (False, 0.5)
    assert job.new_notice() is None
    give_notice(tmp_path, 2, stop=True)
    assert job.new_notice() is None


def test_importing_is_cheap_and_brings_no_other_room() -> None:
    code = "import sys; from muster import training; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = done.stdout.split()
    own = {name.split(".")[1] for name in modules if name.startswith("muster.")}
    assert own == {"training", "problems"}
    assert not {"torch", "scipy", "polars", "numba", "pydantic"} & set(modules)
