"""As which account of this machine a job runs, and what a token is worth by that."""

from __future__ import annotations

import os
import pwd

LOCAL = "local"
"""The engine whose jobs are processes of this machine's accounts."""


def name_of(uid: int) -> str:
    """The account's, or its number where it has no name (as in containers)."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid-{uid}"


def together(engine: str | None) -> str:
    """Why tokens do not keep the owners of jobs apart here, in a sentence without its full stop; empty if they do."""
    if engine != LOCAL or os.geteuid() == 0:
        return ""
    return (
        f"all jobs run as {name_of(os.geteuid())} here, whoever submits them, so a job can read what others' jobs "
        "wrote, and the store; only a daemon of root runs each job as its owner"
    )


def cannot_run(user: str, engine: str | None) -> str:
    """Why this user's jobs could not run here, as a sentence without its full stop; empty if they could."""
    if engine != LOCAL or os.geteuid() != 0:
        return ""
    try:
        pwd.getpwnam(user)
    except (KeyError, ValueError):  # a name that no account can have
        return f"this machine has no account {user}, so no job of that name could run"
    return ""
