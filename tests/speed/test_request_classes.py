"""The table of classes by request against a dictionary."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from muster.cluster.ledger_arrays import Bools
from muster.speed.request_classes import RequestClasses


@pytest.mark.parametrize("seed", range(20))
def test_each_row_has_the_number_that_it_was_given(seed: int) -> None:
    random, table, known = Random(seed), RequestClasses(3), dict[tuple[int, ...], int]()
    for _ in range(10):
        rows = np.array([[random.choice([0, 1, 2, 3_000_000]) for _ in range(5)] for _ in range(40)])
        asks: Bools = np.any(rows[:, 2:], axis=1)
        numbers = np.full(40, 7)
        model, gpus, requested = (
            np.ascontiguousarray(part) for part in (rows[:, 0], rows[:, 1], rows[:, 2:])
        )
        table.find(model, gpus, requested, asks, numbers)
        expected = [
            known.get(tuple(row), -1) if some else 7 for row, some in zip(rows.tolist(), asks, strict=True)
        ]
        assert numbers.tolist() == expected
        for row in {tuple(row) for row, number in zip(rows.tolist(), expected, strict=True) if number == -1}:
            known[row] = len(known)
            table.add(np.array(row), known[row])
