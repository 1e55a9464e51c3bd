"""The cache that never evicts, against what it must read and hold."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import signal
from collections import Counter
from multiprocessing.context import ForkContext, SpawnContext
from pathlib import Path
from typing import Literal
from weakref import WeakSet

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster import training
from muster.problems import InputError
from muster.training import CachedDataset
from muster.training.cache import _error_of_mean, cache_report, caches_in, grant
from muster.training.run_folder import begin_start, give_notice, read_progress
from tests.training.stores import CountedStore

PAGES_GB = 8192 / 1e9
"""What a sample of CountedStore takes."""


def read_epoch(data: CachedDataset, store: CountedStore, seed: int = 0) -> Counter[int]:
    """What an epoch in some order reads from the store."""
    store.read.clear()
    for index in np.random.default_rng(seed).permutation(len(data)):
        assert data[int(index)][:4] == int(index).to_bytes(4, "little")
    return Counter(store.read)


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.9, 1.0])
def test_an_epoch_reads_exactly_what_is_not_cached(share: float) -> None:
    store = CountedStore(400)
    data = CachedDataset(store, seed=3)
    data.resize(share * 400 * PAGES_GB)
    assert data.share == share
    read_epoch(data, store)
    missed = read_epoch(data, store, seed=1)
    assert sum(missed.values()) == len(missed) == round((1 - share) * 400)
    assert read_epoch(data, store, seed=2) == missed, "the same samples every epoch"
    assert data.held_gb == pytest.approx(share * 400 * PAGES_GB)
    hits, misses = data.reads
    assert (hits, misses) == (2 * 400 * share, 400 + 2 * 400 * (1 - share))


def test_shrinking_drops_a_fixed_suffix_and_growing_adds() -> None:
    store = CountedStore(400)
    data = CachedDataset(store, seed=3)
    kept = {}
    for share in (0.8, 0.3, 0.5):
        data.resize(share * 400 * PAGES_GB)
        read_epoch(data, store)
        missed = read_epoch(data, store)
        kept[share] = set(range(400)) - set(missed)
        assert len(kept[share]) == 400 * share
        assert data.held_gb == pytest.approx(share * 400 * PAGES_GB), "what was dropped is freed"
    assert kept[0.3] < kept[0.5] < kept[0.8]
    fresh = CountedStore(400)
    direct = CachedDataset(fresh, seed=3)
    direct.resize(0.5 * 400 * PAGES_GB)
    read_epoch(direct, fresh)
    assert set(range(400)) - set(read_epoch(direct, fresh)) == kept[0.5], "whatever the way to this size"


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 30_000), min_size=1, max_size=60),
    budgets=st.lists(st.floats(0, 1.1), min_size=1, max_size=4),
    seed=st.integers(0, 9),
)
def test_never_more_than_granted_and_always_the_right_sample(
    sizes: list[int], budgets: list[float], seed: int
) -> None:
    """Samples of any size, so the first ranks may be larger than the mean; budgets as shares of the whole."""
    samples = [bytes([number % 256]) * size for number, size in enumerate(sizes)]
    data = CachedDataset(samples, seed=seed)
    for budget in (share * data.size_gb for share in budgets):
        data.resize(budget)
        for _ in range(2):
            assert [data[number] for number in range(len(samples))] == samples
            assert data.held_gb <= budget
        hits, misses = data.reads
        share = data.share
        assert [data[number] for number in range(len(samples))] == samples
        if data.share == share:
            expected = round(share * len(samples))
            now_hits, now_misses = data.reads
            assert now_hits + now_misses == hits + misses + len(samples)
            assert now_hits - hits <= expected


def read_some(data: CachedDataset, numbers: range) -> None:
    for number in numbers:
        assert data[number][:4] == number.to_bytes(4, "little")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_share_one_cache(method: Literal["fork", "spawn"]) -> None:
    data = CachedDataset(CountedStore(200), seed=1)
    data.resize(0.5 * 200 * PAGES_GB)
    context = multiprocessing.get_context(method)
    assert isinstance(context, ForkContext | SpawnContext)
    for _ in range(2):
        workers = [context.Process(target=read_some, args=(data, range(first, 200, 2))) for first in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
            assert worker.exitcode == 0
    assert data.reads == (100, 300)
    own = CountedStore(200)
    data.dataset = own
    assert sum(read_epoch(data, own).values()) == 100


def test_a_sample_that_is_cut_while_it_is_read_is_a_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shrunk and grown between the look at its length and the read, which then finds a hole."""
    store = CountedStore(40)
    data = CachedDataset(store, seed=1)
    data.resize(1.0)
    read_epoch(data, store)
    first, *_, last = (int(index) for index in np.argsort(data._ranks))
    really_read = os.pread

    def read_late(file: int, length: int, offset: int) -> bytes:
        monkeypatch.setattr(os, "pread", really_read)
        data.resize(0.0)
        data.resize(1.0)
        data[last]
        return really_read(file, length, offset)

    monkeypatch.setattr(os, "pread", read_late)
    assert data[first] == CountedStore(40)[first]


