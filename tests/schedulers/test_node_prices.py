"""Prices of pooled resources, against the definition written out in plain Python."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.schedulers.allocation.gangs import Gangs, gangs_of
from muster.schedulers.allocation.pooled_prices import HALVINGS, HIGHEST_PRICE, lowest_prices
from tests.schedulers.synergy_cases import Round, random_round


def demanded(gangs: Gangs, count: np.ndarray, share: np.ndarray, price: np.ndarray, resource: int) -> int:
    """What all jobs want of a resource if each takes the point that is worth most to it, of equals the first."""
    total = 0
    for number in np.flatnonzero(count).tolist():
        pair = number * len(gangs.kinds)
        points = range(*gangs.demands.first_choice[[pair, pair + 1]].tolist())
        best, most = -1, -np.inf
        for point in points:
            worth = float(gangs.demands.choice_speed[point])
            for other in (1, 2, 3):
                worth -= price[other] * gangs.demands.choice[point, other] / share[other]
            if worth > most + 1e-12:
                best, most = point, worth
        total += int(count[number] * gangs.demands.choice[best, resource])
    return total


def set_lowest_prices(
    gangs: Gangs, count: np.ndarray, share: np.ndarray, pool: np.ndarray, price: np.ndarray, resource: int
) -> None:
    """Halve the interval of one price; at each price of it, those of the resources before it come first."""
    if resource == 0:
        return
    low, high = 0.0, HIGHEST_PRICE
    price[resource] = 0.0
    for halving in range(HALVINGS + 1):
        set_lowest_prices(gangs, count, share, pool, price, resource - 1)
        if demanded(gangs, count, share, price, resource) <= pool[resource]:
            if halving == 0:
                return
            high = price[resource]
        else:
            low = price[resource]
        price[resource] = (low + high) / 2
    price[resource] = high
    set_lowest_prices(gangs, count, share, pool, price, resource - 1)


@given(random_round(most_jobs=3), st.tuples(*[st.sampled_from([0.3, 0.7, 2.0])] * 2))
@settings(max_examples=12, deadline=None)
def test_prices_are_the_lowest_that_clear_the_pool(case: Round, part: tuple[float, float]) -> None:
    gangs = gangs_of(case.snapshot)
    count = np.bincount(gangs.classes, gangs.gpus, len(gangs.demands.best)).astype(np.int64)
    share = np.maximum(gangs.kinds[0]["share"], 1).astype(np.float64)
    pool = (gangs.gpus.sum() * share * (1, *part, 2.0)).astype(np.int64)
    found, expected = lowest_prices(gangs, 0, count, pool), np.zeros(4)
    set_lowest_prices(gangs, count, share, pool, expected, 3)
    assert found.tolist() == expected.tolist()
