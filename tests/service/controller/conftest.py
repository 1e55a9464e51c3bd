"""A PostgreSQL server for controllers too."""

from __future__ import annotations

from ..store.conftest import postgres

__all__ = ["postgres"]
