"""A cache that never evicts: a fixed share of the samples in memory (MinIO, Synergy "Optimistic profiling").

A seeded permutation ranks the samples; the first k of them are kept, k being what the granted memory
holds. So every epoch reads exactly n - k samples from storage, shrinking drops the samples of the highest
ranks, growing adds the next ones, and what is kept does not depend on which was asked for last. k is an estimate
while the cache fills: where samples differ in size it is corrected by what those that are held really take.

The memory is one anonymous file that belongs to no folder: the loader's workers inherit it, it counts as
the job's memory, and it is gone with the last process, however that ends. Each sample has its own stretch
of the sparse file, by rank, so dropping ranks is cutting the file; it costs whole pages.
"""

from __future__ import annotations

import fcntl
import io
import math
import mmap
import os
import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from muster.problems import InputError, Problem
from muster.training import pytorch
from muster.training.environment import read_environment
from muster.training.randomness import host_random_bytes

_MOST_STRETCH_BYTES = 2**30
_STRETCH = 4
"""A sample's part of the sparse file in sizes of the largest measured one; a larger sample is never cached. The kernel
needs up to three nodes of 576 bytes for what is far apart: with 1 GiB each, 1.8 kB a sample were measured."""
_MEASURED_SAMPLES = 32
"""Read to learn what a sample takes, at least."""
_MOST_MEASURED = 0.02
"""Of all samples."""
_SURE = 0.02
"""Standard error of their mean at which no more are read, as a part of it."""
(
    _KEPT, _BUDGET_BYTES, _CUTS, _HITS, _MISSES, _HIT_NANOSECONDS, _MISS_NANOSECONDS, _HELD, _STRETCH_BYTES, _COUNTERS
) = range(10)  # fmt: skip
"""What the head of the file holds before the samples' lengths, as 64-bit whole numbers."""
_SPAWNED_WITH = ("dataset", "transform", "_seed", "_sample_bytes", "_measured", "_cached_only")


