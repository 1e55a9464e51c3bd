"""How far from the optimum: one decision against the exact optimum, and whole runs against each interval's bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from experiments.papers.experiment import Effort, Experiment, Findings, Result, Row, Verdict
from experiments.papers.smd.cells import (
    FIELD,
    PUBLISHED,
    Cell,
    cluster_for,
    first_question,
    scheduler_named,
)
from experiments.papers.smd.utility import PER_HOUR, below_chart, place_name, shown
from muster.sweep.charts import Spot
from muster.sweep.page import Table
from muster.sweep.pieces import Piece
from muster.sweep.statistics import estimate

POLICIES = (PUBLISHED, "smd", *FIELD)
"""All are valued by the published objective. That of smd has another one since it counts waiting."""
SMALL, LARGE = (10, 20), (100, 1000)
"""Jobs of a decision that is solved exactly, and of one that is set beside its bound."""
SHARE = 0.5
NODES = 20_000
PROVEN = 1e-6
"""A relative gap at which the value counts as the optimum."""


@dataclass(frozen=True)
class Decision:
    """The first decision about jobs that all come at once: every policy against the best there is."""

    jobs: int
    accounting: str
    seed: int

    def inputs(self) -> Mapping[str, Any]:
        """All that the result depends on."""
        return asdict(self) | {"policies": POLICIES}

    def run(self) -> Mapping[str, Any]:
        """What each policy's choice is worth by the published objective, the best found, and a bound."""
        import numpy as np

        from muster.schedulers.admission.knapsack import FAST, Columns, SolverEffort, choose
        from muster.workload.generators.smd import generate

        trace = generate(self.jobs, seed=self.seed)
        cluster = cluster_for(trace.jobs, SHARE)
        asked = first_question(trace, cluster, scheduler_named("smd", self.accounting), layers_known=True)
        pairs = asked.choices
        columns = Columns(
            pairs.job,
            asked.profit(pairs.job, pairs.workers, pairs.servers, pairs.seconds),
            asked.usage(pairs.job, pairs.workers, pairs.servers),
            np.zeros(len(asked), bool),
        )
        effort = SolverEffort(gap=PROVEN, nodes=NODES) if self.jobs in SMALL else FAST
        best = choose(columns, asked.capacity, effort)
        values = {}
        for name in POLICIES:
            policy = scheduler_named(name, self.accounting)
            own = first_question(trace, cluster, policy, layers_known=policy.layers_known())
            answer = policy.answer(own, None)
            values[name] = asked.value(answer.workers, answer.servers)
        return {"values": values, "best": best.value, "bound": best.bound}


def _decisions(effort: Effort) -> list[Decision]:
    jobs = (SMALL[0], LARGE[0]) if effort.quick else (*SMALL, *LARGE)
    return [
        Decision(count, accounting, seed)
        for count, accounting, seed in product(
            jobs, ("usage", "reservation"), range(3 if effort.quick else 10)
        )
    ]


def _read_decisions(effort: Effort, results: Sequence[Result]) -> Findings:
    kinds: dict[tuple[int, str], list[Result]] = {}
    for decision, result in zip(_decisions(effort), results, strict=True):
        kinds.setdefault((decision.jobs, decision.accounting), []).append(result)
    rows, lines = [], []
    for (jobs, accounting), found in kinds.items():
        proven = all(one["bound"] - one["best"] <= 2 * PROVEN * one["bound"] for one in found)
        against = "optimum" if proven else "bound"
        gaps = {name: [1 - one["values"][name] / one["bound"] for one in found] for name in POLICIES}
        worst = max(gaps[PUBLISHED])
        rows.append(
            Row(
                f"{PUBLISHED} below the {against}: {jobs} jobs, {accounting}",
                "",
                "",
                f"{sum(gaps[PUBLISHED]) / len(found):.3%}, at worst {worst:.3%}",
                Verdict.OTHER_SETTING,
                f"fast path, {len(found)} decisions; no figure is published",
            )
        )
        lines.append(
            [f"{jobs} jobs, {accounting}", against, *(f"{sum(gap) / len(gap):.2%}" for gap in gaps.values())]
        )
    table = Table("Mean share of it that a choice leaves out", ("Decision", "Against", *POLICIES), lines)
    return Findings(rows, tables=[table])


DECISIONS = Experiment(
    "decisions",
    "One decision against the optimum",
    "Sizes for jobs that all come at once, capacity 0.5 of their limits: each policy's choice against the exact "
    "optimum (10 and 20 jobs, by branch and bound) or the relaxation's bound (100 and 1,000 jobs). Counts alone, "
    "before they are placed, and valued by the published objective.",
    _decisions,
    _read_decisions,
)

PLACES: tuple[tuple[int, float, float | None], ...] = (
    (30, 0.3, None),
    (30, 0.3, PER_HOUR),
)
SEEDS, QUICK_SEEDS = 3, 2


def _certified(effort: Effort) -> Sequence[Piece]:
    return [
        Cell(name, "usage", *place, seed, certify=True)
        for place in PLACES
        for name in POLICIES
        for seed in range(QUICK_SEEDS if effort.quick else SEEDS)
    ]


def _read_certified(effort: Effort, results: Sequence[Result]) -> Findings:
    seeds = QUICK_SEEDS if effort.quick else SEEDS
    left = iter(results)
    lines, spots = [], []
    for place in PLACES:
        below = {name: estimate([next(left)["below_bound"] for _ in range(seeds)]) for name in POLICIES}
        lines.append([place_name(place), *(shown(value) for value in below.values())])
        spots += [Spot(place_name(place), name, None, v.mean, v.half_width) for name, v in below.items()]
    table = Table("Share of all bounds together that the plans leave out", ("Run", *POLICIES), lines)
    return Findings([], [below_chart(spots, seeds)], [table])


CERTIFIED = Experiment(
    "certificates",
    "Every interval against its bound",
    "At each interval the outer problem's relaxation bounds what any sizes of the jobs then present could be worth "
    "together; here is how much of it the plan, as it was placed, leaves out. The bound looks at one interval: a "
    "policy that lets a job wait for a better moment is charged for it. Under usage accounting.",
    _certified,
    _read_certified,
)
