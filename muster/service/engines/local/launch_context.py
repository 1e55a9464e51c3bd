"""The context of a start's processes: the supervisor's command, the ranks' variables and user."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import muster
from muster.processes import MARK
from muster.service.engines.identity import owner_environment
from muster.service.engines.interface import Launch

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
    return {
        **owner_environment(launch, identity),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # the order of nvidia-smi
        "CUDA_VISIBLE_DEVICES": ",".join(gpu_names),
        "MUSTER_RUN_DIR": str(launch.run_dir),
        "MUSTER_EPOCH": str(launch.epoch),
        MARK: str(folder),
    }
