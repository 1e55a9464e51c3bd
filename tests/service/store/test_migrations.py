"""The migrations make the tables that the code expects."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from muster.service.store import Store
from muster.service.store.rows import State, StepsDone, StoreChanges, Submission
from muster.service.store.tables import METADATA

from ..serving import a_request
from .conftest import new_database

DEFINITIONS = {
    "sqlite": "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name <> 'alembic_version'",
    "postgresql": "SELECT indexname, indexdef FROM pg_indexes"
    " WHERE schemaname = 'public' AND tablename <> 'alembic_version'",
}
"""What Alembic does not compare, partial indexes above all."""


def engine_of(url: str) -> sa.Engine:
    return sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))


def definitions(engine: sa.Engine) -> dict[str, str]:
    with engine.connect() as connection:
        found = connection.execute(sa.text(DEFINITIONS[engine.dialect.name]))
        return {str(name): " ".join(str(definition).split()) for name, definition in found}


@pytest.fixture
def other_url(url: str, request: pytest.FixtureRequest) -> str:
    if url.startswith("sqlite"):
        return f"{url}-other"
    return new_database(request.getfixturevalue("postgres"))


def test_the_migrations_make_the_tables_of_the_code(url: str, other_url: str) -> None:
    Store.open(url).close()
    migrated, expected = engine_of(url), engine_of(other_url)
    METADATA.create_all(expected)
    try:
        with migrated.connect() as connection:
            options = {"compare_type": True, "compare_server_default": True}
            assert compare_metadata(MigrationContext.configure(connection, opts=options), METADATA) == []
        assert definitions(migrated) == definitions(expected)
        assert len(definitions(migrated)) > len(METADATA.tables), "tables or their indexes are missing"
    finally:
        migrated.dispose()
        expected.dispose()


def test_a_store_of_the_first_version_is_brought_up_to_date(url: str) -> None:
    Store.open(url).close()
    older = engine_of(url)
    with older.begin() as connection:
        connection.execute(sa.text("DROP TABLE steps_done"))
        connection.execute(sa.text("ALTER TABLE jobs DROP COLUMN fixed_nodes"))
        connection.execute(sa.text("ALTER TABLE jobs DROP COLUMN failed_rank"))
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '1'"))
    older.dispose()
    store = Store.open(url)
    (job,) = store.submit([Submission("ann", a_request())])
    store.commit(StoreChanges(steps=[StepsDone(job, 1, 2.0, 3.0)], jobs={job: {"fixed_nodes": ("a", "b")}}))
    assert store.steps_done(job) == [StepsDone(job, 1, 2.0, 3.0)]
    row = store.job(job)
    assert row is not None
    assert row.fixed_nodes == ("a", "b")
    store.close()


def test_an_older_store_knows_the_process_that_failed(url: str) -> None:
    """Its messages name it."""
    messages = {
        "rank 2 ended with status 1": (State.FAILED, 2),
        "rank 11 was ended by SIGKILL; max_restarts is 0": (State.FAILED, 11),
        "killed by the memory limit of 2 GB": (State.FAILED, None),
        "rank 3 is what its owner wrote": (State.CANCELLED, None),
    }
    store = Store.open(url)
    jobs = store.submit([Submission("ann", a_request())] * len(messages))
    for job, (message, (state, _)) in zip(jobs, messages.items(), strict=True):
        store.commit(StoreChanges(jobs={job: {"state": state, "message": message}}))
    store.close()
    older = engine_of(url)
    with older.begin() as connection:
        connection.execute(sa.text("ALTER TABLE jobs DROP COLUMN failed_rank"))
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '3'"))
    older.dispose()
    store = Store.open(url)
    found = {row.message: (row.state, row.failed_rank) for row in store.jobs()}
    store.close()
    assert found == messages


def test_whose_a_store_is_stays_in_it(url: str) -> None:
    store = Store.open(url)
    assert (store.engine(), store.newest()) == (None, 0)
    store.bind_engine("local")
    store.close()
    again = Store.open(url)
    assert again.engine() == "local"
    again.close()
