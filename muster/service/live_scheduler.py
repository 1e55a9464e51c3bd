"""A scheduler as it serves live."""

from __future__ import annotations

from collections.abc import Mapping

from muster.schedulers.catalogue import build, parts
from muster.schedulers.contract import Scheduler

_MOVE_SECONDS = 30.0
"""What a real job loses by a move, as far as a scheduler that counts it is told: a checkpoint and a new start."""


def live_scheduler(name: str, settings: Mapping[str, str], turn: float) -> Scheduler:
    """The scheduler of that name: where jobs take turns, a turn lasts a round, and a move costs what it really does."""
    policy = build(name, settings)
    chosen = set(policy.describe().get("parts", {}).values())
    real = {"quantum_seconds": turn, "move_seconds": _MOVE_SECONDS}
    known = {
        f"{part.name}.{setting.name}": str(real[setting.name])
        for part in parts()
        for setting in part.settings
        if part.name in chosen and setting.name in real and setting.name not in settings
    }
    return build(name, {**known, **settings}) if known else policy
