"""The compiled form of a kernel on disk, for all processes and users of an installation.

Each kernel and signature has a file of its own, which appears whole or not at all, so processes read and write it
without a lock. It begins with a digest of everything that it was compiled from: the kernel's code, the kernels that
it calls and the constants that it uses. A file with another digest, or a damaged one, is compiled again.

Numba's own cache keeps an index beside the data. Two processes can mix up the two, and a kernel stays valid there
when a kernel that it calls has changed.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, cached_property
from multiprocessing import parent_process
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numba
from numba.core import config
from numba.core.caching import InTreeCacheLocator, NullCache, UserProvidedCacheLocator, UserWideCacheLocator
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps
from numba.core.sigutils import normalize_signature

from muster.compiling.lock import CompileLocks
from muster.compiling.progress import CompileProgress

_FORMAT = 1
_AT_AN_ADDRESS = " at 0x"
"""In the name of a type that means nothing to another process."""


class KernelCache(NullCache):
    """Loads and saves the compiled forms of one kernel; Numba's dispatcher calls it."""

    @classmethod
    def attach(cls, kernel: Any) -> None:
        """Give a kernel its cache."""
        cache = cls(kernel)
        compile_one = kernel.compile

        def compile_locked(signature: Any) -> Any:
            # `load_overload` takes the lock where nothing is found, and here it ends, whatever becomes of it.
            with global_compiler_lock:
                held = len(cache._held)
                try:
                    return compile_one(signature)
                finally:
                    if len(cache._held) > held:
                        cache._release()

        kernel._cache = cache
        kernel.compile = compile_locked

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._held: list[tuple[CompileLocks, str]] = []

    @cached_property
    def _folders(self) -> list[Path]:
        return _cache_folders(self._kernel.py_func)

    @property
    def cache_path(self) -> str | None:
        """The folder that is looked at first."""
        return str(self._folders[0]) if self._folders else None

    @cached_property
    def _digest(self) -> bytes:
        return _digest(self._kernel)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled form for a signature; None, with the lock held, where it has to be compiled."""
        target_context.refresh()
        name = self._file_name(sig, target_context.codegen())
        if name is None:
            return None
        if (found := self._load(name, sig, target_context)) is not None:
            return found
        locks = _locks(_writable(tuple(self._folders)))
        locks.take(name, _progress().announce)
        if (
            found := self._load(name, sig, target_context)
        ) is not None:  # compiled by another process meanwhile
            locks.release(name)
            return found
        self._held.append((locks, name))
        _progress().begin()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled form; where nothing can be written it serves this process alone."""
        name = self._file_name(sig, data.codegen)
        folder = _writable(tuple(self._folders))
        if name is None or folder is None or data.library.has_dynamic_globals or any(data.lifted):
            return
        aside = folder / f".{name}.{secrets.token_hex(6)}.part"
        try:
            aside.write_bytes(self._digest + dumps(data._reduce()))
            aside.replace(folder / name)
        except OSError:  # a full disk
            with suppress(OSError):
                aside.unlink(missing_ok=True)

    def _release(self) -> None:
        _progress().end()
        locks, name = self._held.pop()
        locks.release(name)

    def _file_name(self, sig: Any, codegen: Any) -> str | None:
        """One for each kernel, signature, processor and version; None for a type that only this process knows."""
        arguments, returned = normalize_signature(sig)
        key = repr((_FORMAT, numba.__version__, arguments, returned, codegen.magic_tuple()))
        if _AT_AN_ADDRESS in key:
            return None
        function = self._kernel.py_func
        python = f"py{sys.version_info[0]}{sys.version_info[1]}"
        module = function.__module__.rpartition(".")[2]
        return (
            f"{module}.{function.__qualname__}.{python}.{hashlib.sha256(key.encode()).hexdigest()[:32]}.nbc"
        )

    def _load(self, name: str, sig: Any, target_context: Any) -> Any:
        """The first valid file's compiled form, or None."""
        for folder in self._folders:
            try:
                data = (folder / name).read_bytes()
            except OSError:
                continue
            if data.startswith(self._digest):
                # Whatever a crash of the machine has left there is compiled again.
                with suppress(Exception):
                    payload = pickle.loads(data[len(self._digest) :])
                    found = CompileResult._rebuild(target_context, *payload)
                    if found.signature.args == normalize_signature(sig)[0]:
                        return found
        return None


