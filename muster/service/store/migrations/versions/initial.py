"""All tables of the first version."""

import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_OPEN = sa.text("until IS NULL")
_REQUESTED = sa.text("state_request IS NOT NULL")


def _key() -> sa.Column[int]:
    return sa.Column("id", _NUMBER, primary_key=True)


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False)


def _integer(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, nullable=False)


def _count(name: str) -> sa.Column[int]:
    return sa.Column(name, _NUMBER, nullable=False, server_default=sa.text("0"))


def _figure(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Double, nullable=False)


def _of_job() -> sa.Column[int]:
    return sa.Column("job", _NUMBER, sa.ForeignKey("jobs.id"), nullable=False)


def upgrade() -> None:
    """From nothing."""
    _create_daemon()
    _create_jobs()
    _create_history()
    op.create_table(
        "nodes",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("drained", sa.Boolean, nullable=False),
    )
    op.create_table(
        "tokens",
        _key(),
        _text("user"),
        sa.Column("operator", sa.Boolean, nullable=False),
        sa.Column("hash", sa.Text, nullable=False, unique=True),
        _figure("created"),
        sa.Column("revoked", sa.Double),
    )
    op.create_table(
        "sessions",
        sa.Column("hash", sa.Text, primary_key=True),
        _text("user"),
        sa.Column("operator", sa.Boolean, nullable=False),
        sa.Column("token", _NUMBER, sa.ForeignKey("tokens.id")),
        _figure("until"),
    )


def _create_daemon() -> None:
    op.create_table(
        "store",
        sa.Column("id", sa.Integer, primary_key=True),
        _figure("origin"),
        sa.Column("next_job", _NUMBER, nullable=False),
        sa.Column("engine", sa.Text),
        *(_count(name) for name in ("turn", "claim")),
    )
    op.create_table(
        "scheduler",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("state", sa.LargeBinary, nullable=False),
    )
    op.create_table("configurations", _key(), _figure("since"), _text("content"))


def _create_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", _NUMBER, primary_key=True, autoincrement=False),
        *(_text(name) for name in ("user", "name", "request")),
        _figure("submitted"),
        _text("state"),
        sa.Column("state_request", sa.Text),
        _text("phase"),
        _integer("epoch"),
        *(sa.Column(name, sa.Double) for name in ("first_start", "last_start", "last_stop", "finished")),
        *(_figure(name) for name in ("steps_done", "steps_per_second", "run_seconds")),
        *(_figure(name) for name in ("attained_gpu_seconds", "restart_seconds")),
        *(_integer(name) for name in ("preemptions", "moves", "deaths")),
        *(_text(name) for name in ("reason", "reason_parameters")),
        _figure("reason_since"),
        sa.Column("status", sa.Integer),
        _text("message"),
        sa.Column("lease_end", sa.Double),
        _figure("steps_before"),
        sa.Column("output_read", _NUMBER, nullable=False),
        sa.Column("joined", sa.Boolean, nullable=False),
        sa.Column("fixed_gpus", sa.Integer),
        sa.Column("engine_key", sa.Text, unique=True),
        _text("size_steps"),
        *(sa.Column(name, sa.Double) for name in ("first_step", "start_up_seconds", "stop_seconds")),
    )
    for column in ("state", "user", "name"):
        op.create_index(f"jobs_by_{column}", "jobs", [column, "id"])
    op.create_index(
        "jobs_with_state_request", "jobs", ["id"], sqlite_where=_REQUESTED, postgresql_where=_REQUESTED
    )


def _create_history() -> None:
    held = "allocation_intervals"
    op.create_table(
        held,
        _key(),
        _of_job(),
        _integer("epoch"),
        *(_text(name) for name in ("node", "gpu_ids")),
        _integer("milli"),
        *(_figure(name) for name in ("cpus", "memory_gb", "storage_gb_per_s")),
        _text("resources"),
        _figure("since"),
        sa.Column("until", sa.Double),
    )
    op.create_index(f"{held}_by_job", held, ["job", "epoch"])
    op.create_index(f"{held}_open", held, ["job"], sqlite_where=_OPEN, postgresql_where=_OPEN)
    op.create_table(
        "pending_intervals",
        _key(),
        _of_job(),
        *(_text(name) for name in ("reason", "parameters")),
        *(_figure(name) for name in ("since", "until")),
    )
    op.create_index("pending_intervals_by_job", "pending_intervals", ["job"])
    op.create_table(
        "events", _key(), _of_job(), _figure("time"), *(_text(name) for name in ("kind", "detail"))
    )
    op.create_index("events_by_job", "events", ["job"])
    op.create_table(
        "decisions",
        _key(),
        _figure("time_seconds"),
        *(_integer(name) for name in ("running", "waiting", "started", "stopped", "changed")),
        *(_figure(f"free_{name}") for name in ("gpus", "cpus", "memory_gb", "storage_gb_per_s")),
        *(sa.Column(name, sa.Double) for name in ("value", "bound")),
    )
