"""A scheduler as it serves live."""

from __future__ import annotations

from collections.abc import Mapping

from muster.problems import InputError, Problem
from muster.schedulers.contract import Scheduler
from muster.schedulers.registry import build, parts


def live_scheduler(name: str, settings: Mapping[str, str], turn: float) -> Scheduler:
    """Return the scheduler of that name; where jobs take turns, a turn lasts a round.

    InputError for one that cancels jobs, which only a simulation does.
    """
    policy = build(name, settings)
    if getattr(policy, "cancels", False):
        raise InputError(
            Problem("--set preempt_mode", "allowed: requeue; the daemon cancels no job", found="cancel")
        )
    chosen = set(policy.describe().get("parts", {}).values())
    known = {
        f"{part.name}.{setting.name}": str(turn)
        for part in parts()
        for setting in part.settings
        if part.name in chosen and setting.name == "quantum_seconds" and setting.name not in settings
    }
    return build(name, {**known, **settings}) if known else policy
