"""MUSTER_HOME: where a daemon keeps what is its own, and where its clients on this machine find it.

muster.db                    the store, unless another one was named
store.json                   {"made"} of the store whose jobs the folders here are of
muster.sock                  Unix socket of the daemon that serves now, or soon
endpoint.json                {"pid", "starting", "url"} of that daemon; the URL is null unless it listens on TCP too
lock                         held by that daemon
engines/local/               what the engine of that name remembers of its starts
models/NAME.toml             sensitivities that `muster profile` has measured
jobs/                        the jobs' folders, or a link to a folder on a shared disk (`muster serve --jobs`)
jobs/17/whose                which job 17 that is: numbers come again with another store
jobs/17/run/                 where job 17 and the daemon exchange files (docs/how-to/training.md)
jobs/17/output/0.log         output of its first process, of all its starts
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from muster.files import open_lock_file, write_aside
from muster.problems import InputError, Problem

MACHINES_HOME = Path("/var/lib/muster")
"""Of a daemon for all users: unlike root's own folders, others can pass it on the way to their jobs."""

WHOSE, JOBS = "whose", "jobs"
_ENDPOINT, _LOCK, _STORE = "endpoint.json", "lock", "store.json"


@dataclass(frozen=True)
class Endpoint:
    """The daemon of a home."""

    pid: int
    starting: bool = False
    """It compiles first; requests wait until it has."""
    url: str | None = None
    """Where it listens on TCP; None: nowhere."""


def home_folder() -> Path:
    """MUSTER_HOME, else the folder `muster` in the XDG state folder."""
    if named := os.environ.get("MUSTER_HOME"):
        return Path(named).absolute()
    state = Path(os.environ.get("XDG_STATE_HOME") or "")
    # A relative one is void, says the XDG specification.
    return (state if state.is_absolute() else Path.home() / ".local" / "state") / "muster"


def homes_to_ask() -> list[Path]:
    """Where a client looks for its daemon: in its own home, and, if none serves there, in the machine's.

    Who names a home means that one.
    """
    own = home_folder()
    return [own] if os.environ.get("MUSTER_HOME") else [own, MACHINES_HOME]


def make_home(home: Path) -> None:
    """Makes the missing folders, readable by this user only.

    Where the daemon is root, jobs of others go through the home to their own folders, and see no list of it. What
    is there already keeps its mode: it may be meant so.
    """
    if (home / JOBS).is_symlink() and not jobs_folder(home).is_dir():
        what = "the jobs' folders are there, and it cannot be reached. Hint: mount its disk"
        raise InputError(Problem(str(jobs_folder(home)), what))
    try:
        alone = jobs_folder(home).is_dir() != models_folder(home).is_dir()  # Muster makes them together.
        if alone and not (home / _STORE).exists():
            what = "holds a folder jobs or models of something else; MUSTER_HOME names another folder"
            raise InputError(Problem(str(home), what))
        for folder in (home, jobs_folder(home), models_folder(home)):
            if not folder.is_dir():
                folder.mkdir(parents=True, exist_ok=True)
                folder.chmod(0o711 if os.geteuid() == 0 else 0o700)  # whatever the umask
    except OSError as error:
        what = f"cannot be made Muster's home: {error.strerror}; MUSTER_HOME names another folder"
        raise InputError(Problem(str(home), what)) from None


def shut_to_others(home: Path) -> str:
    """Why jobs of others could not reach their folders, where the daemon is root, without a full stop; else empty."""
    jobs = jobs_folder(home).resolve()
    shut = [str(folder) for folder in reversed((jobs, *jobs.parents)) if not _others_can_pass(folder.stat())]
    if os.geteuid() != 0 or not shut:
        return ""
    return (
        f"only root can pass {' and '.join(shut)}, so jobs of others could not reach their folders; "
        f"MUSTER_HOME={MACHINES_HOME} is a home for all, or chmod o+x opens the way"
    )


