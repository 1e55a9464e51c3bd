"""A scheduler's memory as bytes, for the store: only plain values, arrays and the schedulers' own classes."""

from __future__ import annotations

import io
import pickle
from typing import Any

VERSION = 4
_PLAIN = frozenset({"set", "frozenset", "complex", "bytearray", "slice", "range"})
_CONTAINERS = frozenset({"OrderedDict", "defaultdict", "deque"})
_ARRAYS = frozenset({"_reconstruct", "_frombuffer", "scalar", "ndarray", "dtype"})


def to_bytes(state: Any, scheduler: str) -> bytes:
    """The memory of the scheduler of that name."""
    return pickle.dumps((VERSION, scheduler, state), protocol=5)


def from_bytes(content: bytes, scheduler: str, fresh: Any) -> Any:
    """The memory again; `fresh` where it is another scheduler's, of another version, or cannot be read."""
    try:
        version, owner, state = _Careful(io.BytesIO(content)).load()
    except (pickle.UnpicklingError, AttributeError, ImportError, EOFError, ValueError, TypeError):
        return fresh
    return state if (version, owner) == (VERSION, scheduler) else fresh


class _Careful(pickle.Unpickler):
    """Makes nothing but numbers, containers, arrays and what schedulers define: a database is not trusted with code."""

    def find_class(self, module: str, name: str) -> Any:
        known = (
            (module == "builtins" and name in _PLAIN)
            or (module == "collections" and name in _CONTAINERS)
            or (module.split(".")[0] == "numpy" and name in _ARRAYS)
            or module == "numpy.random._pickle"
        )
        own = module.startswith("muster.schedulers.") and "." not in name
        if known or own:
            found = super().find_class(module, name)
            if known or isinstance(found, type):
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is not part of a scheduler's memory")
