"""Daemons and commands in processes of their own, of this account or of another one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import muster as package

from ..accounts import UNPRIVILEGED

_MUSTER = ("-c", "from muster.cli import main; main()")
_SYSTEM_PYTHON = "/usr/bin/python3"
"""Which others may run, too."""

only_root_can = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@dataclass(frozen=True)
class Person:
    """A user who types command lines."""

    python: str = sys.executable
    environment: Mapping[str, str] = field(
        default_factory=lambda: {
            name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")
        }
    )
    account: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of `subprocess` that run a process as this account."""

    def types(self, home: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """A command line, with these variables more."""
        line, given = self._line(home, words)
        given["env"] |= more
        return subprocess.run(line, capture_output=True, text=True, timeout=60, check=False, **given)

    def is_refused(self, home: Path, *flags: str) -> str:
        """Why a daemon does not start."""
        done = self.types(home, "serve", *flags)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        return done.stderr

    @contextmanager
    def serves(
        self, home: Path, *flags: str, number: signal.Signals = signal.SIGTERM, umask: int = -1
    ) -> Iterator[list[str]]:
        """A daemon until the end of the body; what it has said and logged after that, and its status."""
        line, given = self._line(home, ("serve", *flags))
        # A log of any length: nothing reads a pipe before the end, and a full one would stop the daemon.
        with tempfile.TemporaryFile("w+") as log:
            # Without a buffer, in which lines behind the first one would stay.
            process = subprocess.Popen(
                line, umask=umask, stdout=subprocess.PIPE, stderr=log, bufsize=0, **given
            )
            assert process.stdout is not None
            reply: list[str] = []
            try:
                first = process.stdout.readline().decode()
                assert "serves " in first
                reply.append(first.rstrip("\n"))
                yield reply
            finally:
                process.send_signal(number)
                try:
                    said, _ = process.communicate(timeout=60)
                finally:
                    process.kill()
                log.seek(0)
                reply += [*said.decode().splitlines(), *log.read().splitlines(), str(process.returncode)]

    def _line(self, home: Path, words: tuple[str, ...]) -> tuple[list[str], dict[str, Any]]:
        environment = {**self.environment, "MUSTER_HOME": str(home)}
        return [self.python, *_MUSTER, *words], {**self.account, "env": environment}


def unprivileged_person(scratch: Path) -> Person:
    """An account that is not root; skips where it may run no Python of this version."""
    if not Path(_SYSTEM_PYTHON).exists():
        pytest.skip("others may run no Python here")
    ask = [_SYSTEM_PYTHON, "-c", "import sys; print(sys.version_info[:2])"]
    version = subprocess.run(ask, capture_output=True, text=True, check=True).stdout
    if version.strip() != str(sys.version_info[:2]):
        pytest.skip("the Python that others may run is another version")
    sources = [
        str(Path(package.__file__).parent.parent),
        *(each for each in sys.path if "site-packages" in each),
    ]
    environment = {
        "PATH": os.defpath,
        "PYTHONPATH": os.pathsep.join(sources),
        "PYTHONPYCACHEPREFIX": str(scratch),
        "XDG_CACHE_HOME": str(scratch),
    }
    return Person(
        _SYSTEM_PYTHON,
        environment,
        {"user": UNPRIVILEGED, "group": "nogroup", "extra_groups": [], "cwd": "/"},
    )


@contextmanager
def open_folder(mode: int) -> Iterator[Path]:
    """A folder where others can come to, as they cannot to a test's own."""
    folder = Path(tempfile.mkdtemp(prefix="muster-test-"))
    folder.chmod(mode)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
