"""Jobs that their owners submit to Slurm itself: marked ones become Muster's, all others are left alone."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.service.cli.daemons import open_folder
from tests.slurm.cluster import SlurmCluster, wait_for
from tests.slurm.test_serving import JOB, Site, learnt_alone

pytestmark = pytest.mark.needs_slurm


class SubmittingSite(Site):
    """Where owners type sbatch."""

    def sbatch(self, *options: str, script: str = f"exec {sys.executable} {JOB}") -> str:
        """The number of a new held job."""
        output = f"--output={self.home.parent}/%j.out"
        command = ["sbatch", "--parsable", "--hold", output, *options, f"--wrap={script}"]
        return self.slurm.run("env", f"MUSTER_JOBS={self.home}/jobs", *command).strip()

    def output(self, number: str) -> str:
        return (self.home.parent / f"{number}.out").read_text()

    def taken(self, count: int = 1) -> list[str]:
        """Muster's numbers of the jobs that it has taken."""
        wait_for(lambda: len(self.jobs()) >= count, lambda: f"{count} jobs were not taken: {self.jobs()}")
        return self.jobs()

    def jobs(self) -> list[str]:
        """In the order in which they were taken; the queue has those that have ended behind the others."""
        queue = json.loads(self.muster("queue", "--all", "--json"))["jobs"]
        return [str(number) for number in sorted(job["job_id"] for job in queue)]

    def notices(self) -> list[str]:
        """What the queue says of jobs that are not taken."""
        notices: list[str] = json.loads(self.muster("queue", "--json"))["notices"]
        return notices

    @property
    def script(self) -> Path:
        """A file with a job that does nothing; Slurm wraps no heterogeneous one."""
        path = self.home.parent / "script.sh"
        path.write_text("#!/bin/sh\n")
        return path

    def shown(self, number: str) -> str:
        return self.slurm.run("scontrol", "--oneliner", "show", "job", number)

    def state(self, number: str) -> str:
        return self.slurm.run("squeue", "-h", "--states=all", f"--jobs={number}", "--format=%T").strip()


@pytest.fixture
def site(slurm: SlurmCluster) -> Iterator[SubmittingSite]:
    with open_folder(0o711) as folder:
        yield SubmittingSite(slurm, Path(folder) / "home")


def trains(site: SubmittingSite, job: str) -> None:
    """Wait until a job has made a step."""
    wait_for(lambda: site.status(job)["steps_done"] > 0, lambda: f"no step: {site.status(job)}")


def hold_and_release(site: SubmittingSite, job: str) -> dict[str, Any]:
    trains(site, job)
    site.muster("hold", job)
    held = site.wait(job, state="held")
    site.muster("release", job)
    return held


@pytest.mark.parametrize("runs", ["exec", "srun"])
def test_an_unchanged_script_is_stopped_and_resumed(site: SubmittingSite, runs: str) -> None:
    with site.serves():
        script = f"{runs} {sys.executable} {JOB}"
        number = site.sbatch("--gres=gpu:v100:2", "--mem=2G", "--comment=muster:steps=200", script=script)
        (job,) = site.taken()
        assert hold_and_release(site, job)["steps_done"] > 0
        found = site.wait(job, state="completed")
        assert (found["starts"], found["user"], found["steps"]) == (2, "root", 200)
        assert site.output(number).splitlines()[-1] == learnt_alone()
        assert site.state(number) == "COMPLETED"


def test_others_jobs_are_left_alone(site: SubmittingSite) -> None:
    held = site.sbatch("--gres=gpu:1")
    numbers = [
        held,
        site.sbatch("--gres=gpu:1", "--comment=not muster:"),
        site.sbatch("--gres=gpu:1", "--comment=muster:", "--array=1-3"),
        site.sbatch("--gres=gpu:1", "--comment=muster:", f"--dependency=afterok:{held}"),
        site.sbatch("--gres=gpu:1", "--comment=muster:colour=red"),
        site.sbatch("--gres=gpu:1", "--comment=muster:other:7"),
    ]
    before = [site.shown(number) for number in numbers]
    with site.serves():
        last = site.slurm.nodes[-1]
        number = site.sbatch(
            "--gres=gpu:1", "--mem=1G", "--comment=muster:", f"--constraint=on-{last}", script="true"
        )
        (job,) = site.taken()
        site.wait(job, state="completed")
        assert f" NodeList={last} " in site.shown(number)
        (notice,) = site.notices()
        assert notice.startswith(f"Job {numbers[4]} of Slurm, of root, is not taken: comment: found colour; ")
        assert notice.endswith(f"Hint: scontrol update jobid={numbers[4]} Comment=muster:...")
    assert [site.shown(number) for number in numbers] == before
    site.slurm.run("scancel", *numbers)


