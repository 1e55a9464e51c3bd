"""Compiled kernels: Numba's `njit` with a cache on disk that many processes and users share safely.

- `cache.py`: one file per kernel and signature, valid only for the code that it was compiled from
- `lock.py`: the process that compiles a kernel holds its lock, so that others wait for it instead of compiling it too
- `progress.py`: what the user reads while kernels are compiled
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

import numba
from numba.core.dispatcher import Dispatcher

from muster.compiling.cache import KernelCache
from muster.compiling.progress import announce_with

__all__ = ["announce_with", "njit"]


Function = TypeVar("Function", bound=Callable[..., Any])


@overload
def njit(function: Function) -> Function: ...
@overload
def njit(*, cache: bool = ..., **options: Any) -> Callable[[Function], Function]: ...
def njit(function: Function | None = None, *, cache: bool = False, **options: Any) -> Any:
    """Compile a function as `numba.njit` does, with or without options; `cache=True` keeps the result on disk."""

    def compiled(function: Function) -> Any:
        kernel = numba.njit(**options)(function)
        if cache and isinstance(kernel, Dispatcher):  # NUMBA_DISABLE_JIT leaves the function as it is.
            KernelCache.attach(kernel)
        return kernel

    return compiled if function is None else compiled(function)
