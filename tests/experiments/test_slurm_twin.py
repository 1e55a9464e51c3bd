"""The preset `slurm` and the multifactor order against logs of real runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.slurm.log import SlurmLog, read_log
from experiments.slurm.priorities import priorities
from experiments.slurm.twin import slurm, with_logged_cycles, with_own_clocks
from muster.schedulers.queue_order.multifactor import Multifactor

RUNS = {"run1": 0.05, "run3_multifactor": 0.10}
"""Runs, with how far the mean wait may be from the logged one."""


def log_of(reference: Path, run: str) -> SlurmLog:
    return read_log(reference / "parity/slurm", run)


def test_multifactor_gives_every_logged_priority(reference: Path) -> None:
    log = log_of(reference, "run3_multifactor")
    order = slurm("run3_multifactor").order
    assert isinstance(order, Multifactor)
    said = priorities(log, order)
    for job, changes in log.changes.items():
        for when, logged in changes:
            computed = [priority for moment, priority in said[job] if moment <= when + 0.01]
            assert computed[-1] == logged, (log.ids[job], when)


@pytest.mark.parametrize("run", RUNS)
def test_the_preset_repeats_a_log_with_its_cycles(reference: Path, run: str) -> None:
    log = log_of(reference, run)
    errors = np.abs(with_logged_cycles(log, run) - log.allocated)
    assert np.median(errors) <= 0.1


@pytest.mark.parametrize("run", RUNS)
def test_with_its_own_clocks_the_mean_wait_is_close(reference: Path, run: str) -> None:
    log = log_of(reference, run)
    waits = [np.mean(found - log.accepted) for found in with_own_clocks(log, run)]
    assert np.mean(waits) == pytest.approx(log.wait.mean(), rel=RUNS[run])
