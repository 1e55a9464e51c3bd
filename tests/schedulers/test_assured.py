"""What sizes are worth to jobs that have some GPUs before all others."""

from __future__ import annotations

import numpy as np

from muster.schedulers.joint.assured import weight_of_assured, worth_of_assured


def test_the_gpus_that_a_job_is_assured_count_a_thousandfold() -> None:
    """The first job is assured two GPUs, the second none: four GPUs are worth two more to the first."""
    job, gpus = np.array([0, 0, 0, 1, 1]), np.array([1, 2, 4, 1, 4])
    worth = worth_of_assured(np.array([1.0, 2.0, 4.0, 1.0, 3.0]), job, gpus, np.array([2.0, 0.0]))
    assert worth.tolist() == [1_000.0, 2_000.0, 2_002.0, 1.0, 3.0]


def test_the_least_size_counts_a_thousandfold() -> None:
    """No size is as small as what the job is assured: it does not run on fewer GPUs."""
    worth = worth_of_assured(np.array([3.0, 4.0]), np.array([0, 0]), np.array([4, 8]), np.array([2.0]))
    assert worth.tolist() == [3_000.0, 3_001.0]


def test_a_job_without_assurance_keeps_its_weight() -> None:
    assert weight_of_assured(np.array([2.0, 3.0]), np.array([1.0, 0.0])).tolist() == [2_000.0, 3.0]