def _cache_folders(function: Callable[..., Any]) -> list[Path]:
    """Where compiled forms of a function may be, the best first: beside its source, then the user's own folder.

    NUMBA_CACHE_DIR replaces both. A folder in which others could place files for this process to load is left out.
    """
    source = function.__code__.co_filename
    locators: list[Any] = (
        [UserProvidedCacheLocator]
        if getattr(config, "CACHE_DIR", "")
        else [InTreeCacheLocator, UserWideCacheLocator]
    )
    folders = [Path(locator(function, source).get_cache_path()) for locator in locators]
    return [folder for folder in folders if _is_trusted(folder, Path(source))]


@cache
def _is_trusted(folder: Path, source: Path) -> bool:
    """Whether a folder is missing yet, or belongs to this user, root or the owner of the source file."""
    try:
        there = folder.stat()
        owners = {os.geteuid(), 0, source.stat().st_uid}
    except OSError:
        return not os.path.lexists(folder)
    return there.st_uid in owners and not there.st_mode & stat.S_IWOTH


@cache
def _writable(folders: tuple[Path, ...]) -> Path | None:
    """The first folder that can be made and written to."""
    for folder in folders:
        with suppress(OSError):
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            if os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
                return folder
    return None


@cache
def _locks(folder: Path | None) -> CompileLocks:
    """The locks of a folder, as this process takes them."""
    return CompileLocks(folder)


@cache
def _progress() -> CompileProgress:
    """Of this process; the workers of one command agree on one that speaks for all."""
    folder = _writable(tuple(_cache_folders(CompileProgress.begin)))
    speaker = f"progress of process {os.getppid() if parent_process() else os.getpid()}"
    return CompileProgress(lambda: _locks(folder).take_if_free(speaker))


def _digest(kernel: Any) -> bytes:
    """SHA-256 of everything that the compiled form contains."""
    seen: dict[tuple[str, str], bytes] = {}
    waiting = [kernel]
    while waiting:
        each = waiting.pop()
        place = (each.py_func.__module__, each.py_func.__qualname__)
        if place not in seen:
            seen[place], called = _own_parts(each)
            waiting += called
    return hashlib.sha256(repr(sorted(seen.items())).encode()).digest()


@cache
def _own_parts(kernel: Any) -> tuple[bytes, tuple[Any, ...]]:
    """What a kernel itself consists of, as a digest, and the kernels that it calls."""
    function = kernel.py_func
    parts: list[object] = [sorted(kernel.targetoptions.items())]
    called: list[Any] = []
    codes = list(_codes(function.__code__))
    parts += [
        (code.co_code, code.co_names, code.co_varnames, _without_code(code.co_consts)) for code in codes
    ]
    names = sorted({name for code in codes for name in code.co_names} & function.__globals__.keys())
    values = [function.__globals__[name] for name in names]
    values += [cell.cell_contents for cell in function.__closure__ or ()]
    for value in (*values, *(function.__defaults__ or ())):
        if isinstance(value, Dispatcher):
            called.append(value)
            parts.append((value.py_func.__module__, value.py_func.__qualname__))
        else:
            parts.append(_description(value, function.__module__))
    return hashlib.sha256(repr(parts).encode()).digest(), tuple(called)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _without_code(constants: tuple[object, ...]) -> list[str]:
    return [repr(constant) for constant in constants if not isinstance(constant, CodeType)]


def _description(value: Any, module: str) -> object:
    """What a global stands for: a constant's value; for anything else of the same package the file it is defined in."""
    if isinstance(value, ModuleType | type | FunctionType):
        name = value.__name__ if isinstance(value, ModuleType) else value.__module__
        own = name.partition(".")[0] == module.partition(".")[0]
        return (
            name,
            getattr(value, "__qualname__", ""),
            _file_digest(sys.modules[name].__file__) if own else "",
        )
    if hasattr(value, "tobytes"):  # arrays and NumPy's numbers
        return (repr(value), value.tobytes())
    return (type(value).__qualname__, repr(value))


@cache
def _file_digest(path: str | None) -> bytes:
    return b"" if path is None else hashlib.sha256(Path(path).read_bytes()).digest()
