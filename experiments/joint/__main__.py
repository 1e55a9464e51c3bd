"""Compare schedulers on the ground of another system.

MUSTER_REFERENCE=FOLDER python -m experiments.joint --ground elastic --scheduler las --scheduler srtf
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from experiments.elastic.ground import elastic, rubick
from experiments.joint import dally, mixed, smd, synergy
from experiments.joint.ground import Ground, table

GROUNDS: dict[str, Ground] = {"elastic": elastic, "rubick": rubick}
_SCHEDULERS = ("fifo", "las", "srtf")
GENERATED: dict[str, Callable[[argparse.Namespace], Iterator[str]]] = {
    "dally": lambda given: dally.lines(given.only, given.jobs_share, given.seeds),
    "mixed": lambda given: mixed.lines(given.scheduler or ("gittins",), given.seeds, given.only),
    "smd": lambda given: smd.lines(given.scheduler or ("gittins",), given.seeds, given.only),
    "synergy": lambda given: synergy.lines(
        given.scheduler or ("fifo", "las", "gittins", "srtf"), given.seeds, given.only
    ),
}
"""Grounds whose jobs are generated: the lines of their tables."""


def main() -> None:
    """Print a table for each setting of a ground."""
    parser = argparse.ArgumentParser(prog="python -m experiments.joint", description=__doc__)
    parser.add_argument(
        "--ground",
        choices=sorted([*GROUNDS, *GENERATED]),
        required=True,
        help="Ground to compare on.",
    )
    parser.add_argument(
        "--scheduler",
        action="append",
        metavar="NAME",
        help="Scheduler to run; an order on synergy, smd and mixed; repeatable; a replica of the ground is named "
        "as there (default: fifo, las, srtf; on synergy also gittins, on smd and mixed gittins alone).",
    )
    parser.add_argument(
        "--only",
        default="",
        metavar="TEXT",
        help="Settings whose name contains this text, on the mixed ground knowledge of durations (default: all).",
    )
    parser.add_argument(
        "--reference",
        type=Path,
        default=os.environ.get("MUSTER_REFERENCE"),
        metavar="FOLDER",
        help="Folder of the reference data (default: that of MUSTER_REFERENCE).",
    )
    parser.add_argument(
        "--seeds",
        type=int,
        default=10,
        metavar="N",
        help="Seeds on the grounds of generated jobs (default: 10).",
    )
    parser.add_argument(
        "--jobs-share",
        type=float,
        default=1.0,
        metavar="SHARE",
        help="Part of each setting's jobs to run, on the ground dally (default: 1).",
    )
    arguments = parser.parse_args()
    if arguments.ground in GENERATED:
        for line in GENERATED[arguments.ground](arguments):
            print(line, flush=True)
        return
    if arguments.reference is None:
        parser.error("MUSTER_REFERENCE is not set; name the folder of the reference data with --reference")
    for cell in GROUNDS[arguments.ground](arguments.reference):
        if arguments.only in cell.name:
            for line in table(cell, arguments.scheduler or _SCHEDULERS):
                print(line, flush=True)


if __name__ == "__main__":
    main()
