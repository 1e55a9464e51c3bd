"""Whose processes a start has: the account's numbers and the variables that every process of it gets."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from typing import Any

from muster.service.engines.interface import Launch

_SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def identity_of(user: str | None) -> dict[str, Any] | None:
    """Numbers of a user whose processes the ranks become; None: they stay the daemon's. KeyError: no such user."""
    if user is None or os.geteuid() != 0:
        return None
    owner = pwd.getpwnam(user)
    groups = os.getgrouplist(user, owner.pw_gid)
    return None if owner.pw_uid == 0 else {"uid": owner.pw_uid, "gid": owner.pw_gid, "groups": groups}


def owner_environment(launch: Launch, identity: Mapping[str, Any] | None) -> dict[str, str]:
    """Variables of a start's processes on any engine: the account's, then those of the launch."""
    try:
        owner = pwd.getpwuid(os.geteuid() if identity is None else identity["uid"])
        person = {"HOME": owner.pw_dir, "USER": owner.pw_name, "LOGNAME": owner.pw_name}
    except KeyError:  # as in containers
        person = {}
    return {
        "PATH": _SEARCH_PATH,
        **person,
        "PYTHONUNBUFFERED": "1",  # so that what a job says can be followed
        **launch.environment,
    }
