"""What an administrator reads where a Slurm is not as it should be, and that jobs go on meanwhile."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.service.cli.daemons import open_folder
from tests.slurm.cluster import SlurmCluster, missing_programs, slurm_cluster, wait_for
from tests.slurm.test_serving import Site

pytestmark = pytest.mark.needs_slurm


@pytest.fixture
def site(slurm: SlurmCluster) -> Iterator[Site]:
    with open_folder(0o711) as folder:
        yield Site(slurm, folder / "home")


def notices(site: Site) -> str:
    """What the queue says beside its jobs."""
    return " ".join(json.loads(site.muster("queue", "--json"))["notices"])


def test_a_partition_that_is_not_there_is_refused(site: Site) -> None:
    said = site.person.is_refused(site.home, "--engine", "slurm", "--partition", "trains")
    assert "--partition: found 'trains'; allowed: train. Hint: did you mean train?" in said
    assert not site.home.exists()


def test_without_slurm_conf_no_daemon_starts(site: Site) -> None:
    missing = {"SLURM_CONF": str(site.home.parent / "none.conf")}
    done = site.person.types(site.home, "serve", "--engine", "slurm", "--partition", "train", **missing)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"no slurm.conf was found at {missing['SLURM_CONF']}. Hint: set SLURM_CONF" in done.stderr
    assert "Traceback" not in done.stderr
    assert not site.home.exists()


def test_jobs_of_another_muster_are_named_and_left_alone(site: Site) -> None:
    """A partition is one Muster's. What the other one runs is planned around, as all that is not its own."""
    with site.serves(), open_folder(0o711) as folder:
        job = site.submit("--gpus", "8")
        node = site.wait(job, phase="running")["holds"][0]["node"]
        other = Site(site.slurm, folder / "home")
        with other.serves():
            wait_for(lambda: "another Muster" in notices(other), lambda: notices(other))
            elsewhere = other.submit("--gpus", "8")
            assert other.wait(elsewhere, phase="running")["holds"][0]["node"] != node
            wait_for(lambda: "another Muster" in notices(site), lambda: notices(site))
            other.muster("cancel", elsewhere)
            other.wait(elsewhere, state="cancelled")
        wait_for(lambda: not notices(site), lambda: notices(site))
        assert site.status(job)["starts"] == 1
        site.muster("cancel", job)
        site.wait(job, state="cancelled")


@pytest.mark.parametrize(
    ("daemon", "cause"),
    [
        ("slurmctld", "slurmctld cannot be reached. Hint: scontrol ping"),
        ("munged", "Slurm's authentication does not answer. Hint: is munged running?"),
    ],
)
def test_a_daemon_that_is_down_is_named_and_jobs_go_on(site: Site, daemon: str, cause: str) -> None:
    with site.serves():
        job = site.submit("--gpus", "1")
        wait_for(lambda: site.status(job)["steps_done"] > 0, lambda: f"no step: {site.status(job)}")
        site.slurm.kill(daemon)
        try:
            # What was under way as it died may say something else first.
            wait_for(lambda: f"the engine fails: {cause}" in notices(site), lambda: notices(site))
            later = site.muster("submit", "--gpus", "1", "--", "sleep", "1").split()[1]
            assert cause in " ".join(site.muster("why", later).split())
        finally:
            site.slurm.start(daemon)
            site.slurm.wait_ready()
        wait_for(lambda: not notices(site), lambda: notices(site))
        site.wait(later, state="completed")
        before = site.status(job)["steps_done"]
        wait_for(lambda: site.status(job)["steps_done"] > before, lambda: str(site.status(job)))
        assert site.status(job)["starts"] == 1
        site.muster("cancel", job)
        site.wait(job, state="cancelled")


def test_a_full_disk_is_named_and_a_job_waits_for_room() -> None:
    """The disk that the nodes share, on which a start has its files."""
    if missing := missing_programs():
        pytest.skip(missing)
    with open_folder(0o711) as folder:
        jobs = folder / "jobs"
        jobs.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(jobs)], check=True)
        try:
            with slurm_cluster(folder / "cluster", nodes=1) as slurm:
                site = Site(slurm, folder / "home")
                with site.serves("--jobs", str(jobs)):
                    fill(jobs / "of others")
                    job = site.muster("submit", "--gpus", "1", "--", "sleep", "1").split()[1]
                    wait_for(lambda: "No space left on device" in notices(site), lambda: notices(site))
                    (jobs / "of others").unlink()
                    site.wait(job, state="completed")
                    assert not notices(site)
        finally:
            subprocess.run(["umount", "--lazy", str(jobs)], check=True)


def fill(path: Path) -> None:
    """Write a file that takes all that is free on its disk."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
