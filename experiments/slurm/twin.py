"""The preset `slurm` in Muster's own simulator on the jobs of a log, with the logged cycles or with its own clocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from experiments.slurm.log import KILL_WAIT_SECONDS, RESOLUTION_SECONDS, SlurmLog
from experiments.slurm.priorities import CLUSTER, trace_of_log
from muster.cluster.ledger_arrays import Floats
from muster.cluster.shipped import parse_cluster
from muster.schedulers.backfill.slurm_cycles import SlurmCycles, SlurmScheduler
from muster.schedulers.contract import Scheduler
from muster.schedulers.registry import build
from muster.simulation import Options, simulate

BF_INTERVAL_SECONDS = 2.0
PHASES = 24
_LATENCY_SECONDS = 0.5
"""More than a cycle and its work ever delayed a start of the logs beside the clocks."""
SETTINGS: Mapping[str, str] = {
    "bf_interval": f"{BF_INTERVAL_SECONDS:g}",
    "bf_resolution": f"{RESOLUTION_SECONDS}",
    "kill_wait": f"{KILL_WAIT_SECONDS}",
}
PRIORITY: Mapping[str, Mapping[str, str]] = {
    "run1": {},
    "run3_multifactor": {
        "weight_age": "1000",
        "weight_fair_share": "1000",
        "weight_job_size": "500",
        "max_age_seconds": "600",
        "half_life_seconds": "600",
        "calc_period_seconds": "60",
        "calc_phase_seconds": "26.58",
        "shares": "userC:2",
    },
}
"""As `scheduling_settings.csv` says; the moment of the ticks is the log's."""


@dataclass(frozen=True)
class LoggedCycles(SlurmCycles):
    """The two loops at the moments of a log, and after a moment at those of their own clocks."""

    main_times: tuple[float, ...] = ()
    backfill_times: tuple[float, ...] = ()
    until: float = np.inf

    def next_main(self, now: float) -> float:
        """The next cycle of the main loop that the log has."""
        logged = _next_of(self.main_times, now)
        return logged if logged <= self.until else super().next_main(max(now, self.until))

    def next_backfill(self, now: float) -> float:
        """The next backfill cycle that the log has."""
        logged = _next_of(self.backfill_times, now)
        return logged if logged <= self.until else super().next_backfill(max(now, self.until))


def _next_of(times: Sequence[float], now: float) -> float:
    at = int(np.searchsorted(times, now - 1e-6))
    return times[at] if at < len(times) else np.inf


def slurm(run: str, **settings: str) -> SlurmScheduler:
    """The preset with the settings of a run."""
    scheduler = build("slurm", {**SETTINGS, **PRIORITY[run], **settings})
    assert isinstance(scheduler, SlurmScheduler)
    return scheduler


def starts(log: SlurmLog, scheduler: Scheduler) -> Floats:
    """When each job starts under a scheduler."""
    run = simulate(trace_of_log(log), parse_cluster(CLUSTER), scheduler, Options(restart_cost_seconds=0.0))
    jobs = run.record.jobs
    assert jobs["job_id"].to_list() == list(log.ids)
    return jobs["start_seconds"].to_numpy()


def with_logged_cycles(log: SlurmLog, run: str, until: float = np.inf, **phase: str) -> Floats:
    """When each job starts with the logged cycles up to a moment, logged durations and priorities of its own."""
    scheduler = slurm(run, **phase)
    times = [
        tuple(one.time for one in log.cycles if one.is_backfill == backfill) for backfill in (False, True)
    ]
    cycles = LoggedCycles(
        **{**vars(scheduler.cycles), "main_times": times[0], "backfill_times": times[1], "until": until}
    )
    return starts(log, replace(scheduler, cycles=cycles))


def with_own_clocks(log: SlurmLog, run: str, phases: int = PHASES, since: float = -np.inf) -> list[Floats]:
    """When each job starts, for so many phases of the two clocks; up to a moment the loops are those of the log."""
    return [with_logged_cycles(log, run, since, **phase) for phase in slurm(run).cycles.phases(phases)]


def first_other_decision(log: SlurmLog, found: Floats) -> str | None:
    """The first job whose start is off by more than any phase of the clocks explains; None if there is none."""
    apart = np.flatnonzero(np.abs(found - log.allocated) > BF_INTERVAL_SECONDS + _LATENCY_SECONDS)
    if not len(apart):
        return None
    return log.ids[int(apart[np.argmin(np.minimum(found, log.allocated)[apart])])]