@pytest.mark.parametrize("options", [("--cpus-per-task=3", "--mem-per-cpu=2G"), ("--mem-per-gpu=3G",)])
def test_memory_for_each_cpu_or_gpu_is_counted(site: SubmittingSite, options: Sequence[str]) -> None:
    """Two ways to state 6 GiB."""
    with site.serves():
        site.sbatch("--gres=gpu:2", *options, "--comment=muster:", script="true")
        (job,) = site.taken()
        found = site.wait(job, state="completed")
        assert found["request"]["memory_gb"] == pytest.approx(6 * 2**30 / 1e9)


def test_a_heterogeneous_job_is_named_and_left_alone(site: SubmittingSite) -> None:
    part = ("--gres=gpu:1", "--mem=1G", "--comment=muster:")
    with site.serves():
        command = ["sbatch", "--parsable", "--hold", *part, ":", *part, str(site.script)]
        first = int(site.slurm.run(*command))
        wait_for(lambda: len(site.notices()) == 2, lambda: f"not named: {site.notices()}")
        for notice, number in zip(sorted(site.notices()), (first, first + 1), strict=True):
            assert notice.startswith(
                f"Job {number} of Slurm, of root, is not taken: it is a part of the heterogeneous job {first}; "
            )
        assert not site.jobs()
        site.slurm.run("scancel", str(first))


def test_owners_cancel_and_hold_in_slurm(site: SubmittingSite) -> None:
    with site.serves():
        first, second = (site.sbatch("--gres=gpu:1", "--mem=1G", "--comment=muster:") for _ in range(2))
        one, other = site.taken(2)
        trains(site, one)
        trains(site, other)
        site.slurm.run("scancel", first)
        site.slurm.run("scontrol", "requeuehold", second)
        site.wait(one, state="cancelled")
        site.wait(other, state="held")
        site.slurm.run("scontrol", "release", second)
        assert site.wait(other, state="completed")["starts"] == 2


def test_cpus_for_each_gpu_or_task_are_given(site: SubmittingSite) -> None:
    count = "srun --overlap hostname | wc -l"
    with site.serves():
        by_gpu = site.sbatch(
            "--cpus-per-gpu=7", "--gres=gpu:2", "--mem=1G", "--comment=muster:", script="true"
        )
        by_task = site.sbatch("--ntasks=9", "--gres=gpu:1", "--mem=1G", "--comment=muster:", script=count)
        for job in site.taken(2):
            site.wait(job, state="completed")
    assert " NumCPUs=14 " in site.shown(by_gpu)
    assert " NumCPUs=9 " in site.shown(by_task)
    assert site.output(by_task).split() == ["9"]


def test_a_gang_runs_on_other_nodes_than_it_states(site: SubmittingSite) -> None:
    """Its owner states two tasks for each of two nodes; all four fit on one."""
    options = ("--nodes=2", "--ntasks-per-node=2", "--gres=gpu:2", "--mem=1G", "--comment=muster:")
    with site.serves():
        number = site.sbatch(*options, script="srun hostname | wc -l")
        (job,) = site.taken()
        assert site.wait(job, state="completed")["starts"] == 1
    assert " NumNodes=1 " in site.shown(number)
    assert site.output(number).splitlines()[-1] == "4"


def test_a_job_is_taken_once_muster_can_keep_what_it_asks(site: SubmittingSite) -> None:
    options = ("--gres=gpu:1", "--mem=1G", "--comment=muster:")
    with site.serves():
        excluding = site.sbatch("--exclude=node1", *options, script="true")
        later = site.sbatch("--begin=now+1hour", *options, script="true")
        wait_for(lambda: len(site.notices()) == 1, lambda: f"other notices: {site.notices()}")
        assert "exclude: found node1; allowed: no nodes" in site.notices()[0]
        assert not site.jobs()
        site.slurm.run("scontrol", "update", f"jobid={excluding}", "ExcNodeList=")
        site.slurm.run("scontrol", "update", f"jobid={later}", "StartTime=now")
        for job in site.taken(2):
            site.wait(job, state="completed")


