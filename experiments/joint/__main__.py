"""Compare schedulers on the ground of another system.

MUSTER_REFERENCE=FOLDER python -m experiments.joint --ground elastic --scheduler las --scheduler srtf
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from experiments.elastic.ground import elastic, rubick
from experiments.joint import dally
from experiments.joint.ground import Ground, table
from experiments.joint.synergy import lines as synergy_lines

SYNERGY = "synergy"
GROUNDS: dict[str, Ground] = {"elastic": elastic, "rubick": rubick}
_SCHEDULERS = ("fifo", "las", "srtf")


def main() -> None:
    """Print a table for each setting of a ground."""
    parser = argparse.ArgumentParser(prog="python -m experiments.joint", description=__doc__)
    parser.add_argument(
        "--ground", choices=sorted([*GROUNDS, SYNERGY, "dally"]), required=True, help="Ground to compare on."
    )
    parser.add_argument(
        "--scheduler",
        action="append",
        metavar="NAME",
        help="Scheduler to run, on Synergy's ground an order; repeatable; a replica of the ground is named as there "
        "(default: fifo, las, srtf; on Synergy's ground also gittins).",
    )
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="Settings whose name contains this text (default: all)."
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
        help="Seeds on the grounds synergy and dally (default: 10).",
    )
    parser.add_argument(
        "--jobs-share",
        type=float,
        default=1.0,
        metavar="SHARE",
        help="Part of each setting's jobs to run, on the ground dally (default: 1).",
    )
    arguments = parser.parse_args()
    if arguments.ground == "dally":
        for line in dally.lines(arguments.only, arguments.jobs_share, arguments.seeds):
            print(line, flush=True)
        return
    if arguments.ground == SYNERGY:
        for line in synergy_lines(
            arguments.scheduler or ("fifo", "las", "gittins", "srtf"), arguments.seeds, arguments.only
        ):
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
