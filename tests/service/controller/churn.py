"""How often jobs start where a change of CPUs is a restart, and how long they take.

    python -m tests.service.controller.churn [JOBS] [SEEDS] [FIRST_SEED] [SCHEDULER]

40 jobs on two fake nodes: with an engine that can resize, with one that cannot, where CPUs stay as they were granted at
each start, and with CPUs that are fixed at a job's first grant, so that each later start takes as many. The last figure
is a bound that no cluster has: there each start is as fast as the first one, whether or not those CPUs are free. A
start takes a minute before its first step, which is what schedulers expect of one. The jobs are scripts with a stop
signal: they save, and report nothing.
"""

from __future__ import annotations

import logging
import random
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import inf
from pathlib import Path
from statistics import fmean, stdev

import structlog

from muster.cluster.ledger import NodeAllocation
from muster.cluster.shipped import parse_cluster
from muster.schedulers.contract import Scheduler
from muster.service.engines import EngineCapabilities, Launch
from muster.service.engines.fake import FakeEngine, Pace, pace_of
from muster.service.live_scheduler import live_scheduler
from muster.service.request import JobRequest
from muster.service.store.rows import JobRow, Submission
from tests.service.controller.first_grants import FirstGrants
from tests.service.controller.test_fake_nodes import MODELS, World

CLUSTER = parse_cluster("2x8gpu,24cpu,500gb")
SCHEDULERS = ("fifo+tune", "srtf+tune-plus", "las+tune-plus")
START_UP_SECONDS = 60.0
LONGEST_SECONDS = 100_000.0
"""In which 40 jobs end many times over."""
NAMES = ("resnet18", "alexnet", "gnmt", "mobilenetv2", "transformerxl", "deepspeech")


class StiffFakeEngine(FakeEngine):
    """Cannot resize."""

    capabilities = EngineCapabilities(can_resize=False, runs_as_users=False)


class FixedFakeEngine(StiffFakeEngine):
    """Has jobs always run as with the CPUs and memory of their first grant, whatever they hold."""

    def launch(self, launch: Launch) -> None:
        granted, first = self._pace, self._first.setdefault(launch.job, launch.allocations)
        self._pace = lambda job, _: granted(job, first)
        super().launch(launch)
        self._pace = granted

    @cached_property
    def _first(self) -> dict[int, tuple[NodeAllocation[str], ...]]:
        return {}


class ChurnWorld(World):
    """Jobs that take a while to come up."""

    def __init__(self, folder: Path, scheduler: str | Scheduler, engine: type[FakeEngine]) -> None:
        self.engine_type = engine
        super().__init__(folder, scheduler)

    def begin(self) -> None:
        self.cluster = CLUSTER
        super().begin()

    def check(self) -> None:
        """Nothing: tests look at every turn; here it would be most of the time."""

    def an_engine(self) -> FakeEngine:
        return self.engine_type(self.folder / "fake", self.cluster, self.pace, self.clock)

    def pace(self, job: int, allocations: Sequence[NodeAllocation[str]]) -> Pace:
        row = self.store.job(job)
        assert row is not None
        return replace(pace_of(row, allocations, MODELS, self.cluster), start_up_seconds=START_UP_SECONDS)


def outcome_of(
    folder: Path, scheduler: str | Scheduler, engine: type[FakeEngine], jobs: int, seed: int
) -> list[JobRow]:
    """The rows of all jobs once they have ended."""
    world = ended_world(folder, scheduler, engine, jobs, seed)
    rows = [row for job in range(1, jobs + 1) if (row := world.store.job(job)) is not None]
    world.store.close()
    return rows


def ended_world(
    folder: Path, scheduler: str | Scheduler, engine: type[FakeEngine], jobs: int, seed: int
) -> ChurnWorld:
    """A daemon whose jobs have all ended."""
    chance = random.Random(seed)
    world = ChurnWorld(folder, scheduler, engine)
    for _ in range(jobs):
        request = JobRequest(
            name="job",
            command=("true",),
            directory="/",
            gpus=chance.choice((1, 1, 1, 2, 4)),
            model=chance.choice(NAMES),
            steps=chance.randint(500, 5_000),
            stop_signal="SIGTERM",
        )
        world.store.submit([Submission("ann", request)])
        for _ in range(chance.randint(1, 12)):
            world.turn(10.0)
    while world.controller.jobs.active:
        world.turn(10.0)
        assert world.seconds < LONGEST_SECONDS, world.controller.jobs.rows.values()
    return world


def first_grants(scheduler: str) -> FirstGrants:
    """The scheduler as the world has it, with CPUs that are fixed at a job's first grant."""
    return FirstGrants(live_scheduler(scheduler, {}, 20.0))


WORLDS: Mapping[str, tuple[type[FakeEngine], Callable[[str], str | Scheduler]]] = {
    "resizes": (FakeEngine, str),
    "does not": (StiffFakeEngine, str),
    "fixed": (StiffFakeEngine, first_grants),
    "as fast as at first": (FixedFakeEngine, str),
}


def starts_of(rows: Sequence[JobRow]) -> int:
    """Starts of all jobs."""
    return sum(row.epoch for row in rows)


def mean_jct_of(rows: Sequence[JobRow]) -> float:
    """Mean seconds from submission to end."""
    return sum((row.finished or 0.0) - row.submitted for row in rows) / len(rows)


def main(jobs: int, seeds: range, schedulers: Sequence[str]) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    for scheduler in schedulers:
        means: dict[str, list[float]] = {name: [] for name in WORLDS}
        for seed in seeds:
            said = [f"{scheduler:15} seed {seed}:"]
            for name, (engine, made) in WORLDS.items():
                with tempfile.TemporaryDirectory() as folder:
                    rows = outcome_of(Path(folder), made(scheduler), engine, jobs, seed)
                starts, mean = starts_of(rows), mean_jct_of(rows)
                means[name].append(mean)
                said.append(f"{name}: {starts} starts, mean JCT {mean:.0f} s;")
            print(*said, flush=True)
        for name in ("fixed", "as fast as at first"):
            ratios = [mine / other for mine, other in zip(means["does not"], means[name], strict=True)]
            around = 1.96 * stdev(ratios) / len(ratios) ** 0.5 if len(ratios) > 1 else inf
            print(f"{scheduler:15} does not resize, over {name}: {fmean(ratios):.3f} ± {around:.3f}")


if __name__ == "__main__":
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else 40,
        range(first, first + (int(sys.argv[2]) if len(sys.argv) > 2 else 1)),
        sys.argv[4:] or SCHEDULERS,
    )
