"""A controller in a process of its own, as the daemon has it, without the API: `... HOME SCHEDULER WHERE TURN
RESTART_COST`.

WHERE is a number of GPUs of this machine, a partition of Slurm or the address of a Ray cluster. It says `ready` once it
has found what was there before it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import structlog

from muster.cluster import Cluster
from muster.service.controller import Controller
from muster.service.daemon_status import DaemonStatus
from muster.service.engines import Engine
from muster.service.engines.factory import EngineContext, EngineOptions
from muster.service.engines.local.engine import LocalEngine
from muster.service.engines.registry import configured_engine
from muster.service.home import claimed, make_home, store_url
from muster.service.known_models import KnownModels
from muster.service.live_scheduler import live_scheduler
from muster.service.machine import find_machine
from muster.service.store import Store
from muster.service.store.rows import JobRow
from tests.service.controller.restless import RESTLESS, restless


class Speaking(DaemonStatus):
    """Says when it is ready."""

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "ready" and value:
            print("ready", flush=True)


def engine_of(home: Path, store: Store, where: str) -> tuple[Cluster, Engine]:
    """The engine and its nodes."""
    if not where.isdecimal():
        is_address = ":" in where
        options = EngineOptions(address=where) if is_address else EngineOptions(partition=where)
        configured = configured_engine("ray" if is_address else "slurm", options)

        def row_of(job: int) -> JobRow:
            row = store.job(job)
            assert row is not None
            return row

        context = EngineContext(home / "engine", row_of, dict)
        return configured.cluster, configured.open(context)
    gpus = int(where)
    machine = find_machine(gpus=gpus, cpus=float(gpus), memory_gb=float(gpus))
    return machine.cluster, LocalEngine(home / "engine", machine)


def main(home: Path, scheduler: str, where: str, turn: float, restart_cost: float) -> None:
    make_home(home)
    # Nothing reads its standard output after `ready`: a full pipe would stop it.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    with claimed(home):
        store = Store.open(store_url(home))
        cluster, engine = engine_of(home, store, where)
        status = Speaking(
            policy=restless(turn) if scheduler == RESTLESS else live_scheduler(scheduler, {}, turn),
            engine="local" if where.isdecimal() else "ray" if ":" in where else "slurm",
            engine_capabilities=engine.capabilities,
            enforces=engine.enforces,
            cluster=cluster,
            models=KnownModels(home).all,
            round_seconds=turn,
            restart_cost_seconds=restart_cost,
        )
        Controller(store, engine, status, home).run()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4]), float(sys.argv[5]))
