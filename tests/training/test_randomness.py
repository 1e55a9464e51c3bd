"""The generators of the host are seeded alike again and again, and each draws numbers of its own."""

from __future__ import annotations

import random

import numpy as np

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
