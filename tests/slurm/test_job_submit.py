"""The job_submit.lua that Muster ships: plain sbatch submits to Muster, and what is not for it is left alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.cli.daemons import open_folder
from tests.slurm.cluster import SlurmCluster, wait_for
from tests.slurm.test_submitted_jobs import SubmittingSite

pytestmark = pytest.mark.needs_slurm

SCRIPT = Path(__file__).parents[2] / "deploy" / "job_submit.lua"


@pytest.fixture
def site(slurm: SlurmCluster) -> Iterator[SubmittingSite]:
    with open_folder(0o711) as folder:
        site = SubmittingSite(slurm, folder / "home")
        text = SCRIPT.read_text().replace("/shared/muster/jobs", f"{site.home}/jobs")
        (slurm.folder / "job_submit.lua").write_text(text)
        slurm.conf.write_text(f"{slurm.conf.read_text()}JobSubmitPlugins=lua\n")
        slurm.run("scontrol", "reconfigure")
        yield site


def plain(site: SubmittingSite, *options: str, script: str = "sleep 600") -> str:
    output = f"--output={site.home.parent}/%j.out"
    return site.slurm.run("sbatch", "--parsable", "--mem=1G", output, *options, f"--wrap={script}").strip()


def test_plain_sbatch_submits_to_muster(site: SubmittingSite) -> None:
    others = [
        plain(site, "--array=1-2"),
        plain(site, "--dependency=singleton"),
        plain(site, "--hold"),
        plain(site, "--comment=muster:other:7"),
    ]
    comments = [site.slurm.run("squeue", "-h", f"--jobs={number}", "-o", "%k").split() for number in others]
    assert comments == [["(null)"], ["(null)"], ["(null)"], ["muster:other:7"]]
    assert site.slurm.run("srun", "--mem=1G", "echo", "interactive") == "interactive\n"
    site.slurm.run("scancel", *others)
    number = plain(site, "--gres=gpu:1", script="echo $MUSTER_JOBS")
    marked = plain(site, "--comment=muster:steps=7", script="true")
    assert "JobState=PENDING Reason=JobHeldUser" in site.shown(number)
    with site.serves():
        first, second = site.taken(2)
        assert site.status(second)["steps"] == 7
        for job in (first, second):
            site.wait(job, state="completed")
    assert site.output(number) == f"{site.home}/jobs\n"
    wait_for(lambda: site.state(marked) == "COMPLETED", lambda: site.shown(marked))
