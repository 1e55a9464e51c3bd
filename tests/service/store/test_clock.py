"""The clock by which turns, graces and charges go."""

from __future__ import annotations

import time

import pytest

from muster.service.store import Store


@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_setting_the_clock_does_not_change_a_grace_period(
    store: Store, monkeypatch: pytest.MonkeyPatch, step: float
) -> None:
    before, wall = store.now(), time.time
    assert store.origin + before == pytest.approx(wall(), abs=60.0)
    monkeypatch.setattr(time, "time", lambda: wall() + step)
    assert 0 <= store.now() - before < 60.0
