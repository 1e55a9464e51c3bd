"""Compare schedulers on the ground of another system.

MUSTER_REFERENCE=FOLDER python -m experiments.joint --ground elastic --scheduler las --scheduler srtf
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from experiments.elastic.ground import FURTHER_SETTINGS, SIA_SETTINGS, elastic, rubick
from experiments.joint import (
    dally,
    elastic_sizes,
    everyday,
    labelled_worlds,
    mixed,
    random_worlds,
    requesting_worlds,
    shares,
    smd,
    synergy,
)
from experiments.joint.ablations import ablations, beliefs
from experiments.joint.ground import Case, Cell, Make, table

LEARNING = {"elastic": SIA_SETTINGS, "elastic-further": FURTHER_SETTINGS}
"""Grounds of Sia, whose jobs learn their speed: their settings."""
GROUNDS = (*LEARNING, "rubick")
"""Those of the reference data."""
WORLDS: dict[str, tuple[range, Callable[[int, int], random_worlds.World]]] = {
    "random": (random_worlds.WORLDS, random_worlds.world),
    "random-tuning": (random_worlds.TUNING, random_worlds.world),
    "random-labels": (labelled_worlds.WORLDS, labelled_worlds.labelled),
    "random-labels-tuning": (labelled_worlds.TUNING, labelled_worlds.labelled),
    "random-requests": (requesting_worlds.WORLDS, requesting_worlds.requesting),
}
"""Grounds of worlds drawn at random: their numbers, and what makes one of its own and a queue's number."""
_SCHEDULERS = ("fifo", "las", "srtf")
_ORDERS = ("fifo", "las", "gittins", "srtf")


def _synergy(given: argparse.Namespace) -> Iterator[str]:
    settings = synergy.GROUNDS[given.ground]
    return synergy.lines(given.scheduler or _ORDERS, given.seeds, given.only, settings)


def _elastic_sizes(given: argparse.Namespace) -> Iterator[str]:
    return elastic_sizes.lines(given.ground, given.scheduler or ("gittins",), given.seeds, given.only)


def _random(given: argparse.Namespace) -> Iterator[str]:
    return random_worlds.lines(
        given.scheduler or ("gittins",), given.seeds, given.only, *WORLDS[given.ground]
    )


