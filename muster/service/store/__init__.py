"""What must survive: jobs, who held what when, decisions, tokens. SQLite by default, PostgreSQL where asked for."""

from muster.service.store.database import StoreTaken, StoreUnavailable
from muster.service.store.store import Store

__all__ = ["Store", "StoreTaken", "StoreUnavailable"]
