"""As which account of this machine a job runs, and what a token is worth by that."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from muster.service.engines import EngineCapabilities
from muster.service.home import shut_to_others


def name_of(uid: int) -> str:
    """The account's, or its number where it has no name (as in containers)."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid-{uid}"


def operators() -> frozenset[int]:
    """The accounts that are operators without a token: root, and the daemon's own."""
    return frozenset({0, os.geteuid()})


def together(engine: EngineCapabilities | None) -> str:
    """Why tokens do not keep the owners of jobs apart here, in a sentence without its full stop; empty if they do."""
    if engine is None or not engine.runs_as_users or os.geteuid() == 0:
        return ""
    return (
        f"all jobs run as {name_of(os.geteuid())} here, for every user, so a job can read what others' jobs "
        "wrote, and the store; only a daemon of root runs each job as its owner"
    )


def cannot_run(user: str, engine: EngineCapabilities | None, home: Path | None = None) -> str:
    """Why this user's jobs could not run here, or from this home; a sentence without its full stop, or empty."""
    if engine is None or not engine.runs_as_users or os.geteuid() != 0:
        return ""
    try:
        account = pwd.getpwnam(user)
    except (KeyError, ValueError):  # a name that no account can have
        return f"this machine has no account {user}, so no job of that name could run"
    return "" if home is None or account.pw_uid == 0 else shut_to_others(home)
