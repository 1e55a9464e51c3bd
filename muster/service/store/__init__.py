"""What must survive: jobs, who held what when, decisions, tokens. SQLite by default, PostgreSQL where asked for."""

from muster.service.store.database import StoreUnavailable
from muster.service.store.store import Store

__all__ = ["Store", "StoreUnavailable"]
