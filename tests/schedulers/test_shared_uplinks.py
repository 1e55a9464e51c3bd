"""joint where gangs share uplinks: a plan counts that they slow each other, if the world has it so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from experiments.joint.dally import _MEASURED, Setting, Shape
from muster.schedulers.joint import on_network

NARROW = Setting(
    150,
    _MEASURED,
    50,
    contention=True,
    shape=Shape(4, 4, 4, "nic_gb_per_s = 1.25", "gb_per_s = 1.25", "gb_per_s = 1.25\noversubscription = 4"),
)
"""Machines of four GPUs with 10 Gbit/s each; gangs of 8 and more are always on several."""


def mean_jct(setting: Setting) -> float:
    return float(np.mean([setting.run("gittins+joint", setting.jobs, seed).mean_jct for seed in (61, 62)]))


def test_gangs_move_apart_that_slow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sharing costs 1 % where plans count it, and more than 10 % where they do not."""
    alone = mean_jct(replace(NARROW, contention=False))
    assert mean_jct(NARROW) < 1.03 * alone
    monkeypatch.setattr(on_network, "_beside_others", lambda given, draft: None)
    assert mean_jct(NARROW) > 1.1 * alone
