"""Compiled kernels on disk: valid for the code they were compiled from, shared safely among processes and users."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import muster.compiling.lock
import muster.compiling.progress
from muster.compiling import announce_with, njit
from muster.compiling.lock import LOCK_FILE, CompileLocks
from muster.compiling.progress import CompileProgress
from tests.service.cli.daemons import UNPRIVILEGED, open_folder, unprivileged_person

_SOURCES = {
    "pack/__init__.py": "",
    "pack/constants.py": "STEP = 1\n",
    "pack/callee.py": """\
from muster.compiling import njit
from pack.constants import STEP

@njit(cache=True)
def inner(values):
    return values[3] * 2 + STEP
""",
    "pack/caller.py": """\
from muster.compiling import njit
from pack.callee import inner

@njit(cache=True)
def outer(values):
    return inner(values) * 10
""",
    "run.py": """\
import json, resource, sys
import numpy as np
from numba.core.event import Listener, install_listener

class Count(Listener):
    def __init__(self):
        self.kernels = []
    def on_start(self, event):
        function = event.data["dispatcher"].py_func
        if function.__module__.startswith("pack"):
            self.kernels.append(function.__name__)
    def on_end(self, event):
        pass

if "no-disk" in sys.argv:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
count = Count()
with install_listener("numba:compile", count):
    from pack.caller import outer
    result = outer(np.arange(4, dtype=sys.argv[1]))
print(json.dumps({"result": float(result), "compiled": count.kernels}))
""",
}
_BOTH = ["outer", "inner"]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with a package of two kernels, and `run.py`, which prints a result and what was compiled for it."""
    _write(tmp_path)
    return tmp_path


