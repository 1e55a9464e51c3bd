"""How often the scaling law chooses a good number of workers: `python -m experiments.fitting.worker_choice TABLE`.

TABLE is that of Pollux' steps on T4 GPUs (`t4_seconds_per_iteration.csv`). A case is a total batch of an application:
the workers for which the law says the shortest iteration, and how much longer the measured one is with them than with
the best. What a fit knows beforehand comes from the other applications.

No law can know by how much a single measurement is off. The last two columns are a law that is right: steps of the law
that is fitted to everything are the truth, and "measured" are those times the deviations of repeated measurements.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from pathlib import Path

import numpy as np
import numpy.typing as npt

from experiments.fitting.scaling import UNKNOWN, common_prior
from muster.files import read_text
from muster.speed.scaling import Prior, ScalingLaw, StepTimes, fit_scaling

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

BATCHES = {
    "bert": (12, 384),
    "cifar10": (128, 4096),
    "deepspeech2": (20, 640),
    "imagenet": (200, 12800),
    "ncf": (256, 32768),
    "yolov3": (8, 512),
}
"""The smallest and largest total batch with which each application was trained."""
POINTS, DRAWS, TABLES = 10, 10, 100
GOOD = 0.05
"""How much longer an iteration may take with a good number of workers."""
_WORKERS = range(1, 17)
_GPUS_PER_MACHINE = 4
_LEAST, _MOST = 0, 2
_ENDS = (
    ("1", _LEAST),
    ("1", _MOST),
    ("2", _LEAST),
    ("4", _LEAST),
    ("4", _MOST),
    ("44", _LEAST),
    ("44", _MOST),
    ("144", _LEAST),
    ("4444", _LEAST),
    ("4444", _MOST),
)
"""Ten places, and from which third of the batches measured there: the ends of both, and a GPU more than two hold."""


@dataclass(frozen=True)
class Case:
    """A total batch on each number of workers that was measured, on as few machines as hold them."""

    machines: Floats
    gpus: Floats
    batch: Floats
    """Samples of each GPU in a pass."""
    passes: Floats
    seconds: Floats
    """Measured, of an iteration; between the batches that were measured by a straight line."""

    def chosen(self, law: ScalingLaw) -> int:
        """Return the row of the workers that are best by a law."""
        return int(law.step_seconds(self.machines, self.gpus, self.batch, self.passes).argmin())

    def regret(self, chosen: int) -> float:
        """Return how much longer the measured iteration is with these workers than with the best, relatively."""
        return float(self.seconds[chosen] / self.seconds.min() - 1)


@dataclass(frozen=True)
class Table:
    """The measured steps of an application."""

    times: StepTimes
    places: npt.NDArray[np.str_]
    """GPUs by machine, ascending, a digit each; by row."""
    batches: tuple[int, int]

    @cached_property
    def rows(self) -> dict[str, Ints]:
        """By place its rows, by ascending batch."""
        ordered = np.argsort(self.times.batch, kind="stable")
        return {place: ordered[self.places[ordered] == place] for place in np.unique(self.places).tolist()}

    @cached_property
    def law(self) -> ScalingLaw:
        """The one fitted to everything that was measured."""
        return fit_scaling(self.times, UNKNOWN)

    @property
    def cases(self) -> list[Case]:
        """The smallest total batch and its doublings, of which several numbers of workers were measured."""
        total, most = self.batches
        totals = [total << doublings for doublings in range((most // total).bit_length())]
        return [case for case in map(self._case, totals) if len(case.seconds) > 1]

    def _case(self, total: int) -> Case:
        found = []
        for workers in _WORKERS:
            machines, left = divmod(workers, _GPUS_PER_MACHINE)
            here = self.times.at(self.rows[str(left or "") + str(_GPUS_PER_MACHINE) * machines])
            samples = ceil(total / workers)
            passes = ceil(samples / here.batch[-1])
            in_a_pass = ceil(samples / passes)
            if in_a_pass >= here.batch[0]:
                step = np.interp(in_a_pass, here.batch, here.seconds)
                alone = np.interp(in_a_pass, here.batch, here.compute_seconds)
                seconds = float(step + (passes - 1) * alone)
                found.append((machines + bool(left), workers, in_a_pass, passes, seconds))
        return Case(*np.array(found, np.float64).T)

    def random_rows(self, chance: np.random.Generator) -> Ints:
        """Return ten rows, whichever."""
        return chance.choice(len(self.places), POINTS, replace=False)

    def rows_at_ends(self, chance: np.random.Generator) -> Ints:
        """Return ten rows at the ends of places and batches."""
        picked: list[int] = []
        for place, third in _ENDS:
            picked.append(
                int(chance.choice(np.setdiff1d(np.array_split(self.rows[place], 3)[third], picked)))
            )
        return np.array(picked)

    def deviations(self) -> Floats:
        """Return by how much repeated measurements differ from their geometric mean, as logarithms.

        A batch on as many GPUs of each machine counts as repeated, whichever machines those are.
        """
        found = []
        for rows in self.rows.values():
            for batch in np.unique(self.times.batch[rows]).tolist():
                repeated = np.log(self.times.seconds[rows[self.times.batch[rows] == batch]])
                if len(repeated) > 1:
                    found.append((repeated - repeated.mean()) * (len(repeated) / (len(repeated) - 1)) ** 0.5)
        return np.concatenate(found)

    def right_law_regrets(self, chance: np.random.Generator, *, one_machine_is_exact: bool) -> list[float]:
        """Return the regret by case of who knows the true steps, in a table of drawn measurements.

        Nothing was repeated on one machine: measurements there are off as all others are, or exact.
        """
        times, deviations = self.times, self.deviations()
        exact = self.law.step_seconds(times.machines, times.gpus, times.batch)
        factor = np.exp(chance.choice(deviations, len(exact)))
        if one_machine_is_exact:
            factor[times.machines == 1] = 1.0
        compute = self.law.compute_seconds(times.batch)
        true, drawn = (
            Table(
                StepTimes(times.machines, times.gpus, times.batch, steps, compute), self.places, self.batches
            )
            for steps in (exact, exact * factor)
        )
        return [
            case.regret(int(known.seconds.argmin()))
            for known, case in zip(true.cases, drawn.cases, strict=True)
        ]


def read_tables(lines: Iterable[str]) -> dict[str, Table]:
    """Return the tables by application."""
    every = [row for row in csv.DictReader(lines) if row["source"] == "placements"]
    tables = {}
    for name, batches in BATCHES.items():
        rows = [row for row in every if row["app"] == name]
        columns = ("nodes", "gpus", "batch_per_gpu", "step_s", "sync_s")
        machines, gpus, batch, step, sync = (
            np.array([float(row[column]) for row in rows]) for column in columns
        )
        places = np.array(["".join(sorted(row["placement"])) for row in rows])
        tables[name] = Table(StepTimes(machines, gpus, batch, step, step - sync), places, batches)
    return tables


def prior_without(tables: dict[str, Table], name: str) -> Prior:
    """Return what the other applications say."""
    return common_prior([table.law for other, table in tables.items() if other != name])


def fits_of_ten(
    tables: dict[str, Table], name: str, pick: Callable[[np.random.Generator], Ints]
) -> list[tuple[Ints, ScalingLaw]]:
    """Return ten rows of an application and the law fitted to them, for every draw."""
    prior = prior_without(tables, name)
    drawn = [pick(np.random.default_rng(at)) for at in range(DRAWS)]
    return [(rows, fit_scaling(tables[name].times.at(rows), prior)) for rows in drawn]


def regrets(table: Table, laws: Iterable[ScalingLaw]) -> list[float]:
    """Return the regrets of some laws over all cases."""
    cases = table.cases
    return [case.regret(case.chosen(law)) for law in laws for case in cases]


def shares(tables: dict[str, Table], name: str) -> list[list[float]]:
    """Return the regrets of each column."""
    table = tables[name]
    right = [
        [
            regret
            for at in range(TABLES)
            for regret in table.right_law_regrets(np.random.default_rng(at), one_machine_is_exact=exact)
        ]
        for exact in (True, False)
    ]
    ten = [fits_of_ten(tables, name, pick) for pick in (table.random_rows, table.rows_at_ends)]
    return [
        *(regrets(table, [law for _, law in fits]) for fits in ten),
        regrets(table, [table.law]),
        *right,
    ]


def main(path: Path) -> None:
    """Print a row an application, as a Markdown table: the cases in 100 with a good number of workers."""
    tables = read_tables(read_text(path).splitlines())
    print(
        "| application | cases | ten random | ten at the ends | all fitted | right law, one machine exact | right law |"
    )
    print("|---|---|---|---|---|---|---|")
    every: list[list[float]] = [[] for _ in range(5)]
    for name, table in tables.items():
        columns = shares(tables, name)
        every = [before + column for before, column in zip(every, columns, strict=True)]
        print(f"| {name} | {len(table.cases)} | {_shown(columns)} |", flush=True)
    print(f"| all | {sum(len(table.cases) for table in tables.values())} | {_shown(every)} |")


def _shown(columns: list[list[float]]) -> str:
    return " | ".join(f"{100 * np.mean(np.array(column) <= GOOD):.0f}" for column in columns)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
