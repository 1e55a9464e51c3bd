"""What Alembic runs to bring a database up to date, on the connection and in the transaction it is given."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
