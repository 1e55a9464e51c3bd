"""The daemon's Unix socket: bind it, connect to it, and read the account at its other end.

The kernel notes the account of each end when a connection is made (SO_PEERCRED, unix(7)); no end can name another one.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from muster.problems import InputError, Problem, Unable

SCHEME = "unix://"
"""Starts the URL of a Unix socket; the rest is its path."""
_ADDRESS_BYTES = 107
"""Most that the kernel takes as the path of a socket (108 with the final zero)."""
_CREDENTIALS = struct.Struct("=iII")
"""Process, account and group, as SO_PEERCRED has them."""
_TIMEVAL = struct.Struct("@ll")
_BACKLOG = 2048
"""Clients that wait while the daemon compiles; the kernel may allow fewer."""


def bind(path: Path, mode: int) -> socket.socket:
    """A listening socket at `path` with this mode, in place of one that a killed daemon left there.

    The caller holds the lock of the home, so no living daemon listens there. The mode is set by the umask while the
    file is made: a later chmod could follow a link put in its place. InputError where no socket can be made.
    """
    listener = socket.socket(socket.AF_UNIX)
    umask = os.umask(0o777 & ~mode)
    try:
        _remove_stale(path)
        with _address(path) as address:
            listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        what = (
            f"no socket can be made here: {error.strerror}. Hint: MUSTER_HOME names a folder on a local disk"
        )
        raise InputError(Problem(str(path), what)) from None
    except InputError:
        listener.close()
        raise
    finally:
        os.umask(umask)
    return listener


def connect(path: Path, timeout_seconds: float) -> socket.socket:
    """A connection to the socket at `path`, with this timeout for each operation. OSError where nothing listens.

    Unable where the listener is neither root's, nor this account's, nor that of the folder's owner: another account
    took the path in a folder that others can write.
    """
    connection = socket.socket(socket.AF_UNIX)
    try:
        # With a Python timeout a full queue would fail at once; the kernel waits where this limit is set.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEVAL.pack(int(timeout_seconds), 0))
        with _address(path) as address:
            connection.connect(address)
        if (listener := peer_uid(connection)) not in (0, os.geteuid(), path.parent.stat().st_uid):
            raise Unable(
                f"{path}: account {listener} listens here and does not own the folder; nothing was sent"
            )
        connection.settimeout(timeout_seconds)
    except BaseException:
        connection.close()
        raise
    return connection


def peer_uid(connection: socket.socket) -> int | None:
    """The account at the other end of a Unix socket; None for a socket of another family."""
    if connection.family != socket.AF_UNIX:
        return None
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(found)
    return int(uid)


def _remove_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise InputError(
            Problem(str(path), "this is not a socket. Hint: remove it, the daemon makes its own")
        )
    path.unlink()


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """What to give the kernel for `path`; a longer one than it takes goes by a descriptor of the folder."""
    if len(os.fsencode(path)) <= _ADDRESS_BYTES:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
