"""With PyTorch: the same losses whatever interrupts, loads or caches; two ranks; measured epochs."""

from __future__ import annotations

import os
import resource
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muster import training
from muster.problems import InputError
from muster.training.cache import grant
from muster.training.checkpoints import Checkpoints
from muster.training.run_folder import EXIT_STOPPED, RunFolder, begin_start, give_notice, read_progress
from tests.training.starting import HERE, alone, begin, let_step, next_step, outcome, start
from tests.training.stores import BURST_SECONDS, Images, ThrottledStore

pytestmark = pytest.mark.needs_torch
torch = pytest.importorskip("torch")

JOB = "torch_job.py"
STEPS = 20
SOURCES = {"PYTHONPATH": str(HERE.parent.parent)}


@pytest.fixture(autouse=True)
def one_thread_and_its_own_signals() -> Iterator[None]:
    threads, handler = torch.get_num_threads(), signal.getsignal(signal.SIGTERM)
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    signal.signal(signal.SIGTERM, handler)
    torch.use_deterministic_algorithms(False)
    grant(0.0)


@pytest.fixture(scope="module")
def uninterrupted() -> str:
    from tests.training.torch_job import train

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    result = train()
    torch.set_num_threads(threads)
    return result


class Stream(torch.utils.data.IterableDataset):  # type: ignore[misc, name-defined]
    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


class OwnLoader(torch.utils.data.DataLoader):  # type: ignore[misc, name-defined]
    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


