"""Faults while jobs run on a real Ray cluster: no job is lost, none runs twice, no two starts publish, little is lost.

    python -m tests.ray.faults [--seeds 20] [--first 1]

Prints a line for each seed: how many starts the jobs had, the seconds of work that were lost at most, and the longest
time that a job made no step. What ends of Ray is started again, as a service that always restarts would do it.
"""

from __future__ import annotations

import random
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.ray.cluster import ADDRESS, RayCluster, ray_cluster
from tests.service.engine_faults import FaultyJobs, print_outcomes

FAULTS = (
    "raylet killed",
    "raylet stopped",
    "agent killed",
    "head killed",
    "head killed after a submission",
    "Muster killed",
    "node cut off as it publishes",
)


class FaultyRay(FaultyJobs):
    """A Ray cluster, and a Muster that can be killed and started again."""

    faults = FAULTS
    leave_processes = frozenset({"node cut off as it publishes"})
    job_steps = 1200  # longer than a lease
    where = ADDRESS

    def __init__(self, ray: RayCluster, folder: Path) -> None:
        self.ray = ray
        super().__init__(folder, ray.environment)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Ray has no account of its own: the journals of the jobs show whether one runs twice."""
        yield

    def settle(self, jobs: Sequence[int]) -> None:
        self.wait(lambda: self.ray.restart_ended() == [], jobs, "nodes do not come back")

    def victims(self, jobs: Sequence[int]) -> Sequence[int]:
        """Not on the head's node, which takes the head with it."""
        return [job for job in jobs if self.node(job) != self.ray.head]

    def break_it(self, fault: str, job: int, away: float, rng: random.Random) -> list[int]:
        node = self.node(job)
        added: list[int] = []
        match fault:
            case "raylet killed":
                self.ray.signal_raylet(node, signal.SIGKILL)
                time.sleep(away)
            case "raylet stopped":
                self.ray.signal_raylet(node, signal.SIGSTOP)
                time.sleep(away)
                self.ray.signal_raylet(node, signal.SIGCONT)
                time.sleep(_NOTICED_SECONDS)
            case "agent killed":
                self.ray.end_agent(node)
            case "head killed":
                self._head_dies(rng.uniform(0.0, 4.0))
            case "head killed after a submission":
                added = self.submit(1)
                self.wait(lambda: self.epoch(added[0]) > 0, added, "it is not started")
                self._head_dies(rng.uniform(0.0, 2.0))
            case "Muster killed":
                self.kill_muster(rng.uniform(0.0, 4.0))
            case _:
                self.cut_off(
                    job,
                    lambda _: self.ray.stop_node(node),
                    lambda _: self.ray.go_on(node),
                )
                time.sleep(_NOTICED_SECONDS)
        self.ray.restart_ended()
        return added

    def _head_dies(self, away: float) -> None:
        """Without Redis its successor knows no node, so all of them end; here they are in the way of its port."""
        self.ray.kill(self.ray.head)
        time.sleep(away)
        self.wait(lambda: not any(map(self.ray.lives, self.ray.nodes)), [], "nodes outlive their head")


_NOTICED_SECONDS = 6.0
"""After which Ray's processes have ended on a node that learns that it was given up."""


@contextmanager
def faulty_ray() -> Iterator[FaultyRay]:
    """A head and two more nodes. Ray's sockets need a short path."""
    with tempfile.TemporaryDirectory(prefix="mf-", dir="/tmp") as folder:
        Path(folder).chmod(0o711)
        with ray_cluster(Path(folder) / "ray") as cluster:
            site = FaultyRay(cluster, Path(folder))
            try:
                yield site
            finally:
                site.close()


if __name__ == "__main__":
    print_outcomes(__doc__, faulty_ray)
