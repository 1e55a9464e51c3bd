"""How long the controller's turns take over an engine each of whose calls takes long: `python -m ... [SECONDS]`.

512 fake nodes of 8 GPUs, 200 jobs submitted at once. Prints the longest turn, and when all starts ran.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import structlog

from muster.cluster.shipped import parse_cluster
from muster.service.controller import Controller
from muster.service.daemon_status import DaemonStatus
from muster.service.engines import Command, EngineView
from muster.service.engines.fake import FakeEngine, Pace
from muster.service.home import make_home, store_url
from muster.service.live_scheduler import live_scheduler
from muster.service.request import JobRequest
from muster.service.store import Store
from muster.service.store.rows import Phase, Submission

CLUSTER = parse_cluster("512x8gpu,24cpu,500gb")
JOBS = 200


class SlowEngine(FakeEngine):
    """Each of its calls takes a while."""

    seconds = 0.3

    def carry_out(self, commands: Sequence[Command]) -> Sequence[Exception | None]:
        time.sleep(self.seconds)
        return super().carry_out(commands)

    def poll(self) -> EngineView:
        time.sleep(self.seconds)
        return super().poll()


class TimedController(Controller):
    """Notes how long its turns take."""

    turns: list[float]

    def turn(self) -> bool:
        began = time.perf_counter()
        try:
            return super().turn()
        finally:
            self.turns.append(time.perf_counter() - began)


def controller_over(engine: FakeEngine, folder: Path, scheduler: str) -> tuple[TimedController, Store]:
    store = Store.open(store_url(folder))
    status = DaemonStatus(
        policy=live_scheduler(scheduler, {}, 60.0),
        engine="fake",
        engine_capabilities=engine.capabilities,
        enforces=engine.enforces,
        cluster=CLUSTER,
        models=dict,
        round_seconds=60.0,
    )
    controller = TimedController(store, engine, status, folder)
    controller.turns = []
    return controller, store


def main(seconds: float) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_home(folder)
        for scheduler in ("fifo", "srtf+tune-plus"):
            make_home(folder / scheduler)
            engine = SlowEngine(folder / scheduler / "fake", CLUSTER, lambda *_: Pace(float("inf"), 1.0))
            engine.seconds = seconds
            measure(engine, folder / scheduler, scheduler)


def measure(engine: FakeEngine, folder: Path, scheduler: str) -> None:
    controller, store = controller_over(engine, folder, scheduler)
    request = JobRequest(name="job", command=("true",), directory="/", gpus=2)
    store.submit([Submission("ann", request) for _ in range(JOBS)])
    thread = threading.Thread(target=controller.run)
    began = time.perf_counter()
    thread.start()
    while sum(row.phase is Phase.RUNNING for row in store.living()) < JOBS:
        time.sleep(0.1)
    took = time.perf_counter() - began
    controller.stop()
    thread.join()
    print(
        f"{scheduler}: {JOBS} starts ran after {took:.1f} s; longest of {len(controller.turns)} turns",
        end=" ",
    )
    print(
        f"{max(controller.turns):.3f} s, median {sorted(controller.turns)[len(controller.turns) // 2]:.4f} s"
    )
    store.close()


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else SlowEngine.seconds)
