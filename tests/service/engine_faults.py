"""Faults while jobs run on real daemons of an engine, each drawn from a seed, and the judge of what became of the jobs.

No job is lost, none runs twice, no two starts publish, and little work is lost. A seed is a fault, a victim and a
moment, while four jobs train. `tests.slurm.faults` and `tests.ray.faults` say how each fault comes about there.
"""

from __future__ import annotations

import argparse
import getpass
import os
import random
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from muster.service.home import job_folder, make_home, store_url
from muster.service.request import JobRequest
from muster.service.store import Store
from muster.service.store.rows import ENDED, State, Submission
from tests.service.controller.running import controller_process
from tests.slurm.cluster import GPUS, wait_for
from tests.slurm.journal_job import SAVE_SECONDS, STEP_SECONDS

NODE_TIMEOUT_SECONDS = 5
"""About as long as it takes until a silent node is given up; victims are away for half of it to 3.5 times as long."""
PATIENCE = 300.0
"""Seconds for all of it, on a busy machine."""
_JOB = Path(__file__).parents[1] / "slurm" / "journal_job.py"
_JOBS = 4
_CHECKPOINT_SECONDS = 2.0
_SLACK_SECONDS = 1.0
"""A step and a save that were under way, on a busy machine."""


@dataclass(frozen=True)
class Outcome:
    """What a fault has cost."""

    seed: int
    fault: str
    starts: int
    lost_seconds: float
    pause_seconds: float

    def line(self) -> str:
        """A row of the table."""
        return f"| {self.seed} | {self.fault} | {self.starts} | {self.lost_seconds:.1f} | {self.pause_seconds:.1f} |"


HEADER = "| seed | fault | starts of 4 jobs | work lost, s | longest pause, s |\n|---|---|---|---|---|"


