"""Databases for the store: a file of SQLite, and a PostgreSQL server of our own."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from muster.service.store import Store

from ..accounts import UNPRIVILEGED

DEBIANS = Path("/usr/lib/postgresql")


def programs() -> Path | None:
    """Where PostgreSQL's programs are; Debian keeps them out of PATH."""
    found = shutil.which("initdb")
    places = [
        *sorted(DEBIANS.glob("*/bin"), reverse=True),
        *([Path(found).resolve().parent] if found else []),
    ]
    return next((place for place in places if (place / "pg_ctl").exists()), None)


@dataclass
class Server:
    """A PostgreSQL server on a socket in a folder."""

    programs: Path
    folder: Path
    account: str | None
    """PostgreSQL refuses to be root's."""

    def run(self, program: str, *arguments: str) -> None:
        """One of its programs, as its account."""
        log = self.folder / "program.log"
        with log.open("ab") as output:
            subprocess.run(
                [self.programs / program, "-D", self.folder / "data", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                user=self.account,
                cwd=self.folder,
                check=True,
            )

    def start(self) -> None:
        """Begin to serve; ready at the end."""
        options = f"-k {self.folder} -c listen_addresses= -c max_connections=50 -c fsync=off"
        self.run("pg_ctl", "start", "-w", "-l", str(self.folder / "server.log"), "-o", options)

    def stop(self, how: str) -> None:
        """`fast`, or `immediate` as if it had crashed."""
        self.run("pg_ctl", "stop", "-w", "-m", how)

    def url(self, database: str) -> str:
        """As `--store` takes it."""
        return f"postgresql://muster@/{database}?host={self.folder}"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    found = programs()
    if found is None:
        pytest.skip("PostgreSQL's initdb and pg_ctl are not here (Debian: apt-get install postgresql)")
    account = None
    if os.geteuid() == 0:
        names = {entry.pw_name for entry in pwd.getpwall()}
        account = "postgres" if "postgres" in names else UNPRIVILEGED
    # Not in pytest's own folder, which is its user's alone; and a socket's path must be short.
    folder = Path(tempfile.mkdtemp(prefix="muster-postgres-"))
    try:
        if account is not None:
            shutil.chown(folder, account)
        server = Server(found, folder, account)
        server.run("initdb", "-U", "muster", "-A", "trust", "--no-sync", "--no-locale", "-E", "UTF8")
        server.start()
        try:
            yield server
        finally:
            server.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


_databases = itertools.count(1)


def new_database(server: Server, options: str = "") -> str:
    """The URL of an empty one, made with options of CREATE DATABASE."""
    name = f"muster_{next(_databases)}"
    engine = create_engine(
        server.url("postgres").replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name} {options}")
    engine.dispose()
    return server.url(name)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.needs_postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'muster.db'}"
    return new_database(request.getfixturevalue("postgres"))


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = Store.open(url)
    yield opened
    opened.close()
