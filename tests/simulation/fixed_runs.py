"""A fixed set of runs over all schedulers, whose records must stay the same: `python -m tests.simulation.fixed_runs`.

A change that is meant to change results writes new digests; any other change must leave them as they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from muster.cluster import Cluster
from muster.cluster.shipped import parse_cluster
from muster.runtime.records import TABLES
from muster.schedulers.contract import Scheduler
from muster.schedulers.registry import build
from muster.simulation import Options, Run, simulate
from muster.simulation.failures import Failures
from muster.simulation.rules import rules_named
from muster.workload.generators import mixed, smd, synergy
from muster.workload.trace import Trace

DIGESTS = Path(__file__).parent / "fixed_runs.json"


@dataclass(frozen=True)
class FixedRun:
    """One simulation: a workload by name, a cluster, a scheduler and options that are not the defaults."""

    workload: str
    cluster: str
    scheduler: str
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Everything that makes the run, in one line."""
        more = [f"{key}={value}" for key, value in (*self.options.items(), *self.settings.items())]
        return " ".join([self.scheduler, "on", self.workload, self.cluster, *more])

    def simulated(self, wrap: Callable[[Scheduler], Scheduler] = lambda scheduler: scheduler) -> Run:
        """The result of the simulation, with the scheduler or what `wrap` makes of it."""
        options = dict(self.options)
        settings = dict(self.settings)
        if "rules" in options:
            options["rules"] = rules_named(options["rules"])
            settings = {**options["rules"].settings_for(self.scheduler), **settings}
        if "failures" in options:
            options["failures"] = Failures(*options["failures"])
        trace = _trace(self.workload)
        scheduler = wrap(build(self.scheduler, settings))
        return simulate(trace, _cluster(self.cluster), scheduler, Options(**options))


@cache
def _trace(workload: str) -> Trace:
    if workload == "mixed":
        return mixed.generate(60, gpus=16, load=1.2, seed=1)
    if workload == "few":
        return mixed.generate(10, gpus=16, load=1.2, seed=6)
    if workload == "crowd":
        return mixed.generate(100, gpus=128, load=4.0, seed=2)
    if workload == "smd":
        return smd.generate(20, ring=0.3, seed=3)
    if workload == "synergy":
        return synergy.generate(60, load_per_hour=6.0, split=(33, 33, 34), multi_gpu=True, seed=4)
    return synergy.generate(60, load_per_hour=6.0, split=(33, 33, 34), seed=5)


@cache
def _cluster(text: str) -> Cluster:
    return parse_cluster(text)


_SMALL, _RACKS, _SYNERGY = "2x8gpu", "dally-2x8x8", "synergy-4"
_ORDERS = (
    "2d-gittins",
    "2d-las",
    "drf",
    "edf",
    "fifo",
    "fifo-strict",
    "ftf",
    "gittins",
    "gittins-sim",
    "las",
    "network-sensitivity",
    "priority",
    "sjf",
    "smallest",
    "srsf",
    "srsf-placed",
    "srtf",
    "tetris",
)
_PLACEMENTS = (
    "consolidate",
    "first-fit",
    "scatter",
    "skew",
    "spread",
    "yarn",
)
_DALLY = (
    "dally",
    "dally-manual",
    "dally-nowait",
    "dally-consolidated",
    "dally-plus",
    "dally-plus-oracle",
    "themis",
    "dally-tune",
)
_SIZED = (
    "smd",
    "smd-reservation",
    "optimus",
    "equal-1to1",
    "first-fit-sized",
    "density-first-fit",
    "drf-1to1",
    "tetris-1to1",
    "oasis",
)
_FAILURES = (36_000.0, 600.0)

RUNS = (
    *(FixedRun("mixed", _SMALL, f"{order}+proportional+pack") for order in _ORDERS),
    *(FixedRun("mixed", _SMALL, f"las+requested+{place}") for place in _PLACEMENTS),
    *(FixedRun("crowd", _RACKS, scheduler) for scheduler in _DALLY),
    *(FixedRun("smd", "smd", scheduler) for scheduler in _SIZED),
    *(
        FixedRun("synergy", _SYNERGY, f"{order}+{allocation}")
        for order in ("fifo", "las", "srtf-speed", "drf-static")
        for allocation in ("tune", "tune-plus", "greedy", "joint")
    ),
    *(FixedRun("synergy", "2x8gpu,12cpu,300gb", f"{order}+joint") for order in ("fifo", "las")),
    FixedRun("single", _SYNERGY, "fifo+opt"),
    FixedRun("single", _SYNERGY, "synergy-published:srtf", {"rules": "synergy-published"}),
    FixedRun("mixed", _SMALL, "gandiva"),
    *(
        FixedRun("few", _SMALL, scheduler)  # They decide once a second, or once a minute.
        for scheduler in ("2d-gittins-sim+proportional+pack", "2d-las-sim+proportional+pack", "gandiva-sim")
    ),
    FixedRun("crowd", _RACKS, "dally", {"rules": "dally-published"}),
    FixedRun("mixed", _SMALL, "las+proportional+pack", {"round_seconds": 60.0}),
    FixedRun("mixed", _SMALL, "las+proportional+pack", {"failures": _FAILURES}),
    FixedRun("mixed", _SMALL, "gandiva", {"failures": _FAILURES}),
    FixedRun("mixed", _SMALL, "srtf+tune", {"release_seconds_per_gpu": 5.0, "resize_restarts": True}),
    FixedRun("crowd", _RACKS, "srtf+proportional+pack", {"network": "physical", "contention": True}),
    FixedRun("synergy", _SYNERGY, "las+tune-plus", {"certify": True}),
    FixedRun("smd", "smd", "smd", {"certify": True}),
    FixedRun("mixed", _SMALL, "quota+las+proportional+pack"),
    FixedRun("mixed", _SMALL, "srtf+tune", {}, {"promote_after_seconds": "7200"}),
    FixedRun("crowd", _RACKS, "dally-plus", {}, {"promote_after_seconds": "7200"}),
    FixedRun("mixed", _SMALL, "slurm"),
    FixedRun("mixed", _SMALL, "multifactor"),
    FixedRun("mixed", _SMALL, "multifactor+easy", {"failures": _FAILURES}),
    FixedRun("mixed", _SMALL, "smallest+conservative+requested+consolidate"),
)


def digest(run: Run) -> str:
    """A digest of every value of every table of the record, whatever the columns are called."""
    total = hashlib.sha256()
    for table in TABLES:
        frame: pl.DataFrame = getattr(run.record, table)
        for column in frame.iter_columns():
            total.update(repr(column.to_list()).encode())
    return total.hexdigest()[:20]


def main() -> None:
    """Write the digests of all runs as they are now."""
    digests = {}
    for run in RUNS:
        digests[run.name] = digest(run.simulated())
        print(digests[run.name], run.name, flush=True)
    DIGESTS.write_text(json.dumps(digests, indent=1) + "\n")


if __name__ == "__main__":
    main()
