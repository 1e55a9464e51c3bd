"""A Slurm of two nodes that the tests of one file share. It would give a job two seconds to end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from muster.slurm_commands import SlurmCommands
from tests.slurm.cluster import SlurmCluster, slurm_for_a_test


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    """Skips where Slurm is not installed. Every account may pass to its socket, unlike in pytest's own folders."""
    with slurm_for_a_test(nodes=2, KillWait=2) as cluster:
        yield cluster


@pytest.fixture
def commands(slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> SlurmCommands:
    """Muster's own way to talk to it."""
    monkeypatch.setenv("PATH", slurm.environment["PATH"])
    return SlurmCommands(str(slurm.conf), patience_seconds=5.0)
