"""Jobs whose owners let the total batch vary: each trains with the doubling that advances it most on what it holds.

The batch is the initial one, or twice, four times ... as large, up to the owner's `max_batch`. It is chosen again when
the job's allocation changes and when its noise scale does, as if the job were alone on its links; a change costs
nothing. Speed is the one law of `speed.rates`, progress that of `speed.statistical_efficiency`.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

from muster.cluster.ledger import Ledger
from muster.cluster.ledger_arrays import Floats, Ints
from muster.problems import InputError, Problem
from muster.runtime import lifecycle as keep
from muster.runtime.allocation_lifecycle import RestartModel
from muster.schedulers.honours import BATCH
from muster.simulation.network import NetworkOfRun
from muster.simulation.options import Options
from muster.speed.input_pipeline import ModelTable
from muster.speed.statistical_efficiency import gain
from muster.workload.jobs import RUNNING, JobTable

_REACHED = 1e-9
"""Part of a job's work that rounding may leave before a change of its noise scale."""


class _Noise(NamedTuple):
    """The noise scale of a job while it advances."""

    begins: Floats
    """Iterations from which on the values of `scale` hold."""
    scale: Floats
    """In initial batches."""


class VariableBatches:
    """Keeps the batches of a run's jobs that vary."""

    def __init__(self, table: JobTable, models: ModelTable, network: NetworkOfRun | None) -> None:
        self._asked, self._facts, self._models, self._network = table.asked, table.facts, models, network
        self.jobs: Ints = np.flatnonzero(table.asked["most_doublings"] > 0)
        self._noise = {job: _noise_of(table, job) for job in self.jobs.tolist()}
        self._facts["noise"][self.jobs] = [self._noise[job].scale[0] for job in self.jobs.tolist()]
        self._next_begin = np.full(len(table), inf)

    def next_change(self) -> float:
        """When the noise scale of a running job changes next; inf: of none."""
        return float(self._changes().min())

    def due(self, now: float) -> Ints:
        """The running jobs whose noise scale changes by now."""
        return self.jobs[self._changes() <= now]

    def choose(self, jobs: Ints, ledger: Ledger, now: float, laws: RestartModel) -> None:
        """Give those of the jobs that hold GPUs the batch with which they advance fastest from now on."""
        for job in jobs[self._asked["most_doublings"][jobs] > 0].tolist():
            if not ledger.holds(job):
                continue
            keep.settle(self._facts, job, now, laws)
            self._measure_noise(job)
            doublings = range(int(self._asked["most_doublings"][job]) + 1)
            rates = [self._rate(job, each, ledger, now, laws) for each in doublings]
            self._rate(job, int(np.argmax(rates)), ledger, now, laws)

    def _changes(self) -> Floats:
        """By job of `jobs`, when its noise scale changes while its speed stays as it is."""
        facts = self._facts[self.jobs]
        left = self._next_begin[self.jobs] - facts["done"]
        with np.errstate(divide="ignore", invalid="ignore"):
            seconds = np.where(facts["rate"] > 0, left / facts["rate"], inf)
        changes: Floats = np.maximum(facts["settled"], facts["resumes"]) + seconds
        return np.where(facts["state"] == RUNNING, changes, inf)

    def _measure_noise(self, job: int) -> None:
        """Write a job's noise scale at what it has done into its status."""
        noise = self._noise[job]
        reached = self._facts["done"][job] + _REACHED * self._asked["iterations"][job]
        later = int(np.searchsorted(noise.begins, reached, side="right"))
        self._facts["noise"][job] = noise.scale[later - 1]
        self._next_begin[job] = noise.begins[later] if later < len(noise.begins) else inf

    def _rate(self, job: int, doublings: int, ledger: Ledger, now: float, laws: RestartModel) -> float:
        """Write a batch and the job's speed with it into its status; iterations of the initial batch a second."""
        fact = self._facts[job]
        fact["doublings"] = doublings
        fact["extra_progress"] = gain(2.0**doublings, 1.0, float(fact["noise"])) - 1.0
        if self._network is not None:
            self._network.expose_running(ledger.books, self._asked, self._facts, np.array([job]))
        keep.set_rate(ledger.books, self._asked, self._facts, job, self._models, now, laws)
        return float(fact["rate"])


def variable_batches(
    table: JobTable,
    models: ModelTable,
    network: NetworkOfRun | None,
    options: Options,
    honours: frozenset[str],
) -> VariableBatches | None:
    """The batches of a run; None where all are fixed. InputError where the options have no law for others."""
    if BATCH not in honours or not table.asked["most_doublings"].any():
        return None
    rules, what = options.rules, "has no law for jobs with max_batch; leave it out, or leave max_batch empty"
    own_law = rules.whole_iterations or rules.work is not None or rules.blocks is not None or rules.offers
    problems = [
        Problem(flag, what, found=found)
        for flag, found, stated in (
            ("--rules", rules.name, own_law),
            ("--certify", None, options.certify),
        )
        if stated
    ]
    if problems:
        raise InputError(*problems)
    return VariableBatches(table, models, network)


def _noise_of(table: JobTable, job: int) -> _Noise:
    asked = table.asked[job]
    model = table.models[int(asked["model"])]
    assert model is not None
    assert model.efficiency is not None
    return _Noise(
        np.array(model.efficiency.progress) * float(asked["iterations"]),
        np.array(model.efficiency.noise_scale) / (int(asked["gpus"]) * model.batch),
    )
