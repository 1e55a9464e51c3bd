"""The generators of the host are seeded alike again and again, and each draws numbers of its own."""

from __future__ import annotations

import random
from types import SimpleNamespace

import numpy as np
import pytest

from muster.training import pytorch
from muster.training.randomness import seed_from, undisturbed


def drawn() -> tuple[list[float], list[float]]:
    """By Python, and by NumPy."""
    return [random.random() for _ in range(4)], np.random.random(4).tolist()


def test_python_and_numpy_do_not_draw_the_same_numbers() -> None:
    with undisturbed():
        seed_from(17, 3)
        by_python, by_numpy = drawn()
        assert not set(by_python) & set(by_numpy)
        seed_from(17, 3)
        assert drawn() == (by_python, by_numpy)
        seed_from(17, 4)
        assert drawn() != (by_python, by_numpy)


def test_pytorchs_seed_has_63_bits_and_depends_on_all_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a generator that only notes its seed: PyTorch itself need not be installed."""
    seeds: list[int] = []
    torch = SimpleNamespace(default_generator=SimpleNamespace(manual_seed=seeds.append))
    with undisturbed(), monkeypatch.context() as patched:
        patched.setattr(pytorch, "if_loaded", lambda: torch)
        for numbers in [(17, 3), (17, 3), *((17, index) for index in range(4, 40))]:
            seed_from(*numbers)
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert max(seeds) > 2**60
    assert seeds[0] == seeds[1]
    assert len(set(seeds)) == len(seeds) - 1
