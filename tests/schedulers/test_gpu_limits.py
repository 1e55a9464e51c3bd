"""How many GPUs groups of jobs may have: what they use beyond what is counted, and who gets how many."""

from __future__ import annotations

import numpy as np
import pytest

from muster.schedulers.gpu_limits import GpuLimits

LIMITS = GpuLimits(np.array([0, 0, 1, -1]), np.array([1.0, 2.0, 4.0, 1.0]), np.array([6.0, 0.5]))


def test_jobs_use_what_they_have_beyond_what_they_count() -> None:
    """Fewer GPUs than a job counts leave nothing to others; a job of no group uses nothing."""
    usage = LIMITS.usage(np.array([0, 1, 2, 3]), np.array([4, 1, 5, 9]))
    assert usage.tolist() == [[3.0, 0.0], [0.0, 0.0], [0.0, 1.0], [0.0, 0.0]]


def test_jobs_that_have_more_leave_less() -> None:
    """The first group has 3 of its 6 left and counts 4 for the job; the second has less than nothing."""
    beside = LIMITS.beside(np.array([0, 2]), np.array([4, 9]))
    assert beside.counted.tolist() == [4.0, 2.0, 9.0, 1.0]
    assert beside.left.tolist() == [3.0, -4.5]
    assert beside.room.tolist() == [3.0, 0.0]
    assert beside.exceeded.tolist() == [False, False, True, False]
    assert beside.allows(np.array([0, 1]), np.array([4, 5]))
    assert not beside.allows(np.array([0, 1]), np.array([4, 6]))


@pytest.mark.parametrize(
    ("order", "most"), [([0, 1, 2], [5.0, 4.0]), ([1, 0, 2], [1.0, 8.0]), ([0], [5.0, 2.0])]
)
def test_the_first_in_an_order_get_what_they_want(order: list[int], most: list[float]) -> None:
    """The first two share six GPUs beyond their three; a job outside of the order keeps what it counts."""
    wanted = np.array([5, 8, 4, 20])
    found = LIMITS.most_gpus(np.array(order), wanted)
    assert found.tolist() == [*most, 4.0, np.inf]


def test_some_of_the_jobs_have_the_same_limits() -> None:
    some = LIMITS.at(np.array([2, 0]))
    assert some.usage(np.array([1]), np.array([3])).tolist() == [[2.0, 0.0]]
