"""The context of a start's processes: the supervisor's command, the ranks' variables and user."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import muster
from muster.processes import MARK
from muster.service.engines.interface import Launch

_SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
RUN_SUPERVISOR = """
import sys
rooms = ["muster", "muster.training", "muster.launcher"]
for name in rooms:
    package = sys.modules[name] = type(sys)(name)
    package.__path__ = [sys.argv[1] + "/" + name.replace(".", "/")]
from muster.launcher.supervisor import main
main(sys.argv[2])
"""
"""It takes some light modules of Muster and leaves alone what the packages around them would import."""


def spawn_supervisor(folder: Path) -> int:
    """A supervisor for the start in this folder; its process id."""
    package = Path(muster.__file__).parent.parent
    log = os.fspath(folder / "supervisor.log")
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", "-c", RUN_SUPERVISOR, str(package), str(folder)],
        {**os.environ, MARK: str(folder)},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_APPEND, 0),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=(),
    )


def environment_of(
    launch: Launch, gpu_names: Sequence[str], folder: Path, identity: Mapping[str, Any] | None
) -> dict[str, str]:
    """Variables of each rank, with these GPUs for CUDA to use; its supervisor adds those of torchrun."""
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
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # the order of nvidia-smi
        "CUDA_VISIBLE_DEVICES": ",".join(gpu_names),
        "MUSTER_RUN_DIR": str(launch.run_dir),
        "MUSTER_EPOCH": str(launch.epoch),
        MARK: str(folder),
    }


def identity_of(user: str | None) -> dict[str, Any] | None:
    """Numbers of a user whose processes the ranks become; None: they stay the daemon's. KeyError: no such user."""
    if user is None or os.geteuid() != 0:
        return None
    owner = pwd.getpwnam(user)
    groups = os.getgrouplist(user, owner.pw_gid)
    return None if owner.pw_uid == 0 else {"uid": owner.pw_uid, "gid": owner.pw_gid, "groups": groups}
