"""Work in whole iterations, as in Rubick's simulator: its speeds and its law of progress, for Muster's engine.

A job does one iteration more than it states. What it has done of an iteration counts in seconds: after a change of
speed, so many seconds of the new iteration are done, however long it takes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property
from math import floor, inf, isnan
from pathlib import Path

import numpy as np
from scipy.interpolate import LinearNDInterpolator

from experiments.elastic.files import read_table
from experiments.elastic.step_times import MOST_NODES, Placement, closest, key_of
from muster.cluster.ledger import Ledger
from muster.cluster.ledger_arrays import Floats, Ints
from muster.workload.jobs import JobTable

RESTART_SECONDS = 260.0
_PLANS = ("zero-dp", "zero-offload")
_WITHOUT_PLANS = "llama30"
"""Its plans are numbers in the authors' table and equal no text."""
_WHOLE = 1e-9


class RubickSpeeds:
    """Seconds of an iteration by application, placement and plan."""

    def __init__(self, file: Path) -> None:
        self._measured: dict[tuple[str, str, str], float] = {}
        self._by_size: dict[str, dict[tuple[int, int], list[float]]] = defaultdict(lambda: defaultdict(list))
        for row in read_table(file).iter_rows(named=True):
            seconds = float(row["iteration_s"])
            self._measured.setdefault((row["app"], row["placement"], row["plan"]), seconds)
            self._by_size[row["app"]][int(row["nodes"]), int(row["gpus"])].append(seconds)
        self._known: dict[tuple[str, Placement, str], float] = {}

    def seconds(self, app: str, placement: Placement, plan: str) -> float:
        """That of the plan where it was measured on the placement, else that of plan `ga`, else the mean's.

        inf: the application does not run so.
        """
        key = app, placement, plan
        if key not in self._known:
            self._known[key] = self._computed(app, placement, plan)
        return self._known[key]

    def _computed(self, app: str, placement: Placement, plan: str) -> float:
        name = plan
        if "|" in plan:
            name = next((one for one in _PLANS if one in plan.split("|")), "")
        for each in ("" if app == _WITHOUT_PLANS else name, "ga"):
            measured = self._measured.get((app, key_of(placement), each))
            if measured is not None:
                return measured
        seconds = float(self._surfaces[app]([min(len(placement), MOST_NODES), sum(placement)])[0])
        return self._beyond(app, placement) if isnan(seconds) else seconds

    def _beyond(self, app: str, placement: Placement) -> float:
        """Where the authors' law is silent: the mean of as many GPUs on the nearest number of nodes; inf without one.

        No recorded run needs it: llama30 on 24 GPUs was measured on 6 nodes alone, and on 3 it would never end.
        """
        sizes = [size for size in self._by_size[app] if size[1] == sum(placement)]
        nearest = min(sizes, key=lambda size: abs(size[0] - len(placement)), default=None)
        return inf if nearest is None else float(np.mean(self._by_size[app][nearest]))

    @cached_property
    def _surfaces(self) -> dict[str, LinearNDInterpolator]:
        """Between the means over all plans and placements of a number of nodes and GPUs."""
        return {
            app: LinearNDInterpolator(
                np.array(sorted(sizes)), [float(np.mean(sizes[size])) for size in sorted(sizes)]
            )
            for app, sizes in self._by_size.items()
        }


class MeasuredSpeeds:
    """The speeds of the jobs of a run on any size, with the plans of their owners."""

    def __init__(
        self, table: JobTable, speeds: RubickSpeeds, plans: Sequence[str], gpus_per_node: int
    ) -> None:
        self._speeds, self._plans, self._per_node = speeds, plans, gpus_per_node
        self._app = [table.model_names[model] for model in table.asked["model"].tolist()]

    def seconds_per_iteration(self, jobs: Ints, gpus: Ints, nodes: Ints, gpu_type: str) -> Floats:
        """Seconds of an iteration of each job on so many GPUs of so many nodes; inf where it does not run so."""
        sizes = zip(jobs.tolist(), gpus.tolist(), nodes.tolist(), strict=True)
        return np.array([self._seconds(*size) for size in sizes])

    def _seconds(self, job: int, gpus: int, nodes: int) -> float:
        if not gpus <= nodes * self._per_node or nodes > gpus:
            return inf
        placement = closest(gpus, self._per_node)
        if len(placement) != nodes:
            each, more = divmod(gpus, nodes)
            placement = (each + 1,) * more + (each,) * (nodes - more)
        return self._speeds.seconds(self._app[job], placement, self._plans[job])


PlanRule = Callable[[int, float], str]
"""The plan of a job from a moment on."""


class IterationWork:
    """The progress of a run's jobs."""

    def __init__(
        self,
        table: JobTable,
        speeds: RubickSpeeds,
        plan: PlanRule,
        iterations: Sequence[int],
        size_speeds: MeasuredSpeeds | None = None,
    ) -> None:
        self.size_speeds = size_speeds
        self._speeds, self._plan = speeds, plan
        self._facts = table.facts
        self._app = [table.model_names[model] for model in table.asked["model"].tolist()]
        self._placements: dict[int, Placement] = {}
        self._resumes = np.zeros(len(table))
        self._seconds = np.ones(len(table))
        """Of an iteration, at the last speed."""
        self._iterations = np.array(iterations) + 1.0
        longer = self._iterations / table.asked["iterations"]
        for field in ("iterations", "believed"):
            table.asked[field] *= longer

    def next_change(self) -> float:
        """Speeds change only with placements."""
        return inf

    def due(self, now: float) -> Ints:
        """None."""
        return np.zeros(0, np.int64)

    def rate(self, job: int, now: float, ledger: Ledger) -> None:
        """Write a job's speed, the end of its pause and its completion time into its status."""
        placement = tuple(len(share.gpu_ids) for share in ledger.holding(job))
        if not placement:
            self._placements.pop(job, None)
            return
        fact = self._facts[job]
        if self._placements.get(job) != placement:
            self._resumes[job] = now + RESTART_SECONDS
        self._placements[job] = placement
        fact["resumes"] = self._resumes[job]
        seconds = self._speeds.seconds(self._app[job], placement, self._plan(job, now))
        whole = floor(float(fact["done"]) + _WHOLE)
        fact["done"] = whole + (float(fact["done"]) - whole) * self._seconds[job] / seconds
        self._seconds[job] = seconds
        fact["rate"] = 1.0 / seconds
        left = float(self._iterations[job]) - float(fact["done"])
        fact["finish"] = max(now, float(fact["resumes"])) + left * seconds
