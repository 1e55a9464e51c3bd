"""Whatever chooses the samples: the same order after every interruption, and random numbers that are a sample's own."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muster import training
from muster.problems import InputError
from muster.training.run_folder import give_notice
from tests.training.stores import CountedStore

pytestmark = pytest.mark.needs_torch
torch = pytest.importorskip("torch")
data = torch.utils.data

Become = Callable[..., None]
NUMBERS = list(range(12))


def walk(loader: Any, *, epochs: int = 3, stop: tuple[Path, int, int] | None = None) -> list[list[Any]]:
    """The batches of a run, up to the step at which it is asked to stop."""
    run, seen = training.join(), []
    try:
        for batch in run.steps(loader, state={}, epochs=epochs):
            seen.append(torch.as_tensor(batch).view(-1).tolist())
            if stop is not None and run.step == stop[2]:
                give_notice(stop[0], stop[1], stop=True)
    except SystemExit:
        pass
    return seen


class Halves(data.Sampler):  # type: ignore[misc, name-defined]
    """The even numbers first, in an order that another sampler draws; has a generator under a name of its own."""

    def __init__(self) -> None:
        self.draws = torch.Generator()
        self.order = data.RandomSampler(NUMBERS, generator=torch.Generator())

    def __iter__(self) -> Iterator[int]:
        chosen = list(self.order)
        last = int(torch.randint(12, (), generator=self.draws))
        yield from sorted(chosen, key=lambda number: (number % 2, number == last))


def loaders() -> dict[str, Callable[[], Any]]:
    def nested(inner: Any, **more: Any) -> Any:
        return data.DataLoader(NUMBERS, batch_sampler=data.BatchSampler(inner, 2, False), **more)

    return {
        "random": lambda: nested(data.RandomSampler(NUMBERS, generator=torch.Generator())),
        "distributed": lambda: nested(data.DistributedSampler(NUMBERS, 1, 0, seed=3)),
        "own": lambda: nested(Halves()),
        "weighted": lambda: data.DataLoader(
            NUMBERS, batch_size=2, sampler=data.WeightedRandomSampler([1.0, 2.0] * 6, 12)
        ),
        "subset": lambda: data.DataLoader(
            NUMBERS, batch_size=2, sampler=data.SubsetRandomSampler(NUMBERS, generator=torch.Generator())
        ),
        "replaced": lambda: data.DataLoader(
            NUMBERS, batch_size=2, sampler=data.RandomSampler(NUMBERS, replacement=True, num_samples=12)
        ),
    }


@pytest.mark.parametrize("name", sorted(loaders()))
def test_any_sampler_goes_on_where_it_stopped(as_start: Become, tmp_path: Path, name: str) -> None:
    loader = loaders()[name]
    whole = walk(loader())
    assert len(whole) == 18
    assert len({str(whole[first : first + 6]) for first in (0, 6, 12)}) == 3, "every epoch another order"
    seen = []
    for epoch, step in enumerate((2, 5, 10), start=1):
        as_start(epoch)
        seen += walk(loader(), stop=(tmp_path, epoch, step))
    as_start(4)
    assert seen + walk(loader()) == whole


class Forgetful(data.Sampler):  # type: ignore[misc, name-defined]
    """Draws from what only it has."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def __iter__(self) -> Iterator[int]:
        yield from self.rng.permutation(12).tolist()


def test_a_sampler_with_a_state_of_its_own_is_refused_at_once(as_start: Become) -> None:
    loader = data.DataLoader(NUMBERS, batch_size=2, sampler=Forgetful())
    assert len(walk(loader)) == 18, "alone nothing has to be gone on with"
    as_start(1)
    with pytest.raises(InputError, match="another order each time it is asked"):
        walk(loader)


def test_another_order_is_refused(as_start: Become, tmp_path: Path) -> None:
    def loader(*numbers: int) -> Any:
        return data.DataLoader(NUMBERS, batch_size=2, sampler=list(numbers))

    as_start(1)
    walk(loader(1, 2, 3, 4), stop=(tmp_path, 1, 0))
    as_start(2)
    with pytest.raises(InputError, match="come in another order than when the checkpoint was made"):
        walk(loader(1, 2, 4, 3))
    as_start(3)
    assert walk(loader(1, 2, 3, 4), epochs=1) == [[3, 4]]


