"""Real training on a real Slurm: preempted jobs end as if never interrupted, where the record says that they ran."""

from __future__ import annotations

import pytest

from tests.service.cli.daemons import open_folder
from tests.service.engine_scenario import check_scenario
from tests.slurm.account import account_of, recorded_placements
from tests.slurm.cluster import PROLOG, missing_programs, slurm_cluster

pytestmark = [pytest.mark.needs_slurm, pytest.mark.needs_torch, pytest.mark.unsteady]


def test_preempted_jobs_and_a_gang_end_as_if_undisturbed() -> None:
    pytest.importorskip("torch")
    if missing := missing_programs():
        pytest.skip(missing)
    with (
        open_folder(0o711) as folder,
        slurm_cluster(folder / "cluster", nodes=2, KillWait=2, Prolog=folder / "cluster" / PROLOG) as slurm,
    ):
        check_scenario(folder / "home", "train", slurm.environment, account_of(slurm), recorded_placements)
