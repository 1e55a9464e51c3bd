"""Before the daemon serves: once through what it will do, so that nothing has to be compiled while jobs wait."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from muster.cluster.ledger import NodeAllocation
from muster.service.controller import Controller
from muster.service.daemon_status import DaemonStatus
from muster.service.engines.fake import FakeEngine, Pace, pace_of
from muster.service.forecast import NoForecast, forecast
from muster.service.home import make_home, store_url
from muster.service.request import JobRequest
from muster.service.store import Store
from muster.service.store.rows import StateRequest, Submission

_MODELS = 3


def warm_up(status: DaemonStatus) -> None:
    """Its scheduler and nodes, but nothing runs, and all is thrown away.

    Jobs of some kinds, more than there is room for; a state request of each kind; a node drained and used again;
    another daemon that finds what runs; a forecast.
    """
    with tempfile.TemporaryDirectory(prefix="muster-warm-up-") as folder:
        home = Path(folder)
        make_home(home)
        store = Store.open(store_url(home))
        try:
            first = _controller(store, status, home)
            ids = store.submit([Submission("", request) for request in _requests(status)])
            first.turn()
            node = status.cluster.nodes[0].name
            for drained in (True, False):
                store.drain(node, drained)
                first.turn()
            for job, requested in zip(ids, (StateRequest.HOLD, StateRequest.CANCEL), strict=False):
                store.request_state(job, requested)
            first.turn()
            store.request_state(ids[0], StateRequest.RELEASE)
            _controller(store, status, home).turn()
            with suppress(NoForecast):  # A scheduler need not take all kinds.
                forecast(store.living(), status)
        finally:
            store.close()


def _requests(status: DaemonStatus) -> list[JobRequest]:
    kinds: list[dict[str, Any]] = [
        *({"model": name} for name in sorted(status.models())[:_MODELS]),
        {"cpus": 0.5, "memory_gb": 0.1},
        {"gpus": status.cluster.total_gpus},
    ]
    always: dict[str, Any] = {"name": "warm-up", "command": ("true",), "directory": "/", "steps": 1000}
    return [JobRequest(**always, **kind) for kind in kinds * 2]


def _controller(store: Store, status: DaemonStatus, home: Path) -> Controller:
    """One that has found what is there."""

    def pace(job: int, allocations: Sequence[NodeAllocation[str]]) -> Pace:
        return pace_of(controller.jobs.rows[job], allocations, status.models())

    engine = FakeEngine(home / "engine", status.cluster, pace)
    stage = DaemonStatus(
        policy=status.policy,
        engine=status.engine,
        engine_capabilities=engine.capabilities,
        enforces=engine.enforces,
        cluster=status.cluster,
        models=status.models,
        round_seconds=status.round_seconds,
        restart_cost_seconds=status.restart_cost_seconds,
    )
    controller = Controller(store, engine, stage, home)
    controller.recover()
    return controller
