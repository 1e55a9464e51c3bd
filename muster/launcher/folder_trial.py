"""Tries a shared folder from several nodes at a time: `python -m muster.launcher.folder_trial FOLDER TOKEN NODES`.

Run folders rely on these things. Here each node tries them, and waits until it sees that the other nodes did too:

- what another machine has flushed and renamed appears whole, and soon;
- a folder that is renamed never replaces another one that is not empty.

In a job of Slurm `SLURM_NODEID` and `SLURMD_NODENAME` say which node this is. The answer is a line of JSON with `node`
and `problem`; exit status 1 with a problem. Standard library only.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from muster.training.run_folder import flush_folder

TRIAL_SECONDS = 15.0
"""For which a node waits for the others."""
_POLL_SECONDS = 0.05
_DAEMON = "daemon"
_CLAIMED = "claimed"


def publish(folder: Path, name: str, token: str) -> None:
    """Publish a file as run folders do. It is created, never opened: others may leave a link of that name."""
    aside = folder / f"{name}.part"
    with aside.open("x") as file:
        file.write(token)
        file.flush()
        os.fsync(file.fileno())
    aside.rename(folder / name)
    flush_folder(folder)


def begin_trial(folder: Path, token: str) -> None:
    """Publish what the nodes are to find."""
    publish(folder, _DAEMON, token)


def try_folder(folder: Path, token: str, number: int, count: int) -> str:
    """Return what is wrong with a folder on this node, the one of this number among so many; "" if it is well.

    The folder is one of this trial alone, in which `begin_trial` has been.
    """
    try:
        if not folder.parent.is_dir():
            return "has no such folder"
        if not folder.is_dir():
            return "has another folder of this name, without what the daemon has made there"
        if not sees(folder, [_DAEMON], token):
            return "does not see what the daemon has flushed there"
        won = _claim(folder, str(number))
        publish(folder, str(number), token)
        if not sees(folder, [str(one) for one in range(count)], token):
            return f"does not see within {TRIAL_SECONDS:g} s what another node has published there"
        if _claim(folder, f"{number} again") or (won and os.listdir(folder / _CLAIMED) != [str(number)]):  # noqa: PTH208
            return "sees there how a renamed folder replaces another one"
    except OSError as error:
        return f"cannot use it: {error.strerror}"
    return ""


def sees(folder: Path, names: Sequence[str], token: str) -> bool:
    """Whether these files appear here in time, with what was published in them."""
    end = time.monotonic() + TRIAL_SECONDS
    while not all(_content(folder / name) == token for name in names):
        if time.monotonic() > end:
            return False
        time.sleep(_POLL_SECONDS)
        os.listdir(folder)  # noqa: PTH208  # has a client of NFS ask its server
    return True


def _claim(folder: Path, name: str) -> bool:
    """Rename a folder to the place that one alone can have; whether it is ours."""
    mine = folder / f"of {name}"
    mine.mkdir()
    (mine / name).touch(exist_ok=False)
    flush_folder(mine)
    try:
        mine.rename(folder / _CLAIMED)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    flush_folder(folder)
    return True


def _content(path: Path) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None


def main(folder: str, token: str, count: str) -> int:
    """Try it as a task of Slurm; the exit status."""
    problem = try_folder(Path(folder), token, int(os.environ["SLURM_NODEID"]), int(count))
    print(json.dumps({"node": os.environ["SLURMD_NODENAME"], "problem": problem}), flush=True)
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
