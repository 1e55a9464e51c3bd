"""An administrator changes a job of Muster in Slurm: what it really has is on record, and it is not started again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.service.cli.daemons import open_folder
from tests.slurm.cluster import SlurmCluster, wait_for
from tests.slurm.test_serving import Site

pytestmark = pytest.mark.needs_slurm


@pytest.fixture
def site(slurm: SlurmCluster) -> Iterator[Site]:
    with open_folder(0o711) as folder:
        yield Site(slurm, folder / "home")


def changed_while_it_waits(site: Site, *settings: str) -> str:
    """Submit a job; change it before it begins in Slurm."""
    before = set(site.slurm_numbers())
    partition = ("scontrol", "update", "partitionname=train")
    site.slurm.run(*partition, "state=down")
    try:
        job = site.submit("--gpus", "2", "--cpus", "6", "--memory", "20")
        wait_for(lambda: set(site.slurm_numbers()) > before, lambda: "it is not submitted")
        (number,) = set(site.slurm_numbers()) - before
        site.slurm.run("scontrol", "update", f"jobid={number}", *settings)
    finally:
        site.slurm.run(*partition, "state=up")
    return job


def test_what_a_changed_job_has_is_on_record(site: Site) -> None:
    with site.serves():
        job = changed_while_it_waits(
            site, "CPUsPerTask=3", "NumCPUs=3", "MinCPUsNode=3", "MinMemoryNode=2000"
        )
        wait_for(lambda: site.status(job)["steps_done"] > 0, lambda: f"no step: {site.status(job)}")
        found = site.status(job)
        (held,) = found["holds"]
        assert (held["gpus"], held["cpus"], held["memory_gb"]) == (2.0, 3.0, 2.097152)
        assert "3 CPU, 2.1 GB" in " ".join(site.muster("why", job).split())
        events = [(one["kind"], one["detail"]) for one in found["events"]]
        assert ("has other amounts", f"{held['node']}: 3 CPU, 2.1 GB, not by Muster") in events
        assert found["starts"] == 1
        site.muster("hold", job)
        site.wait(job, state="held")
        site.muster("release", job)
        found = site.wait(job, state="completed")
        assert found["starts"] == 2
        events = [(one["kind"], one["detail"]) for one in found["events"]]
        assert events.count(("started", f"{held['node']}: 2 GPUs, 6 CPU")) == 2
        assert [kind for kind, _ in events].count("has other amounts") == 1


def test_the_default_time_of_a_partition_ends_no_job(site: Site) -> None:
    """Slurm would end each run of a job after that time, whatever limit it has with Muster."""
    partition = ("scontrol", "update", "partitionname=train")
    site.slurm.run(*partition, "DefaultTime=10")
    try:
        with site.serves():
            job = site.submit("--gpus", "1", "--time-limit", "1h")
            site.wait(job, phase="running")
            site.muster("cancel", job)
            site.wait(job, state="cancelled")
    finally:
        site.slurm.run(*partition, "DefaultTime=UNLIMITED")
    limits = site.slurm.run("squeue", "-h", "--states=all", f"--name=muster-{job}", "-o", "%l")
    assert limits.split()[-1] == "UNLIMITED"


def test_a_job_that_is_cancelled_before_it_begins_leaves_slurm(site: Site) -> None:
    """An administrator holds it there; Muster has submitted it itself."""
    before = set(site.slurm_numbers())
    with site.serves():
        job = changed_while_it_waits(site, "Priority=0")
        (number,) = set(site.slurm_numbers()) - before
        site.muster("cancel", job)
        site.wait(job, state="cancelled")
        shown = ("squeue", "--noheader", "--states=all", f"--jobs={number}", "--format=%T")
        wait_for(lambda: site.slurm.run(*shown).strip() == "CANCELLED", lambda: site.slurm.run(*shown))


def test_a_held_job_moved_without_a_daemon_is_used_again(site: Site) -> None:
    """To another partition. Submitted again it could run twice."""
    site.slurm.run("scontrol", "create", "PartitionName=other", "Nodes=ALL", "State=UP")
    before = set(site.slurm_numbers())
    with site.serves():
        job = changed_while_it_waits(site, "Priority=0")
        (number,) = set(site.slurm_numbers()) - before
        site.muster("hold", job)
        site.wait(job, state="held", holds=[])
    site.slurm.move(number, "other")
    with site.serves():
        site.muster("release", job)
        site.wait(job, state="completed")
        assert set(site.slurm_numbers()) - before == {number}
    site.slurm.run("scontrol", "delete", "PartitionName=other")
