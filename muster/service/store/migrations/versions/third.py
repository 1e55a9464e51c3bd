"""What interruptions of a job cost, and whether it saves its work when it is stopped."""

import sqlalchemy as sa
from alembic import op

revision = "3"
down_revision = "2"


def upgrade() -> None:
    """From the second tables.

    So far no command could say that a job is preemptible: `true` was the default, and now means that the owner allows
    it. Inside a JSON string the quotes would be escaped, so only the field itself matches.
    """
    op.add_column("jobs", sa.Column("joined", sa.Boolean, nullable=False, server_default=sa.false()))
    for name in ("first_step", "start_up_seconds", "stop_seconds"):
        op.add_column("jobs", sa.Column(name, sa.Double))
    field, unset = '"preemptible":true', '"preemptible":null'
    op.execute(
        sa.text("UPDATE jobs SET request = replace(request, :field, :unset)").bindparams(
            field=field, unset=unset
        )
    )
