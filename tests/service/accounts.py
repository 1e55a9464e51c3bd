"""Accounts of this machine that tests use."""

from __future__ import annotations

import pwd

UNPRIVILEGED = pwd.getpwuid(65534).pw_name
"""The account without any rights."""
