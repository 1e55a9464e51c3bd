"""The batches of a loader, from any place of any epoch on, always in the same order; or a rank's share of each.

What an epoch holds is a function of (job's seed, epoch) and a sample's random numbers one of (job's seed,
epoch, index): starting in the middle neither repeats nor skips a sample, whatever the number of workers and ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from muster.problems import InputError, Problem
from muster.training import pytorch
from muster.training.orders import Wanted, WrittenOrder, draw_order, numbers_of
from muster.training.randomness import seed_from, undisturbed
from muster.training.shares import Division
from muster.training.stopping import follow_parent_only, held_up

_ORDER, _SAMPLE, _BATCH, _AGAIN, _SAMPLES = range(5)
"""What a seed is for, so that no two uses share their numbers."""


@dataclass(frozen=True)
class Epoch:
    """What is known of an epoch before its first batch."""

    batches: int
    order: str
    """The same for the same order; empty where the order is not ours to fix."""


class Share(NamedTuple):
    """What `run.steps` gives at once: a batch, or a part of one."""

    samples: Any
    weight: float
    is_last: bool
    """Whether the rank has no further part of this batch."""
    size: int
    """Its samples; 0: not known."""


class Batches(Protocol):
    """What `run.steps` walks through."""

    @property
    def loader_workers(self) -> int:
        """Processes that prepare batches while steps are done; each has every so many-th batch."""

    def divide(self, division: Division) -> None:
        """Gives this rank's share of each batch only; before the first epoch."""

    def begin(self, epoch: int, apart: int = 0) -> Epoch:
        """Fixes an epoch's order; `apart` above 0 gives others, for processes that would all have the same."""

    def rest(self, position: int) -> Generator[Share]:
        """The batches of that epoch from there on, or their parts."""


def batches_of(loader: Any, seed: int) -> Batches:
    """A map-style DataLoader, or a sequence of batches."""
    torch = pytorch.if_loaded()
    if torch is not None and isinstance(loader, torch.utils.data.DataLoader):
        return _LoaderBatches(loader, seed)
    if isinstance(loader, Sequence) or (hasattr(loader, "__getitem__") and hasattr(loader, "__len__")):
        return _SequenceBatches(loader, seed)
    what = "allowed: a map-style DataLoader or a sequence of batches, one that can start anywhere"
    raise InputError(Problem("run.steps", what, column="loader", found=type(loader).__name__))


class _SequenceBatches:
    """Batches that can be had by their number; the order is theirs."""

    def __init__(self, batches: Sequence[Any], seed: int) -> None:
        self._batches = batches
        self._seed = seed
        self._epoch = 0
        self._division: Division | None = None

    @property
    def loader_workers(self) -> int:
        return 0

    def divide(self, division: Division) -> None:
        self._division = division

    def begin(self, epoch: int, apart: int = 0) -> Epoch:
        self._epoch = epoch
        return Epoch(len(self._batches), "")

    def rest(self, position: int) -> Generator[Share]:
        for number in range(position, len(self._batches)):
            seed_from(self._seed, _BATCH, self._epoch, number)
            batch = self._batches[number]
            if self._division is None:
                yield Share(batch, 1.0, is_last=True, size=0)
                continue
            for part in self._division.parts(_size(batch)):
                samples = _samples(batch, part.begin, part.end)
                yield Share(samples, part.weight, part.is_last, part.end - part.begin)


def _size(batch: Any) -> int:
    """Samples of a batch: its length, or that of each of its parts if it is a tuple or a dict of them."""
    if isinstance(batch, tuple | dict):
        sizes = {_size(part) for part in (batch.values() if isinstance(batch, dict) else batch)}
        if len(sizes) == 1:
            return sizes.pop()
    elif hasattr(batch, "__len__") and hasattr(batch, "__getitem__"):
        return len(batch)
    what = (
        "its batches cannot be divided among the ranks; allowed: arrays and lists of samples, and tuples and dicts "
        "of those, all of the same length"
    )
    raise InputError(Problem("run.steps", what, column="loader", found=type(batch).__name__))


