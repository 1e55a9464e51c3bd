"""Jobs that change their number of ranks: the same samples in the same total batches, and the same bits."""

from __future__ import annotations

import os
import runpy
import signal
import sys
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster import training
from muster.problems import InputError
from muster.training import link
from muster.training.run_folder import EXIT_STOPPED, begin_start, give_notice, read_progress

pytestmark = pytest.mark.needs_torch
torch = pytest.importorskip("torch")

from tests.training.elastic_job import Work, learn  # noqa: E402
from tests.training.forked import run_ranks  # noqa: E402

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_elastic.py"


def learn_until(work: Work, folder: Path, epoch: int, step: int) -> tuple[str, Any]:
    """The job, asked to stop after so many steps."""

    def after_update(done: int) -> None:
        if done >= step:
            give_notice(folder, epoch, stop=True)

    return learn(work, after_update)


def start(
    folder: Path, epoch: int, ranks: int, work: Work, stop_after: int = 10**9
) -> tuple[str, Any] | None:
    """One start; what its ranks ended with, None if they stopped."""
    begin_start(folder, epoch)
    env = {"MUSTER_RUN_DIR": str(folder), "MUSTER_EPOCH": str(epoch)}
    ended = run_ranks(ranks, learn_until, work, folder, epoch, stop_after, env=env)
    assert {status for status, _ in ended} in ({0}, {EXIT_STOPPED}), ended
    assert all(result == ended[0][1] for _, result in ended)
    result: tuple[str, Any] | None = ended[0][1]
    return result


def undivided(work: Work) -> tuple[str, Any]:
    """The same on one rank, without a scheduler, without any division."""
    ((status, result),) = run_ranks(1, learn, Work(work.batch, None, elastic=False))
    assert status == 0
    return result  # type: ignore[no-any-return]


starts = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5)), min_size=1, max_size=4)


@settings(max_examples=10)
@given(batch=st.integers(1, 9), local_batch=st.none() | st.integers(1, 4), starts=starts)
def test_any_numbers_of_ranks_end_with_the_bits_of_one(
    batch: int, local_batch: int | None, starts: list[tuple[int, int]]
) -> None:
    """Each start has some number of ranks, and is stopped some steps after it began."""
    work = Work(batch, local_batch)
    whole = undivided(work)
    seen = [index for samples in whole[1] for index in samples]
    assert sorted(seen[:23]) == sorted(seen[23:]) == list(range(23))
    ended, step = None, 0
    with TemporaryDirectory() as name:
        folder = Path(name)
        for epoch, (ranks, steps) in enumerate([*starts, (3, 10**6)], start=1):
            ended = start(folder, epoch, ranks, work, step + steps)
            if ended is not None:
                break
            progress = read_progress(folder)
            assert progress is not None
            assert (progress["state"], progress["ranks"], progress["elastic"]) == ("stopped", ranks, True)
            step = progress["step"]
    assert ended == whole


def test_one_two_four_three_one_with_loader_workers(tmp_path: Path) -> None:
    work = Work(batch=6, local_batch=2, workers=1)
    whole = undivided(work)
    for epoch, ranks in enumerate((1, 2, 4, 3), start=1):
        assert start(tmp_path, epoch, ranks, work, stop_after=2 * epoch - 1) is None
        progress = read_progress(tmp_path)
        assert progress is not None
        assert progress["step"] >= 2 * epoch - 1
    assert start(tmp_path, 5, 1, work) == whole


def learn_and_die(work: Work, step: int) -> tuple[str, Any]:
    """The job, whose first rank is killed after so many steps."""

    def after_update(done: int) -> None:
        if done == step:
            os.kill(os.getpid(), signal.SIGKILL)

    return learn(work, after_update)


def test_killed_ranks_are_followed_by_another_number_of_them(tmp_path: Path) -> None:
    """What was not saved is done again, on other ranks; the checkpoint of every step is there."""
    work = Work(batch=5, local_batch=2)
    for epoch, (ranks, step) in enumerate(((2, 3), (3, 6), (1, 8)), start=1):
        begin_start(tmp_path, epoch)
        env = {"MUSTER_RUN_DIR": str(tmp_path), "MUSTER_EPOCH": str(epoch), "MUSTER_CHECKPOINT_SECONDS": "0"}
        first, *others = run_ranks(ranks, learn_and_die, work, step, env=env)
        assert first[0] == -signal.SIGKILL
        assert all(status == 1 for status, _ in others)
        progress = read_progress(tmp_path)
        assert progress is not None
        assert (progress["checkpoint_step"], progress["ranks"]) == (step - 1, ranks)
    assert start(tmp_path, 4, 4, work) == undivided(work)


def walk(loader: Any, elastic: bool, stop: tuple[Path, int, int] | None = None, seed: int = 0) -> Any:
    """The samples of each part of a run and its weight, and a random number of each rank's own after each."""
    link.AGREE_SECONDS = 0.0
    torch.manual_seed(torch.distributed.get_rank())
    run, seen = training.join(seed=seed), []
    if loader == "divided":
        loader = torch.utils.data.DataLoader(
            range(12), 4, sampler=torch.utils.data.DistributedSampler(range(12))
        )
    try:
        for part in run.steps(loader, state={}, elastic=elastic):
            seen.append((part, run.weight, run.ends_epoch, float(torch.rand(()))))
            if stop is not None and run.step + 1 >= stop[2]:
                give_notice(stop[0], stop[1], stop=True)
    except InputError as refused:
        return str(refused)
    except SystemExit:
        pass
    return seen


def walked(ranks: int, loader: Any, elastic: bool, folder: Path, epoch: int, stop: int = 99) -> list[Any]:
    begin_start(folder, epoch)
    env = {"MUSTER_RUN_DIR": str(folder), "MUSTER_EPOCH": str(epoch)}
    return [seen for _, seen in run_ranks(ranks, walk, loader, elastic, (folder, epoch, stop), env=env)]


