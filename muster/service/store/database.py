"""One database, SQLite or PostgreSQL, up to date and with its failures in words."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, insert, make_url, select
from sqlalchemy.exc import ArgumentError, DatabaseError, DBAPIError, InterfaceError, OperationalError

from muster.problems import BadInput, Problem
from muster.service.store.tables import STORE

SQLITE, POSTGRESQL = "sqlite:///", "postgresql"
_ALLOWED = "sqlite:///PATH or postgresql://USER@HOST/DATABASE is needed"
_WAITS_SECONDS = 30.0
"""For another process that is writing, for instance `muster token --store`."""
_CLAIM = 0x4D757374
"""The number of the advisory lock in PostgreSQL that the one daemon of a database holds."""
_CONNECTIONS, _MORE_CONNECTIONS = 10, 90


class StoreUnavailable(Exception):
    """The store cannot be used just now, and why; nothing is half written, and it may be tried again."""


class Database:
    """Connections for reading, and one at a time for writing."""

    def __init__(self, url: str) -> None:
        self._engine = _engine(url)
        self._writing = threading.Lock()
        try:
            self.origin = self._made_ready(url)
        except BaseException:
            self._engine.dispose()
            raise

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection on which nothing is written."""
        with _failures_in_words(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """The one connection that writes. All of the body is on the disk at the end of it, or nothing."""
        with (
            self._writing,
            _failures_in_words(),
            self._engine.connect().execution_options(writes=True) as connection,
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """The database as one daemon's alone, until the body ends or this process does. BadInput if it is taken."""
        if self._engine.dialect.name == POSTGRESQL:
            with self._engine.connect() as connection:
                if not connection.scalar(select(func.pg_try_advisory_lock(_CLAIM))):
                    raise _taken(self._engine.url.render_as_string(hide_password=True))
                connection.commit()
                try:
                    yield
                finally:  # The connection goes back to the pool, and would keep the lock there.
                    connection.execute(select(func.pg_advisory_unlock(_CLAIM)))
                    connection.commit()
        else:
            with Path(f"{self._engine.url.database}.claim").open("a") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    raise _taken(str(self._engine.url.database)) from None
                yield

    def close(self) -> None:
        """Ends all connections."""
        self._engine.dispose()

    def _made_ready(self, url: str) -> float:
        """Brings the tables up to date; unix seconds of the store's beginning."""
        try:
            with self.writing() as connection:
                _migrate(connection, url)
                origin = connection.scalar(select(STORE.c.origin))
                if origin is None:
                    origin = time.time()
                    connection.execute(insert(STORE).values(id=1, origin=origin, next_job=1))
                return origin
        except DatabaseError as error:
            what = f"this is not a store of Muster: {_said(error)}"
            raise BadInput(Problem(_shown(url), what)) from None


def _taken(store: str) -> BadInput:
    return BadInput(
        Problem("--store", "another daemon works on this store; each needs one of its own", found=store)
    )


def _engine(url: str) -> Engine:
    if url.startswith(SQLITE):
        return _sqlite_engine(Path(url.removeprefix(SQLITE)))
    try:
        parsed = make_url(url)
        if parsed.drivername != POSTGRESQL or not parsed.database:
            raise ArgumentError
    except (ArgumentError, ValueError):
        raise BadInput(Problem("--store", _ALLOWED, found=_shown(url))) from None
    try:
        engine = create_engine(
            parsed.set(drivername="postgresql+psycopg"),
            pool_pre_ping=True,
            pool_size=_CONNECTIONS,
            max_overflow=_MORE_CONNECTIONS,
        )
    except ModuleNotFoundError:
        what = "PostgreSQL needs its driver: pip install 'muster[postgres]'"
        raise BadInput(Problem("--store", what)) from None
    event.listen(engine, "connect", _set_up_postgresql)
    return engine


def _sqlite_engine(path: Path) -> Engine:
    try:
        # Nobody else's to read, and neither are the files that SQLite puts beside it.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreUnavailable(f"{path}: the store cannot be opened: {error.strerror}") from None
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        connect_args={"timeout": _WAITS_SECONDS, "check_same_thread": False},
        pool_size=_CONNECTIONS,
        max_overflow=_MORE_CONNECTIONS,
    )
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _set_up_sqlite(connection: Any, _record: object) -> None:
    # Python's driver would begin and commit transactions as it sees fit; `_begin_sqlite` does instead.
    connection.isolation_level = None
    cursor = connection.cursor()
    for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        cursor.execute(f"PRAGMA {setting}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _set_up_postgresql(connection: Any, _record: object) -> None:
    """Commits are on the disk before they are answered, whatever the server's default."""
    connection.execute(
        "SELECT set_config('synchronous_commit', 'on', false)"
        " WHERE current_setting('synchronous_commit') = 'off'"
    )
    connection.commit()


def _migrate(connection: Connection, url: str) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    folder = Path(__file__).parent / "migrations"
    newest = ScriptDirectory(folder).get_current_head()
    there = MigrationContext.configure(connection).get_current_revision()
    if there == newest:
        return
    known = {step.revision for step in ScriptDirectory(folder).walk_revisions()}
    if there is not None and there not in known:
        what = (
            f"a newer Muster made this store (version {there}; this one knows up to {newest}); use that one"
        )
        raise BadInput(Problem(_shown(url), what))
    config = Config()
    # A path may hold what the configuration would read as its own.
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


@contextmanager
def _failures_in_words() -> Iterator[None]:
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        raise StoreUnavailable(f"the store cannot be used: {_said(error)}") from error


def _said(error: DBAPIError) -> str:
    """The database's own sentence, on one line."""
    return " ".join(str(error.orig).split())


def _shown(url: str) -> str:
    """The address without its password."""
    try:
        return make_url(url).render_as_string(hide_password=True)
    except (ArgumentError, ValueError):
        return url
