"""What a daemon publishes about itself while it starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.schedulers.registry import build
from muster.service import daemon
from muster.service.engines.factory import EngineOptions
from muster.service.engines.registry import FAKE, configured_engine
from muster.service.home import Endpoint, make_home, read_endpoint, socket_path, store_url
from muster.service.live_limits import LiveLimits
from muster.service.store import Store

from .serving import CLUSTER


class Stopped(Exception):
    pass


def test_clients_find_a_daemon_that_still_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Endpoint | None] = []

    def controller(*_: object) -> None:
        found.append(read_endpoint(tmp_path))
        raise Stopped

    monkeypatch.setattr(daemon, "Controller", controller)
    make_home(tmp_path)
    serving = daemon.Serving(
        home=tmp_path,
        engine_name=FAKE,
        engine=configured_engine(FAKE, EngineOptions(fake_nodes=CLUSTER)),
        scheduler=build("fifo", {}),
        round_seconds=60.0,
        limits=LiveLimits(None, tmp_path),
    )
    store = Store.open(store_url(tmp_path))
    try:
        with daemon._listening(serving) as listeners, pytest.raises(Stopped):
            daemon._serve(serving, store, listeners, print)
    finally:
        store.close()
    (endpoint,) = found
    assert endpoint is not None
    assert endpoint.starting
    assert endpoint.url is None
    assert read_endpoint(tmp_path) is None
    assert not socket_path(tmp_path).exists()
