"""What a profiled job says of its loader, when it reports, and that it can discard what its loader has prepared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from muster import training
from muster.training import link
from muster.training.run_folder import give_notice, read_progress

pytestmark = pytest.mark.needs_torch
torch = pytest.importorskip("torch")


def reports(tmp_path: Path, *, workers: int, batches: int) -> list[tuple[int, int]]:
    """Of a run that reports as often as it may: the steps, and the loader's workers."""
    loader = torch.utils.data.DataLoader(
        range(batches), batch_size=1, num_workers=workers, prefetch_factor=3 if workers else None
    )
    seen: list[tuple[int, int]] = []
    for _ in training.join().steps(loader, state={}):
        report = read_progress(tmp_path)
        if report is not None and (not seen or report["step"] != seen[-1][0]):
            seen.append((report["step"], report["loader_workers"]))
    return seen


@pytest.fixture(autouse=True)
def _reports_at_once(monkeypatch: pytest.MonkeyPatch, as_start: Callable[..., None]) -> None:
    monkeypatch.setattr(link, "REPORT_SECONDS", 0.0)
    as_start(1)


def test_a_profiled_job_reports_whole_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_PROFILED_SHARE", "0")
    assert reports(tmp_path, workers=2, batches=8) == [(2, 2), (4, 2), (6, 2)]


def test_a_round_that_takes_long_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_PROFILED_SHARE", "0")
    monkeypatch.setattr(link, "LONGEST_ROUND_SECONDS", 0.0)
    assert reports(tmp_path, workers=2, batches=4) == [(1, 2), (2, 2), (3, 2)]


@pytest.mark.parametrize(("share", "workers"), [(None, 2), ("0", 0), ("1", 2)])
def test_others_report_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: str | None, workers: int
) -> None:
    """A job that is no profile's, one without loader workers, and one that repeats a batch."""
    if share == "1":
        monkeypatch.setattr("muster.training.repeated._ENDLESS", 4)
    if share is not None:
        monkeypatch.setenv("MUSTER_PROFILED_SHARE", share)
    assert reports(tmp_path, workers=workers, batches=4) == [(1, 0), (2, 0), (3, 0)]


@pytest.mark.parametrize("persistent", [False, True])
def test_batches_prepared_again_are_the_same(tmp_path: Path, persistent: bool) -> None:
    loader = torch.utils.data.DataLoader(
        range(12), batch_size=1, num_workers=2, prefetch_factor=3, persistent_workers=persistent
    )
    seen, discarded = [], []
    for batch in training.join().steps(loader, state={}, epochs=2):
        seen.append(int(batch))
        discarded.append((read_progress(tmp_path) or {"discarded": 0})["discarded"])
        if len(seen) in (3, 12, 19):  # within an epoch, and at its end
            give_notice(tmp_path, 1, discard=1 + discarded[-1])
    assert seen == [*range(12)] * 2
    assert (discarded[0], discarded[-1]) == (0, 3)
