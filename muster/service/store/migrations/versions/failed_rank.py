"""Which process ended a job that failed."""

import re

import sqlalchemy as sa
from alembic import op

revision = "4"
down_revision = "3"

_NAMES_A_RANK = re.compile(r"rank (\d{1,6}) ")


def upgrade() -> None:
    """From a store whose messages alone name the process."""
    op.add_column("jobs", sa.Column("failed_rank", sa.Integer))
    jobs = sa.table(
        "jobs", sa.column("id"), sa.column("state"), sa.column("message"), sa.column("failed_rank")
    )
    connection = op.get_bind()
    failed = sa.select(jobs.c.id, jobs.c.message).where(
        jobs.c.state == "failed", jobs.c.message.like("rank %")
    )
    for job, message in connection.execute(failed).all():
        if found := _NAMES_A_RANK.match(message):
            connection.execute(jobs.update().where(jobs.c.id == job).values(failed_rank=int(found[1])))
