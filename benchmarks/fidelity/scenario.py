"""One run of the scenario: a daemon of its own, jobs submitted at their times, and what the record says of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np

from muster.service.home import read_endpoint, store_url
from muster.service.store import Store
from muster.service.store.rows import ENDED, AllocationInterval

MUSTER = Path(sys.executable).with_name("muster")
JOB = Path(__file__).with_name("job.py")
GIVE_UP_SECONDS = 3600.0


@dataclass(frozen=True)
class Ask:
    """One job of the scenario."""

    at: float
    """Seconds after the first one."""
    steps: int
    step_seconds: float
    script: bool = False
    """It knows nothing of Muster and saves nothing."""
    start_up: float = 0.0
    """Seconds that each start takes beside those of Python itself."""


@dataclass(frozen=True)
class Place:
    """Where the scenario runs."""

    cluster: str
    """What the simulator is given, as `--cluster` takes it."""
    flags: Sequence[str]
    """Of the daemon, that make it use this place."""
    gpus_a_job: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)
    """More of it, for daemon and jobs."""


def this_machine(gpus: int) -> Place:
    """GPUs that are declared here, with a CPU and 2 GB each."""
    flags = ["--gpus", str(gpus), "--cpus", str(gpus), "--memory", f"{2 * gpus}GB"]
    return Place(f"1x{gpus}gpu,{gpus}cpu,{2 * gpus}gb", flags)


@dataclass(frozen=True)
class Happened:
    """What became of a job; seconds of the record's clock."""

    submitted: float
    first_start: float
    finished: float
    starts: int
    step_seconds: float
    """The mean within its starts, measured while nothing but this job was on its GPU."""
    held_seconds: float
    """With its GPU, in all its starts."""


@dataclass(frozen=True)
class Real:
    """One run of the scenario."""

    jobs: Sequence[Happened]
    startup_seconds: float
    """From the launch of a start to its first step; the median."""
    stop_seconds: float
    """From the last step of a start until its GPUs are empty; the median."""

    @property
    def mean_jct(self) -> float:
        """Seconds."""
        return float(np.mean([job.finished - job.submitted for job in self.jobs]))

    @property
    def makespan(self) -> float:
        """Seconds from the first submission to the last end."""
        return max(job.finished for job in self.jobs) - min(job.submitted for job in self.jobs)


def scenario(
    jobs: int, seed: int, mean_gap: float, lengths: tuple[float, float], start_up: float
) -> list[Ask]:
    """Exponential gaps, lengths log-uniform from the shortest to the longest, each job with a pace of its own."""
    chance = np.random.default_rng(seed)
    at = np.concatenate([[0.0], chance.exponential(mean_gap, jobs - 1).cumsum()])
    shortest, longest = np.log(lengths)
    seconds = np.exp(chance.uniform(shortest, longest, jobs))
    pace = chance.uniform(0.15, 0.4, jobs)
    steps = np.rint(seconds / pace).astype(int)
    return [
        Ask(*one, start_up=start_up) for one in zip(at.tolist(), steps.tolist(), pace.tolist(), strict=True)
    ]


def run_for_real(
    asks: Sequence[Ask],
    home: Path,
    scheduler: str,
    place: Place,
    round_seconds: float,
    flags: Sequence[str] = (),
) -> Real:
    """Until all are done; `flags` are more of the daemon's."""
    environment = os.environ | place.environment | {"MUSTER_HOME": str(home)}
    command = [str(MUSTER), "serve", *place.flags]
    command += ["--scheduler", scheduler, "--round", str(round_seconds), *flags]
    home.mkdir(parents=True)
    with (home / "daemon.log").open("w") as log:
        daemon = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            _wait_for(lambda: read_endpoint(home) is not None)
            _submit(asks, home, place.gpus_a_job, environment)
            store = Store.open(store_url(home))
            _wait_for(lambda: sum(store.counts()[state] for state in ENDED) == len(asks))
            real = _read(store, home, len(asks))
            store.close()
            return real
        finally:
            daemon.send_signal(signal.SIGTERM)
            daemon.wait()


def _submit(asks: Sequence[Ask], home: Path, gpus: int, environment: Mapping[str, str]) -> None:
    began = time.monotonic()
    for number, ask in enumerate(asks):
        time.sleep(max(began + ask.at - time.monotonic(), 0.0))
        job = [
            sys.executable,
            str(JOB),
            str(home / f"diary-{number + 1}"),
            str(ask.steps),
            str(ask.step_seconds),
            str(ask.start_up),
            *(["script"] if ask.script else []),
        ]
        command = [str(MUSTER), "submit", "--json", "--name", f"job-{number + 1}", "--gpus", str(gpus)]
        command += [*([] if ask.script else ["--steps", str(ask.steps)]), "--", *job]
        submitted = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        assert json.loads(submitted.stdout)["job_id"] == number + 1


def _read(store: Store, home: Path, jobs: int) -> Real:
    happened, startups, stops = [], [], []
    for number in range(1, jobs + 1):
        row = store.job(number)
        assert row is not None
        assert row.first_start is not None
        assert row.finished is not None
        lines = (home / f"diary-{number}").read_text().splitlines()
        steps = np.array([line.split() for line in lines], float) - store.origin
        apart = []
        for since, until in _starts(store.allocation_intervals(number)):
            mine = steps[(steps[:, 0] >= since) & (steps[:, 1] <= until)]
            if len(mine):
                startups.append(float(mine[0, 0] - since))
                stops.append(float(until - mine[-1, 1]))
                apart.append(np.diff(mine[:, 0]))
        pace = float(np.concatenate(apart).mean())
        times = (row.submitted, row.first_start, row.finished)
        happened.append(Happened(*times, row.epoch, pace, row.attained_gpu_seconds))
    return Real(happened, median(startups), median(stops))


def _starts(intervals: Sequence[AllocationInterval]) -> list[tuple[float, float]]:
    """Begin and end of each start; a resize is not one."""
    ends: dict[int, tuple[float, float]] = {}
    for one in intervals:
        assert one.until is not None
        since, _ = ends.get(one.epoch, (one.since, one.until))
        ends[one.epoch] = (since, one.until)
    return list(ends.values())


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the scenario does not come to its end")
        time.sleep(0.5)
