"""Whose the store is: its engine, its daemon's claim, whether callers need tokens. Of jobs: leases and reports."""

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _count(name: str) -> sa.Column[int]:
    return sa.Column(name, _NUMBER, nullable=False, server_default=sa.text("0"))


def upgrade() -> None:
    """From the first tables; a store in which there are tokens needs them, as before."""
    op.add_column("store", sa.Column("engine", sa.Text))
    op.add_column("store", sa.Column("needs_tokens", sa.Boolean, nullable=False, server_default=sa.false()))
    for name in ("turn", "claim"):
        op.add_column("store", _count(name))
    op.add_column("jobs", sa.Column("lease_end", sa.Double))
    op.add_column("jobs", sa.Column("steps_before", sa.Double, nullable=False, server_default=sa.text("0")))
    op.add_column("jobs", _count("output_read"))
    living = sa.exists(sa.text("1 FROM tokens WHERE revoked IS NULL"))
    op.execute(sa.update(sa.table("store", sa.column("needs_tokens"))).values(needs_tokens=living))
    op.execute("UPDATE jobs SET steps_before = steps_done")
