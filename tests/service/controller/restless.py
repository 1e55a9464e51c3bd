"""A scheduler that stops jobs as soon as another one has had less: LAS that ignores what a stop costs."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from muster.schedulers.composed import Composed
from muster.schedulers.contract import Floats, Snapshot
from muster.schedulers.registry import build

RESTLESS = "restless"


@dataclass(frozen=True)
class Restless(Composed):
    """Without protection of running jobs."""

    def _after_own_turn(self, snapshot: Snapshot, until: Floats) -> Floats:
        return np.full(len(snapshot.jobs), -np.inf)


def restless(turn: float) -> Restless:
    """In turns of so many seconds."""
    las = build("las", {"quantum_seconds": str(turn)})
    assert isinstance(las, Composed)
    return Restless(**{field.name: getattr(las, field.name) for field in fields(las)})