def read_for_ever(data: CachedDataset) -> None:
    while True:
        read_some(data, range(200))


def test_resizing_and_killed_workers_leave_it_whole() -> None:
    data = CachedDataset(CountedStore(200), seed=1)
    context = multiprocessing.get_context("fork")
    rng = np.random.default_rng(4)
    for _ in range(5):
        workers = [context.Process(target=read_for_ever, args=(data,)) for _ in range(2)]
        for worker in workers:
            worker.start()
        for share in rng.uniform(0, 1, 200):
            data.resize(float(share) * 200 * PAGES_GB)
        for worker in workers:
            assert worker.is_alive(), "a wrong sample ends a worker"
            worker.kill()
            worker.join(60)
        read_some(data, range(200))
    store = CountedStore(200)
    data.dataset = store
    data.resize(200 * PAGES_GB)
    read_epoch(data, store)
    assert not read_epoch(data, store)


def test_the_grant_is_divided_by_size() -> None:
    train, check = CachedDataset(CountedStore(300)), CachedDataset(CountedStore(100))
    try:
        grant(200 * PAGES_GB)
        assert (train.share, check.share) == (0.5, 0.5)
        third = CachedDataset(CountedStore(400))
        assert (train.share, check.share, third.share) == (0.25, 0.25, 0.25)
    finally:
        grant(0.0)
    assert (train.share, train.held_gb) == (0.0, 0.0)


def test_the_first_grant_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.training.cache._granted_gb", None)
    monkeypatch.setenv("MUSTER_CACHE_GB", str(10 * PAGES_GB))
    assert CachedDataset(CountedStore(40)).share == 0.25


