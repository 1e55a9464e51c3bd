"""What a job gives to be saved: objects with a state_dict, and plain dicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.problems import InputError, Problem
from muster.training import pytorch

Path = tuple[Any, ...]
"""Keys and numbers that lead to a tensor within what is saved of a state."""


def check_states(state: Mapping[str, Any]) -> None:
    """Refuses what could not be saved and restored in place."""
    what = "allowed: a dict or an object with state_dict and load_state_dict"
    problems = [
        Problem("run.steps", what, column=f"state[{name!r}]", found=type(thing).__name__)
        for name, thing in state.items()
        if not isinstance(thing, dict) and not all(hasattr(thing, each) for each in _STATEFUL)
    ]
    if problems:
        raise InputError(*problems)


def states_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """What to save of each."""
    return {name: thing if isinstance(thing, dict) else thing.state_dict() for name, thing in state.items()}


def devices_of(state: Mapping[str, Any], saved: Mapping[str, Any]) -> dict[str, dict[Path, str]]:
    """Where tensors are that are not on the host, but for those whose owners put them there themselves."""
    return {
        name: {
            path: _device(tensor) for path, tensor in _tensors(saved[name], ()) if tensor.device.type != "cpu"
        }
        for name, thing in state.items()
        if not _places_its_own(thing)
    }


def restore_states(
    state: Mapping[str, Any], saved: Mapping[str, Any], devices: Mapping[str, Mapping[Path, str]]
) -> None:
    """Puts each back as it was saved, its tensors where they were: by now perhaps on another process's GPU."""
    problems = [
        Problem("resume", f"the checkpoint has {sorted(saved)}; allowed: the same names", found=name)
        for name in sorted(state.keys() ^ saved.keys())
    ]
    if problems:
        raise InputError(*problems)
    for name, thing in state.items():
        where = devices.get(name, {})
        if where:
            present = dict(_tensors(thing, ())) if isinstance(thing, dict) else {}
            for path, tensor in _tensors(saved[name], ()):
                if path in where:
                    # The content of the tensor, so that whatever refers to it, or is a Parameter, stays so.
                    tensor.data = tensor.data.to(present[path].device if path in present else where[path])
        if isinstance(thing, dict):
            thing.clear()
            thing.update(saved[name])
        else:
            thing.load_state_dict(saved[name])


def _places_its_own(thing: Any) -> bool:
    torch = pytorch.if_loaded()
    return torch is None or isinstance(thing, torch.nn.Module | torch.optim.Optimizer)


def _tensors(thing: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    torch = pytorch.if_loaded()
    if torch is not None and isinstance(thing, torch.Tensor):
        yield path, thing
    elif isinstance(thing, dict):
        for key, part in thing.items():
            yield from _tensors(part, (*path, key))
    elif isinstance(thing, list | tuple):
        for number, part in enumerate(thing):
            yield from _tensors(part, (*path, number))


def _device(tensor: Any) -> str:
    """Its device; that of which the process makes use by default without its number, which may be another one's."""
    kind, number = tensor.device.type, tensor.device.index
    current = getattr(getattr(pytorch.load(), kind, None), "current_device", None)
    return kind if number is None or (current is not None and current() == number) else f"{kind}:{number}"


_STATEFUL = ("state_dict", "load_state_dict")
