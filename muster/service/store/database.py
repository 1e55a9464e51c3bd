"""One database, SQLite or PostgreSQL, up to date, its failures as one exception."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    create_engine,
    event,
    func,
    insert,
    inspect,
    make_url,
    select,
    update,
)
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    DBAPIError,
    InterfaceError,
    InternalError,
    OperationalError,
)

from muster.extras import POSTGRES, install_command
from muster.problems import InputError, Problem, Unable
from muster.service.store.claims import claim_on
from muster.service.store.tables import METADATA, STORE

SQLITE, POSTGRESQL = "sqlite:///", "postgresql"
_ALLOWED = "allowed: sqlite:///PATH or postgresql://USER@HOST/DATABASE"
_HINT = "Hint: createdb makes a database; its user may write into it, and the password is in PGPASSWORD or ~/.pgpass"
_WAITS_SECONDS = 30.0
"""For another process that is writing, for instance `muster token --store`."""
_CONNECTIONS, _MORE_CONNECTIONS = 10, 90
_WAITS_FOR_THE_SERVER: dict[str, int] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""Parameters of libpq, in seconds and the last one in milliseconds: a machine that is gone is noticed within half a
minute, not after the two hours of the kernel."""
_MAY_PASS = (OperationalError, InterfaceError, InternalError)
"""An InternalError is, among others, that the server only reads since it has become a standby."""
_NO_PERMISSION = "42501"
_ENCODING = "UTF8"
_OPENING = 0x4D757375
"""Of the advisory lock in PostgreSQL that a process holds while it brings the tables up to date."""
_TAKEN = "another daemon has taken this store; what this one was about to write is left out"


class StoreUnavailable(Unable):
    """The store cannot be used just now, and why; nothing is half written, and it may be tried again."""


class StoreTaken(Unable):
    """Another daemon works on this store now. Nothing is written, and nothing may be any more."""


class Database:
    """Connections for reading, and one at a time for writing."""

    def __init__(self, url: str, *, make: bool = True) -> None:
        self._shown = _shown(url)
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
                raise InputError(Problem("--store", what, found=self._shown))
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
                if connection.dialect.name == POSTGRESQL:
                    _check_encoding(connection, self._shown)
                    connection.execute(select(func.pg_advisory_xact_lock(_OPENING)))
                _migrate(connection, url, make)
                if connection.scalar(select(STORE.c.origin)) is None:
                    connection.execute(insert(STORE).values(id=1, origin=time.time(), next_job=1))
                origin, claim = connection.execute(select(STORE.c.origin, STORE.c.claim)).one()
                return origin, claim
        except StoreUnavailable as error:
            if self._engine.dialect.name != POSTGRESQL:
                raise
            said = str(error) if str(error).endswith("?") else f"{error}."
            raise StoreUnavailable(f"--store: found {self._shown!r}; {said} {_HINT}") from error
        except DatabaseError as error:
            if getattr(error.orig, "sqlstate", "") is None:  # The address, which no server has seen.
                raise InputError(
                    Problem("--store", f"{_said(error)}; {_ALLOWED}", found=self._shown)
                ) from None
            what = f"this is not a store of Muster: {_said(error)}"
            raise InputError(Problem(self._shown, what)) from None


def _engine(url: str, make: bool) -> Engine:
    if url.startswith(SQLITE):
        return _sqlite_engine(Path(url.removeprefix(SQLITE)), make)
    try:
        parsed = make_url(url)
        if parsed.drivername != POSTGRESQL or not parsed.database or "\0" in unquote(url):
            raise ArgumentError
        engine = create_engine(
            parsed.set(drivername="postgresql+psycopg"),
            connect_args=_connection_options(parsed),
            pool_pre_ping=True,
            pool_size=_CONNECTIONS,
            max_overflow=_MORE_CONNECTIONS,
        )
        engine.dialect.create_connect_args(engine.url)  # Looks at the ports, which make_url did not.
    except (ArgumentError, ValueError):
        raise InputError(Problem("--store", _ALLOWED, found=_shown(url))) from None
    except ModuleNotFoundError:
        what = f"PostgreSQL needs its driver, which is not installed. Hint: {install_command(POSTGRES)}"
        raise InputError(Problem("--store", what)) from None
    event.listen(engine, "connect", _set_up_postgresql)
    return engine


def _connection_options(address: URL) -> dict[str, Any]:
    """What libpq gets beside the address: what that says itself, or PGCONNECT_TIMEOUT, counts instead."""
    stated = {*address.query, *(["connect_timeout"] if "PGCONNECT_TIMEOUT" in os.environ else [])}
    waits = {name: value for name, value in _WAITS_FOR_THE_SERVER.items() if name not in stated}
    return waits | {"client_encoding": _ENCODING}


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


def _check_encoding(connection: Connection, shown: str) -> None:
    """InputError unless the database can keep the name of every job."""
    found = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
    if found != _ENCODING:
        what = (
            f"the encoding of this database is {found}; allowed: {_ENCODING}. "
            f"Hint: createdb -E {_ENCODING} -T template0 NAME"
        )
        raise InputError(Problem("--store", what, found=shown))


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
    except DBAPIError as error:
        if not isinstance(error, _MAY_PASS) and getattr(error.orig, "sqlstate", None) != _NO_PERMISSION:
            raise
        raise StoreUnavailable(f"the store cannot be used: {_said(error)}") from error


def _said(error: DBAPIError) -> str:
    """The database's own sentence, on one line."""
    return " ".join(str(error.orig).split())


def _shown(url: str) -> str:
    """The address without its password, also where it cannot be read as one."""
    without = re.sub(r"^([^/]*//[^:/@]*):.*@", r"\1:***@", url, flags=re.DOTALL)
    return re.sub(r"(?<=[?&]password=)[^&]*", "***", without)
