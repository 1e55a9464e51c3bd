"""Faults while jobs run on a real Slurm: no job is lost, none runs twice, no two starts publish, little is lost.

    python -m tests.slurm.faults [--seeds 20] [--first 1]

Each seed is a fault, a victim and a moment, while four jobs train. Prints a line for each: how many starts the jobs
had, the seconds of work that were lost at most, and the longest time that a job made no step.
"""

from __future__ import annotations

import argparse
import getpass
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from muster.service.home import job_folder, make_home, store_url
from muster.service.request import JobRequest
from muster.service.store import Store
from muster.service.store.rows import ENDED, State, Submission
from tests.service.controller.running import controller_process
from tests.slurm.account import account_of
from tests.slurm.cluster import GPUS, SlurmCluster, slurm_cluster, wait_for
from tests.slurm.journal_job import SAVE_SECONDS, STEP_SECONDS

FAULTS = (
    "node daemon killed",
    "node daemon stopped",
    "controller killed",
    "controller killed after a submission",
    "Muster killed",
    "node cut off as it publishes",
)
_JOB = Path(__file__).with_name("journal_job.py")
_JOBS, _STEPS = 4, 400
_CHECKPOINT_SECONDS = 2.0
_SLURMD_TIMEOUT = 5
_PATIENCE = 240.0
"""Seconds for all of it, on a busy machine."""
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


