"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_UNFINISHED = sa.text("until IS NULL")
_WISHED = sa.text("wish IS NOT NULL")


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False)


def _count(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, nullable=False)


def _figure(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Double, nullable=False)


def _of_job() -> sa.Column[int]:
    return sa.Column("job", _NUMBER, sa.ForeignKey("jobs.id"), nullable=False)


def upgrade() -> None:
    """From nothing."""
    op.create_table(
        "store",
        sa.Column("id", sa.Integer, primary_key=True),
        _figure("origin"),
        sa.Column("next_job", _NUMBER, nullable=False),
    )
    op.create_table(
        "scheduler",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("state", sa.LargeBinary, nullable=False),
    )
    _create_jobs()
    _create_history()
    op.create_table(
        "nodes",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("drained", sa.Boolean, nullable=False),
    )
    op.create_table(
        "tokens",
        sa.Column("id", _NUMBER, primary_key=True),
        _text("user"),
        sa.Column("operator", sa.Boolean, nullable=False),
        sa.Column("hash", sa.Text, nullable=False, unique=True),
        _figure("created"),
        sa.Column("revoked", sa.Double),
    )


def _create_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", _NUMBER, primary_key=True, autoincrement=False),
        *(_text(name) for name in ("user", "name", "request")),
        _figure("submitted"),
        _text("state"),
        sa.Column("wish", sa.Text),
        _text("phase"),
        _count("epoch"),
        *(sa.Column(name, sa.Double) for name in ("first_start", "last_start", "last_stop", "finished")),
        *(_figure(name) for name in ("steps_done", "steps_per_second", "run_seconds")),
        *(_figure(name) for name in ("attained_gpu_seconds", "restart_seconds")),
        *(_count(name) for name in ("preemptions", "moves", "deaths")),
        *(_text(name) for name in ("reason", "reason_parameters")),
        _figure("reason_since"),
        sa.Column("status", sa.Integer),
        _text("message"),
    )
    for column in ("state", "user", "name"):
        op.create_index(f"jobs_by_{column}", "jobs", [column, "id"])
    op.create_index("jobs_with_wish", "jobs", ["id"], sqlite_where=_WISHED, postgresql_where=_WISHED)


def _create_history() -> None:
    op.create_table(
        "holdings",
        sa.Column("id", _NUMBER, primary_key=True),
        _of_job(),
        _count("epoch"),
        _text("node"),
        _text("gpus"),
        _count("gpu_milli"),
        *(_figure(name) for name in ("cpus", "memory_gb", "storage_gb_per_s", "since")),
        sa.Column("until", sa.Double),
    )
    op.create_index("holdings_by_job", "holdings", ["job", "epoch"])
    op.create_index(
        "holdings_open", "holdings", ["job"], sqlite_where=_UNFINISHED, postgresql_where=_UNFINISHED
    )
    op.create_table(
        "explained",
        sa.Column("id", _NUMBER, primary_key=True),
        _of_job(),
        *(_text(name) for name in ("reason", "parameters")),
        *(_figure(name) for name in ("since", "until")),
    )
    op.create_index("explained_by_job", "explained", ["job"])
    op.create_table(
        "events",
        sa.Column("id", _NUMBER, primary_key=True),
        _of_job(),
        _figure("time"),
        *(_text(name) for name in ("kind", "detail")),
    )
    op.create_index("events_by_job", "events", ["job"])
    op.create_table(
        "decisions",
        sa.Column("id", _NUMBER, primary_key=True),
        _figure("time_seconds"),
        *(_count(name) for name in ("running", "waiting", "started", "stopped", "changed")),
        *(_figure(f"free_{name}") for name in ("gpus", "cpus", "memory_gb", "storage_gb_per_s")),
        *(sa.Column(name, sa.Double) for name in ("value", "bound")),
    )
