"""Run this node's part of a start in the foreground: `python -m muster.launcher FILE --part 1 --state FOLDER`.

An engine that starts processes on other machines by its own means (a task of `srun`, a pod) runs this there. FILE is
what `muster.service.engines.parts.start_file` makes. FOLDER, by default a new one, is on this node's own disk; it
holds the records of the part, and an engine on this node may write there what is wanted (`start_folder.py`).

Exit status: 0 if all ranks ended with 0, or if this part ended because a rank on another node died; 75 if it was
stopped; else the status of the first rank that ended badly, 128 + the number of a signal; 2 if it was called wrongly.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from muster.launcher.start_folder import make_start_folder
from muster.launcher.supervisor import supervise
from muster.processes import MARK
from muster.training.run_folder import EXIT_STOPPED


def main(arguments: Sequence[str]) -> int:
    """Run the part; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m muster.launcher", description="Run one node's part of a start."
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="File that describes the start.")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--part", type=int, help="Number of the part, from 0 on.")
    which.add_argument(
        "--part-variable", metavar="NAME", help="Environment variable with that number: SLURM_NODEID."
    )
    parser.add_argument(
        "--state",
        type=Path,
        metavar="FOLDER",
        help="Folder on this node's own disk for its records (default: a new one, removed at the end).",
    )
    given = parser.parse_args(arguments)
    if given.state is not None:
        return _run(given)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as state:
        given.state = Path(state)
        return _run(given)


def _run(given: argparse.Namespace) -> int:
    """Run the part whose state has a folder."""
    try:
        content = json.loads(given.file.read_text())
        part = int(os.environ[given.part_variable]) if given.part is None else given.part
        name, launch = content["start"], launch_of_part(content, part)
        given.state.mkdir(parents=True, exist_ok=True)
        folder = given.state.resolve() / name
        launch["environment"] |= {MARK: str(folder)}
        wanted = {"signals": {}, "kill": False, "doors": [], "affinity": None, "memory_bytes": None}
        made = make_start_folder(folder, launch, wanted, None)
    except (OSError, ValueError, KeyError, IndexError) as error:
        print(f"{given.file}: cannot be started: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    record = supervise(str(made.path))
    return 2 if record is None else exit_status(record)


def launch_of_part(content: Mapping[str, Any], part: int) -> dict[str, Any]:
    """What the supervisor reads. IndexError if there is no such part."""
    launch = {**content["launch"], **content["parts"][part]}
    own = {name: os.environ[name] for name in launch["inherited"] if name in os.environ}
    launch["environment"] = launch["environment"] | own
    return launch


def exit_status(record: Mapping[str, Any]) -> int:
    """Of the launcher, from the last record of its part."""
    if record["other_died"]:
        return 0
    bad = [status for _, status, _, _ in record["endings"] if status != 0]
    if not record["endings"]:
        return EXIT_STOPPED
    if not bad:
        return 0
    status: int = 128 - bad[0] if bad[0] < 0 else bad[0]
    sent = {128 + signal.Signals[name].value for name in record["sent"]}
    return EXIT_STOPPED if status in sent else status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
