"""A controller in a process of its own, as the daemon has it, without the API: `... HOME SCHEDULER GPUS TURN
RESTART_COST`.

It says `ready` once it has found what was there before it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from muster.service.controller import Controller
from muster.service.daemon_status import DaemonStatus
from muster.service.engines.local.engine import LocalEngine
from muster.service.home import claimed, make_home, store_url
from muster.service.known_models import KnownModels
from muster.service.live_scheduler import live_scheduler
from muster.service.machine import find_machine
from muster.service.store import Store
from tests.service.controller.restless import RESTLESS, restless


class Speaking(DaemonStatus):
    """Says when it is ready."""

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "ready" and value:
            print("ready", flush=True)


def main(home: Path, scheduler: str, gpus: int, turn: float, restart_cost: float) -> None:
    make_home(home)
    with claimed(home):
        machine = find_machine(gpus=gpus, cpus=float(gpus), memory_gb=float(gpus))
        engine = LocalEngine(home / "engine", machine)
        store = Store.open(store_url(home))
        status = Speaking(
            policy=restless(turn) if scheduler == RESTLESS else live_scheduler(scheduler, {}, turn),
            engine="local",
            engine_capabilities=engine.capabilities,
            enforces=engine.enforces,
            cluster=machine.cluster,
            models=KnownModels(home).all,
            round_seconds=turn,
            restart_cost_seconds=restart_cost,
        )
        Controller(store, engine, status, home).run()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5]))