@pytest.mark.long
def test_the_time_limit_of_an_owner_ends_a_job(site: SubmittingSite) -> None:
    """As Slurm does; it is not started again."""
    with site.serves():
        number = site.sbatch("--time=1", "--gres=gpu:1", "--mem=1G", "--comment=muster:", script="sleep 600")
        (job,) = site.taken()
        found = site.wait(job, state="failed")
        assert (found["starts"], found["message"]) == (1, "ended by its time limit in Slurm")
        assert site.state(number) == "TIMEOUT"


def test_a_hold_by_the_owner_of_a_job_that_moves_holds(site: SubmittingSite) -> None:
    """Muster has asked it to stop, and it takes its time."""
    with site.serves():
        script = "trap '' TERM; while sleep 1; do :; done"
        number = site.sbatch("--gres=gpu:1", "--mem=1G", "--comment=muster:grace_seconds=60", script=script)
        (job,) = site.taken()
        (held,) = site.wait(job, phase="running")["holds"]
        site.muster("drain", held["node"])
        site.wait(job, phase="stopping")
        site.slurm.run("scontrol", "requeuehold", number)
        assert site.wait(job, state="held")["starts"] == 1
        site.muster("drain", held["node"], "--undo")
        site.slurm.run("scancel", number)
        site.wait(job, state="cancelled")


def test_a_job_that_its_owner_released_begins_under_muster(site: SubmittingSite) -> None:
    """Also where Slurm has begun it by itself, as without a daemon."""
    with site.serves():
        number = site.sbatch("--gres=gpu:1", "--mem=1G", "--comment=muster:", script="sleep 600")
        (job,) = site.taken()
        site.wait(job, phase="running")
        site.slurm.run("scontrol", "requeuehold", number)
        site.wait(job, state="held")
    site.slurm.run("scontrol", "release", number)
    site.slurm.run("scontrol", "update", f"jobid={number}", "StartTime=now")  # not two minutes later
    wait_for(lambda: site.state(number) == "RUNNING", lambda: site.shown(number))
    with site.serves():
        assert site.wait(job, phase="running")["starts"] == 2
        assert " Restarts=2 " in site.shown(number)
        site.muster("cancel", job)
        site.wait(job, state="cancelled")


def test_a_job_that_may_not_be_requeued_is_not_held(site: SubmittingSite) -> None:
    """It could not start again, and the hold would end it."""
    with site.serves():
        options = ("--no-requeue", "--gres=gpu:1", "--mem=1G", "--comment=muster:")
        site.sbatch(*options, script="sleep 600")
        (job,) = site.taken()
        site.wait(job, phase="running")
        done = site.person.types(site.home, "hold", job)
        assert (done.returncode, "it runs and may not start again" in done.stderr) == (2, True)
        assert site.status(job)["phase"] == "running"
        site.muster("cancel", job)
        site.wait(job, state="cancelled")


def test_a_job_that_may_not_be_requeued_runs_on_by_itself(site: SubmittingSite) -> None:
    """Where its owner has released it before Muster starts it, as without a daemon."""

    def nodes(state: str) -> None:
        site.slurm.run(
            "scontrol", "update", f"nodename={','.join(site.slurm.nodes)}", f"state={state}", "reason=test"
        )

    over = site.home.parent / "over"
    script = f"until test -e {over}; do sleep 0.1; done"
    nodes("drain")
    try:
        with site.serves():
            number = site.sbatch(
                "--gres=gpu:1", "--mem=1G", "--no-requeue", "--comment=muster:", script=script
            )
            (job,) = site.taken()
    finally:
        nodes("resume")
    site.slurm.run("scontrol", "release", number)
    wait_for(lambda: site.state(number) == "RUNNING", lambda: site.shown(number))
    with site.serves():
        site.wait(job, state="held")
        wait_for(lambda: bool(site.notices()), lambda: "it is not named")
        (notice,) = site.notices()
        assert notice.startswith(
            f"Job {number} of Slurm, of root, is not taken: requeue: found --no-requeue, "
        )
        assert site.state(number) == "RUNNING"
        over.touch()
        assert site.wait(job, state="completed")["starts"] == 0
        assert site.state(number) == "COMPLETED"
        assert not site.notices()


