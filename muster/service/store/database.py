"""One database, SQLite or PostgreSQL, up to date, its failures as one exception."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    create_engine,
    event,
    insert,
    inspect,
    make_url,
    select,
    update,
)
from sqlalchemy.exc import ArgumentError, DatabaseError, DBAPIError, InterfaceError, OperationalError

from muster.extras import POSTGRES, install_command
from muster.problems import InputError, Problem, Unable
from muster.service.store.claims import claim_on
from muster.service.store.tables import METADATA, STORE

SQLITE, POSTGRESQL = "sqlite:///", "postgresql"
_ALLOWED = "allowed: sqlite:///PATH or postgresql://USER@HOST/DATABASE"
_WAITS_SECONDS = 30.0
"""For another process that is writing, for instance `muster token --store`."""
_CONNECTIONS, _MORE_CONNECTIONS = 10, 90
_TAKEN = "another daemon has taken this store; what this one was about to write is left out"


class StoreUnavailable(Unable):
    """The store cannot be used just now, and why; nothing is half written, and it may be tried again."""


class StoreTaken(Unable):
    """Another daemon works on this store now. Nothing is written, and nothing may be any more."""


class Database:
    """Connections for reading, and one at a time for writing."""

    def __init__(self, url: str, *, make: bool = True) -> None:
        self._engine = _engine(url, make)
        self._claim = claim_on(self._engine)
        self._is_claimed = False
        self._writing = threading.Lock()
        self._together = threading.local()
        try:
            self.origin, self.claim = self._made_ready(url, make)
        except BaseException:
            self._engine.dispose()
            raise

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection on which nothing is written."""
        shared: Connection | None = getattr(self._together, "connection", None)
        with (
            _failures_as_unavailable(),
            self._engine.connect() if shared is None else nullcontext(shared) as connection,
        ):
            yield connection

    @contextmanager
    def together(self) -> Iterator[None]:
        """Whatever this thread reads in the body, it reads as of one moment."""
        if hasattr(self._together, "connection"):
            yield
            return
        options = {"isolation_level": "REPEATABLE READ"} if self._engine.dialect.name == POSTGRESQL else {}
        with _failures_as_unavailable(), self._engine.connect().execution_options(**options) as connection:
            self._together.connection = connection
            try:
                yield
            finally:
                del self._together.connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """The one connection that writes. All of the body is on the disk at the end of it, or nothing."""
        with (
            self._writing,
            _failures_as_unavailable(),
            self._engine.connect().execution_options(writes=True) as connection,
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """The database as one daemon's alone, until the body ends or this process does. InputError if it is taken."""
        with _failures_as_unavailable():
            if not self._claim.take():
                what = "another daemon works on this store; each needs one of its own"
                shown = self._engine.url.render_as_string(hide_password=True)
                raise InputError(Problem("--store", what, found=shown))
        self._is_claimed = True
        try:
            with self.writing() as connection:
                number = update(STORE).values(claim=STORE.c.claim + 1).returning(STORE.c.claim)
                self.claim = connection.execute(number).scalar_one()
            yield
        finally:
            self._is_claimed = False
            self._claim.release()

    def keep_claim(self) -> None:
        """Takes the claim again if the server has lost it. StoreTaken if another daemon was there first."""
        with _failures_as_unavailable():
            if not self._is_claimed or self._claim.is_kept():
                return
            if not self._claim.take():
                raise StoreTaken(_TAKEN)
        try:
            with self.reading() as connection:  # Another one may have come and gone.
                self.check_claim(connection.execute(select(STORE.c.claim)).scalar_one())
        except BaseException:
            self._claim.release()
            raise

    def check_claim(self, number: int) -> None:
        """StoreTaken unless this is the number of the claim that was taken last by this process."""
        if number != self.claim:
            raise StoreTaken(_TAKEN)

    def close(self) -> None:
        """Ends all connections."""
        self._engine.dispose()

    def _made_ready(self, url: str, make: bool) -> tuple[float, int]:
        """Brings the tables up to date; unix seconds of the store's beginning, and how often it was claimed."""
        try:
            with self.writing() as connection:
                _migrate(connection, url, make)
                if connection.scalar(select(STORE.c.origin)) is None:
                    connection.execute(insert(STORE).values(id=1, origin=time.time(), next_job=1))
                origin, claim = connection.execute(select(STORE.c.origin, STORE.c.claim)).one()
                return origin, claim
        except DatabaseError as error:
            what = f"this is not a store of Muster: {_said(error)}"
            raise InputError(Problem(_shown(url), what)) from None


def _engine(url: str, make: bool) -> Engine:
    if url.startswith(SQLITE):
        return _sqlite_engine(Path(url.removeprefix(SQLITE)), make)
    try:
        parsed = make_url(url)
        if parsed.drivername != POSTGRESQL or not parsed.database:
            raise ArgumentError
    except (ArgumentError, ValueError):
        raise InputError(Problem("--store", _ALLOWED, found=_shown(url))) from None
    try:
        engine = create_engine(
            parsed.set(drivername="postgresql+psycopg"),
            pool_pre_ping=True,
            pool_size=_CONNECTIONS,
            max_overflow=_MORE_CONNECTIONS,
        )
    except ModuleNotFoundError:
        what = f"PostgreSQL needs its driver, which is not installed. Hint: {install_command(POSTGRES)}"
        raise InputError(Problem("--store", what)) from None
    event.listen(engine, "connect", _set_up_postgresql)
    return engine


def _sqlite_engine(path: Path, make: bool) -> Engine:
    try:
        # Only for its owner to read, and so are the files that SQLite puts beside it.
        flags = os.O_CREAT if make else 0
        os.close(os.open(path, flags | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        what = f"no store can be opened here: {error.strerror}"
        raise InputError(Problem(str(path), what)) from None
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


def _migrate(connection: Connection, url: str, make: bool) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    folder = Path(__file__).parent / "migrations"
    newest = ScriptDirectory(folder).get_current_head()
    there = MigrationContext.configure(connection).get_current_revision()
    if there == newest:
        _check_tables(connection, url)
        return
    if there is None and not make:
        raise InputError(Problem(_shown(url), "there is no store of Muster; muster serve makes one"))
    known = {step.revision for step in ScriptDirectory(folder).walk_revisions()}
    if there is not None and there not in known:
        what = (
            f"a newer Muster made this store (version {there}; this one knows up to {newest}); use that one"
        )
        raise InputError(Problem(_shown(url), what))
    config = Config()
    # A path may hold what the configuration would read as its own.
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _check_tables(connection: Connection, url: str) -> None:
    """InputError unless the store has the columns that are meant: development versions had others at this step."""
    there = inspect(connection)
    for table in METADATA.sorted_tables:
        exists = there.has_table(table.name)
        found = {column["name"] for column in there.get_columns(table.name)} if exists else set()
        if different := sorted(found ^ set(table.columns.keys())):
            what = (
                f"a development version of Muster made this store: the columns {', '.join(different)} of its "
                f"table {table.name} differ. Hint: serve another store or home, or use that version"
            )
            raise InputError(Problem(_shown(url), what))


@contextmanager
def _failures_as_unavailable() -> Iterator[None]:
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
