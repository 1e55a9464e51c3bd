"""What Slurm does that surprises, each on a real one: signals, exit codes, memory, nodes that are drained."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.service.home import store_url
from muster.service.store import Store
from tests.service.cli.daemons import open_folder
from tests.slurm.cluster import SlurmCluster, wait_for
from tests.slurm.test_submitted_jobs import SubmittingSite

pytestmark = pytest.mark.needs_slurm

JOB = Path(__file__).with_name("saving_job.py")


@pytest.fixture
def site(slurm: SlurmCluster) -> Iterator[SubmittingSite]:
    with open_folder(0o711) as folder:
        yield SubmittingSite(slurm, Path(folder) / "home")


def events(site: SubmittingSite, job: str) -> list[str]:
    """What has happened to a job, with messages."""
    store = Store.open(store_url(site.home))
    try:
        return [f"{event.kind}: {event.detail}" for event in store.events(int(job))]
    finally:
        store.close()


def is_stopped_with_grace(site: SubmittingSite, folder: Path, job: str) -> None:
    """Each of two ranks gets one signal and all the time that it needs; then the job goes on where it was."""
    wait_for(lambda: len(list(folder.glob("said.*"))) == 2, lambda: f"not up: {site.status(job)}")
    site.muster("hold", job)
    site.wait(job, state="held")
    assert [(folder / f"saved.{rank}").read_text() for rank in (0, 1)] == ["SIGTERM", "SIGTERM"]
    site.muster("release", job)
    assert site.wait(job, state="completed")["starts"] == 2


def test_a_gang_of_muster_has_its_grace(site: SubmittingSite) -> None:
    with open_folder(0o777) as folder, site.serves():
        said = site.muster("submit", "--gpus", "16", "--", sys.executable, str(JOB), str(folder))
        is_stopped_with_grace(site, folder, said.split()[1])


def test_a_gang_of_sbatch_and_srun_has_its_grace(site: SubmittingSite) -> None:
    options = ("--nodes=2", "--ntasks-per-node=1", "--gres=gpu:8", "--mem=1G", "--comment=muster:")
    with open_folder(0o777) as folder, site.serves():
        site.sbatch(*options, script=f"srun {sys.executable} {JOB} {folder}")
        (job,) = site.taken()
        is_stopped_with_grace(site, folder, job)


def test_a_job_that_kills_itself_and_one_without_output(site: SubmittingSite) -> None:
    """Slurm gives both the same reason. Its newer releases make a missing folder; no folder can be in a file."""
    with site.serves():
        killed = site.sbatch("--mem=1G", "--comment=muster:", script="kill -9 $$")
        (first,) = site.taken()
        wait_for(
            lambda: any("SIGKILL" in one for one in events(site, first)),
            lambda: f"{killed}: {events(site, first)}",
        )
        site.sbatch("--mem=1G", "--comment=muster:", f"--output={site.home}/muster.db/%j.out", script="true")
        second = site.taken(2)[1]
        wait_for(
            lambda: any("could not write its output" in one for one in events(site, second)),
            lambda: f"{events(site, second)}",
        )
        site.muster("cancel", first)
        site.muster("cancel", second)


def test_a_job_without_stated_memory_takes_no_whole_node(site: SubmittingSite) -> None:
    with site.serves():
        numbers = [site.sbatch("--gres=gpu:4", "--comment=muster:", script="sleep 600") for _ in range(4)]
        for job in site.taken(4):
            site.wait(job, phase="running")
        site.slurm.run("scancel", *numbers)
        for job in site.taken(4):
            site.wait(job, state="cancelled")


def test_a_node_drained_in_slurm_gets_no_start(site: SubmittingSite) -> None:
    """Jobs that were to start there start elsewhere; the one that runs goes on."""
    with site.serves():
        runs = site.muster("submit", "--gpus", "1", "--", "sleep", "600").split()[1]
        assert [here["node"] for here in site.wait(runs, phase="running")["holds"]] == ["node1"]
        site.slurm.run("scontrol", "update", "nodename=node1", "state=drain", "reason=test")
        try:
            jobs = [site.muster("submit", "--gpus", "4", "--", "sleep", "20").split()[1] for _ in range(2)]
            for job in jobs:
                assert {here["node"] for here in site.wait(job, phase="running")["holds"]} == {"node2"}
            for job in jobs:
                site.wait(job, state="completed")
            found = site.status(runs)
            assert (found["starts"], found["phase"]) == (1, "running")
            site.muster("cancel", runs)
            site.wait(runs, state="cancelled")
        finally:
            site.slurm.run("scontrol", "update", "nodename=node1", "state=resume")
