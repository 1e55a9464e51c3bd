"""A PostgreSQL server for conductors too."""

from __future__ import annotations

from ..store.conftest import postgres

__all__ = ["postgres"]
