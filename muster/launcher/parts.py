"""The parts of a start that runs on several nodes: one supervisor a node, which meet in a folder that all of them see.

    master.json    {"address", "port"} of rank 0, written by the first part
    ended.1        how part 1 ended, once the last of its processes is gone; the same record as in its own folder
    died.1         a rank of part 1 died, so all other parts end

Every file appears whole or not at all, and belongs to one start only.
"""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

MASTER_SECONDS = 300.0
"""For which the other parts wait for the first one's address."""
_MASTER, _ENDED, _DIED = "master.json", "ended.", "died."


class Master(NamedTuple):
    """Where the ranks of a start meet, as torch.distributed has it."""

    address: str
    port: int


class Parts:
    """One part's view of the others."""

    def __init__(self, folder: Path, part: int) -> None:
        self._folder, self._part = folder, part

    def publish_master(self, address: str) -> Master:
        """The first part's act: takes a free port of its node. A second supervisor of the part takes another one."""
        master = Master(address, free_port(""))
        self._publish(_MASTER, master._asdict())
        return master

    def master(self) -> Master | None:
        """What the first part has published; None: not yet."""
        try:
            return Master(**json.loads((self._folder / _MASTER).read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def publish_death(self) -> None:
        """A rank of this part died. OSError where the folder cannot be written to now."""
        self._publish(f"{_DIED}{self._part}", {})

    def publish_end(self, record: dict[str, Any]) -> None:
        """How this part ended."""
        self._publish(f"{_ENDED}{self._part}", record)

    def other_died(self) -> bool:
        """Whether a rank of another part died; False where the folder cannot be read now."""
        try:
            names = os.listdir(self._folder)  # noqa: PTH208
        except OSError:
            return False
        return any(name.startswith(_DIED) and name != f"{_DIED}{self._part}" for name in names)

    def _publish(self, name: str, content: dict[str, Any]) -> None:
        aside = self._folder / f"{name}.{self._part}-{os.getpid()}.part"
        try:
            with aside.open("w") as file:
                json.dump(content, file)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(self._folder / name)
        except BaseException:
            with suppress(OSError):
                aside.unlink(missing_ok=True)
            raise


def rank_variables(
    first_rank: int, local_rank: int, ranks: int, world_size: int, master: Master
) -> dict[str, str]:
    """The variables of a rank, as torchrun sets them; `ranks` of `world_size` are on this node."""
    return {
        "RANK": str(first_rank + local_rank),
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": master.address,
        "MASTER_PORT": str(master.port),
    }


def free_port(address: str) -> int:
    """A port that is free now, on an address of this node or on all of them."""
    with socket.socket() as free:
        free.bind((address, 0))
        port: int = free.getsockname()[1]
        return port
