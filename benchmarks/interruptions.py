"""What interruptions cost under the daemon with all defaults: `python -m benchmarks.interruptions`.

The daemon's own controller, store and scheduler over a fake engine and a simulated clock: twelve jobs on two GPUs, a
mix of equal and heavy-tailed lengths, half of them unchanged scripts that save nothing, half with `muster.training`.
`--real` runs the cells with real processes and a real daemon, all times divided by one factor.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from math import inf
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.fidelity.scenario import Ask, run_for_real, this_machine
from muster.cluster.ledger import NodeAllocation
from muster.cluster.shipped import parse_cluster
from muster.schedulers.presets import DEFAULT_SCHEDULER
from muster.service.controller import Controller
from muster.service.daemon_status import DaemonStatus
from muster.service.engines.fake import FakeEngine, Pace
from muster.service.home import make_home, store_url
from muster.service.live_scheduler import live_scheduler
from muster.service.request import JobRequest
from muster.service.store import Store
from muster.service.store.rows import State, Submission

GPUS = 2
START_UPS, ROUNDS = (5.0, 30.0, 120.0), (10.0, 60.0)
EQUAL_SECONDS = (600.0,) * 6
HEAVY_SECONDS = (60.0, 120.0, 240.0, 480.0, 1800.0, 5400.0)
MEAN_GAP_SECONDS = 60.0
_LOOK_SECONDS = 0.2
_LOOKS_AFTER_EVENT = 12
"""Seconds are passed over only where nothing has happened for so many looks."""
_LONGEST_STEP = 60.0


@dataclass(frozen=True)
class Outcome:
    """What became of the jobs of one cell."""

    restart_share: float
    """GPU time beyond each job's work and one start-up, of all GPU time."""
    most_starts_of_scripts: int
    starts: int
    mean_jct: float


def jobs_of(seed: int) -> list[Ask]:
    """Twelve jobs in random order; a job of each kind of length is a script, the next one is not."""
    chance = np.random.default_rng(seed)
    at = np.concatenate([[0.0], chance.exponential(MEAN_GAP_SECONDS, 11).cumsum()])
    kinds = [
        (seconds, number % 2 == 0)
        for group in (EQUAL_SECONDS, HEAVY_SECONDS)
        for number, seconds in enumerate(group)
    ]
    order = chance.permutation(len(kinds))
    return [
        Ask(arrival, round(kinds[kind][0]), 1.0, script=kinds[kind][1])
        for arrival, kind in zip(at.tolist(), order.tolist(), strict=True)
    ]


class Simulated:
    """A daemon over a fake engine, at a clock that passes over the time in which nothing happens."""

    def __init__(
        self, home: Path, asks: Sequence[Ask], start_up: float, round_seconds: float, scheduler: str
    ) -> None:
        make_home(home)
        self.asks, self.start_up, self.now = asks, start_up, 0.0
        self.store = Store.open(store_url(home))
        self.store.now = lambda: self.now  # type: ignore[method-assign]
        cluster = parse_cluster(f"1x{GPUS}gpu,{GPUS}cpu,{2 * GPUS}gb")
        self.engine = FakeEngine(home / "engine", cluster, self._pace, lambda: self.store.origin + self.now)
        status = DaemonStatus(
            policy=live_scheduler(scheduler, {}, round_seconds),
            engine="fake",
            engine_capabilities=self.engine.capabilities,
            enforces=self.engine.enforces,
            cluster=cluster,
            models=dict,
            round_seconds=round_seconds,
        )
        self.controller = Controller(self.store, self.engine, status, home)
        self.controller.recover()

    def _pace(self, job: int, _: Sequence[NodeAllocation[str]]) -> Pace:
        ask = self.asks[job - 1]
        return Pace(float(ask.steps), 1.0 / ask.step_seconds, self.start_up, saves=not ask.script)

    def run(self) -> None:
        """Until all jobs have ended."""
        submitted = looks = 0
        while submitted < len(self.asks) or self.controller.jobs.rows:
            before = self._fingerprint()
            while submitted < len(self.asks) and self.asks[submitted].at <= self.now:
                request = JobRequest(name=f"job-{submitted + 1}", command=("true",), directory="/")
                self.store.submit([Submission("ann", request)])
                submitted += 1
            self.controller.turn()
            looks = 0 if self._fingerprint() != before else looks + 1
            self.now += _LOOK_SECONDS if looks < _LOOKS_AFTER_EVENT else self._quiet_seconds(submitted)

    def _fingerprint(self) -> tuple[object, ...]:
        """What an event changes."""
        living = self.controller.jobs.rows.values()
        return tuple((row.id, row.state, row.epoch, row.phase, row.first_step) for row in living)

    def _quiet_seconds(self, submitted: int) -> float:
        """To the next arrival, event of the engine, or decision."""
        arrival = self.asks[submitted].at if submitted < len(self.asks) else inf
        due = (self.engine._due[0][0] if self.engine._due else inf) - self.store.origin
        next_event = min(arrival, due, self.controller._planner.next_wake)
        return min(max(next_event - self.now, _LOOK_SECONDS), _LONGEST_STEP)

    def outcome(self) -> Outcome:
        """Of all jobs, once they have ended."""
        rows = self.store.jobs(limit=1000)
        assert all(row.state is State.COMPLETED for row in rows)
        held = sum(row.attained_gpu_seconds for row in rows)
        needed = sum(ask.steps * ask.step_seconds + self.start_up for ask in self.asks)
        return Outcome(
            restart_share=max(held - needed, 0.0) / held,
            most_starts_of_scripts=max(
                row.epoch for row, ask in zip(rows, self.asks, strict=True) if ask.script
            ),
            starts=sum(row.epoch for row in rows),
            mean_jct=float(
                np.mean([row.finished - row.submitted for row in rows if row.finished is not None])
            ),
        )


