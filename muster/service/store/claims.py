"""Whose a database is: a lock that ends with its holder. A file's on this machine, or one of PostgreSQL's own."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.exc import DBAPIError

from muster.files import open_lock_file
from muster.problems import InputError, Problem

_NUMBER = 0x4D757374
"""Of the advisory lock in PostgreSQL that the one daemon of a database holds."""


class StoreClaim(Protocol):
    """Held by one process at most; its death ends it."""

    def take(self) -> bool:
        """Whether it is this process's now; else another one has it."""

    def is_kept(self) -> bool:
        """Whether what was taken is this process's still; if not, it may be taken again."""

    def release(self) -> None:
        """Give it up."""


def claim_on(engine: Engine) -> StoreClaim:
    """The claim that belongs to a database."""
    is_file = engine.dialect.name == "sqlite"
    return _OfAFile(Path(f"{engine.url.database}.claim")) if is_file else _OfAServer(engine)


class _OfAFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def take(self) -> bool:
        try:
            file = open_lock_file(self._path)
        except OSError as error:
            raise InputError(Problem(str(self._path), f"cannot be locked: {error.strerror}")) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            return False
        self._file = file
        return True

    def is_kept(self) -> bool:
        return self._file is not None

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


class _OfAServer:
    """The server gives it up with the connection that took it, so that one is used for nothing else."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = None

    def take(self) -> bool:
        self._connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        taken = False
        try:
            taken = bool(self._connection.scalar(select(func.pg_try_advisory_lock(_NUMBER))))
        finally:
            if not taken:
                self.release()
        return taken

    def is_kept(self) -> bool:
        if self._connection is None:
            return False
        try:
            self._connection.execute(select(1))
        except DBAPIError:
            self.release()  # It would connect again by itself, and have no lock.
            return False
        return True

    def release(self) -> None:
        if self._connection is not None:
            with self._connection as ending:
                # The server may take its time to see that a connection has ended.
                with suppress(DBAPIError):
                    if not ending.invalidated:
                        ending.execute(select(func.pg_advisory_unlock(_NUMBER)))
                ending.invalidate()  # Else the pool kept it, and the server the lock.
            self._connection = None
