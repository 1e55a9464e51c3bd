"""Faults while jobs run on a real Slurm: no job is lost, none runs twice, no two starts publish, little is lost.

    python -m tests.slurm.faults [--seeds 20] [--first 1]

Prints a line for each seed: how many starts the jobs had, the seconds of work that were lost at most, and the longest
time that a job made no step.
"""

from __future__ import annotations

import os
import random
import re
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.service.engine_faults import NODE_TIMEOUT_SECONDS, PATIENCE, FaultyJobs, print_outcomes
from tests.slurm.account import account_of
from tests.slurm.cluster import SlurmCluster, slurm_cluster, wait_for

FAULTS = (
    "node daemon killed",
    "node daemon stopped",
    "controller killed",
    "controller killed after a submission",
    "Muster killed",
    "node cut off as it publishes",
)


class FaultySite(FaultyJobs):
    """A Slurm, and a Muster that can be killed and started again."""

    faults = FAULTS
    leave_processes = frozenset(fault for fault in FAULTS if "node" in fault)
    job_steps = 400
    where = "train"

    def __init__(self, slurm: SlurmCluster, folder: Path) -> None:
        self.slurm = slurm
        super().__init__(folder, slurm.environment)

    @contextmanager
    def watched(self) -> Iterator[None]:
        with account_of(self.slurm) as account:
            yield
        assert not account.contradictions, account.contradictions[:4]

    def settle(self, jobs: Sequence[int]) -> None:
        """Each job is one job in Slurm."""
        # A controller that has forgotten a start gives its number again. Slurm drains a node that runs both, until an
        # operator resumes it.
        for line in self.slurm.run("sinfo", "--noheader", "--Node", "--format=%N %E").splitlines():
            node, _, reason = line.partition(" ")
            if reason.strip() == "Duplicate jobid":
                self.slurm.run("scontrol", "update", f"NodeName={node}", "State=RESUME")
        self.slurm.wait_idle()
        shown = self.slurm.run("squeue", "-h", "--states=all", "-o", "%k").splitlines()
        numbers = [int(comment.rpartition(":")[2]) for comment in shown if comment.startswith("muster:")]
        assert all(numbers.count(job) <= 1 for job in jobs), numbers

    def break_it(self, fault: str, job: int, away: float, rng: random.Random) -> list[int]:
        node = self.node(job)
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
                self.kill_muster(rng.uniform(0.0, 4.0))
            case _:
                self._cut_off(job, node)
        return []

    def _submit_and_wait(self) -> list[int]:
        """Submit a job and wait until Slurm has taken it, once one of the others has ended."""
        new = self.submit(1)
        mark = re.compile(rf"muster:[^:]+:{new[0]}$", re.MULTILINE)
        wait_for(
            lambda: bool(mark.search(self.slurm.run("squeue", "-h", "-o", "%k", check=False))),
            lambda: f"not in Slurm: {self.described(new)}",
            patience=PATIENCE,
        )
        return new

    def _controller_dies(self, away: float) -> None:
        self.slurm.kill("slurmctld")
        time.sleep(away)
        self.slurm.start("slurmctld")
        self.slurm.wait_ready()

    def _cut_off(self, job: int, node: str) -> None:
        def stop(pids: Sequence[int]) -> None:
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            self.slurm.kill(node)

        def go_on(pids: Sequence[int]) -> None:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
            self.slurm.start(node)

        self.cut_off(job, stop, go_on)


@contextmanager
def faulty_site() -> Iterator[FaultySite]:
    """Four nodes that are down after five seconds without a word."""
    with tempfile.TemporaryDirectory(prefix="muster-faults-") as folder:
        Path(folder).chmod(0o711)
        settings: dict[str, Any] = {
            "SlurmdTimeout": NODE_TIMEOUT_SECONDS,
            "KillWait": 2,
            "UnkillableStepTimeout": 300,
        }
        with slurm_cluster(Path(folder) / "cluster", 4, **settings) as cluster:
            os.environ["PATH"] = cluster.environment["PATH"]
            site = FaultySite(cluster, Path(folder))
            try:
                yield site
            finally:
                site.close()


if __name__ == "__main__":
    print_outcomes(__doc__, faulty_site)
