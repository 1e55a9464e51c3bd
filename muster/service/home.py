"""MUSTER_HOME: where a daemon keeps what is its own, and where its clients on this machine find it.

muster.db                    the store, unless another one was named
endpoint.json                {"url", "pid"} of the daemon that serves now
lock                         held by that daemon
models/NAME.toml             sensitivities that `muster profile` has measured
jobs/17/run/                 what job 17 and the daemon tell each other (docs/training.md)
jobs/17/output/0.log         output of its first process, of all its starts
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from muster.files import write_aside
from muster.problems import BadInput, Problem

_ENDPOINT, _LOCK = "endpoint.json", "lock"


@dataclass(frozen=True)
class Endpoint:
    """Where the daemon listens, and which process it is."""

    url: str
    pid: int


def home_folder() -> Path:
    """MUSTER_HOME, else the folder `muster` in the XDG state folder."""
    if named := os.environ.get("MUSTER_HOME"):
        return Path(named).absolute()
    state = Path(os.environ.get("XDG_STATE_HOME") or "")
    # A relative one is void, says the XDG specification.
    return (state if state.is_absolute() else Path.home() / ".local" / "state") / "muster"


def make_home(home: Path) -> None:
    """Makes the folders that are missing, for nobody else to read.

    Where the daemon is root, jobs of others go through the home to their own folders, and see no list of it.
    """
    mode = 0o711 if os.geteuid() == 0 else 0o700
    try:
        home.mkdir(parents=True, exist_ok=True)
        for folder in (home, home / "jobs", models_folder(home)):
            folder.mkdir(exist_ok=True)
            folder.chmod(mode)
    except OSError as error:
        what = f"cannot be made Muster's home: {error.strerror}; MUSTER_HOME names another folder"
        raise BadInput(Problem(str(home), what)) from None


@contextmanager
def claimed(home: Path) -> Iterator[None]:
    """The home as one daemon's alone; the kernel gives it up if that one dies. BadInput if it is taken."""
    with (home / _LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            there = read_endpoint(home)
            who = f" (process {there.pid}, {there.url})" if there else ""
            what = f"a daemon serves from this folder already{who}; MUSTER_HOME names another one"
            raise BadInput(Problem(str(home), what)) from None
        yield


def store_url(home: Path) -> str:
    """The store that a home has of itself."""
    return f"sqlite:///{home / 'muster.db'}"


def models_folder(home: Path) -> Path:
    """Where `muster profile` leaves what it has measured."""
    return home / "models"


def job_folder(home: Path, job: int) -> Path:
    """All files of one job."""
    return home / "jobs" / str(job)


def write_endpoint(home: Path, url: str) -> None:
    """Tells clients where this process serves."""
    with write_aside(home / _ENDPOINT) as aside:
        aside.write_text(json.dumps({"url": url, "pid": os.getpid()}) + "\n", encoding="utf-8")


def remove_endpoint(home: Path) -> None:
    """Tells clients that nobody serves."""
    (home / _ENDPOINT).unlink(missing_ok=True)


def read_endpoint(home: Path) -> Endpoint | None:
    """Where the daemon serves, as it said last; it may be dead."""
    try:
        told = json.loads((home / _ENDPOINT).read_text(encoding="utf-8"))
        return Endpoint(str(told["url"]), int(told["pid"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        what = "cannot be read as a daemon's address; start the daemon anew, or set MUSTER_URL"
        raise BadInput(Problem(str(home / _ENDPOINT), what)) from None
