"""The division of total batches, in one process and without PyTorch; `test_elastic` has several ranks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster import training
from muster.problems import InputError
from muster.training.run_folder import give_notice
from muster.training.shares import Division


@given(
    size=st.integers(0, 40),
    ranks=st.integers(1, 9),
    local_batch=st.none() | st.integers(1, 12),
)
def test_shares_are_the_batch_in_its_order(size: int, ranks: int, local_batch: int | None) -> None:
    parts = [Division(rank, ranks, local_batch).parts(size) for rank in range(ranks)]
    assert len({len(each) for each in parts}) == 1, "a rank without a counterpart waits for ever"
    assert [part.is_last for part in parts[0]] == [False] * (len(parts[0]) - 1) + [True]
    counted = [part for each in parts for part in each if part.weight > 0]
    assert [at for part in counted for at in range(part.begin, part.end)] == list(range(size))
    sizes = [sum(part.end - part.begin for part in each if part.weight) for each in parts]
    assert max(sizes) - min(sizes) <= 1
    for part in [part for each in parts for part in each if size]:
        assert 0 <= part.begin < part.end <= size
        assert local_batch is None or part.end - part.begin <= local_batch
        assert part.weight in (0, (part.end - part.begin) * ranks / size)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"elastic": True, "accumulate": 2}, "accumulate: found 2"),
        ({"elastic": True, "local_batch": 0}, "local_batch: found 0"),
        ({"local_batch": 4}, "local_batch: found 4; only an elastic job's batches are divided"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        training.join().steps([[1]], state={}, **arguments)


def test_parts_are_accumulated_and_only_whole_batches_saved(
    as_start: Callable[..., None], tmp_path: Path
) -> None:
    batches = [np.arange(5) + 5 * number for number in range(3)]

    def walk(stop_at: int, epoch: int) -> list[tuple[list[int], float, bool, bool, int]]:
        as_start(epoch)
        run, seen = training.join(), []
        try:
            for part in run.steps(batches, state={}, elastic=True, local_batch=2):
                seen.append((part.tolist(), run.weight, run.ends_update, run.ends_epoch, run.step))
                if part[0] == stop_at:
                    give_notice(tmp_path, epoch, stop=True)
        except SystemExit:
            pass
        return seen

    first, second = walk(5, 1), walk(-1, 2)
    parts = [([0], 0.2), ([1, 2], 0.4), ([3, 4], 0.4)]
    whole = [
        ([5 * step + at for at in part], weight, ends, ends and step == 2, step)
        for step in range(3)
        for (part, weight), ends in zip(parts, (False, False, True), strict=True)
    ]
    assert first == whole[:6], "asked in the first part of the second batch, it stops after its last part"
    assert second == whole[6:]