def _others_can_pass(folder: os.stat_result) -> bool:
    """All of them, or a group of them."""
    return bool(folder.st_mode & stat.S_IXOTH) or bool(folder.st_mode & stat.S_IXGRP and folder.st_gid != 0)


@contextmanager
def claimed(home: Path) -> Iterator[None]:
    """The home as one daemon's alone; the kernel gives it up if that one dies. InputError if it is taken."""
    try:
        lock = open_lock_file(home / _LOCK)
    except OSError as error:
        raise InputError(Problem(str(home / _LOCK), f"cannot be locked: {error.strerror}")) from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            there = read_endpoint(home)
            who = f" (process {there.pid})" if there else ""
            what = f"a daemon serves from this folder already{who}; MUSTER_HOME names another one"
            raise InputError(Problem(str(home), what)) from None
        yield
    finally:
        os.close(lock)


def socket_path(home: Path) -> Path:
    """Where the daemon of this home listens."""
    return home / "muster.sock"


def store_url(home: Path) -> str:
    """The store that a home has of itself."""
    return f"sqlite:///{home / 'muster.db'}"


def bind_store(home: Path, made: float) -> None:
    """Notes whose jobs the folders here are: of the store that was made then (unix seconds), which names it.

    InputError if they are another store's: its numbers mean other jobs, which would go on from strangers' checkpoints.
    """
    if (home / JOBS).is_symlink():
        _bind_folder(jobs_folder(home), home, made)
    _bind_folder(home, home, made)


def _bind_folder(folder: Path, home: Path, made: float) -> None:
    file = folder / _STORE
    try:
        bound = float(json.loads(file.read_text(encoding="utf-8"))["made"])
    except (OSError, ValueError, KeyError, TypeError):
        bound = None
    if bound == made:
        return
    if bound is not None and newest_job_folder(home):
        what = (
            f"the jobs' folders here are of the store that was made on {_moment(bound)}, and this one was made on "
            f"{_moment(made)}; serve that store, or name another home (MUSTER_HOME), or move {jobs_folder(home)} away"
        )
        raise InputError(Problem(str(folder), what))
    with write_aside(file) as aside:
        aside.write_text(json.dumps({"made": made}) + "\n", encoding="utf-8")


def _moment(unix_seconds: float) -> str:
    return f"{datetime.fromtimestamp(unix_seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def newest_job_folder(home: Path) -> int:
    """The largest number of a job that has a folder here; 0 without any."""
    return max(
        (int(entry.name) for entry in jobs_folder(home).iterdir() if entry.name.isdecimal()), default=0
    )


def engine_folder(home: Path, engine: str) -> Path:
    """Where an engine of this name remembers its starts."""
    return home / "engines" / engine


def models_folder(home: Path) -> Path:
    """Where `muster profile` leaves what it has measured."""
    return home / "models"


def job_folder(home: Path, job: int) -> Path:
    """All files of one job."""
    return jobs_folder(home) / str(job)


def jobs_folder(home: Path) -> Path:
    """Where it really is: paths go to jobs on other machines, where the home's link is not."""
    link = home / JOBS
    return home / link.readlink() if link.is_symlink() else link


def write_endpoint(home: Path, url: str | None = None, *, starting: bool = False) -> None:
    """Publish that this process serves, or, while it is starting, that it will; and its URL on TCP."""
    content = {"pid": os.getpid(), "starting": starting, "url": url}
    with write_aside(home / _ENDPOINT) as aside:
        aside.write_text(json.dumps(content) + "\n", encoding="utf-8")


def remove_endpoint(home: Path) -> None:
    """Publish that no daemon serves."""
    (home / _ENDPOINT).unlink(missing_ok=True)


def read_endpoint(home: Path) -> Endpoint | None:
    """The daemon that published itself here last; it may be dead."""
    try:
        content = json.loads((home / _ENDPOINT).read_text(encoding="utf-8"))
        return Endpoint(int(content["pid"]), bool(content["starting"]), content["url"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        what = "cannot be read as a daemon's file. Hint: restart the daemon, or set MUSTER_URL"
        raise InputError(Problem(str(home / _ENDPOINT), what)) from None