def _samples(batch: Any, begin: int, end: int) -> Any:
    """Some of the samples of a batch, in the same form."""
    if isinstance(batch, dict):
        return {name: _samples(part, begin, end) for name, part in batch.items()}
    if isinstance(batch, tuple):
        parts = [_samples(part, begin, end) for part in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else tuple(parts)
    return batch[begin:end]


class _LoaderBatches:
    """The same loader with its order fixed by us: same data set, workers, collating, pinning."""

    def __init__(self, loader: Any, seed: int) -> None:
        data = pytorch.load().utils.data
        _refuse_unusable(loader, data)
        self._loader = loader
        self._seed = seed
        batched = loader.batch_sampler is not None
        self._order = WrittenOrder(batched=batched)
        order = {"batch_sampler": self._order} if batched else {"sampler": self._order, "batch_size": None}
        samples = _SeededAtOnce if _reads_at_once(loader.dataset) else _SeededSamples
        self._positioned = data.DataLoader(
            samples(loader.dataset, seed),
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

    @property
    def loader_workers(self) -> int:
        return int(self._loader.num_workers)

    def divide(self, division: Division) -> None:
        if self._loader.batch_sampler is None:
            what = "without batches (batch_size=None) there is nothing to divide among the ranks; give a batch_size"
            raise InputError(Problem("run.steps", what, column="loader", found="batch_size=None"))
        self._order.division = division

    def begin(self, epoch: int, apart: int = 0) -> Epoch:
        with undisturbed():
            seed_from(self._seed, _ORDER, epoch, *((apart,) if apart else ()))
            order = draw_order(self._loader, epoch)
        return Epoch(len(order), self._order.set(epoch, order))

    def rest(self, position: int) -> Generator[Share]:
        self._order.go_to(position)
        batched = self._loader.batch_sampler is not None
        with held_up():
            batches = iter(self._positioned)
        for part in self._order.parts():
            yield Share(next(batches), part.weight, part.is_last, part.end - part.begin if batched else 0)


class _SeededSamples:
    """A data set asked for samples of an epoch, each with random numbers of its own."""

    def __init__(self, dataset: Any, seed: int) -> None:
        self.dataset = dataset
        self._seed = seed

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, wanted: Wanted) -> Any:
        epoch, key, before = wanted
        what_for = (_AGAIN, before) if before else (_SAMPLE,)
        seed_from(self._seed, *what_for, epoch, *numbers_of(key))
        return self.dataset[key]


class _SeededAtOnce(_SeededSamples):
    """A data set that reads the samples of a batch in one go: the random numbers are the batch's."""

    def __getitems__(self, wanted: list[Wanted]) -> Any:
        keys = [key for _, key, _ in wanted]
        numbers = [number for key in keys for number in numbers_of(key)]
        seed_from(self._seed, _SAMPLES, wanted[0][0], *numbers, *(before for _, _, before in wanted))
        return self.dataset.__getitems__(keys)


def _reads_at_once(dataset: Any) -> bool:
    """Not so a Subset that only passes the question on."""
    while isinstance(dataset, pytorch.load().utils.data.Subset):
        dataset = dataset.dataset
    return callable(getattr(dataset, "__getitems__", None))


class _WorkerStart:
    """A loader's worker lets its main process decide what SIGTERM means, then starts as the job wants."""

    def __init__(self, worker_init_fn: Callable[[int], None] | None) -> None:
        self._worker_init_fn = worker_init_fn

    def __call__(self, worker: int) -> None:
        follow_parent_only()
        info = pytorch.load().utils.data.get_worker_info()
        # Which refuses to be assigned to; what the job knows is the data set, not what we have put around it.
        object.__setattr__(info, "dataset", info.dataset.dataset)
        if self._worker_init_fn is not None:
            self._worker_init_fn(worker)


def _refuse_unusable(loader: Any, data: Any) -> None:
    problems = []
    if isinstance(loader.dataset, data.IterableDataset):
        what = (
            "an IterableDataset cannot start in the middle; allowed: a data set with __len__ and __getitem__"
        )
        problems.append(Problem("run.steps", what, column="loader", found=type(loader.dataset).__name__))
    if type(loader).__iter__ is not data.DataLoader.__iter__:
        what = "a DataLoader with an __iter__ of its own cannot start in the middle of an epoch; use DataLoader itself"
        problems.append(Problem("run.steps", what, column="loader", found=type(loader).__name__))
    if problems:
        raise InputError(*problems)
