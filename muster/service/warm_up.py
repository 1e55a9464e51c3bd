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
from muster.service.store.rows import Submission, Wish

_MODELS = 3


def rehearse(board: DaemonStatus) -> None:
    """Its scheduler and nodes, but nothing runs, and all is thrown away.

    Jobs of some kinds, more than there is room for; a wish of each kind; a node drained and used again; another
    daemon that finds what runs; a forecast.
    """
    with tempfile.TemporaryDirectory(prefix="muster-rehearsal-") as folder:
        home = Path(folder)
        make_home(home)
        store = Store.open(store_url(home))
        try:
            first = _controller(store, board, home)
            ids = store.submit([Submission("", request) for request in _requests(board)])
            first.turn()
            node = board.cluster.nodes[0].name
            for drained in (True, False):
                store.drain(node, drained)
                first.turn()
            for job, wish in zip(ids, (Wish.HOLD, Wish.CANCEL), strict=False):
                store.wish(job, wish)
            first.turn()
            store.wish(ids[0], Wish.RELEASE)
            _controller(store, board, home).turn()
            with suppress(NoForecast):  # A scheduler need not take all kinds.
                forecast(store.living(), board)
        finally:
            store.close()


def _requests(board: DaemonStatus) -> list[JobRequest]:
    kinds: list[dict[str, Any]] = [
        *({"model": name} for name in sorted(board.models())[:_MODELS]),
        {"cpus": 0.5, "memory_gb": 0.1},
        {"gpus": board.cluster.total_gpus},
    ]
    always: dict[str, Any] = {"name": "rehearsal", "command": ("true",), "directory": "/", "steps": 1000}
    return [JobRequest(**always, **kind) for kind in kinds * 2]


def _controller(store: Store, board: DaemonStatus, home: Path) -> Controller:
    """One that has found what is there."""

    def pace(job: int, allocations: Sequence[NodeAllocation[str]]) -> Pace:
        return pace_of(controller.jobs.rows[job], allocations, board.models())

    engine = FakeEngine(home / "engine", board.cluster, pace)
    stage = DaemonStatus(
        policy=board.policy,
        engine=board.engine,
        engine_facts=engine.facts,
        enforces=engine.enforces,
        cluster=board.cluster,
        models=board.models,
        round_seconds=board.round_seconds,
        restart_cost_seconds=board.restart_cost_seconds,
    )
    controller = Controller(store, engine, stage, home)
    controller.recover()
    return controller
