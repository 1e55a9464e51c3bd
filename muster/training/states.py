"""What a job gives to be saved: objects with a state_dict, and plain dicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.problems import BadInput, Problem


def check_states(state: Mapping[str, Any]) -> None:
    """Refuses what could not be saved and restored in place."""
    what = "a dict or an object with state_dict and load_state_dict is needed"
    problems = [
        Problem("run.steps", what, column=f"state[{name!r}]", found=type(thing).__name__)
        for name, thing in state.items()
        if not isinstance(thing, dict) and not all(hasattr(thing, each) for each in _STATEFUL)
    ]
    if problems:
        raise BadInput(*problems)


def states_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """What to save of each."""
    return {name: thing if isinstance(thing, dict) else thing.state_dict() for name, thing in state.items()}


def restore_states(state: Mapping[str, Any], saved: Mapping[str, Any]) -> None:
    """Puts each back as it was saved."""
    problems = [
        Problem("resume", f"the checkpoint has {sorted(saved)}; the same names are needed", found=name)
        for name in sorted(state.keys() ^ saved.keys())
    ]
    if problems:
        raise BadInput(*problems)
    for name, thing in state.items():
        if isinstance(thing, dict):
            thing.clear()
            thing.update(saved[name])
        else:
            thing.load_state_dict(saved[name])


_STATEFUL = ("state_dict", "load_state_dict")
