"""Real training on a real Ray: preempted jobs end as if never interrupted, where the record says that they ran."""

from __future__ import annotations

import pytest

from tests.ray.account import account_of, recorded_placements
from tests.ray.cluster import ADDRESS, RayCluster
from tests.service.cli.daemons import open_folder
from tests.service.engine_scenario import check_scenario

pytestmark = [pytest.mark.needs_ray, pytest.mark.needs_torch]


def test_preempted_jobs_and_a_gang_end_as_if_undisturbed(cluster: RayCluster) -> None:
    pytest.importorskip("torch")
    with open_folder(0o711) as folder:
        accounts = account_of(cluster)
        check_scenario(folder / "home", ADDRESS, cluster.environment, accounts, recorded_placements)
