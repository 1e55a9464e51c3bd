"""Keeps what survives the daemon: jobs, allocations, decisions, tokens. SQLite by default, else PostgreSQL."""

from muster.service.store.database import StoreTaken, StoreUnavailable
from muster.service.store.store import Store

__all__ = ["Store", "StoreTaken", "StoreUnavailable"]
