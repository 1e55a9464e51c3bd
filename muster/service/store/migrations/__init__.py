"""How a database of an older Muster becomes one of this: Alembic's folder, a file a step in `versions`."""
