"""What the daemon has served: a row each time its scheduler, its settings or its cluster changed."""

import sqlalchemy as sa
from alembic import op

revision = "4"
down_revision = "3"

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """A store of an older Muster learns its first row from the next daemon."""
    op.create_table(
        "configurations",
        sa.Column("id", _NUMBER, primary_key=True),
        sa.Column("since", sa.Double, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
    )
