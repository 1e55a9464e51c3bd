"""A profile's batch, the same at every step, and the share of it that a worker would have."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster import training
from muster.problems import InputError
from muster.training import link
from muster.training.batches import batches_of
from muster.training.repeated import RepeatedBatch
from muster.training.run_folder import begin_start, give_notice, read_progress
from muster.training.shares import Division


class Counted:
    """Batches of ten samples, and which of them were prepared."""

    def __init__(self) -> None:
        self.prepared: list[int] = []

    def __len__(self) -> int:
        return 5

    def __getitem__(self, number: int) -> list[int]:
        self.prepared.append(number)
        return [*range(10 * number, 10 * number + 10)]


def profiled(
    monkeypatch: pytest.MonkeyPatch, workers: int, loader: Any, steps: int, **more: Any
) -> list[Any]:
    monkeypatch.setenv("MUSTER_PROFILED_SHARE", str(workers))
    run = training.join()
    walk = run.steps(loader, state={}, **more)
    seen = [(part, run.weight, run.ends_update, run.ends_epoch) for part in islice(walk, steps)]
    assert run.epoch == 0
    return seen


def test_one_batch_comes_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = Counted()
    seen = profiled(monkeypatch, 1, batches, 12)
    assert seen == [([*range(10)], 1.0, True, False)] * 12
    assert batches.prepared == [0], "prepared once"


@pytest.mark.parametrize(
    ("workers", "parts"),
    [(1, [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]), (3, [[6, 7], [8, 9]]), (4, [[7, 8, 9]]), (10, [[9]])],
)
def test_a_share_is_that_of_the_fullest_worker(
    monkeypatch: pytest.MonkeyPatch, workers: int, parts: list[list[int]]
) -> None:
    """Local batches of five samples for one worker, of three for the others."""
    local_batch = 5 if workers == 1 else 3
    seen = profiled(monkeypatch, workers, Counted(), 3 * len(parts), elastic=True, local_batch=local_batch)
    assert [part for part, *_ in seen] == parts * 3
    ends = [False] * (len(parts) - 1) + [True]
    assert [ends_update for *_, ends_update, _ in seen] == ends * 3


@given(size=st.integers(1, 40), ranks=st.integers(1, 4), workers=st.integers(1, 9))
def test_no_worker_has_more_than_the_measured_share(size: int, ranks: int, workers: int) -> None:
    batches = RepeatedBatch(batches_of([[*range(size)]], 0), workers)
    batches.divide(Division(ranks - 1, ranks))
    next(batches.rest(0))
    assert batches.samples == -(-size // (ranks * workers))


def test_the_share_changes_between_two_steps(
    as_start: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(link, "REPORT_SECONDS", 0.0)
    monkeypatch.setenv("MUSTER_PROFILED_SHARE", "1")
    as_start(1)
    seen, reports = [], []
    walk = training.join().steps(Counted(), state={}, elastic=True, local_batch=4)
    for part in islice(walk, 9):
        seen.append(part)
        if len(seen) == 4:  # within the second step
            give_notice(tmp_path, 1, profiled_share=2)
        reports.append(read_progress(tmp_path) or {})
    assert seen == [[0, 1, 2], [3, 4, 5], [6, 7, 8, 9]] * 2 + [[5, 6], [7, 8, 9], [5, 6]]
    names = ("profiled_share", "share_samples", "share_passes", "elastic")
    assert [reports[3][name] for name in names] == [1, 10, 3, True]
    assert [reports[8][name] for name in names] == [2, 5, 2, True]


def test_a_share_of_every_batch_comes_from_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_CACHED_ONLY", "1")
    batches = Counted()
    seen = profiled(monkeypatch, 3, batches, 3, elastic=True)
    assert [part for part, *_ in seen] == [[6, 7, 8, 9], [16, 17, 18, 19], [26, 27, 28, 29]]
    assert batches.prepared == [0, 1, 2]


def test_a_script_that_is_not_elastic_has_no_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"found 2; only an elastic job's batches are shared"):
        profiled(monkeypatch, 2, Counted(), 1)


@pytest.mark.parametrize("wrong", ["0.5", "-1", "two"])
def test_a_share_among_no_workers_is_refused(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    monkeypatch.setenv("MUSTER_PROFILED_SHARE", wrong)
    with pytest.raises(InputError, match=r"MUSTER_PROFILED_SHARE: found '.*'; allowed: a whole number"):
        training.join()


@pytest.mark.needs_torch
@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_prepares_no_batch_beside_the_repeated_one(
    monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    torch = pytest.importorskip("torch")
    loader = torch.utils.data.DataLoader(np.arange(40), 8, shuffle=True, num_workers=workers)
    whole = [part.tolist() for part, *_ in profiled(monkeypatch, 1, loader, 3, elastic=True)]
    share = [part.tolist() for part, *_ in profiled(monkeypatch, 2, loader, 3, elastic=True)]
    assert whole == [whole[0]] * 3
    assert share == [whole[0][4:]] * 3


def walk_shares(folder: Path) -> list[list[int]]:
    """The parts of a rank, until its share has changed and it has made a step of that."""
    link.AGREE_SECONDS = 0.0
    run, seen, steps = training.join(), [], 0
    for part in run.steps(Counted(), state={}, elastic=True, local_batch=3):
        seen.append(part)
        if run.ends_update:
            steps += 1
            if steps == 2 and torch_rank() == 1:
                give_notice(folder, 1, profiled_share=2)
            if seen[-1] == seen[-2] and steps > 2:
                return seen
    raise AssertionError("it is endless")


def torch_rank() -> int:
    import torch

    return int(torch.distributed.get_rank())


@pytest.mark.needs_torch
def test_ranks_change_their_shares_at_the_same_step(tmp_path: Path) -> None:
    """A half of ten samples has two parts, a quarter one: ranks that do not agree would wait for each other."""
    pytest.importorskip("torch")
    from tests.training.forked import run_ranks

    begin_start(tmp_path, 1)
    env = {"MUSTER_RUN_DIR": str(tmp_path), "MUSTER_EPOCH": "1", "MUSTER_PROFILED_SHARE": "1"}
    ended = run_ranks(2, walk_shares, tmp_path, env=env)
    assert [status for status, _ in ended] == [0, 0]
    (first, second) = (seen for _, seen in ended)
    assert len(first) == len(second)
    assert [first[:2], second[:2]] == [[[0, 1], [2, 3, 4]], [[5, 6], [7, 8, 9]]]
    assert [first[-1], second[-1]] == [[2, 3, 4], [7, 8, 9]]
