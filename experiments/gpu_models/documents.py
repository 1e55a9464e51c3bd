"""What was measured of a model, as JSON: its profile, what it computes, and the points held out."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from muster.profiling.compute import ComputeProfile
from muster.profiling.optimistic import InputProfile, Profile
from muster.profiling.rates import Rate


@dataclass
class Measured:
    """One model's profile and what was measured beside it."""

    model: str
    command: list[str]
    """As anybody would start it."""
    machine: dict[str, Any]
    profile: Profile | None = None
    compute: ComputeProfile | None = None
    held_out: list[dict[str, float]] = field(default_factory=list)
    held_out_seconds: float = 0.0
    """For the points alone, without starting the job and filling its cache."""

    def write(self, folder: Path) -> None:
        """The model's file, whole or not at all."""
        path = folder / f"{self.model}.json"
        parts = {"profile": _stored(self.profile), "compute": _stored(self.compute)}
        aside = path.with_suffix(".part")
        aside.write_text(json.dumps({**asdict(self), **parts}, indent=1) + "\n", encoding="utf-8")
        aside.rename(path)


def read(path: Path) -> Measured:
    """What a run wrote."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    profile, compute = stored["profile"], stored["compute"]
    if profile is not None:
        reading = profile["reading"]
        if reading is not None:
            reading = InputProfile(**{**reading, "uncached": Rate(**reading["uncached"])})
        points = tuple(profile["points"])
        profile = Profile(**{**profile, "points": points, "rates": _rates(profile), "reading": reading})
    if compute is not None:
        compute = ComputeProfile(**{**compute, "rates": _rates(compute)})
    return Measured(**{**stored, "profile": profile, "compute": compute})


def _stored(measured: Profile | ComputeProfile | None) -> dict[str, Any] | None:
    """Its rates are pairs, because their keys are numbers."""
    if measured is None:
        return None
    return {**asdict(measured), "rates": [[at, asdict(rate)] for at, rate in measured.rates.items()]}


def _rates(stored: dict[str, Any]) -> dict[Any, Rate]:
    return {at: Rate(**rate) for at, rate in stored["rates"]}
