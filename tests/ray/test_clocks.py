"""The nodes have another time of day than the daemon's machine."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tests.ray.cluster import RayCluster, wait_for
from tests.ray.test_serving import RaySite
from tests.service.another_clock import clock_ahead
from tests.service.cli.daemons import open_folder

pytestmark = pytest.mark.needs_ray


def test_jobs_are_charged_by_the_clock_of_the_daemon(cluster: RayCluster) -> None:
    with open_folder(0o711) as folder:
        site = RaySite(cluster, folder)
        clock = clock_ahead(folder, 60)
        site.person = replace(site.person, environment={**site.person.environment, **clock})
        with site.serves("--scheduler", "fifo"):
            job = site.submit("--gpus", "2")
            site.wait(job, phase="running")
            began = time.monotonic()
            wait_for(lambda: site.status(job)["steps_done"] > 2, lambda: f"no step: {site.status(job)}")
            seconds = time.monotonic() - began
            site.muster("hold", job)
            assert site.wait(job, state="held")["run_seconds"] >= seconds
            shown = " ".join(site.muster("nodes").split())
            for node in cluster.nodes:
                assert f"The clock of {node} is 1.00 min behind that of the daemon" in shown
        cluster.end_agents()