GENERATED: dict[str, Callable[[argparse.Namespace], Iterator[str]]] = {
    "dally": lambda given: dally.lines(given.only, given.jobs_share, given.seeds),
    "dally-tuning": lambda given: dally.lines(given.only, given.jobs_share, given.seeds, tuning=True),
    "everyday": lambda given: everyday.lines(given.only, given.reference, given.seeds),
    "mixed": lambda given: mixed.lines(given.scheduler or ("gittins",), given.seeds, given.only),
    "shares": lambda given: shares.lines(given.scheduler or ("gittins", "las", "srtf"), given.seeds),
    "smd": lambda given: smd.lines(given.scheduler or ("gittins",), given.seeds, given.only),
    **dict.fromkeys(elastic_sizes.GROUNDS, _elastic_sizes),
    **dict.fromkeys(WORLDS, _random),
    **dict.fromkeys(synergy.GROUNDS, _synergy),
}
"""Grounds whose jobs are generated: the lines of their tables."""
TABLES: dict[str, Callable[[Case, int], Iterator[str]]] = {"ablations": ablations, "beliefs": beliefs}


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
        help="Scheduler to run; an order on the synergy grounds, smd, mixed, random and elastic jobs; repeatable; a "
        "replica of the ground is named as there (default: fifo, las, srtf; on synergy also gittins, on smd, mixed, "
        "random and elastic jobs gittins alone, on shares gittins, las and srtf).",
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
        metavar="N",
        help="Seeds on the grounds of generated jobs; on everyday, drafts of each queue: other seeds, or the log with "
        "times that are 5 %% off at most; on the random grounds, worlds, each once more with another queue after "
        "all of them (default: 10, on everyday 1, on elastic-network 14 queues, on elastic-servers 60, on "
        "shares 12, on random 150, on random-tuning 200, on random-labels 45, on random-labels-tuning 54, on "
        "random-requests 40).",
    )
    parser.add_argument(
        "--table",
        choices=sorted(TABLES),
        help="Print another table: joint without each thing that it sees (ablations), or joint against the best rival "
        "where speeds are believed wrongly (beliefs).",
    )
    parser.add_argument(
        "--knowledge",
        default="oracle",
        metavar="KNOWLEDGE",
        help="Knowledge of durations in these tables on synergy and mixed, as for muster simulate (default: oracle).",
    )
    parser.add_argument(
        "--jobs-share",
        type=float,
        default=1.0,
        metavar="SHARE",
        help="Part of each setting's jobs to run, on the grounds dally and dally-tuning (default: 1).",
    )
    parser.add_argument(
        "--shared-speeds",
        action="store_true",
        help="On the grounds of Sia, jobs of an application share what they learn of their speed, as in Muster's "
        "service.",
    )
    parser.add_argument(
        "--moves-pause",
        action="store_true",
        help="On the grounds of Sia, jobs also pause where they move to as many GPUs on each of other nodes, which "
        "costs nothing in Sia's simulator.",
    )
    arguments = parser.parse_args()
    if arguments.seeds is None:
        worlds = {ground: len(numbers) for ground, (numbers, _) in WORLDS.items()}
        queues = {ground: count for ground, (_, count) in elastic_sizes.GROUNDS.items()}
        arguments.seeds = ({"everyday": 1, "shares": shares.QUEUES} | queues | worlds).get(
            arguments.ground, 10
        )
    if arguments.ground in GROUNDS and arguments.reference is None:
        parser.error("MUSTER_REFERENCE is not set; name the folder of the reference data with --reference")
    if (arguments.shared_speeds or arguments.moves_pause) and arguments.ground not in LEARNING:
        parser.error("--shared-speeds and --moves-pause: only on the grounds elastic and elastic-further")
    own_schedulers = arguments.ground in ("dally", "dally-tuning", "everyday") and arguments.table is None
    if own_schedulers and arguments.scheduler:
        parser.error(f"--scheduler: the ground {arguments.ground} compares its own schedulers")
    if (
        arguments.ground in ("dally-tuning", "everyday", "shares", *elastic_sizes.GROUNDS, *WORLDS)
        and arguments.table
    ):
        parser.error(f"--table: the ground {arguments.ground} has none but its own")
    line = None
    for line in _lines(arguments):
        print(line, flush=True)
    if line is None:
        parser.error(f"the ground {arguments.ground} has no input whose name has --only {arguments.only!r}")


def _lines(given: argparse.Namespace) -> Iterator[str]:
    """The lines of the table that is asked for."""
    if given.table is not None:
        for case in _cases(given):
            if given.only in case.name:
                yield from TABLES[given.table](case, 1 if given.ground in GROUNDS else given.seeds)
    elif given.ground in GENERATED:
        yield from GENERATED[given.ground](given)
    else:
        for cell in _cells(given):
            if given.only in cell.name:
                yield from table(cell, given.scheduler or _SCHEDULERS)


def _cells(given: argparse.Namespace) -> Iterator[Cell]:
    """The settings of a ground of the reference data."""
    if given.ground in LEARNING:
        changed = {"shared": given.shared_speeds, "moves_pause": given.moves_pause}
        return elastic(given.reference, LEARNING[given.ground], **changed)
    return rubick(given.reference)


def _cases(given: argparse.Namespace) -> Iterator[Case]:
    """The cases of a ground for each order; those of the reference data have no seeds."""
    for order in given.scheduler or ("gittins",):
        if given.ground == "dally":
            yield from dally.cases(order, given.jobs_share)
        elif given.ground == "mixed":
            yield from mixed.cases(order, given.knowledge)
        elif given.ground == "smd":
            yield from smd.cases(order)
        elif given.ground in synergy.GROUNDS:
            yield from synergy.cases(order, given.knowledge, synergy.GROUNDS[given.ground])
        else:
            for cell in _cells(given):
                yield Case(cell.name, f"{order}+joint", [order], partial(_mean_jct, cell))


def _mean_jct(cell: Cell, scheduler: str, _: int, make: Make) -> float:
    return cell.run(scheduler, make).mean_jct


if __name__ == "__main__":
    main()