def test_a_notice_resizes_between_two_steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    begin_start(tmp_path, 1)
    monkeypatch.setenv("MUSTER_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("MUSTER_EPOCH", "1")
    handler = signal.getsignal(signal.SIGTERM)
    data = CachedDataset(CountedStore(40))
    run = training.join()
    shares = []
    try:
        for _ in run.steps(data, state={}, epochs=2):
            shares.append(data.share)
            if run.step in (4, 50):
                give_notice(tmp_path, 1, cache_gb=(30 if run.step == 4 else 10) * PAGES_GB)
    finally:
        grant(0.0)
    assert shares == [0.0] * 5 + [0.75] * 46 + [0.25] * 29
    progress = read_progress(tmp_path)
    assert progress is not None
    assert progress["cache_hits"] + progress["cache_misses"] == 80
    # In order: 11 of the second epoch's samples at 30 ranks kept, filled since step 5; the rest at 10.
    numbers = data._ranks
    kept = sum(numbers[at] < (30 if at < 11 else 10) and at >= 5 for at in range(40))
    assert progress["cache_hits"] == kept
    assert signal.getsignal(signal.SIGTERM) == handler


def test_nothing_is_left_behind_in_shared_memory() -> None:
    before = set(Path("/dev/shm").iterdir())
    open_files = len(list(Path("/proc/self/fd").iterdir()))
    data = CachedDataset(CountedStore(50))
    data.resize(1.0)
    read_epoch(data, data.dataset)
    assert set(Path("/dev/shm").iterdir()) == before
    del data
    assert len(list(Path("/proc/self/fd").iterdir())) == open_files


def test_a_transform_is_applied_to_cached_samples_alike() -> None:
    data = CachedDataset(CountedStore(20), transform=lambda sample: (sample[0], random.random()))
    data.resize(1.0)
    drawn = {data[3][1] for _ in range(5)}
    assert len(drawn) == 5
    assert data.reads[0] == 4


class RandomCrops(CountedStore):
    def __getitem__(self, index: int) -> bytes:
        return super().__getitem__(index)[random.randrange(10) :]


def test_a_data_set_that_draws_random_numbers_is_refused() -> None:
    with pytest.raises(InputError, match="draws random numbers when read"):
        CachedDataset(RandomCrops(20))[0]


def test_indices_as_in_any_sequence() -> None:
    data = CachedDataset(CountedStore(20))
    data.resize(1.0)
    assert data[-1] == data[19] == CountedStore(20)[19]
    for wrong in (20, -21):
        with pytest.raises(IndexError):
            data[wrong]
    assert pickle.loads(pickle.dumps(data))[19] == data[19]
    assert (len(CachedDataset([])), CachedDataset([]).share) == (0, 0.0)


def test_a_profiled_job_reads_only_what_its_cache_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_CACHED_ONLY", "1")
    store = CountedStore(400)
    data = CachedDataset(store, seed=3)
    data.resize(100 * PAGES_GB)
    given = Counter(int.from_bytes(data[index][:4], "little") for index in range(400))
    assert set(given.values()) == {4}, "each of the 100 as often as the others"
    assert cache_report()["cache_unfilled"] == 0
    store.read.clear()
    assert {int.from_bytes(data[index][:4], "little") for index in range(400)} == set(given)
    assert not store.read
    data.resize(0)
    assert read_epoch(data, store).total() == 400


def test_a_report_counts_the_missing_samples_of_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.training.cache._caches", WeakSet())
    monkeypatch.setattr("muster.training.cache._granted_gb", None)
    data = CachedDataset(CountedStore(40))
    assert cache_report()["cache_full_gb"] == 0, "nothing is read to learn the size of what is not cached"
    data.resize(10 * PAGES_GB)
    assert cache_report() == {
        "cache_hits": 0,
        "cache_misses": 0,
        "cache_hit_cpu_seconds": 0,
        "cache_miss_cpu_seconds": 0,
        "cache_samples": 40,
        "cache_unfilled": 10,
        "cache_full_gb": pytest.approx(40 * PAGES_GB),
        "cache_all_gb": pytest.approx(40 * PAGES_GB),
    }
    for index in [*range(40)] * 2:
        data[index]
    report = cache_report()
    assert (report["cache_hits"], report["cache_misses"], report["cache_unfilled"]) == (10, 70, 0)
    assert report["cache_hit_cpu_seconds"] > 0
    assert report["cache_miss_cpu_seconds"] > 0


def test_what_steps_walk_is_reported_apart_from_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.training.cache._caches", WeakSet())
    monkeypatch.setattr("muster.training.cache._granted_gb", None)
    monkeypatch.setenv("MUSTER_CACHE_GB", repr(100 * PAGES_GB))
    monkeypatch.setenv("MUSTER_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("MUSTER_EPOCH", "1")
    begin_start(tmp_path, 1)
    train, validation = CachedDataset(CountedStore(40)), CachedDataset(CountedStore(60))

    class Batches:
        """Knows its data as PyTorch's wrappers do."""

        dataset = train

        def __len__(self) -> int:
            return 10

        def __getitem__(self, number: int) -> list[bytes]:
            return [train[index] for index in range(4 * number, 4 * number + 4)]

    for _ in training.join().steps(Batches(), state={}):
        validation[0]
    progress = read_progress(tmp_path)
    assert progress is not None
    assert (progress["cache_samples"], progress["cache_misses"], progress["cache_hits"]) == (40, 40, 0)
    assert progress["cache_full_gb"] == pytest.approx(40 * PAGES_GB)
    assert progress["cache_all_gb"] == pytest.approx(100 * PAGES_GB)


def test_a_loader_leads_to_its_caches_through_wrappers() -> None:
    first, second, other = (CachedDataset(CountedStore(4)) for _ in range(3))

    class Wrapping:
        def __init__(self, **parts: object) -> None:
            vars(self).update(parts)

    inner = Wrapping(dataset=first)
    inner.__dict__["datasets"] = [second, inner]  # one that holds itself ends too
    assert set(caches_in(Wrapping(dataset=inner))) == {first, second}
    assert caches_in([b"a batch"]) == ()
    assert other not in caches_in(inner)


@pytest.mark.parametrize("seed", range(3))
def test_samples_of_very_different_sizes_fill_what_is_granted(seed: int) -> None:
    """The first ones measured are off by a seventh; what is held corrects them, in any order."""
    rng = np.random.default_rng(seed)
    sizes = np.minimum(rng.lognormal(10, 0.7, 1000), 2e5).astype(int)

    class Varied:
        def __len__(self) -> int:
            return len(sizes)

        def __getitem__(self, index: int) -> bytes:
            return bytes(int(sizes[index]))

    data = CachedDataset(Varied(), seed=seed)
    budget = 0.4 * float(sizes.sum()) / 1e9
    data.resize(budget)
    for _ in range(8):
        for index in rng.permutation(len(data)):
            data[int(index)]
        assert data.held_gb <= budget
    assert data.held_gb > 0.98 * budget
    assert data.size_gb == pytest.approx(float((sizes // 4096 + 1).sum()) * 4096 / 1e9, rel=0.1)
    share, (hits, misses) = data.share, data.reads
    for index in rng.permutation(len(data)):
        data[int(index)]
    assert data.share == share
    assert data.reads == (hits + round(share * 1000), misses + round((1 - share) * 1000)), "it has settled"


def test_the_error_of_a_mean_size_is_that_of_a_sample() -> None:
    """Deviations of 1 from a mean of 2: their squares, 2, are divided by one size fewer, and the error by sqrt(2)."""
    assert _error_of_mean([1, 3]) == pytest.approx(np.sqrt(2 / 1) / np.sqrt(2) / 2)
    assert _error_of_mean([4, 4, 4]) == 0.0


def test_small_samples_lie_close_together() -> None:
    """The kernel's own memory for a page that is far from all others is half of that page."""
    data = CachedDataset(CountedStore(400))
    data.resize(1.0)
    read_epoch(data, data.dataset)
    assert os.fstat(data._file).st_size < 420 * 8 * 8192


@pytest.mark.needs_torch
def test_a_part_of_a_tensor_is_kept_without_the_rest() -> None:
    torch = pytest.importorskip("torch")
    images = torch.arange(300 * 1000, dtype=torch.float32).view(300, 1000)
    whole = torch.utils.data.TensorDataset(images, torch.arange(300))
    data = CachedDataset(whole)
    assert data.size_gb < 4 * images.nbytes / 1e9, "a sample is 4 kB and a page or two of pickle"
    data.resize(1.0)
    for _ in range(2):
        for number in (0, 7, 299):
            image, label = data[number]
            assert torch.equal(image, images[number])
            assert int(label) == number
            assert image.untyped_storage().nbytes() == image.nbytes or data.reads[0] == 0
    assert data.reads[0] == 3
    strided = CachedDataset([images[:, :2].t(), images[:1].expand(4, 1000), images[3]])
    strided.resize(1.0)
    for number in (0, 1, 2, 0, 1, 2):
        assert torch.equal(strided[number], strided.dataset[number])
    assert strided.reads == (3, 3)
