"""Options of a run that cannot change it, for the reader of its figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from muster.formatting import enumerated
from muster.schedulers.contract import Scheduler
from muster.schedulers.parts import DURATIONS
from muster.simulation.network import NetworkOfRun
from muster.simulation.options import Options
from muster.speed.network_of_jobs import AUTO, NONE
from muster.workload.jobs import JobTable
from muster.workload.sized import RIGID


def options_without_effect(
    table: JobTable, network: NetworkOfRun | None, options: Options, scheduler: Scheduler
) -> list[str]:
    """The options that were chosen and have no effect on these jobs, each with the cause.

    A scheduler that does not say what it needs, or whether it changes amounts, is taken to need what it gets, and to
    change them.
    """
    found = _of_scheduler(table, options, scheduler.describe())
    if options.resize_restarts and not getattr(scheduler, "changes_amounts", True):
        found.append(
            "--resize-restarts has no effect: this scheduler changes no CPUs or memory of running jobs"
        )
    if options.end_at_limit and not np.isfinite(table.asked["time_limit"]).any():
        found.append("--end-at-limit has no effect: no job states a time limit")
    if options.failures is None and options.checkpoint_seconds != Options.checkpoint_seconds:
        found.append(
            f"--checkpoint {options.checkpoint_seconds:g} has no effect: no node fails without --failures"
        )
    chosen = [
        flag
        for flag, is_chosen in (
            (f"--network {options.network}", options.network not in (AUTO, NONE)),
            (f"--congestion {options.congestion:g}", options.congestion > 0),
            ("--contention", options.contention),
        )
        if is_chosen
    ]
    if chosen and not _some_job_communicates(table, network):
        have = "has" if len(chosen) == 1 else "have"
        found.append(f"{enumerated(chosen)} {have} no effect: no job depends on the network of this run")
    return found


def _of_scheduler(table: JobTable, options: Options, scheduler: Mapping[str, Any]) -> list[str]:
    """What schedulers know of durations where this one goes by none, and tenants of its quota that have no job."""
    found = []
    all_rigid = bool((table.asked["sync"] == RIGID).all())
    if (
        options.knowledge != Options.knowledge
        and all_rigid
        and DURATIONS not in scheduler.get("needs", (DURATIONS,))
    ):
        found.append(
            f"this scheduler ignores --knowledge {options.knowledge}, as durations do not count there"
        )
    for name, given in (scheduler.get("settings", {}).get("quota") or {}).items():
        if unknown := [tenant for tenant in given if tenant not in table.tenants]:
            found.append(f"quota.{name} has no effect for {enumerated(unknown)}: no job is of that tenant")
    return found


def _some_job_communicates(table: JobTable, network: NetworkOfRun | None) -> bool:
    """Whether the network can slow a job: one with workers, or a gang whose model says how it communicates."""
    asked = table.asked
    if (asked["sync"] != RIGID).any():
        return True
    if network is None:
        return False
    gangs = (asked["gpus"] > 1) | (asked["max_gpus"] > 1)
    return bool(network.sensitive[asked["model"][gangs]].any())