class FaultySite:
    """A Slurm, and a Muster that can be killed and started again."""

    def __init__(self, slurm: SlurmCluster, folder: Path) -> None:
        self.slurm, self.home, self.journals = slurm, folder / "home", folder / "journals"
        self.journals.mkdir()
        make_home(self.home)
        self.store = Store.open(store_url(self.home))
        self._stack = ExitStack()
        self.serve()

    def serve(self) -> None:
        """Start Muster, again if it was killed."""
        environment = {**self.slurm.environment, "PYTHONPATH": str(Path(__file__).parents[2])}
        self._muster = self._stack.enter_context(
            controller_process(self.home, "fifo", "train", environment=environment)
        )

    def close(self) -> None:
        self._stack.close()
        self.store.close()

    def run(self, seed: int) -> Outcome:
        """Run jobs with a fault in their midst; AssertionError if any of the promises is broken."""
        rng, fault = random.Random(seed), FAULTS[(seed - 1) % len(FAULTS)]
        with account_of(self.slurm) as account:
            jobs = self._submit(_JOBS)
            wait_for(
                lambda: all(self._steps(job) for job in jobs),
                lambda: f"no steps: {self._described(jobs)}",
                patience=_PATIENCE,
            )
            time.sleep(rng.uniform(0.0, 2 * _CHECKPOINT_SECONDS))
            began = time.time()
            jobs += self._break(fault, jobs, rng)
            wait_for(
                lambda: all(self._state(job) in ENDED for job in jobs),
                lambda: f"not done: {self._described(jobs)}",
                patience=_PATIENCE,
            )
        self.slurm.wait_idle()
        assert {self._state(job) for job in jobs} == {State.COMPLETED}, self._described(jobs)
        assert not account.contradictions
        self._check_numbers(jobs)
        results = [self._check(job, cut_off="node" in fault) for job in jobs]
        starts = sum(row.epoch for job in jobs[:_JOBS] if (row := self.store.job(job)))
        pauses = [self._longest_pause(job, began) for job in jobs]
        return Outcome(seed, fault, starts, max(results), max(pauses))

    def _submit(self, count: int) -> list[int]:
        request = JobRequest(
            name="journal",
            command=(sys.executable, str(_JOB), str(_STEPS), str(self.journals)),
            directory=str(_JOB.parent),
            environment={"PATH": os.environ["PATH"], "PYTHONPATH": str(_JOB.parents[2])},
            gpus=GPUS // 2,
            cpus=4,
            memory_gb=20,
            steps=_STEPS,
            checkpoint_seconds=_CHECKPOINT_SECONDS,
        )
        return self.store.submit([Submission(getpass.getuser(), request)] * count)

    def _break(self, fault: str, jobs: list[int], rng: random.Random) -> list[int]:
        """Bring a fault about, and end it; the jobs that it has added."""
        away = rng.uniform(0.5, 3.5) * _SLURMD_TIMEOUT
        job = rng.choice(jobs)
        node = self._node(job)
        match fault:
            case "node daemon killed":
                self.slurm.kill(node)
                time.sleep(away)
                self.slurm.start(node)
            case "node daemon stopped":
                self.slurm.kill(node, signal.SIGSTOP)
                time.sleep(away)
                self.slurm.kill(node, signal.SIGCONT)
            case "controller killed":
                self._controller_dies(rng.uniform(0.0, 4.0))
            case "controller killed after a submission":
                (new,) = self._submit_and_wait()
                self._controller_dies(rng.uniform(0.0, 2.0))
                return [new]
            case "Muster killed":
                self._muster.kill()
                self._muster.wait()
                time.sleep(rng.uniform(0.0, 4.0))
                self.serve()
            case _:
                self._cut_off(job, node)
        return []

    def _submit_and_wait(self) -> list[int]:
        """Submit a job and wait until Slurm has taken it, once one of the others has ended."""
        new = self._submit(1)
        mark = re.compile(rf"muster:[^:]+:{new[0]}$", re.MULTILINE)
        wait_for(
            lambda: bool(mark.search(self.slurm.run("squeue", "-h", "-o", "%k", check=False))),
            lambda: f"not in Slurm: {self._described(new)}",
            patience=_PATIENCE,
        )
        return new

    def _controller_dies(self, away: float) -> None:
        self.slurm.kill("slurmctld")
        time.sleep(away)
        self.slurm.start("slurmctld")
        self.slurm.wait_ready()

    def _cut_off(self, job: int, node: str) -> None:
        """Stop a job as it saves, and its node's daemon; let both go on once the next start has made a step."""
        row = self.store.job(job)
        assert row is not None
        saving = job_folder(self.home, job) / "run" / f"checkpoints-{row.epoch}"
        wait_for(lambda: bool(list(saving.glob("*.part"))), lambda: "it does not save", 0.01)
        pids = [int(path.name.split(".")[2]) for path in self.journals.glob(f"{job}.{row.epoch}.*")]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        self.slurm.kill(node)
        wait_for(
            lambda: any(epoch > row.epoch for epoch in self._steps(job)),
            lambda: f"{self._described([job])}",
            patience=_PATIENCE,
        )
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        self.slurm.start(node)

    def _node(self, job: int) -> str:
        (held,) = (one for one in self.store.allocation_intervals(job) if one.until is None)
        return held.allocation.node

    def _state(self, job: int) -> State | None:
        row = self.store.job(job)
        return None if row is None else row.state

    def _steps(self, job: int) -> dict[int, list[tuple[int, float]]]:
        """Steps and their times, by start."""
        found: dict[int, list[tuple[int, float]]] = {}
        for path in self.journals.glob(f"{job}.*"):
            lines = [line.split() for line in path.read_text().splitlines()]
            if lines:
                found[int(path.name.split(".")[1])] = [(int(step), float(at)) for step, at in lines]
        return dict(sorted(found.items()))

    def _check_numbers(self, jobs: list[int]) -> None:
        """Each job is one job in Slurm."""
        shown = self.slurm.run("squeue", "-h", "--states=all", "-o", "%k").splitlines()
        numbers = [int(comment.rpartition(":")[2]) for comment in shown if comment.startswith("muster:")]
        assert all(numbers.count(job) <= 1 for job in jobs), numbers

    def _check(self, job: int, *, cut_off: bool) -> float:
        """Seconds of work that were lost at most; AssertionError if two starts have published, or more was lost."""
        output = (job_folder(self.home, job) / "output" / "0.log").read_text()
        made = [tuple(map(int, part.split(":"))) for part in output.splitlines()[-1].split()[3:]]
        assert sum(count for _, count in made) == _STEPS, made
        assert [epoch for epoch, _ in made] == sorted(epoch for epoch, _ in made), made
        starts, worst = list(self._steps(job).values()), 0.0
        for before, after in pairwise(starts):
            (resumed, began) = after[0]
            counted = [step for step, at in before if at < began]
            worst = max(worst, (max(counted) + 1 - resumed) * STEP_SECONDS)
            assert cut_off or before[-1][1] <= began, f"two starts of job {job} at a time"
        bound = _CHECKPOINT_SECONDS + SAVE_SECONDS + _SLACK_SECONDS
        assert worst <= bound, f"job {job} lost {worst:.1f} s: {output}"
        return worst

    def _longest_pause(self, job: int, since: float) -> float:
        """The longest time without a step from the fault on."""
        times = sorted(at for steps in self._steps(job).values() for _, at in steps)
        late = [at for at in times if at >= since]
        early = [at for at in times if at < since][-1:]
        moments = [*early, *late]
        return max((b - a for a, b in pairwise(moments)), default=0.0)

    def _described(self, jobs: list[int]) -> str:
        events = [(job, event.kind, event.detail) for job in jobs for event in self.store.events(job)[-6:]]
        return f"{[self.store.job(job) for job in jobs]} {events}"


@contextmanager
def faulty_site() -> Iterator[FaultySite]:
    """Four nodes that are down after five seconds without a word."""
    with tempfile.TemporaryDirectory(prefix="muster-faults-") as folder:
        Path(folder).chmod(0o711)
        settings = {"SlurmdTimeout": _SLURMD_TIMEOUT, "KillWait": 2, "UnkillableStepTimeout": 300}
        with slurm_cluster(Path(folder) / "cluster", 4, **settings) as cluster:
            os.environ["PATH"] = cluster.environment["PATH"]
            site = FaultySite(cluster, Path(folder))
            try:
                yield site
            finally:
                site.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1)
    chosen = parser.parse_args()
    with faulty_site() as site:
        print(HEADER, flush=True)
        for seed in range(chosen.first, chosen.first + chosen.seeds):
            print(site.run(seed).line(), flush=True)


if __name__ == "__main__":
    main()