class Drawing:
    """A sample is its key and three numbers drawn."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, key: Any) -> tuple[Any, float, float, float]:
        return key, random.random(), float(np.random.random()), float(torch.rand(()))


def drawn(loading: dict[str, Any]) -> list[tuple[Any, ...]]:
    loader = data.DataLoader(Drawing(), collate_fn=list, **loading)
    batches = training.join(seed=2).steps(loader, state={}, epochs=2)
    return [sample for batch in batches for sample in batch]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_sample_that_comes_again_is_drawn_again(workers: int) -> None:
    numbers = [3, 5, 3, 3, 7, 5]
    samples = drawn({"sampler": numbers, "batch_size": 2, "num_workers": workers})
    assert [key for key, *_ in samples] == numbers * 2
    assert len({sample[1] for sample in samples}) == len({sample[3] for sample in samples}) == 12
    once = {epoch: drawn({"sampler": [3, 5, 7], "batch_size": 1})[3 * epoch :][:3] for epoch in (0, 1)}
    assert [samples[0], samples[1], samples[4]] == once[0], "the first time as if it were the only one"
    assert [samples[6], samples[7], samples[10]] == once[1]
    other = drawn({"sampler": numbers, "batch_size": 3})
    assert other == samples, "whatever the batches and the workers"


def test_a_repeated_sample_is_the_same_after_an_interruption(as_start: Become, tmp_path: Path) -> None:
    loader = data.DataLoader(
        Drawing(), sampler=[3, 5, 3, 3, 7, 5], batch_size=1, collate_fn=lambda one: one[0][1]
    )
    whole = walk(loader, epochs=1)
    as_start(1)
    seen = walk(loader, epochs=1, stop=(tmp_path, 1, 2))
    as_start(2)
    assert seen + walk(loader, epochs=1) == whole


def test_keys_of_any_kind() -> None:
    keys = ["left", "right", ("a", 1), ("a", 2), -1, -2, (1, 2), np.int64(4), torch.tensor(5)]
    samples = drawn({"sampler": keys, "batch_size": 1})
    assert [sample[0] for sample in samples] == keys * 2
    assert len({sample[1] for sample in samples}) == 18
    again = drawn({"sampler": keys[::-1], "batch_size": 2})
    assert {str(sample) for sample in again} == {str(sample) for sample in samples}
    assert drawn({"sampler": [4, 5], "batch_size": 1})[0][1:] == samples[7][1:], "as the number itself"


class AtOnce(Drawing):
    """Reads batches."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []

    def __getitems__(self, keys: list[int]) -> list[Any]:
        self.asked.append(keys)
        return [(key, random.random()) for key in keys]


@pytest.mark.parametrize("within", [False, True])
def test_what_reads_batches_is_asked_for_batches(within: bool) -> None:
    def read() -> tuple[list[list[int]], list[Any]]:
        inner = AtOnce()
        samples = data.Subset(inner, NUMBERS) if within else inner
        loader = data.DataLoader(samples, batch_size=4, shuffle=True, collate_fn=list)
        return inner.asked, list(training.join().steps(loader, state={}))

    asked, batches = read()
    assert [len(keys) for keys in asked] == [4, 4, 4]
    assert [[key for key, _ in batch] for batch in batches] == asked
    assert len({number for batch in batches for _, number in batch}) == 12
    assert read() == (asked, batches)


def test_a_subset_that_only_passes_on_has_numbers_of_each_sample() -> None:
    def read(size: int) -> list[Any]:
        loader = data.DataLoader(data.Subset(Drawing(), NUMBERS), batch_size=size, collate_fn=list)
        return [sample for batch in training.join().steps(loader, state={}) for sample in batch]

    assert read(4) == read(3)


def open_file(_worker: int) -> None:
    """As for a file that each worker opens for itself."""
    torch.utils.data.get_worker_info().dataset.sample_bytes = 40


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_worker_knows_its_data_set(method: str) -> None:
    loader = data.DataLoader(
        CountedStore(4),
        num_workers=1,
        worker_init_fn=open_file,
        collate_fn=len_of,
        multiprocessing_context=method,
    )
    assert list(training.join().steps(loader, state={})) == [40] * 4


def len_of(batch: list[bytes]) -> int:
    return len(batch[0])
