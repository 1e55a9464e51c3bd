"""Muster decides when each training job on a shared GPU cluster runs, how much it gets and where it runs.

`muster.simulate` is the simulator. What it needs is imported at its first use, because training jobs import this
package too.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muster.api import Result, simulate
    from muster.problems import InputError

__version__ = "0.2.0"
__all__ = ["InputError", "Result", "__version__", "simulate"]

_MODULES = {"InputError": "muster.problems", "Result": "muster.api", "simulate": "muster.api"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        return getattr(import_module(_MODULES[name]), name)
    except ModuleNotFoundError as error:
        from muster.extras import missing_package

        raise missing_package(error, of_service=False) or error from None


def __dir__() -> list[str]:
    return sorted(__all__)
