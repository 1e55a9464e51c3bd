"""Which databases are taken, and what happens when one fails."""

from __future__ import annotations

import json
import shutil
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, make_url

from muster.problems import InputError
from muster.service.store import Store, StoreUnavailable
from muster.service.store.database import _OPENING, Database
from muster.service.store.rows import State, StoreChanges, Submission
from muster.service.store.tables import METADATA

from ..serving import a_request
from .conftest import Server, new_database


def test_the_steps_lead_to_the_tables_that_the_code_means(url: str) -> None:
    database = Database(url)
    with database.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
    database.close()


def test_a_newer_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "muster.db"
    Store.open(f"sqlite:///{path}").close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '999'")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(
        InputError, match=r"a newer Muster made this store \(version 999; this one knows up to \d+\)"
    ):
        Store.open(f"sqlite:///{path}")
    assert path.read_bytes() == before


def test_a_store_of_a_development_version_is_refused(url: str) -> None:
    """Its step has the same number as the first one of this version, and its tables other columns."""
    database = Database(url)
    with database.writing() as connection:
        connection.exec_driver_sql("ALTER TABLE jobs RENAME COLUMN lease_end TO turn_ends")
    database.close()
    error = (
        "a development version of Muster made this store: the columns lease_end, turn_ends of its table jobs"
    )
    with pytest.raises(InputError, match=error):
        Database(url)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://x/y", "sqlite:///PATH or postgresql://"),
        ("postgresql://user:secret@host", r"found 'postgresql://user:\*\*\*@host'"),
        ("nonsense", "sqlite:///PATH or postgresql://"),
        ("", "sqlite:///PATH or postgresql://"),
        (
            "postgresql://user:secret@host:port/x",
            r"found 'postgresql://user:\*\*\*@host:port/x'; allowed: sqlite",
        ),
        ("postgresql://user@/x?port=many&password=secret", r"port=many&password=\*\*\*'; allowed: sqlite"),
        ("postgresql://user:%00secret@host/x", "sqlite:///PATH or postgresql://"),
        ("postgresql://user:secret@/x?colour=red", 'invalid connection option "colour"; allowed: sqlite'),
    ],
)
def test_an_address_of_no_store_is_refused(url: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        Store.open(url)
    assert "secret" not in str(refused.value)


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.db"
    path.write_text("this is not a database, it is a text of some length\n" * 30)
    with pytest.raises(InputError, match="not a store of Muster: file is not a database"):
        Store.open(f"sqlite:///{path}")
    with pytest.raises(InputError, match="Is a directory"):
        Store.open(f"sqlite:///{tmp_path}")


def test_a_store_path_may_have_any_characters_and_mode_0600(tmp_path: Path) -> None:
    folder = tmp_path / "a?b=c %41#é"
    folder.mkdir()
    store = Store.open(f"sqlite:///{folder}/my.db")
    store.submit([Submission("ann", a_request())])
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    assert (folder / "my.db").exists()
    store.close()


def test_a_full_disk_is_an_error_and_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """In a file system of 1 MB that this process never sees."""
    unshare = shutil.which("unshare")
    if (
        unshare is None
        or subprocess.run([unshare, "-rm", "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("this account may not mount a file system in a name space of its own")
    code = Path(__file__).with_name("on_a_full_disk.py")
    mounted = 'mount -t tmpfs -o size=1m none "$1" && exec "$2" "$3" "$1"'
    done = subprocess.run(
        [unshare, "-rm", "sh", "-c", mounted, "sh", tmp_path, sys.executable, code],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr
    reply = json.loads(done.stdout)
    assert reply["refusals"] == ["the store cannot be used: database or disk is full"] * 2
    assert reply["read_meanwhile"] == reply["acknowledged"]
    assert (
        reply["there"] == [*reply["acknowledged"], *reply["after"]] == list(range(1, len(reply["there"]) + 1))
    )
    assert reply["state"] == "held"


@pytest.mark.needs_postgres
def test_a_lost_server_is_an_error_that_loses_nothing_saved(postgres: Server) -> None:
    store = Store.open(new_database(postgres))
    acknowledged = store.submit([Submission("ann", a_request())] * 3)
    postgres.stop("immediate")
    try:
        with pytest.raises(StoreUnavailable, match="the store cannot be used: "):
            store.submit([Submission("ann", a_request())])
        with pytest.raises(StoreUnavailable):
            store.commit(StoreChanges(jobs={1: {"state": State.HELD}}))
        with pytest.raises(StoreUnavailable):
            store.living()
    finally:
        postgres.start()
    assert [row.id for row in store.living()] == acknowledged
    assert store.submit([Submission("ann", a_request())]) == [4]
    store.close()


@pytest.mark.needs_postgres
def test_a_missing_server_is_reported(tmp_path: Path) -> None:
    url = f"postgresql://muster:secret@/x?host={tmp_path}"
    with pytest.raises(StoreUnavailable, match=r"the store cannot be used: .* Hint: createdb ") as refused:
        Store.open(url)
    assert str(refused.value).startswith(f"--store: found {url.replace('secret', '***')!r}; ")


@pytest.mark.needs_postgres
def test_a_lost_machine_is_noticed_within_half_a_minute(postgres: Server) -> None:
    database = Database(f"{new_database(postgres)}&keepalives_idle=7")
    with database.reading() as connection:
        driver = connection.connection.dbapi_connection
        assert driver is not None
        stated = driver.info.get_parameters()
    database.close()
    assert {name: stated[name] for name in ("connect_timeout", "tcp_user_timeout", "keepalives_idle")} == {
        "connect_timeout": "10",
        "tcp_user_timeout": "30000",
        "keepalives_idle": "7",
    }


@pytest.mark.needs_postgres
def test_a_database_that_cannot_keep_each_name_is_refused(postgres: Server) -> None:
    url = new_database(postgres, "ENCODING latin1 TEMPLATE template0")
    with pytest.raises(InputError, match=r"of this database is LATIN1; allowed: UTF8\. Hint: createdb"):
        Store.open(url)


def execute(url: str, *statements: str) -> None:
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()


@pytest.mark.needs_postgres
@pytest.mark.parametrize(
    ("prevent", "allow", "said"),
    [
        (
            "ALTER ROLE {} SET default_transaction_read_only = on",
            "ALTER ROLE {} RESET default_transaction_read_only",
            "in a read-only transaction",
        ),
        ("REVOKE ALL ON store FROM {}", "GRANT ALL ON store TO {}", "permission denied for table store"),
    ],
)
def test_a_store_that_cannot_be_written_loses_nothing(
    postgres: Server, prevent: str, allow: str, said: str
) -> None:
    """As after a failover to a standby, or a mistake with permissions: tried again, not the end of the daemon."""
    url = new_database(postgres)
    account = make_url(url).database
    execute(url, f"CREATE ROLE {account} LOGIN", f"GRANT ALL ON SCHEMA public TO {account}")
    as_account = url.replace("//muster@", f"//{account}@")
    connections_end = (
        f"SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE usename = '{account}'"
    )
    store = Store.open(as_account)
    acknowledged = store.submit([Submission("ann", a_request())])
    execute(url, prevent.format(account), connections_end)
    with pytest.raises(StoreUnavailable, match=f"the store cannot be used: .*{said}"):
        store.submit([Submission("ann", a_request())])
    execute(url, allow.format(account), connections_end)
    assert [row.id for row in store.living()] == acknowledged
    assert store.submit([Submission("ann", a_request())]) == [2]
    store.close()


@pytest.mark.needs_postgres
def test_of_two_daemons_one_makes_the_tables(postgres: Server) -> None:
    url = new_database(postgres)
    first = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with first.connect() as connection:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_OPENING})")
        with pytest.raises(StoreUnavailable, match="lock timeout"):
            Store.open(f"{url}&options=-clock_timeout=50")
    first.dispose()
    Store.open(f"{url}&options=-clock_timeout=50").close()


def test_a_store_is_one_daemons_alone(store: Store, url: str) -> None:
    other = Store.open(url)
    with (
        store.claimed(),
        pytest.raises(InputError, match="another daemon works on this store"),
        other.claimed(),
    ):
        pass
    with other.claimed():
        pass
    other.close()
