"""Jobs that are not Muster's come and go on a quarter of the GPUs: they run unaltered, and it plans around them."""

from __future__ import annotations

import getpass
import random
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import groupby
from pathlib import Path

import pytest

from muster.service.home import make_home, store_url
from muster.service.request import JobRequest
from muster.service.store import Store
from muster.service.store.rows import STARTED, State, Submission
from tests.service.cli.daemons import open_folder
from tests.service.controller.running import controller_process, wait_until_ended
from tests.slurm.cluster import GPUS, SlurmCluster

pytestmark = pytest.mark.needs_slurm

Controller = Callable[[], AbstractContextManager[subprocess.Popen[str]]]
NODES, JOBS = 2, 12
_TRIES = 20
"""Often enough that a node is drained between a decision and its start, and not before the decision."""
QUARTER = NODES * GPUS // 4
_CHANGED_BY_SLURM = re.compile(
    "JobState|Reason|.*Time|LastSchedEval|Scheduler|NodeList|BatchHost|SchedNodeList|NumNodes|NumCPUs|(Alloc)?TRES"
)
"""Fields that its own progress changes; TimeLimit is stated."""
_WAITS_SECONDS = 8.0
"""Two polls take a second and their own time; without the rule for places that are taken it would be ten seconds."""


class OthersJobs:
    """Unmarked jobs, of 1 or 2 GPUs and 1 to 4 s, that together always request a quarter of the GPUs."""

    def __init__(self, slurm: SlurmCluster) -> None:
        self._slurm, self._rng = slurm, random.Random(1)
        self._gpus: dict[str, int] = {}
        self.before: dict[str, dict[str, str]] = {}
        self.waits: list[tuple[float, str]] = []
        """Moments at which one of Muster's starts waited for Resources, and which job it was."""

    def look(self) -> None:
        """Note what waits, and replace the jobs that have ended."""
        listed = self._slurm.run("squeue", "--noheader", "--format=%i|%T|%r|%p|%k").splitlines()
        rows = [line.split("|") for line in listed]
        now = time.monotonic()
        self.waits += [
            (now, comment)
            for _, state, reason, _, comment in rows
            if (state, reason) == ("PENDING", "Resources") and comment.startswith("muster:")
        ]
        living = {row[0] for row in rows}
        held = sum(gpus for number, gpus in self._gpus.items() if number in living)
        while held < QUARTER:
            gpus = self._rng.randint(1, min(2, QUARTER - held))
            options = (f"--gres=gpu:{gpus}", "--mem=1G", "--time=10", "--output=/dev/null")
            number = self._slurm.run(
                "sbatch", "--parsable", *options, f"--wrap=sleep {self._rng.randint(1, 4)}"
            )
            self.before[number.strip()] = self.shown(number.strip())
            self._gpus[number.strip()] = gpus
            held += gpus

    def shown(self, number: str) -> dict[str, str]:
        shown = self._slurm.run("scontrol", "--oneliner", "show", "job", number)
        return dict(re.findall(r"(\S+?)=(.*?)(?=\s+[A-Z]\S*=|\s*$)", shown))

    def check_unaltered(self) -> None:
        for number, before in self.before.items():
            after = self.shown(number)
            changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
            assert all(map(_CHANGED_BY_SLURM.fullmatch, changed)), (number, changed, before, after)
            assert (after["JobState"], after["ExitCode"], after["Restarts"]) == ("COMPLETED", "0:0", "0")

    def longest_wait(self) -> float:
        """Of a start of Muster's, in seconds, as seen from outside."""
        longest = 0.0
        for _, moments in groupby(sorted(self.waits, key=lambda one: one[1]), key=lambda one: one[1]):
            times = [moment for moment, _ in moments]
            began = before = times[0]
            for moment in times:
                began = moment if moment - before > 1.0 else began
                before, longest = moment, max(longest, moment - began)
        return longest


@contextmanager
def others_jobs(slurm: SlurmCluster) -> Iterator[OthersJobs]:
    """Jobs of others that come and go until the end of the body; then the last ones end."""
    jobs, over = OthersJobs(slurm), threading.Event()

    def work() -> None:
        while not over.wait(0.2):
            jobs.look()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield jobs
    finally:
        over.set()
        thread.join()
        slurm.wait_idle()


@contextmanager
def opened_home(slurm: SlurmCluster) -> Iterator[tuple[Store, Controller]]:
    """A new store, and what starts a controller that serves it with fifo."""
    with open_folder(0o711) as folder:
        home = folder / "home"
        make_home(home)
        store = Store.open(store_url(home))
        environment = {**slurm.environment, "PYTHONPATH": str(Path(__file__).parents[2])}
        try:
            yield store, partial(controller_process, home, "fifo", "train", environment=environment)
        finally:
            store.close()


def test_others_jobs_are_not_altered_and_planned_around(slurm: SlurmCluster) -> None:
    with opened_home(slurm) as (store, controller):
        with others_jobs(slurm) as others:
            with controller() as process:
                rng = random.Random(2)
                requests = [
                    JobRequest(
                        name="short",
                        command=("sleep", str(rng.randint(1, 3))),
                        directory="/",
                        gpus=rng.choice((1, 2, 4)),
                        memory_gb=1,
                    )
                    for _ in range(JOBS)
                ]
                jobs = store.submit([Submission(getpass.getuser(), request) for request in requests])
                wait_until_ended(store, jobs, process)
            ends = [store.job(job) for job in jobs]
        taken_back = [one.detail for job in jobs for one in store.events(job) if one.kind == "taken back"]
        others.check_unaltered()
        print(
            f"{len(others.before)} jobs of others; longest wait {others.longest_wait():.1f} s; {taken_back}"
        )
        assert all(row is not None and row.state is State.COMPLETED for row in ends), ends
        assert len(others.before) >= QUARTER
        assert others.longest_wait() <= _WAITS_SECONDS, taken_back


def test_a_node_drained_after_the_decision_is_given_up_soon(slurm: SlurmCluster) -> None:
    """Where the daemon has just looked at the nodes, nothing starts, and it is tried again."""
    with opened_home(slurm) as (store, controller):
        request = JobRequest(
            name="drained", command=("true",), directory="/", gpus=1, constraint="label=on-node1"
        )
        jobs: list[int] = []

        def given_up() -> list[str]:
            kinds = [one.kind for one in store.events(jobs[-1])]
            return kinds if "stopped" in kinds else []

        with controller() as process:
            for _ in range(_TRIES):
                slurm.run("scontrol", "update", "nodename=node1", "state=drain", "reason=test")
                jobs += store.submit([Submission(getpass.getuser(), request)])
                end = time.monotonic() + 5.0
                while time.monotonic() < end and not given_up():
                    time.sleep(0.1)
                slurm.run("scontrol", "update", "nodename=node1", "state=resume")
                wait_until_ended(store, jobs, process)
                if given_up():
                    break
        times = {one.kind: one.time for one in reversed(store.events(jobs[-1]))}
        rows = [store.job(job) for job in jobs]
    assert all(row is not None and row.state is State.COMPLETED for row in rows), rows
    assert times["stopped"] - times[STARTED] <= 3.0, times