@pytest.mark.parametrize("by", ["muster", "owner"])
def test_a_run_without_a_daemon_is_not_made_again(site: SubmittingSite, by: str) -> None:
    """Its owner has released it meanwhile, and Slurm has run it to its end; its start may live in the record."""
    over, ran = site.home.parent / "over", site.home.parent / "ran"
    script = f"until test -e {over}; do sleep 0.1; done; echo >> {ran}"
    with site.serves():
        number = site.sbatch("--gres=gpu:1", "--mem=1G", "--comment=muster:", script=script)
        (job,) = site.taken()
        site.wait(job, phase="running")
        if by == "muster":
            site.muster("hold", job)
            site.wait(job, state="held")
    if by == "owner":
        site.slurm.run("scontrol", "requeuehold", number)
    wait_for(lambda: site.state(number) == "PENDING", lambda: site.shown(number))
    over.touch()
    ended = time.monotonic()  # slurmd refuses what begins in the second of an end
    wait_for(lambda: time.monotonic() > ended + 2.0, lambda: "time stands still")
    site.slurm.run("scontrol", "release", number)
    site.slurm.run("scontrol", "update", f"jobid={number}", "StartTime=now")  # not two minutes later
    wait_for(lambda: site.state(number) == "COMPLETED", lambda: site.shown(number))
    with site.serves():
        found = site.wait(job, state="completed")
    assert (found["starts"], found["message"]) == (1, "released in Slurm by its owner; it ended there")
    assert ran.read_text() == "\n"


@pytest.mark.parametrize("script", ["true", "false"])
def test_a_run_before_the_launch_of_a_start_is_not_made_again(site: SubmittingSite, script: str) -> None:
    """The start is on record, and the daemon ends before it can launch it. Its owner releases the job meanwhile."""
    ran = site.home.parent / "ran"
    with site.serves():
        in_the_way = site.home / "jobs" / "1"
        in_the_way.touch()  # in place of the job's folder, so that nothing is launched
        number = site.sbatch(
            "--gres=gpu:1", "--mem=1G", "--comment=muster:", script=f"echo >> {ran}; {script}"
        )
        (job,) = site.taken()
        site.wait(job, phase="starting")
    in_the_way.unlink()
    site.slurm.run("scontrol", "release", number)
    ends = {"true": "COMPLETED", "false": "FAILED"}
    wait_for(lambda: site.state(number) == ends[script], lambda: site.shown(number))
    with site.serves():
        found = site.wait(job, state=ends[script].lower())
    assert found["message"].startswith("released in Slurm by its owner; ")
    assert (found["run_seconds"], found["holds"], ran.read_text()) == (0.0, [], "\n")


def test_a_job_in_another_partition_comes_back_to_start(site: SubmittingSite) -> None:
    """An administrator puts it there while it is held. It is Muster's as before."""
    site.slurm.run("scontrol", "create", "PartitionName=other", "Nodes=ALL", "State=UP")
    with site.serves():
        number = site.sbatch("--gres=gpu:1", "--mem=1G", "--comment=muster:")
        (job,) = site.taken()
        trains(site, job)
        site.muster("hold", job)
        site.wait(job, state="held")
        wait_for(lambda: site.state(number) == "PENDING", lambda: site.shown(number))
    site.slurm.move(number, "other")
    with site.serves():
        site.muster("release", job)
        site.wait(job, state="completed")  # 24.11 may refuse the change of partition for a moment.
        assert " Partition=train " in site.shown(number)
    site.slurm.run("scontrol", "delete", "PartitionName=other")


def test_a_cancelled_job_leaves_slurm(site: SubmittingSite) -> None:
    with site.serves():
        number = site.sbatch("--gres=gpu:8", "--nodes=2", "--mem=1G", "--comment=muster:")
        (job,) = site.taken()
        site.wait(job, phase="running")
        site.muster("hold", job)
        site.wait(job, state="held")
        site.muster("cancel", job)
        wait_for(lambda: site.state(number) == "CANCELLED", lambda: site.shown(number))
