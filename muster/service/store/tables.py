"""The store's tables as the code expects them; `migrations` makes them in a database."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)

METADATA = MetaData()
NUMBER = BigInteger().with_variant(Integer, "sqlite")
"""64 bits on both; SQLite numbers rows by themselves only where the type is called INTEGER."""

_OPEN = text("until IS NULL")
_REQUESTED = text("state_request IS NOT NULL")


def _of_job() -> Column[int]:
    return Column("job", NUMBER, ForeignKey("jobs.id"), nullable=False)


def _figure(name: str) -> Column[float]:
    return Column(name, Double, nullable=False)


def _count(name: str) -> Column[int]:
    return Column(name, NUMBER, nullable=False, server_default=text("0"))


STORE = Table(
    "store",
    METADATA,
    Column("id", Integer, primary_key=True),  # always 1
    _figure("origin"),  # unix seconds
    Column("next_job", NUMBER, nullable=False),
    Column("engine", Text),  # whose starts the jobs have; null: of none yet
    _count("turn"),  # commits of the controller
    _count("claim"),  # daemons that have claimed it
)

SCHEDULER = Table(
    "scheduler",
    METADATA,
    Column("id", Integer, primary_key=True),  # always 1
    Column("state", LargeBinary, nullable=False),
)

JOBS = Table(
    "jobs",
    METADATA,
    Column("id", NUMBER, primary_key=True, autoincrement=False),
    Column("user", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("request", Text, nullable=False),  # JSON
    _figure("submitted"),
    Column("state", Text, nullable=False),
    Column("state_request", Text),
    Column("phase", Text, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("first_start", Double),
    Column("last_start", Double),
    Column("last_stop", Double),
    Column("finished", Double),
    _figure("steps_done"),
    _figure("steps_per_second"),
    _figure("run_seconds"),
    _figure("attained_gpu_seconds"),
    _figure("restart_seconds"),
    Column("preemptions", Integer, nullable=False),
    Column("moves", Integer, nullable=False),
    Column("deaths", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    Column("reason_parameters", Text, nullable=False),  # JSON
    _figure("reason_since"),
    Column("status", Integer),
    Column("message", Text, nullable=False),
    Column("lease_end", Double),
    _figure("steps_before"),
    Column("output_read", NUMBER, nullable=False),
    Column("joined", Boolean, nullable=False),
    Column("fixed_gpus", Integer),
    Column("engine_key", Text, unique=True),  # of a job that was submitted to the engine
    Column("size_steps", Text, nullable=False),  # JSON
    Column("first_step", Double),
    Column("start_up_seconds", Double),
    Column("stop_seconds", Double),
    Column("fixed_nodes", Text, nullable=False, server_default="[]"),  # JSON
    Column("failed_rank", Integer),
    Index("jobs_by_state", "state", "id"),
    Index("jobs_by_user", "user", "id"),
    Index("jobs_by_name", "name", "id"),
    Index("jobs_with_state_request", "id", sqlite_where=_REQUESTED, postgresql_where=_REQUESTED),
)

ALLOCATION_INTERVALS = Table(
    "allocation_intervals",
    METADATA,
    Column("id", NUMBER, primary_key=True),
    _of_job(),
    Column("epoch", Integer, nullable=False),
    Column("node", Text, nullable=False),
    Column("gpu_ids", Text, nullable=False),  # JSON
    Column("milli", Integer, nullable=False),  # thousandths of each GPU
    _figure("cpus"),
    _figure("memory_gb"),
    _figure("storage_gb_per_s"),
    Column("resources", Text, nullable=False),  # JSON: the others, by name
    _figure("since"),
    Column("until", Double),
    Index("allocation_intervals_by_job", "job", "epoch"),
    Index("allocation_intervals_open", "job", sqlite_where=_OPEN, postgresql_where=_OPEN),
)

PENDING_INTERVALS = Table(
    "pending_intervals",
    METADATA,
    Column("id", NUMBER, primary_key=True),
    _of_job(),
    Column("reason", Text, nullable=False),
    Column("parameters", Text, nullable=False),  # JSON
    _figure("since"),
    _figure("until"),
    Index("pending_intervals_by_job", "job"),
)

EVENTS = Table(
    "events",
    METADATA,
    Column("id", NUMBER, primary_key=True),
    _of_job(),
    _figure("time"),
    Column("kind", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Index("events_by_job", "job"),
)

STEPS_DONE = Table(
    "steps_done",
    METADATA,
    Column("id", NUMBER, primary_key=True),
    _of_job(),
    Column("epoch", Integer, nullable=False),
    _figure("time"),
    _figure("steps"),
    Index("steps_done_by_job", "job"),
)
"""What jobs have reported, at times that lie further apart the longer a job has run."""

DECISIONS = Table(
    "decisions",
    METADATA,
    Column("id", NUMBER, primary_key=True),
    _figure("time_seconds"),
    Column("running", Integer, nullable=False),
    Column("waiting", Integer, nullable=False),
    Column("started", Integer, nullable=False),
    Column("stopped", Integer, nullable=False),
    Column("changed", Integer, nullable=False),
    _figure("free_gpus"),
    _figure("free_cpus"),
    _figure("free_memory_gb"),
    _figure("free_storage_gb_per_s"),
    Column("value", Double),
    Column("bound", Double),
)
"""The columns of `runtime.records.DECISIONS`, and the order in which they were taken."""

CONFIGURATIONS = Table(
    "configurations",
    METADATA,
    Column("id", NUMBER, primary_key=True),
    _figure("since"),
    Column("content", Text, nullable=False),  # JSON: scheduler, settings, cluster
)
"""What the daemon served from when on; the last row is what it serves."""

NODES = Table(
    "nodes",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("drained", Boolean, nullable=False),
)

TOKENS = Table(
    "tokens",
    METADATA,
    Column("id", NUMBER, primary_key=True),
    Column("user", Text, nullable=False),
    Column("operator", Boolean, nullable=False),
    Column("hash", Text, nullable=False, unique=True),
    _figure("created"),
    Column("revoked", Double),
)

SESSIONS = Table(
    "sessions",
    METADATA,
    Column("hash", Text, primary_key=True),
    Column("user", Text, nullable=False),
    Column("operator", Boolean, nullable=False),
    Column("token", NUMBER, ForeignKey("tokens.id")),  # whose text opened it; null: an account of the machine
    _figure("until"),
)
