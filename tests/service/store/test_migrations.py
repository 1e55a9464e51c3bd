"""A store of an older Muster becomes one of this, with all that is in it."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from muster.service.store import Store
from muster.service.store import migrations as steps
from muster.service.store.rows import Changes, Submission

from ..serving import a_request

A_JOB = {
    "id": 3,
    "user": "ann",
    "name": "old",
    "request": a_request(
        name="old", gpus=2, command=("sh", "-c", 'echo "preemptible":true'), preemptible=True
    ).model_dump_json(),
    "submitted": 1.0,
    "state": "running",
    "phase": "running",
    "epoch": 2,
    "steps_done": 70.0,
    "steps_per_second": 1.0,
    "run_seconds": 2.0,
    "attained_gpu_seconds": 4.0,
    "restart_seconds": 0.5,
    "preemptions": 1,
    "moves": 0,
    "deaths": 0,
    "reason": "placed",
    "reason_parameters": "{}",
    "reason_since": 1.5,
    "message": "",
}


def store_of_the_first_version(url: str, *, revoked: list[float | None]) -> None:
    """With a running job, and a token for each entry of `revoked`."""
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", str(Path(steps.__file__).parent))
        config.attributes["connection"] = connection
        command.upgrade(config, "1")
        connection.execute(sa.text("INSERT INTO store (id, origin, next_job) VALUES (1, 1e9, 4)"))
        columns = {name: sa.column(name) for name in A_JOB}
        connection.execute(sa.insert(sa.table("jobs", *columns.values())).values(A_JOB))
        for number, end in enumerate(revoked):
            tokens = sa.text(
                """INSERT INTO tokens (id, "user", operator, hash, created, revoked)
                VALUES (:id, 'ann', true, :hash, 1, :end)"""
            )
            connection.execute(tokens, {"id": number + 1, "hash": str(number), "end": end})
    engine.dispose()


@pytest.mark.parametrize(("revoked", "needed"), [([], False), ([2.0], False), ([2.0, None], True)])
def test_a_store_of_the_first_version_is_carried_over(
    url: str, revoked: list[float | None], needed: bool
) -> None:
    store_of_the_first_version(url, revoked=revoked)
    store = Store.open(url)
    row = store.job(3)
    assert row is not None
    assert (row.request.gpus, row.epoch, row.steps_done, row.steps_per_second) == (2, 2, 70.0, 1.0)
    # Nobody knows any better when the start that goes on had begun.
    assert (row.lease_end, row.steps_before, row.output_read) == (None, 70.0, 0)
    assert (row.joined, row.first_step, row.start_up_seconds, row.stop_seconds) == (False, None, None, None)
    # The default of that time, which no owner has chosen; what it runs may contain the same text.
    assert (row.request.preemptible, row.preemptible) == (None, False)
    assert row.request.command == ("sh", "-c", 'echo "preemptible":true')
    assert (store.origin, store.newest(), store.engine()) == (1e9, 3, None)
    assert store.needs_tokens() is needed
    assert len(store.tokens()) == len(revoked)
    assert store.submit([Submission("ann", a_request())]) == [4]
    store.commit(Changes(jobs={3: {"lease_end": 9.5, "steps_before": 71.0, "output_read": 2**40}}))
    shown = {"joined": True, "first_step": 3.5, "start_up_seconds": 2.5, "stop_seconds": 0.5}
    store.commit(Changes(jobs={3: shown}))
    store.close()

    again = Store.open(url)
    row = again.job(3)
    assert row is not None
    assert (row.lease_end, row.steps_before, row.output_read) == (9.5, 71.0, 2**40)
    assert {name: getattr(row, name) for name in shown} == shown
    assert again.restart_costs(5) == [("ann", "old", 3.0)]
    again.close()


def test_whose_a_store_is_stays_in_it(url: str) -> None:
    store = Store.open(url)
    assert (store.engine(), store.needs_tokens(), store.newest()) == (None, False, 0)
    store.bind_engine("local")
    store.require_tokens()
    store.close()
    again = Store.open(url)
    assert (again.engine(), again.needs_tokens()) == ("local", True)
    again.close()
