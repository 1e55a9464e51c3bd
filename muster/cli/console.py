"""The width of what is shown on a terminal."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

    AnyConsole = TypeVar("AnyConsole", bound=Console)


def as_wide_as_terminal(console: AnyConsole) -> AnyConsole:
    """The same console, as wide as its terminal also where `TERM` is dumb: for that Rich takes 80 columns."""
    from rich.console import ConsoleDimensions

    if console.is_dumb_terminal:
        console.size = ConsoleDimensions(*shutil.get_terminal_size())
    return console
