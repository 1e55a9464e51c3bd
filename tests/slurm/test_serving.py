"""A whole daemon on a real Slurm: jobs are submitted, stopped, resumed and end, as Slurm itself records it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from muster.cluster.slurm_nodes import expand_hosts
from muster.service.engines.slurm.folder_trial import TRIAL_JOB
from tests.service.cli.daemons import Person, open_folder
from tests.slurm.cluster import SlurmCluster, wait_for

pytestmark = pytest.mark.needs_slurm

JOB = Path(__file__).with_name("counting_job.py")
_PLACED = re.compile(r" Nodes=(\S+) CPU_IDs=\S+ Mem=\d+ GRES=gpu:v100:\d+\(IDX:([0-9,-]+)\)")


class Site:
    """A daemon of root on a Slurm, and what its users type."""

    def __init__(self, slurm: SlurmCluster, home: Path) -> None:
        kept = {name: value for name, value in slurm.environment.items() if not name.startswith("MUSTER_")}
        self.slurm, self.home, self.person = slurm, home, Person(environment=kept)

    @contextmanager
    def serves(self, *flags: str, scheduler: str = "fifo") -> Iterator[None]:
        flags = ("--engine", "slurm", "--partition", "train", "--scheduler", scheduler, *flags)
        with self.person.serves(self.home, *flags):
            yield

    def muster(self, *words: str) -> str:
        done = self.person.types(self.home, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def submit(self, *options: str) -> str:
        said = self.muster("submit", *options, "--", sys.executable, str(JOB))
        return said.split()[1]

    def status(self, job: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.muster("status", job, "--json"))
        return found

    def wait(self, job: str, **fields: object) -> dict[str, Any]:
        """Wait until the status of a job has these values."""
        wait_for(
            lambda: all(self.status(job)[name] == value for name, value in fields.items()),
            lambda: f"{fields} did not come: {self.status(job)}",
        )
        return self.status(job)

    def slurm_numbers(self) -> list[str]:
        """Of all jobs that Slurm knows, but for those that try the folder of the jobs."""
        printed = self.slurm.run("squeue", "--noheader", "--states=all", "--format=%i %j").splitlines()
        return [line.split()[0] for line in printed if line.split()[1] != TRIAL_JOB]

    def placed(self, number: str) -> dict[str, list[int]]:
        """GPU ids of a job by node, as Slurm says it."""
        shown = self.slurm.run("scontrol", "--oneliner", "--details", "show", "job", number)
        return {
            node: [int(gpu) for gpu in expand_hosts(f"[{ids}]")]
            for nodes, ids in _PLACED.findall(shown)
            for node in expand_hosts(nodes)
        }


@pytest.fixture
def site(slurm: SlurmCluster) -> Iterator[Site]:
    with open_folder(0o711) as folder:
        yield Site(slurm, folder / "home")


def learnt_alone() -> str:
    """What the job prints without a scheduler."""
    done = subprocess.run([sys.executable, JOB], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def test_a_job_is_stopped_and_resumed_as_if_never(site: Site) -> None:
    """The GPUs on record are those that Slurm says, and one job in Slurm serves all starts."""
    before = set(site.slurm_numbers())
    with site.serves():
        job = site.submit("--gpus", "2", "--cpus", "4")
        site.wait(job, phase="running")
        (number,) = set(site.slurm_numbers()) - before
        held = {here["node"]: here["gpu_ids"] for here in site.status(job)["holds"]}
        assert held == site.placed(number)
        wait_for(lambda: site.status(job)["steps_done"] > 0, lambda: f"no step: {site.status(job)}")
        site.muster("hold", job)
        assert site.wait(job, state="held")["steps_done"] > 0
        site.muster("release", job)
        found = site.wait(job, state="completed")
        assert found["starts"] == 2
        assert site.muster("logs", job).splitlines()[-1] == learnt_alone()
        assert set(site.slurm_numbers()) - before == {number}


def test_a_gang_on_two_nodes_trains_and_resumes(site: Site) -> None:
    pytest.importorskip("torch")
    before = set(site.slurm_numbers())
    with site.serves():
        job = site.submit("--gpus", "16")
        found = site.wait(job, phase="running")
        assert [here["node"] for here in found["holds"]] == ["node1", "node2"]
        (number,) = set(site.slurm_numbers()) - before
        assert site.placed(number) == {"node1": list(range(8)), "node2": list(range(8))}
        site.muster("hold", job)
        site.wait(job, state="held")
        site.muster("release", job)
        site.wait(job, state="completed")
        for rank in ("0", "1"):
            assert "learnt" in site.muster("logs", job, "--rank", rank)


def test_a_job_that_slurm_refuses_says_so(site: Site) -> None:
    """By Slurm's own words: first sbatch refuses it, then it waits in Slurm, then it runs."""

    def partition(state: str) -> None:
        site.slurm.run("scontrol", "update", "partitionname=train", f"state={state}")

    def wait_said(job: str, reason: str) -> None:
        """Wait until it was tried twice; how often by the next question is the machine's speed."""
        words = re.compile(rf"{re.escape(reason)}; tried ([2-9]|\d\d+) times in ")
        wait_for(lambda: said(site.status(job)["refusal"], words), lambda: f"no {words}: {site.status(job)}")
        assert said(site.muster("queue", "--json"), words)
        assert said(site.muster("why", job), words)

    def said(text: str, words: re.Pattern[str]) -> bool:
        return words.search(" ".join(text.split())) is not None

    with site.serves():
        try:
            partition("drain")
            options = ("--gpus", "2", "--cpus", "4")
            job = site.muster("submit", *options, "--", "sleep", "600").split()[1]
            wait_said(job, "Required partition not available (inactive or drain)")
            partition("down")
            wait_said(job, "PartitionDown (the partition starts no jobs)")
        finally:
            partition("up")
        assert not site.wait(job, phase="running")["refusal"]
        assert "has run for" in site.muster("why", job)
        site.muster("cancel", job)
