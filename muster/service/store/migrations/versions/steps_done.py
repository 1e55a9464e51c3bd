"""How far jobs were over time."""

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """From a store that knows how far its jobs are, and not since when."""
    op.create_table(
        "steps_done",
        sa.Column("id", _NUMBER, primary_key=True),
        sa.Column("job", _NUMBER, sa.ForeignKey("jobs.id"), nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("time", sa.Double, nullable=False),
        sa.Column("steps", sa.Double, nullable=False),
    )
    op.create_index("steps_done_by_job", "steps_done", ["job"])