def test_batches_of_a_sequence_are_divided_in_any_form(tmp_path: Path) -> None:
    batches = [np.arange(4), [5, 6], (np.arange(3), [7, 8, 9]), {"x": np.arange(2), "y": "ab"}]
    first, second = walked(2, batches, True, tmp_path, 1)
    assert str([part for part, *_ in first]) == str(
        [np.array([0, 1]), [5], (np.array([0]), [7]), {"x": np.array([0]), "y": "a"}]
    )
    assert str([part for part, *_ in second]) == str(
        [np.array([2, 3]), [6], (np.array([1, 2]), [8, 9]), {"x": np.array([1]), "y": "b"}]
    )
    assert [weight for _, weight, *_ in first + second] == [1, 1, 2 / 3, 1, 1, 1, 4 / 3, 1]
    assert [ends for *_, ends, _ in first] == [False, False, False, True]


@pytest.mark.parametrize(
    ("batch", "words"), [(3, "cannot be divided"), ((np.arange(2), np.arange(3)), "all of the same length")]
)
def test_batches_without_samples_are_refused(tmp_path: Path, batch: Any, words: str) -> None:
    first, second = walked(2, [batch], True, tmp_path, 1)
    assert words in first
    assert words in second


def test_a_rank_that_joins_has_random_numbers_of_its_own(tmp_path: Path) -> None:
    """The others go on with theirs; one that joins again at the same step has the same ones again."""
    batches = [np.arange(6)] * 6
    alone = walked(1, batches, True, tmp_path / "a", 1)
    (before,) = walked(1, batches, True, tmp_path / "b", 1, 2)
    first, second, third = walked(3, batches, True, tmp_path / "b", 2)
    assert [number for *_, number in before + first] == [number for *_, number in alone[0]]
    assert len({number for seen in (first, second, third) for *_, number in seen}) == 3 * len(first)
    walked(1, batches, True, tmp_path / "c", 1, 2)
    assert walked(2, batches, True, tmp_path / "c", 2)[1][0][-1] == second[0][-1]


def test_what_one_process_began_goes_on_divided(tmp_path: Path) -> None:
    """One process walks through whole batches, whether its script is elastic or not."""
    batches = [np.arange(2) + 2 * number for number in range(4)]
    (before,) = walked(1, batches, False, tmp_path, 1, 1)
    first, second = walked(2, batches, True, tmp_path, 2, 2)
    (after,) = walked(1, batches, False, tmp_path, 3)
    assert [int(x) for part, *_ in before for x in part] == [0, 1]
    assert [int(part[0]) for part, *_ in first + second] == [2, 3]
    assert [int(x) for part, *_ in after for x in part] == [4, 5, 6, 7]


def test_a_script_that_is_not_elastic_keeps_its_ranks(tmp_path: Path) -> None:
    batches = [np.arange(2)] * 6
    walked(2, batches, False, tmp_path, 1, 1)
    for elastic, epoch in ((False, 2), (True, 3)):
        (refused,) = walked(1, batches, elastic, tmp_path, epoch)
        assert "processes: found 1; the checkpoint was made with 2" in refused
    assert (
        "elastic: found True; the checkpoint was made with False" in walked(2, batches, True, tmp_path, 4)[0]
    )
    walked(2, batches, True, tmp_path / "elastic", 1, 1)
    refused = walked(3, batches, False, tmp_path / "elastic", 2)[2]
    assert "processes: found 3; the checkpoint was made with 2" in refused


def test_a_loader_that_is_divided_already_is_refused(tmp_path: Path) -> None:
    for refused in walked(2, "divided", True, tmp_path, 1):
        assert "without DistributedSampler" in refused


def test_samples_without_batches_are_refused() -> None:
    loader = torch.utils.data.DataLoader(range(4), batch_size=None)
    with pytest.raises(InputError, match="batch_size=None"):
        next(training.join().steps(loader, state={}, elastic=True))


def printed(output: Path) -> None:
    """Runs the example, what its first rank prints going to the end of a file."""
    link.AGREE_SECONDS = 0.0
    sys.argv = ["train_elastic.py"]
    with output.open("a") as file, redirect_stdout(file):
        runpy.run_path(str(EXAMPLE), run_name="__main__")


def test_the_example_has_the_losses_of_one_rank_up_to_rounding(tmp_path: Path) -> None:
    """DistributedDataParallel sums in an order of its own, so that the last bits differ."""
    import_module("torch._dynamo")  # which each rank would import for itself
    ((status, _),) = run_ranks(1, printed, tmp_path / "whole", has_group=False)
    assert status == 0
    for epoch, ranks in enumerate((1, 2, 4, 3), start=1):
        begin_start(tmp_path, epoch)
        if epoch < 4:
            give_notice(tmp_path, epoch, stop=True)  # it stops after its first update
        env = {"MUSTER_RUN_DIR": str(tmp_path), "MUSTER_EPOCH": str(epoch)}
        ended = run_ranks(ranks, printed, tmp_path / "parts", env=env, has_group=False)
        assert [status for status, _ in ended] == [EXIT_STOPPED if epoch < 4 else 0] * ranks
    whole, parts = ((tmp_path / name).read_text().split() for name in ("whole", "parts"))
    losses, ours = (np.array(words[3:-2:4], float) for words in (whole, parts))
    assert [words[1:-2:4] for words in (whole, parts)] == [[str(step) for step in range(1, 34)]] * 2
    np.testing.assert_allclose(ours, losses, rtol=1e-4)
    assert float(parts[-1]) == pytest.approx(float(whole[-1]), rel=1e-4)
