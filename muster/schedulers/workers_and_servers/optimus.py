"""Optimus: one worker and one server for each job, then one more where it saves most (EuroSys 2018, §4.1)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from muster.cluster.ledger_arrays import Bools, Floats, Ints
from muster.schedulers.contract import State
from muster.schedulers.parts import setting
from muster.schedulers.workers_and_servers.interval import PeriodicScheduler, SizingSolution
from muster.schedulers.workers_and_servers.learned_speeds import with_learned_speeds
from muster.schedulers.workers_and_servers.optimus_core import marginal_gains
from muster.schedulers.workers_and_servers.sizing_problem import SizingProblem
from muster.workload.sized import RESOURCES


@dataclass(frozen=True)
class Optimus(PeriodicScheduler):
    """Optimus: one more worker or server, again and again, where it cuts completion most for its share."""

    name: ClassVar[str] = "optimus"

    layers: bool = setting(False, "whether it knows which communication hides behind the layers")

    speeds: Literal["known", "learned"] = setting(
        "known", "the true coefficients of its form, or a fit to the steps that each job has shown"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.speeds == "learned" and (self.layers or self.promote_after_seconds < inf):
            raise ValueError("speeds=learned: without layers and promote_after_seconds only")

    def layers_known(self) -> bool:
        """By its setting; Optimus itself does not. Speeds are learned from the true steps, layers included."""
        return self.layers or self.speeds == "learned"

    def sizes(self, question: SizingProblem, memory: State) -> tuple[SizingSolution, SizingProblem]:
        """Likewise, by what it believes of speeds; it remembers the sizes that jobs have shown."""
        if self.speeds == "known":
            return super().sizes(question, memory)
        question, learned = with_learned_speeds(question, memory or {})
        answer, question = super().sizes(question, learned)
        answer.memory = learned
        return answer, question

    def answer(self, question: SizingProblem, memory: State) -> SizingSolution:
        """Marginal gains, until nothing fits or nothing gains."""
        demands = question.demands
        workers, servers = np.zeros(len(question), np.int64), np.zeros(len(question), np.int64)
        # Reservation charges the limit with the first worker and nothing after.
        reserved = demands.limit[:, : len(RESOURCES) if question.reserved else 0]
        columns = SizingColumns(
            np.ascontiguousarray(question.steps.terms),
            np.ascontiguousarray(question.steps.ring_seconds),
            np.ascontiguousarray(question.steps.per_worker_seconds),
            np.ascontiguousarray(question.steps.per_server_seconds),
            question.is_ring,
            question.remaining,
            demands.worker,
            demands.server,
            demands.limit * (1 + 1e-9),
            np.ascontiguousarray(reserved),
            question.least_workers,
            question.capacity,
        )
        marginal_gains(columns, workers, servers)
        return SizingSolution(workers, servers)


class SizingColumns(NamedTuple):
    """A sizing problem as compiled code takes it: a row a job, in order of arrival; amounts by resource."""

    terms: Floats
    ring_seconds: Floats
    per_worker_seconds: Floats
    per_server_seconds: Floats
    is_ring: Bools
    remaining: Floats
    """Iterations left."""
    worker: Floats
    """Held by one worker, then the numbers of workers and servers that it counts as; `server` likewise."""
    server: Floats
    limit: Floats
    """The owner's, on all that a job holds."""
    reserved: Floats
    """Charged once with the first worker; no columns: a job is charged what it holds."""
    least_workers: Ints
    capacity: Floats
