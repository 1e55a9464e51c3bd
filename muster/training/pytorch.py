"""PyTorch, only where the job itself has imported it."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def if_loaded() -> Any | None:
    """The module, if this process has imported it."""
    return sys.modules.get("torch")


def load() -> Any:
    """The module, imported now."""
    return import_module("torch")
