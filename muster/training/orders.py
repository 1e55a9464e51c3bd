"""The order of an epoch: drawn from (job's seed, epoch) by the job's own samplers, and identified by a digest."""

from __future__ import annotations

import hashlib
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import numpy as np

from muster.training import pytorch
from muster.training.shares import BatchPart, Division

Wanted = tuple[int, Any, int]
"""A sample of an epoch: epoch, the data set's key, how often it came before in this epoch."""


def draw_order(loader: Any, epoch: int) -> list[Any]:
    """All batches of an epoch as the loader's samplers choose them, by the random numbers as they stand."""
    torch = pytorch.load()
    batched = loader.batch_sampler is not None
    seeded: set[int] = set()
    for part in _parts([loader.batch_sampler, loader.sampler] if batched else [loader.sampler]):
        if hasattr(part, "set_epoch"):
            part.set_epoch(epoch)
        for thing in getattr(part, "__dict__", {}).values():
            if isinstance(thing, torch.Generator) and id(thing) not in seeded:
                seeded.add(id(thing))
                thing.manual_seed(int(torch.empty((), dtype=torch.int64).random_()))
    return [list(batch) for batch in loader.batch_sampler] if batched else list(loader.sampler)


def _parts(samplers: list[Any]) -> list[Any]:
    """Samplers, and those that they choose from, each once."""
    torch = pytorch.load()
    found: list[Any] = []
    left = samplers
    while left:
        part, *left = left
        if not any(part is known for known in found):
            found.append(part)
            left += [
                thing
                for name, thing in getattr(part, "__dict__", {}).items()
                if isinstance(thing, torch.utils.data.Sampler) or name in ("sampler", "batch_sampler")
            ]
    return found


class WrittenOrder:
    """A sampler that gives an order from some batch on; set before each epoch."""

    def __init__(self, *, batched: bool) -> None:
        self._batched = batched
        self._epoch = self._position = 0
        self._order: list[Any] = []
        self._repeats = False
        self.division = Division()
        """How batches are divided among the ranks."""

    def set(self, epoch: int, order: list[Any]) -> str:
        """The whole order of an epoch; returns its digest."""
        self._epoch, self._position, self._order = epoch, 0, order
        digest = hashlib.sha256()
        try:
            keys = np.fromiter(chain.from_iterable(order) if self._batched else order, dtype=np.int64)
            sizes = np.fromiter(map(len, order) if self._batched else (), dtype=np.int64)
        except (TypeError, ValueError, OverflowError):  # Keys that are no numbers.
            digest.update(repr(order).encode())
            self._repeats = True
        else:
            digest.update(sizes.tobytes())
            digest.update(keys.tobytes())
            self._repeats = len(np.unique(keys)) < len(keys)
        return digest.hexdigest()

    def go_to(self, position: int) -> None:
        """What is given next begins with this batch."""
        self._position = position

    def parts(self) -> Iterator[BatchPart]:
        """This rank's parts of the batches that are given next."""
        for number in range(self._position, len(self._order)):
            yield from self.division.parts(len(self._order[number]) if self._batched else 1)

    def __iter__(self) -> Iterator[Any]:
        seen: Counter[tuple[int, ...]] = Counter()

        def wanted(key: Any) -> Wanted:
            if not self._repeats:
                return self._epoch, key, 0
            numbers = numbers_of(key)
            seen[numbers] += 1
            return self._epoch, key, seen[numbers] - 1

        # Those that are done count, too, where samples come more than once.
        begin = 0 if self._repeats else self._position
        for number in range(begin, len(self._order)):
            batch = self._order[number]
            drawn = [wanted(key) for key in batch] if self._batched else wanted(batch)
            if number < self._position:
                continue
            if isinstance(drawn, list):
                yield from (drawn[part.begin : part.end] for part in self.division.parts(len(drawn)))
            else:
                yield drawn

    def __len__(self) -> int:
        return sum(1 for _ in self.parts())


def numbers_of(key: Any) -> tuple[int, ...]:
    """A data set's key as whole numbers from 0 on, for seeding."""
    try:
        number = operator.index(key)
    except TypeError:
        pass
    else:
        if number >= 0:
            return (number,)
    if isinstance(key, Iterable) and not isinstance(key, str | bytes | Mapping):
        return tuple(number for part in key for number in numbers_of(part))
    return (int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:8], "big"),)
