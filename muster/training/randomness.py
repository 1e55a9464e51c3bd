"""The random numbers of a process: python's, NumPy's and, where the job uses it, PyTorch's.

A sample's random numbers depend on (job's seed, epoch, index) alone, so neither the number of loader
workers nor an interruption changes them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from muster.training import pytorch

_JOINS = 5
"""What a seed is for, beside the uses in `batches`."""


def random_state() -> dict[str, Any]:
    """Everything that later random numbers of this process depend on."""
    state = _host_state()
    torch = pytorch.if_loaded()
    if torch is not None and torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_random_state(state: dict[str, Any]) -> None:
    """Makes later random numbers the ones that followed `state`."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch = pytorch.if_loaded()
    if torch is not None:
        if "torch" in state:
            torch.set_rng_state(state["torch"])
        if "cuda" in state:
            torch.cuda.set_rng_state_all(state["cuda"])


def _host_state() -> dict[str, Any]:
    state = {"python": random.getstate(), "numpy": np.random.get_state()}
    torch = pytorch.if_loaded()
    if torch is not None:
        state["torch"] = torch.get_rng_state()
    return state


def host_random_bytes() -> tuple[object, ...]:
    """The state that reading a sample could change, in a form that compares."""
    name, keys, *rest = np.random.get_state(legacy=True)
    state: tuple[object, ...] = (random.getstate(), name, np.asarray(keys).tobytes(), *rest)
    torch = pytorch.if_loaded()
    if torch is not None:
        state += (torch.get_rng_state().numpy().tobytes(),)
    return state


def seed_from(*numbers: int) -> None:
    """Seeds the generators of the host from whole numbers."""
    # Python's and NumPy's are the same algorithm: from the same words they would draw the same numbers.
    for_numpy, for_python, for_torch = np.random.SeedSequence(numbers).generate_state(12).reshape(3, 4)
    np.random.seed(for_numpy)
    random.seed(int.from_bytes(for_python.tobytes(), "little"))
    torch = pytorch.if_loaded()
    if torch is not None:
        torch.default_generator.manual_seed(int.from_bytes(for_torch.tobytes(), "little") % 2**63)


def begin_rank(seed: int, step: int, rank: int) -> None:
    """Gives a rank that joins a run at some step random numbers of its own, the same whenever it joins there."""
    seed_from(seed, _JOINS, step, rank)
    torch = pytorch.if_loaded()
    if torch is not None:
        torch.cuda.manual_seed_all(
            int(np.random.SeedSequence((seed, _JOINS, step, rank, 1)).generate_state(1)[0])
        )


@contextmanager
def undisturbed() -> Iterator[None]:
    """Whatever random numbers the body draws, those after it are as if it had drawn none."""
    state = _host_state()
    try:
        yield
    finally:
        set_random_state(state)
