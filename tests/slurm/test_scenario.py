"""Real training on a real Slurm: preempted jobs end as if never interrupted, where the record says that they ran."""

from __future__ import annotations

import pytest

from tests.service.cli.daemons import open_folder
from tests.service.engine_scenario import check_scenario
from tests.slurm.account import account_of, recorded_placements
from tests.slurm.cluster import SlurmCluster

pytestmark = [pytest.mark.needs_slurm, pytest.mark.needs_torch]


def test_preempted_jobs_and_a_gang_end_as_if_undisturbed(slurm: SlurmCluster) -> None:
    pytest.importorskip("torch")
    with open_folder(0o711) as folder:
        check_scenario(folder / "home", "train", slurm.environment, account_of(slurm), recorded_placements)
