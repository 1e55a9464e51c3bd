"""The batches of a loader, from any place of any epoch on, always in the same order.

What an epoch holds is a function of (job's seed, epoch) and a sample's random numbers one of (job's seed,
epoch, index): starting in the middle neither repeats nor skips a sample, whatever the number of workers.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from muster.problems import BadInput, Problem
from muster.training import pytorch
from muster.training.randomness import seed_from, undisturbed

_ORDER, _SAMPLE, _BATCH = range(3)
"""What a seed is for, so that no two uses share their numbers."""


class Batches(Protocol):
    """What `run.steps` walks through."""

    def start(self, epoch: int, position: int) -> int:
        """Goes to a batch of an epoch; returns how many batches the epoch has."""

    def rest(self) -> Iterator[Any]:
        """The batches from there to the end of the epoch."""


def batches_of(loader: Any, seed: int) -> Batches:
    """A map-style DataLoader, or a sequence of batches."""
    torch = pytorch.if_loaded()
    if torch is not None and isinstance(loader, torch.utils.data.DataLoader):
        return _LoaderBatches(loader, seed)
    if isinstance(loader, Sequence) or (hasattr(loader, "__getitem__") and hasattr(loader, "__len__")):
        return _SequenceBatches(loader, seed)
    what = "a map-style DataLoader or a sequence of batches is needed, one that can start anywhere"
    raise BadInput(Problem("run.steps", what, column="loader", found=type(loader).__name__))


class _SequenceBatches:
    """Batches that can be had by their number; the order is theirs."""

    def __init__(self, batches: Sequence[Any], seed: int) -> None:
        self._batches = batches
        self._seed = seed
        self._epoch = self._position = 0

    def start(self, epoch: int, position: int) -> int:
        self._epoch, self._position = epoch, position
        return len(self._batches)

    def rest(self) -> Iterator[Any]:
        for number in range(self._position, len(self._batches)):
            seed_from(self._seed, _BATCH, self._epoch, number)
            yield self._batches[number]


class _LoaderBatches:
    """The same loader with its order fixed by us: same data set, workers, collating, pinning."""

    def __init__(self, loader: Any, seed: int) -> None:
        data = pytorch.load().utils.data
        _refuse_unusable(loader, data)
        self._loader = loader
        self._seed = seed
        self._order = _Order()
        batched = loader.batch_sampler is not None
        order = {"batch_sampler": self._order} if batched else {"sampler": self._order, "batch_size": None}
        self._positioned = data.DataLoader(
            _SeededSamples(loader.dataset, seed),
            **order,
            num_workers=loader.num_workers,
            collate_fn=loader.collate_fn,
            pin_memory=loader.pin_memory,
            timeout=loader.timeout,
            worker_init_fn=_WorkerStart(loader.worker_init_fn),
            multiprocessing_context=loader.multiprocessing_context,
            # Of its own: a loader draws from the job's generator whenever it is iterated, resumed or not.
            generator=pytorch.load().Generator(),
            prefetch_factor=loader.prefetch_factor,
            persistent_workers=loader.persistent_workers,
        )

    def start(self, epoch: int, position: int) -> int:
        batched = self._loader.batch_sampler is not None
        sampler = self._loader.batch_sampler if batched else self._loader.sampler
        with undisturbed():
            seed_from(self._seed, _ORDER, epoch)
            for part in (sampler, self._loader.sampler):
                if hasattr(part, "set_epoch"):
                    part.set_epoch(epoch)
                if getattr(part, "generator", None) is not None:
                    torch = pytorch.load()
                    part.generator.manual_seed(int(torch.empty((), dtype=torch.int64).random_()))
            chosen = list(sampler)
        if batched:
            self._order.items = [[(epoch, index) for index in batch] for batch in chosen[position:]]
        else:
            self._order.items = [(epoch, index) for index in chosen[position:]]
        return len(chosen)

    def rest(self) -> Iterator[Any]:
        return iter(self._positioned)


class _Order:
    """A sampler whose content is set before each epoch."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


class _SeededSamples:
    """A data set asked by (epoch, index), with the random numbers of that sample."""

    def __init__(self, dataset: Any, seed: int) -> None:
        self._dataset = dataset
        self._seed = seed

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, which: tuple[int, Any]) -> Any:
        epoch, index = which
        numbers = index if isinstance(index, Iterable) else (index,)
        seed_from(self._seed, _SAMPLE, epoch, *map(int, numbers))
        return self._dataset[index]


class _WorkerStart:
    """A loader's worker lets its main process decide what SIGTERM means, then starts as the job wants."""

    def __init__(self, worker_init_fn: Callable[[int], None] | None) -> None:
        self._worker_init_fn = worker_init_fn

    def __call__(self, worker: int) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if self._worker_init_fn is not None:
            self._worker_init_fn(worker)


def _refuse_unusable(loader: Any, data: Any) -> None:
    problems = []
    if isinstance(loader.dataset, data.IterableDataset):
        what = (
            "an IterableDataset cannot start in the middle; a data set with __len__ and __getitem__ is needed"
        )
        problems.append(Problem("run.steps", what, column="loader", found=type(loader.dataset).__name__))
    if type(loader).__iter__ is not data.DataLoader.__iter__:
        what = "a DataLoader with an __iter__ of its own cannot be told where to start; use DataLoader itself"
        problems.append(Problem("run.steps", what, column="loader", found=type(loader).__name__))
    if problems:
        raise BadInput(*problems)