def simulated(seed: int, start_up: float, round_seconds: float, scheduler: str) -> Outcome:
    """One cell of the grid."""
    with _home() as home:
        daemon = Simulated(home, jobs_of(seed), start_up, round_seconds, scheduler)
        daemon.run()
        found = daemon.outcome()
        daemon.store.close()
    return found


def real(seed: int, start_up: float, round_seconds: float, scheduler: str, factor: float) -> Outcome:
    """One cell with real processes; the figures are in unscaled seconds."""
    asks = [
        Ask(ask.at / factor, ask.steps, ask.step_seconds / factor, ask.script, start_up / factor)
        for ask in jobs_of(seed)
    ]
    flags = ("--restart-cost", str(60.0 / factor))
    with _home() as home:
        found = run_for_real(asks, home, scheduler, this_machine(GPUS), round_seconds / factor, flags)
    held = sum(job.held_seconds for job in found.jobs)
    needed = sum(
        ask.steps * job.step_seconds + found.startup_seconds
        for ask, job in zip(asks, found.jobs, strict=True)
    )
    return Outcome(
        restart_share=max(held - needed, 0.0) / held,
        most_starts_of_scripts=max(
            job.starts for job, ask in zip(found.jobs, asks, strict=True) if ask.script
        ),
        starts=sum(job.starts for job in found.jobs),
        mean_jct=found.mean_jct * factor,
    )


@contextmanager
def _home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="muster-interruptions-") as folder:
        Path(folder).chmod(0o711)  # A daemon of root serves only where others can pass.
        yield Path(folder) / "home"


def main() -> None:
    """The table of docs/explanation/interruptions.md."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.interruptions")
    parser.add_argument("--scheduler", default=DEFAULT_SCHEDULER)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--start-ups", type=float, nargs="+", default=START_UPS)
    parser.add_argument("--rounds", type=float, nargs="+", default=ROUNDS)
    parser.add_argument(
        "--real", action="store_true", help="with real processes, ten minutes for each cell and seed"
    )
    parser.add_argument("--factor", type=float, default=20.0, help="by which --real divides all times")
    chosen = parser.parse_args()
    table = Table(title=f"12 jobs on {GPUS} GPUs under {chosen.scheduler}, against fifo")
    for name in (
        "start-up",
        "round",
        "seed",
        "restart share",
        "most starts of a script",
        "starts",
        "mean JCT / FIFO",
    ):
        table.add_column(name, justify="right")
    for start_up, turn in product(chosen.start_ups, chosen.rounds):
        for seed in range(1, chosen.seeds + 1):
            found, fifo = (
                real(seed, start_up, turn, name, chosen.factor)
                if chosen.real
                else simulated(seed, start_up, turn, name)
                for name in (chosen.scheduler, "fifo+tune-plus")
            )
            ratio = found.mean_jct / fifo.mean_jct
            line = {"start_up": start_up, "round": turn, "seed": seed, **vars(found), "jct_over_fifo": ratio}
            print(json.dumps(line), flush=True)
            table.add_row(
                f"{start_up:g} s",
                f"{turn:g} s",
                str(seed),
                f"{found.restart_share:.1%}",
                str(found.most_starts_of_scripts),
                str(found.starts),
                f"{ratio:.3f}",
            )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
