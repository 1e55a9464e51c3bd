"""On which nodes jobs ran that go on only with as many processes as before."""

import sqlalchemy as sa
from alembic import op

revision = "3"
down_revision = "2"


def upgrade() -> None:
    """From a store that does not know of such jobs."""
    op.add_column("jobs", sa.Column("fixed_nodes", sa.Text, nullable=False, server_default="[]"))
