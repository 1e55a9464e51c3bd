"""A partition whose nodes have GPUs of different types."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from muster.service.engines.interface import Exit
from muster.slurm_commands import SlurmCommands
from tests.service.engines.conformance import Work
from tests.slurm.cluster import SlurmCluster, slurm_for_a_test
from tests.slurm.test_engine_conformance import SlurmCase

pytestmark = pytest.mark.needs_slurm


@pytest.fixture
def slurm() -> Iterator[SlurmCluster]:
    with slurm_for_a_test(nodes=2, gpu_types=("v100", "a100"), KillWait=2) as cluster:
        yield cluster


def test_a_job_starts_again_on_another_type(
    slurm: SlurmCluster, commands: SlurmCommands, tmp_path: Path
) -> None:
    """Its owner has asked for none. Slurm lets no request for one type become one for another."""
    case = SlurmCase(tmp_path, commands)
    for epoch, node in enumerate(("node1", "node2", "node1"), start=1):
        launch = case.launch_of(1, epoch, Work.ENDLESS)
        (here,) = launch.allocations
        case.send(replace(launch, allocations=(replace(here, node=node),)))
        case.until(lambda epoch=epoch: not case.observed(1, epoch).pending, "its first process")  # type: ignore[misc]
        case.kill(1, epoch)
        assert case.end(1, epoch).ended is Exit.STOPPED
    assert len(case.slurm_jobs()) == 1