@pytest.mark.parametrize(
    ("loader", "words"),
    [
        (lambda: torch.utils.data.DataLoader(Stream()), "cannot start in the middle"),
        (lambda: OwnLoader(Images(4)), "an __iter__ of its own"),
    ],
)
def test_loaders_that_cannot_start_anywhere(loader: Callable[[], Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        training.join().steps(loader(), state={})


def test_any_sampler_and_no_batches() -> None:
    """Every epoch another order, the same in every run; the loader's own generator does not matter."""
    samples = list(range(12))

    def orders(**loading: Any) -> list[list[int]]:
        loader = torch.utils.data.DataLoader(samples, **loading)
        steps = [
            int(each)
            for batch in training.join().steps(loader, state={}, epochs=2)
            for each in torch.as_tensor(batch).view(-1)
        ]
        return [steps[: len(steps) // 2], steps[len(steps) // 2 :]]

    weighted = torch.utils.data.WeightedRandomSampler([1.0] * 6 + [0.0] * 6, 8)
    for loading in (
        {"batch_size": 4, "shuffle": True},
        {"batch_size": None, "shuffle": True},
        {"batch_size": 5, "shuffle": True, "drop_last": True},
        {"batch_size": 4, "shuffle": True, "generator": torch.Generator()},
        {"batch_size": 4, "sampler": weighted},
    ):
        first, second = orders(**loading)
        assert first != second
        assert orders(**loading) == [first, second]
        if "sampler" not in loading:
            assert len(set(first)) == len(first) == (10 if "drop_last" in loading else 12)
    assert orders(batch_size=4) == [samples, samples]


class StopAt(list[int]):
    """Gives notice when the job reports a certain step."""

    def __init__(self, run_dir: Path, epoch: int, step: int) -> None:
        super().__init__()
        self.run_dir, self.epoch, self.step = run_dir, epoch, step

    def append(self, step: int) -> None:
        super().append(step)
        if step == self.step:
            give_notice(self.run_dir, self.epoch, stop=True)


def test_workers_and_cache_change_nothing(uninterrupted: str) -> None:
    from tests.training.torch_job import train

    ways: list[tuple[int, float, dict[str, Any]]] = [
        (2, 0.0, {}),
        (1, 0.1e-3, {"prefetch_factor": 4}),
        (0, 1.0, {}),
    ]
    for workers, cache_gb, loading in ways:
        grant(cache_gb)
        assert train(workers, **loading) == uninterrupted


def test_interrupted_with_other_workers_and_caches_each_time(
    tmp_path: Path, uninterrupted: str, as_start: Callable[[int], None]
) -> None:
    """Stops in the first epoch, at its end, and in the second one."""
    from tests.training.torch_job import train

    seen: list[int] = []
    for epoch, (step, workers, cache_gb) in enumerate(
        ((2, 0, 0.0), (9, 2, 1.0), (10, 1, 0.1e-3), (16, 0, 0.2e-3)), start=1
    ):
        as_start(epoch)
        grant(cache_gb)
        log = StopAt(tmp_path, epoch, step)
        with pytest.raises(SystemExit) as stopped:
            train(workers, log=log)
        assert stopped.value.code == EXIT_STOPPED
        seen += log
    as_start(5)
    assert train(1, log=seen, persistent_workers=True) == uninterrupted
    assert seen == list(range(STEPS)), "no step twice, none left out"


def test_killed_at_random_moments(
    tmp_path: Path, uninterrupted: str, as_start: Callable[[int], None]
) -> None:
    from tests.training.torch_job import train

    rng = np.random.default_rng(8)
    epoch, done = 0, 0
    for epoch in (1, 2):
        job = start(JOB, "--gated", "--workers", epoch % 3, env=begin(tmp_path, epoch, **SOURCES))
        for _ in range(int(rng.integers(3, 6))):
            done = next_step(job)
            let_step(job)
        until = time.perf_counter() + rng.uniform(0, 0.02)
        while time.perf_counter() < until:
            pass
        os.killpg(job.pid, signal.SIGKILL)
        outcome(job, status=-signal.SIGKILL)
    assert done >= 5
    as_start(epoch + 1)
    assert train(1) == uninterrupted


def test_sigterm_to_all_processes_of_a_job_lets_it_save(
    tmp_path: Path, uninterrupted: str, as_start: Callable[[int], None]
) -> None:
    from tests.training.torch_job import train

    job = start(JOB, "--gated", "--workers", 2, env=begin(tmp_path, 1, **SOURCES))
    for _ in range(3):
        next_step(job)
        let_step(job)
    assert next_step(job) == 3
    os.killpg(job.pid, signal.SIGTERM)
    let_step(job)
    outcome(job, status=EXIT_STOPPED)
    progress = read_progress(tmp_path)
    assert progress is not None
    assert progress["checkpoint_step"] == progress["step"] == 4
    as_start(2)
    assert train() == uninterrupted


def two_ranks(env: dict[str, str], *arguments: object) -> list[Any]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", **SOURCES}
    return [start(JOB, *arguments, env={**env, **where, "RANK": str(rank)}) for rank in range(2)]


def test_a_full_disk_costs_checkpoints_and_not_the_run(
    tmp_path: Path, uninterrupted: str, as_start: Callable[[int], None]
) -> None:
    job = start("on_a_small_disk.py", JOB, env=begin(tmp_path, 1, **SOURCES))
    assert outcome(job) == uninterrupted
    assert not list(tmp_path.rglob("step-*"))
    progress = read_progress(tmp_path)
    assert progress is not None
    assert (progress["state"], progress["checkpoint_step"]) == ("trained", 0)
    assert "no checkpoint at step 20: File too large" in progress["problems"][-1]


def test_a_large_checkpoint_on_a_full_disk_fails_with_its_cause(tmp_path: Path) -> None:
    """`torch.save` ends with an error of its own over the one that the write failed with."""
    begin_start(tmp_path, 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            Checkpoints(RunFolder(tmp_path, 1)).save(1, {"weights": torch.zeros(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.rglob("step-*"))


def test_two_ranks_stop_at_the_same_step_and_resume(tmp_path: Path) -> None:
    whole = [outcome(rank) for rank in two_ranks(alone())]
    ranks = two_ranks(begin(tmp_path, 1, MUSTER_CHECKPOINT_SECONDS="1000"), "--gated")
    for rank in ranks * 2:
        next_step(rank)
        let_step(rank)
    assert [next_step(rank) for rank in ranks] == [2, 2]
    # Only the second rank gets the notice, and the first is a step behind: they have to agree.
    ranks[1].send_signal(signal.SIGTERM)
    let_step(ranks[1])
    for rank in ranks:
        rank.stdin.write("\n" * 2 * STEPS)
        rank.stdin.flush()
    reply = [rank.communicate(timeout=60)[0].splitlines() for rank in ranks]
    assert [rank.returncode for rank in ranks] == [EXIT_STOPPED, EXIT_STOPPED]
    assert reply[0] == reply[1], "the same steps on both"
    progress = read_progress(tmp_path)
    assert progress is not None
    assert progress["step"] == progress["checkpoint_step"] == 3 + len(reply[0])
    assert progress["step"] < 10, "an epoch of each rank has 5 steps"
    assert [outcome(rank) for rank in two_ranks(begin(tmp_path, 2))] == whole


def test_measured_epochs_against_the_model() -> None:
    """epoch = max(compute, p D / memory + (1 - p) D / storage), Synergy "Optimistic profiling"; within 10 %.

    One store, one loader; the last two points are a shrunk and a grown cache. Computing waits, as for a GPU.
    """
    samples, sample_bytes, storage, compute = 320, 60_000, 12e6, 1.0
    store = ThrottledStore(samples, sample_bytes)
    data = training.CachedDataset(store)
    size_gb = data.size_gb
    loader = torch.utils.data.DataLoader(
        data, batch_size=4, num_workers=2, collate_fn=len, persistent_workers=True
    )

    def epoch_seconds() -> float:
        began = time.perf_counter()
        computed = began
        for _ in loader:
            computed = max(computed, time.perf_counter() - BURST_SECONDS) + compute / len(loader)
            time.sleep(max(0.0, computed - time.perf_counter()))
        return time.perf_counter() - began

    epoch_seconds()
    for share in (0.0, 0.25, 0.5, 0.75, 1.0, 0.25, 0.5):
        data.resize(share * size_gb * (1 + 1e-9))
        assert data.share == share
        store.set_speed(float("inf"))
        for index in range(samples):
            data[index]
        began, (hits, _) = time.perf_counter(), data.reads
        for index in range(samples):
            data[index]
        from_memory = (time.perf_counter() - began) * (data.reads[0] - hits) / samples
        store.set_speed(storage)
        predicted = max(compute, from_memory + (1 - share) * samples * sample_bytes / storage)
        measured = np.inf
        # Whatever else this machine does can only slow an epoch down.
        for _ in range(5):
            misses = data.reads[1]
            measured = min(measured, epoch_seconds())
            assert data.reads[1] - misses == (1 - share) * samples
            if measured <= 1.1 * predicted:
                break
        print(f"cached {share:.2f}: predicted {predicted:.3f} s an epoch, measured {measured:.3f} s")
        assert measured == pytest.approx(predicted, rel=0.1), share