def _write(folder: Path) -> None:
    for name, text in _SOURCES.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def _start(package: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    known = os.environ | {"XDG_CACHE_HOME": str(package / "user")} | environment
    line = [sys.executable, str(package / "run.py"), *(arguments or ["f8"])]
    return subprocess.Popen(line, env=known, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _result(process: subprocess.Popen[str]) -> dict[str, Any]:
    said, complaint = process.communicate(timeout=120)
    assert process.returncode == 0, complaint
    result: dict[str, Any] = json.loads(said)
    return result


def _run(package: Path, *arguments: str, **environment: str) -> dict[str, Any]:
    return _result(_start(package, *arguments, **environment))


def _edit(file: Path, old: str, new: str) -> None:
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


def _compiled_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.nbc"))


@contextmanager
def _held_elsewhere(lock_file: Path) -> Iterator[None]:
    """Another process holds all locks of the file."""
    text = (
        "import fcntl, sys; file = open(sys.argv[1], 'a'); fcntl.lockf(file, fcntl.LOCK_EX);"
        "print('held', flush=True); sys.stdin.read()"
    )
    line = [sys.executable, "-c", text, str(lock_file)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield
        holder.communicate()


@contextmanager
def _messages() -> Iterator[list[str]]:
    messages: list[str] = []
    before = muster.compiling.progress._announce
    announce_with(messages.append)
    try:
        yield messages
    finally:
        announce_with(before)


def test_second_process_loads_what_the_first_compiled(package: Path) -> None:
    assert _run(package) == {"result": 70.0, "compiled": _BOTH}
    assert _run(package) == {"result": 70.0, "compiled": []}
    assert _run(package, "i8") == {"result": 70.0, "compiled": _BOTH}


def test_processes_that_start_at_once_compile_a_kernel_once(package: Path) -> None:
    results = [_result(process) for process in [_start(package) for _ in range(3)]]
    assert [each["result"] for each in results] == [70.0] * 3
    assert sorted(name for each in results for name in each["compiled"]) == sorted(_BOTH)


def test_processes_with_different_types_keep_apart(package: Path) -> None:
    kinds = ["f8", "i8"] * 2
    results = [_result(process) for process in [_start(package, kind) for kind in kinds]]
    assert [each["result"] for each in results] == [70.0] * 4
    assert [_run(package, kind)["compiled"] for kind in kinds[:2]] == [[], []]


def test_kernel_is_valid_for_all_code_it_contains(package: Path) -> None:
    def after(file: str, old: str, new: str) -> tuple[float, list[str]]:
        _edit(package / "pack" / file, old, new)
        result = _run(package)
        return result["result"], result["compiled"]

    _run(package)
    assert after("callee.py", "@njit", "\n# A note.\n@njit") == (70.0, [])
    assert after("constants.py", "STEP = 1", "STEP = 2") == (80.0, _BOTH)
    assert after("callee.py", "values[3]", "values[2]") == (60.0, _BOTH)
    assert after("caller.py", "* 10", "* 20") == (120.0, ["outer"])


def test_damaged_file_is_compiled_again(package: Path) -> None:
    _run(package)
    for damage in (lambda data: b"", lambda data: bytes(len(data)), lambda data: data[: len(data) // 2]):
        for file in _compiled_files(package):
            file.write_bytes(damage(file.read_bytes()))
        assert _run(package) == {"result": 70.0, "compiled": _BOTH}
    assert _run(package)["compiled"] == []


def test_full_disk_leaves_the_kernel_to_this_process(package: Path) -> None:
    assert _run(package, "f8", "no-disk") == {"result": 70.0, "compiled": _BOTH}
    assert not list(package.rglob("*.part"))


def test_lock_file_is_for_its_owner_alone(package: Path) -> None:
    _run(package)
    locks = list(package.rglob(LOCK_FILE))
    assert [lock.parent for lock in locks] == [package / "pack" / "__pycache__"]
    assert locks[0].stat().st_mode & 0o777 == 0o600


def test_planted_link_is_not_followed(package: Path) -> None:
    victim = package / "victim"
    (package / "pack" / "__pycache__").mkdir()
    (package / "pack" / "__pycache__" / LOCK_FILE).symlink_to(victim)
    assert _run(package)["result"] == 70.0
    assert not victim.exists()


def test_compiled_kernels_load_while_locks_are_held(package: Path) -> None:
    _run(package)
    with _held_elsewhere(package / "pack" / "__pycache__" / LOCK_FILE):
        assert _run(package)["compiled"] == []


def test_lock_of_another_process_is_awaited_then_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(muster.compiling.lock, "_QUIET_SECONDS", 0.01)
    monkeypatch.setattr(muster.compiling.lock, "_LIMIT_SECONDS", 0.1)
    locks = CompileLocks(tmp_path)
    messages: list[str] = []
    with _held_elsewhere(tmp_path / LOCK_FILE):
        assert not locks.take_if_free("a kernel")
        locks.take("a kernel", messages.append)
        assert [message.partition(" ")[0] for message in messages] == ["waiting", "no"]
        locks.take("another kernel", messages.append)  # the first wait was long enough
        assert len(messages) == 2
    assert locks.take_if_free("a kernel")


def test_lock_ends_with_its_release(tmp_path: Path) -> None:
    locks = CompileLocks(tmp_path)
    assert locks.take_if_free("a kernel")
    ask = (
        "import sys; from pathlib import Path; from muster.compiling.lock import CompileLocks;"
        "print([CompileLocks(Path(sys.argv[1])).take_if_free(name) for name in ('a kernel', 'another')])"
    )
    line = [sys.executable, "-c", ask, str(tmp_path)]
    assert subprocess.run(line, capture_output=True, text=True, check=True).stdout == "[False, True]\n"
    locks.release("a kernel")
    assert subprocess.run(line, capture_output=True, text=True, check=True).stdout == "[True, True]\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for another user")
def test_lock_file_of_another_user_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).touch()
    os.chown(tmp_path / LOCK_FILE, 65534, 65534)
    with (tmp_path / LOCK_FILE).open("a") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)  # its owner could hold it for good
        assert CompileLocks(tmp_path).take_if_free("a kernel")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for another user")
def test_files_of_another_user_are_not_loaded(package: Path) -> None:
    _run(package)
    os.chown(package / "pack" / "__pycache__", 65534, 65534)
    assert _run(package) == {"result": 70.0, "compiled": _BOTH}
    assert _run(package)["compiled"] == []  # from the user's own folder


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for another user")
def test_user_without_write_access_shares_roots_kernels() -> None:
    with open_folder(0o755) as folder:
        (folder / "user").mkdir()
        os.chown(folder / "user", 65534, 65534)
        person = unprivileged_person(folder / "user")
        _write(folder)

        def as_unprivileged(kind: str) -> dict[str, Any]:
            line = [person.python, str(folder / "run.py"), kind]
            pipe = subprocess.PIPE
            return _result(
                subprocess.Popen(
                    line, env=person.environment, stdout=pipe, stderr=pipe, text=True, **person.account
                )
            )

        _run(folder)
        assert as_unprivileged("f8") == {"result": 70.0, "compiled": []}
        assert as_unprivileged("i8") == {"result": 70.0, "compiled": _BOTH}
        assert as_unprivileged("i8") == {"result": 70.0, "compiled": []}
        own = _compiled_files(folder / "user")
        assert len(own) == 2
        assert {file.owner() for file in own} == {UNPRIVILEGED}
        (lock,) = (folder / "user").rglob(LOCK_FILE)
        assert lock.stat().st_mode & 0o777 == 0o600


def test_long_compilation_is_announced_once_per_command() -> None:
    with _messages() as messages:
        for may_announce in (True, False):
            progress = CompileProgress(lambda answer=may_announce: answer)
            progress.begin()
            progress._report()
            progress.begin()
            progress.end()
            progress._report()
            progress.end()
            progress._report()  # a timer that went off at the very end
    assert messages == [
        "compiling, once after installation; this can take a minute",
        "still compiling: 1 functions in 0 s",
    ]


def test_time_spent_compiling_adds_up_to_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(muster.compiling.progress, "_FIRST_SECONDS", 0.0)
    announced = threading.Event()
    monkeypatch.setattr(muster.compiling.progress, "_announce", lambda _: announced.set())
    progress = CompileProgress(lambda: True)
    progress.begin()
    assert announced.wait(60)
    progress.end()


def test_kernel_without_cache_works_as_with_numba() -> None:
    @njit
    def inner(values: np.ndarray) -> float:
        return values.sum()

    @njit
    def outer(values: np.ndarray) -> float:
        return inner(values) + 1

    assert outer(np.arange(4.0)) == 7.0
    assert outer(np.arange(4)) == 7