class CachedDataset:
    """A map-style data set whose samples come from memory where they are cached.

    `dataset[i]` must give the same sample every time (bytes or arrays are the quickest to keep); what is
    drawn at random belongs into `transform`, which is applied after the cache, to every sample alike.
    The size is what the scheduler grants this process, shared by its cached data sets by their sizes;
    alone it is nothing, unless `resize` says otherwise.
    """

    def __init__(self, dataset: Any, *, transform: Callable[[Any], Any] | None = None, seed: int = 0) -> None:
        self.dataset = dataset
        self.transform = transform
        self._seed = seed
        self._sample_bytes, self._measured = 0.0, 0
        self._cached_only = read_environment().cached_only
        self._file = os.memfd_create("muster-samples")
        # Written and not only set aside, so that what else is in use is the samples'.
        os.pwrite(self._file, bytes(self._head_bytes), 0)
        self._attach()
        _caches.add(self)
        _share_out()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            os.close(self._file)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        index = range(len(self))[index]
        rank = int(self._ranks[index])
        if self._cached_only and self._head[_KEPT]:
            rank %= int(self._head[_KEPT])
            index = int(self._by_rank[rank])
        begin = time.thread_time_ns()
        kept = self._kept(rank)
        if kept is None:
            sample = self._read(index)
            self._keep(rank, sample, time.thread_time_ns() - begin)
        else:
            sample = pickle.loads(kept)
            took = time.thread_time_ns() - begin
            with self._locked():
                self._head[_HITS] += 1
                self._head[_HIT_NANOSECONDS] += took
        return sample if self.transform is None else self.transform(sample)

    @property
    def share(self) -> float:
        """The part of the samples that is kept once it has been read."""
        return int(self._head[_KEPT]) / len(self) if len(self) else 0.0

    @property
    def held_gb(self) -> float:
        """Memory in use for samples."""
        return self._used_bytes / 1e9

    @property
    def _used_bytes(self) -> int:
        return os.fstat(self._file).st_blocks * 512 - self._head_bytes

    @property
    def reads(self) -> tuple[int, int]:
        """Samples that came from memory and from storage so far, over all processes."""
        return int(self._head[_HITS]), int(self._head[_MISSES])

    @property
    def size_gb(self) -> float:
        """Memory that all samples would take; measured on the first ranks when first asked for."""
        if not self._sample_bytes and len(self):
            sizes: list[int] = []
            most = max(_MEASURED_SAMPLES, int(_MOST_MEASURED * len(self)))
            for index in self._by_rank[:most]:
                sizes.append(_paged(len(_pack(self._read(int(index))))))
                if len(sizes) >= _MEASURED_SAMPLES and _error_of_mean(sizes) <= _SURE:
                    break
            self._sample_bytes, self._measured = sum(sizes) / len(sizes), len(sizes)
            stretch = 2 ** math.ceil(math.log2(_STRETCH * max(sizes)))
            self._head[_STRETCH_BYTES] = min(stretch, _MOST_STRETCH_BYTES)
        return self._known_size_gb

    @property
    def _unfilled(self) -> int:
        """Samples that will be kept and have not been read yet."""
        return int(self._head[_KEPT]) - int(np.count_nonzero(self._lengths[: self._head[_KEPT]]))

    @property
    def _known_size_gb(self) -> float:
        held = int(self._head[_HELD])
        sample_bytes = self._used_bytes / held if held > self._measured else self._sample_bytes
        return sample_bytes * len(self) / 1e9

    def resize(self, gigabytes: float) -> None:
        """Gives the samples this much memory, now and in every worker; for use in the main process."""
        size_gb = self.size_gb if gigabytes else math.inf  # unread, as nothing of it is kept
        share = 1.0 if gigabytes >= size_gb else gigabytes / size_gb
        with self._locked():
            self._head[_BUDGET_BYTES] = int(min(gigabytes * 1e9, 2**62))
            self._keep_first(int(share * len(self) + 1e-9))
            while (used := self._used_bytes) > self._head[_BUDGET_BYTES]:
                self._keep_fewer(used)

    def _read(self, index: int) -> Any:
        """The sample from storage; refuses a data set that draws random numbers, as a cache would freeze them."""
        before = host_random_bytes()
        sample = self.dataset[index]
        if host_random_bytes() != before:
            what = "draws random numbers when read, which a cache would freeze; do that in transform="
            raise InputError(Problem("CachedDataset", what, found=type(self.dataset).__name__))
        return sample

    def _kept(self, rank: int) -> bytes | None:
        """The bytes of a kept sample. Its length is written after them and taken away before them."""
        cuts = int(self._head[_CUTS])
        length = int(self._lengths[rank])
        if length == 0 or rank >= self._head[_KEPT]:
            return None
        content = os.pread(self._file, length, self._place(rank))
        return content if len(content) == length and cuts == self._head[_CUTS] else None

    def _keep(self, rank: int, sample: Any, took: int) -> None:
        """Keeps a sample that was read, if its rank is among the kept; it counts as a miss, with its CPU time."""
        packed = _pack(sample) if rank < self._head[_KEPT] else b""
        with self._locked():
            self._head[_MISSES] += 1
            self._head[_MISS_NANOSECONDS] += took
            fits = 0 < len(packed) <= self._head[_STRETCH_BYTES]
            if not fits or rank >= self._head[_KEPT] or self._lengths[rank]:
                return
            used = self._used_bytes
            if used + _paged(len(packed)) > self._head[_BUDGET_BYTES]:
                self._keep_fewer(used)
                return
            os.pwrite(self._file, packed, self._place(rank))
            self._lengths[rank] = len(packed)
            self._head[_HELD] += 1
            if self._head[_HELD] == self._head[_KEPT] < len(self):
                # All of them are held and their memory is known: for how many will the grant do?
                affordable = int(self._head[_BUDGET_BYTES]) * int(self._head[_HELD]) // self._used_bytes
                self._head[_KEPT] = min(max(affordable, int(self._head[_KEPT])), len(self))

    def _keep_fewer(self, used: int) -> None:
        """The samples are larger than the measured ones: drops ranks until the memory will do for the rest."""
        held = int(np.count_nonzero(self._lengths))
        affordable = int(self._head[_BUDGET_BYTES] * held / used) if used else 0
        self._keep_first(min(int(self._head[_KEPT]) - 1, affordable))

    def _keep_first(self, ranks: int) -> None:
        """Keeps this many ranks from now on; memory of those above is freed."""
        self._head[_KEPT] = ranks
        if self._lengths[ranks:].any():
            self._lengths[ranks:] = 0
            self._head[_HELD] = np.count_nonzero(self._lengths)
            self._head[_CUTS] += 1
            os.ftruncate(self._file, self._place(ranks))

    def _place(self, rank: int) -> int:
        return self._head_bytes + rank * int(self._head[_STRETCH_BYTES])

    @property
    def _head_bytes(self) -> int:
        return _paged(8 * (_COUNTERS + len(self)))

    def _attach(self) -> None:
        numbers: npt.NDArray[np.int64] = np.frombuffer(
            mmap.mmap(self._file, self._head_bytes), dtype=np.int64
        )
        self._head, self._lengths = numbers[:_COUNTERS], numbers[_COUNTERS : _COUNTERS + len(self)]
        self._ranks = np.random.default_rng(self._seed).permutation(len(self))
        self._by_rank = np.argsort(self._ranks)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone among the processes; the kernel frees the lock if its holder dies."""
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: getattr(self, name) for name in _SPAWNED_WITH}
        return {**kept, "opened_by": os.getpid(), "as_file": self._file}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """In a worker that was spawned: the same memory, opened through the process that made it."""
        path = f"/proc/{state.pop('opened_by')}/fd/{state.pop('as_file')}"
        self.__dict__.update(state)
        self._file = os.open(path, os.O_RDWR)
        self._attach()


def grant(gigabytes: float) -> None:
    """The scheduler's word on this process's memory for samples; divides it among its cached data sets."""
    global _granted_gb
    _granted_gb = gigabytes
    _share_out()


def caches_in(loader: Any) -> tuple[CachedDataset, ...]:
    """The cached data sets that a loader reads, as far as `dataset` and `datasets` lead to them."""
    found, seen, open_ends = [], set(), [loader]
    while open_ends:
        part = open_ends.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, CachedDataset):
            found.append(part)
            continue
        parts = getattr(part, "datasets", ())
        open_ends += [getattr(part, "dataset", None), *(parts if isinstance(parts, list | tuple) else ())]
    return tuple(found)


def cache_report(walked: Iterable[CachedDataset] = ()) -> dict[str, float]:
    """What a job reports of its cached samples and their workers; of those that its steps walk, if they are known."""
    caches = tuple(walked) or tuple(_caches)
    reads = [cache.reads for cache in caches]
    return {
        "cache_hits": sum(hits for hits, _ in reads),
        "cache_misses": sum(misses for _, misses in reads),
        "cache_hit_cpu_seconds": sum(int(cache._head[_HIT_NANOSECONDS]) for cache in caches) / 1e9,
        "cache_miss_cpu_seconds": sum(int(cache._head[_MISS_NANOSECONDS]) for cache in caches) / 1e9,
        "cache_samples": sum(len(cache) for cache in caches),
        "cache_unfilled": sum(cache._unfilled for cache in caches),
        "cache_full_gb": sum(cache._known_size_gb for cache in caches),
        "cache_all_gb": sum(cache._known_size_gb for cache in _caches),
    }


_caches: WeakSet[CachedDataset] = WeakSet()
_granted_gb: float | None = None


def _share_out() -> None:
    granted = read_environment().cache_gb if _granted_gb is None else _granted_gb
    sizes = {cache: cache.size_gb for cache in _caches} if granted else dict.fromkeys(_caches, 0.0)
    total = sum(sizes.values())
    for cache, size_gb in sizes.items():
        cache.resize(granted * size_gb / total if total else 0.0)


def _pack(sample: Any) -> bytes:
    content = io.BytesIO()
    _Packer(content, protocol=pickle.HIGHEST_PROTOCOL).dump(sample)
    return content.getvalue()


class _Packer(pickle.Pickler):
    """Of a tensor that is a part of a larger one only the part: PyTorch's own way takes all that it is a part of."""

    def reducer_override(self, thing: Any) -> Any:
        torch = pytorch.if_loaded()
        if torch is None or not isinstance(thing, torch.Tensor):
            return NotImplemented
        if thing.layout is not torch.strided or thing.requires_grad:
            return NotImplemented
        if thing.untyped_storage().nbytes() <= thing.nbytes:
            return NotImplemented
        return thing.clone().__reduce_ex__(pickle.HIGHEST_PROTOCOL)


def _error_of_mean(sizes: list[int]) -> float:
    """Standard error, as a part of the mean."""
    return float(np.std(sizes, ddof=1) / np.sqrt(len(sizes)) / np.mean(sizes))


def _paged(size: int) -> int:
    """What a stretch of this many bytes takes."""
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
