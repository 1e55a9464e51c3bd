"""The paper's question, answered by us: every policy in every setting, beside the claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from experiments.papers.dally.pareto import pareto_chart
from experiments.papers.dally.settings import Run, Setting, jobs_of, seeds, settings
from experiments.papers.experiment import Effort, Experiment, Findings, Result, Row, Verdict
from muster.sweep.page import Table
from muster.sweep.pieces import Piece
from muster.sweep.statistics import Estimate, estimate

DALLY = ("dally", "dally-manual", "dally-nowait", "dally-consolidated")
OTHERS = ("tiresias", "gandiva", "themis", "yarn-cs", "fjf", "fifo", "las", "las+consolidate")
WITH_DURATIONS = ("srtf", "srtf+consolidate", "srsf+consolidate")
PLUS, PLUS_ORACLE = "dally-plus", "dally-plus-oracle"
POLICIES = (*DALLY, *OTHERS, *WITH_DURATIONS, PLUS, PLUS_ORACLE)
THOUSAND = 1000.0
FIGURES = {
    "makespan": "Makespan",
    "jct": "Mean JCT",
    "p95": "95 %",
    "p99": "99 %",
    "wait": "Mean wait",
    "communication": "Communication",
}


@dataclass(frozen=True)
class Claim:
    """`dally` against another policy: up to so much less of a figure."""

    figure: str
    what: str
    percent: float
    against: tuple[str, ...]
    only_congested: bool = False


CLAIMS = (
    Claim("makespan", "makespan shorter than consolidation's", 69.0, ("yarn-cs", "dally-consolidated")),
    Claim("jct", "mean JCT lower", 83.0, ("tiresias", "gandiva", "yarn-cs")),
    Claim("communication", "communication less", 98.0, ("tiresias", "gandiva", "yarn-cs"), True),
)
JCT_MARGIN, MAKESPAN_MARGIN = 0.01, 0.03
"""By how much dally-plus may be worse than the best of its class."""

Found = Mapping[str, Sequence[Result]]


def _pieces(effort: Effort) -> Sequence[Piece]:
    return [
        Run(policy, policy in (*WITH_DURATIONS, PLUS_ORACLE), setting, jobs_of(effort), seed)
        for setting in settings()
        for policy in POLICIES
        for seed in seeds(effort)
    ]


def _read(effort: Effort, results: Sequence[Result]) -> Findings:
    left = iter(results)
    found = {
        setting: {policy: [next(left) for _ in seeds(effort)] for policy in POLICIES}
        for setting in settings()
    }
    rows = [row for claim in CLAIMS for setting in found for row in _against(claim, setting, found[setting])]
    rows += [_tiresias(setting, runs) for setting, runs in found.items()]
    rows += [row for setting, runs in found.items() for row in _plus(setting, runs)]
    tables = [_table(setting, runs) for setting, runs in found.items()]
    return Findings(rows, [pareto_chart({str(key): runs for key, runs in found.items()})], tables)


def _against(claim: Claim, setting: Setting, runs: Found) -> list[Row]:
    """How much less `dally` has of a figure, against each policy; a difference a seed, then their mean."""
    if claim.only_congested and not setting.congested:
        return []
    rows = []
    for other in claim.against:
        less = estimate(
            [
                100.0 * (1.0 - ours[claim.figure] / theirs[claim.figure])
                for ours, theirs in zip(runs["dally"], runs[other], strict=True)
            ]
        )
        verdict = Verdict.REACHED if less.mean >= claim.percent else Verdict.NOT_REACHED
        reported = f"up to {claim.percent:g} %"
        rows.append(Row(f"{claim.what} | against {other} | {setting}", reported, "", _percent(less), verdict))
    return rows


def _tiresias(setting: Setting, runs: Found) -> Row:
    """Whether Tiresias' mean JCT is below Dally's, as in the authors' repaired program on the batch trace."""
    ratio = estimate([a["jct"] / b["jct"] for a, b in zip(runs["tiresias"], runs["dally"], strict=True)])
    batch = setting.arrivals == "batch" and not setting.congested and setting.models == "authors' scales"
    return Row(
        f"mean JCT, Tiresias over Dally | {setting}",
        "above 1",
        "0.95 (x10), 0.88 (x1)" if batch else "",
        f"{ratio.mean:.2f}",
        Verdict.REACHED if ratio.mean > 1 else Verdict.NOT_REACHED,
        "the authors' Tiresias has neither queues nor promotion" if batch else "",
    )


def _plus(setting: Setting, runs: Found) -> list[Row]:
    """dally-plus against the best of its class, figure by figure; means over seeds."""
    rows = []
    for ours, others in ((PLUS, (*DALLY, *OTHERS)), (PLUS_ORACLE, (*DALLY, *OTHERS, *WITH_DURATIONS))):
        for figure, margin in (("jct", JCT_MARGIN), ("makespan", MAKESPAN_MARGIN)):
            means = {name: estimate([run[figure] for run in runs[name]]).mean for name in (ours, *others)}
            best = min(others, key=lambda name: means[name])
            off = means[ours] / means[best] - 1.0
            rows.append(
                Row(
                    f"{FIGURES[figure].lower()} of {ours} against the best | {setting}",
                    f"at most +{100 * margin:g} % (ours to reach)",
                    "",
                    f"{100 * off:+.1f} %",
                    Verdict.REACHED if off <= margin else Verdict.NOT_REACHED,
                    f"the best other is {best}",
                )
            )
    return rows


def _table(setting: Setting, runs: Found) -> Table:
    rows = [
        (policy, *(_thousands(estimate([run[figure] for run in of])) for figure in FIGURES))
        for policy, of in runs.items()
    ]
    note = "Thousands of seconds, means over seeds and their 95 % intervals; communication is seconds a job."
    return Table(str(setting), ("Policy", *FIGURES.values()), rows, note)


def _thousands(value: Estimate) -> str:
    width = "" if value.half_width is None else f" ± {value.half_width / THOUSAND:.4g}"
    return f"{value.mean / THOUSAND:.4g}{width}"


def _percent(value: Estimate) -> str:
    return f"{round(value.mean)} %" + ("" if value.half_width is None else f" ± {value.half_width:.0f}")


FIELD = Experiment(
    "field",
    "Every policy in every setting",
    "The paper's abstract: makespan up to 69 % shorter than consolidation-based scheduling, mean JCT up to 83 % lower, "
    "communication up to 98 % less under congestion. `dally-plus` is ours and no claim of the paper's: its mean JCT is "
    "to be at most 1 % and its makespan at most 3 % above those of the best policy that knows no more than it.",
    _pieces,
    _read,
)