class FaultyJobs(ABC):
    """Jobs on an engine whose daemons fail, and a Muster that can be killed and started again."""

    faults: Sequence[str]
    """By their names, in the order of the seeds."""
    leave_processes: Collection[str]
    """Those after which processes of a start may live on unseen, beside those of the next one."""
    job_steps: int
    """Of each job; a step takes some 0.06 s with its share of saving."""
    where: str
    """The engine, as `run_controller` takes it."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.home, self.journals, self._environment = folder / "home", folder / "journals", environment
        self.journals.mkdir()
        make_home(self.home)
        self.store = Store.open(store_url(self.home))
        self._stack = ExitStack()
        self.serve()

    @abstractmethod
    def break_it(self, fault: str, job: int, away: float, rng: random.Random) -> list[int]:
        """Bring a fault of the engine about that hits a job, for so many seconds; the jobs that it has added."""

    def victims(self, jobs: Sequence[int]) -> Sequence[int]:
        """The jobs of which a fault may hit one."""
        return jobs

    @abstractmethod
    def watched(self) -> AbstractContextManager[None]:
        """Watch the engine's own account while the body runs; AssertionError at its end if that has a contradiction."""

    @abstractmethod
    def settle(self, jobs: Sequence[int]) -> None:
        """Wait until the engine's daemons are well, and check what they say of the jobs that have ended."""

    def serve(self) -> None:
        """Start Muster, again if it was killed."""
        environment = {**self._environment, "PYTHONPATH": str(_JOB.parents[2])}
        self._muster = self._stack.enter_context(
            controller_process(self.home, "fifo", self.where, environment=environment)
        )

    def close(self) -> None:
        self._stack.close()
        self.store.close()

    def run(self, seed: int) -> Outcome:
        """Run jobs with a fault in their midst; AssertionError if any of the promises is broken."""
        rng, fault = random.Random(seed), self.faults[(seed - 1) % len(self.faults)]
        with self.watched():
            jobs = self.submit(_JOBS)
            self.wait(lambda: all(self.steps(job) for job in jobs), jobs, "no steps")
            time.sleep(rng.uniform(0.0, 2 * _CHECKPOINT_SECONDS))
            began = time.time()
            away = rng.uniform(0.5, 3.5) * NODE_TIMEOUT_SECONDS
            jobs += self.break_it(fault, rng.choice(self.victims(jobs)), away, rng)
            self.wait(lambda: all(self._state(job) in ENDED for job in jobs), jobs, "not done")
        self.settle(jobs)
        assert {self._state(job) for job in jobs} == {State.COMPLETED}, self.described(jobs)
        lives_on = fault in self.leave_processes
        results = [self._check(job, lives_on=lives_on) for job in jobs]
        starts = sum(self.epoch(job) for job in jobs[:_JOBS])
        pauses = [self._longest_pause(job, began) for job in jobs]
        return Outcome(seed, fault, starts, max(results), max(pauses))

    def submit(self, count: int) -> list[int]:
        """Submit jobs that train."""
        request = JobRequest(
            name="journal",
            command=(sys.executable, str(_JOB), str(self.job_steps), str(self.journals)),
            directory=str(_JOB.parent),
            environment={"PATH": os.environ["PATH"], "PYTHONPATH": str(_JOB.parents[2])},
            gpus=GPUS // 2,
            cpus=1,
            memory_gb=20,
            steps=self.job_steps,
            checkpoint_seconds=_CHECKPOINT_SECONDS,
        )
        return self.store.submit([Submission(getpass.getuser(), request)] * count)

    def kill_muster(self, away: float) -> None:
        """Kill Muster, and start it again after so many seconds."""
        self._muster.kill()
        self._muster.wait()
        time.sleep(away)
        self.serve()

    def cut_off(
        self, job: int, stop: Callable[[Sequence[int]], None], go_on: Callable[[Sequence[int]], None]
    ) -> None:
        """Stop a job as it saves, with its node; let both go on once the next start has made a step.

        `stop` and `go_on` get the job's processes.
        """
        epoch = self.epoch(job)
        saving = job_folder(self.home, job) / "run" / f"checkpoints-{epoch}"
        self.wait(lambda: bool(list(saving.glob("*.part"))), [job], "it does not save", 0.01)
        pids = [int(path.name.split(".")[2]) for path in self.journals.glob(f"{job}.{epoch}.*")]
        stop(pids)
        self.wait(lambda: any(one > epoch for one in self.steps(job)), [job], "no other start")
        go_on(pids)

    def wait(self, holds: Callable[[], bool], jobs: Sequence[int], what: str, pause: float = 0.1) -> None:
        """Wait until `holds()`; AssertionError with what is known of the jobs if it takes too long."""
        wait_for(holds, lambda: f"{what}: {self.described(jobs)}", pause, PATIENCE)

    def node(self, job: int) -> str:
        """The node that a job holds."""
        (held,) = (one for one in self.store.allocation_intervals(job) if one.until is None)
        return held.allocation.node

    def epoch(self, job: int) -> int:
        """The last start of a job; 0: none yet."""
        row = self.store.job(job)
        assert row is not None
        return row.epoch

    def steps(self, job: int) -> dict[int, list[tuple[int, float]]]:
        """Steps and their times, by start."""
        found: dict[int, list[tuple[int, float]]] = {}
        for path in self.journals.glob(f"{job}.*"):
            lines = [line.split() for line in path.read_text().splitlines()]
            if lines:
                found[int(path.name.split(".")[1])] = [(int(step), float(at)) for step, at in lines]
        return dict(sorted(found.items()))

    def described(self, jobs: Sequence[int]) -> str:
        """What the store knows of jobs."""
        events = [(job, event.kind, event.detail) for job in jobs for event in self.store.events(job)[-6:]]
        return f"{[self.store.job(job) for job in jobs]} {events}"

    def _state(self, job: int) -> State | None:
        row = self.store.job(job)
        return None if row is None else row.state

    def _check(self, job: int, *, lives_on: bool) -> float:
        """Seconds of work that were lost at most; AssertionError if two starts have published, or more was lost."""
        output = (job_folder(self.home, job) / "output" / "0.log").read_text()
        made = [tuple(map(int, part.split(":"))) for part in output.splitlines()[-1].split()[3:]]
        assert sum(count for _, count in made) == self.job_steps, made
        assert [epoch for epoch, _ in made] == sorted(epoch for epoch, _ in made), made
        starts, worst = list(self.steps(job).values()), 0.0
        for before, after in pairwise(starts):
            (resumed, began) = after[0]
            counted = [step for step, at in before if at < began]
            worst = max(worst, (max(counted) + 1 - resumed) * STEP_SECONDS)
            assert lives_on or before[-1][1] <= began, f"two starts of job {job} at a time"
        bound = _CHECKPOINT_SECONDS + SAVE_SECONDS + _SLACK_SECONDS
        assert worst <= bound, f"job {job} lost {worst:.1f} s: {output}"
        return worst

    def _longest_pause(self, job: int, since: float) -> float:
        """The longest time without a step from the fault on."""
        times = sorted(at for steps in self.steps(job).values() for _, at in steps)
        late = [at for at in times if at >= since]
        early = [at for at in times if at < since][-1:]
        return max((b - a for a, b in pairwise([*early, *late])), default=0.0)


def print_outcomes(description: str, opened: Callable[[], AbstractContextManager[FaultyJobs]]) -> None:
    """Run the seeds that the command line names, and print a row for each."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1)
    chosen = parser.parse_args()
    with opened() as site:
        print(HEADER, flush=True)
        for seed in range(chosen.first, chosen.first + chosen.seeds):
            print(site.run(seed).line(), flush=True)
