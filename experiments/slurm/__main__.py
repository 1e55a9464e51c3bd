"""Hold Muster's rules of Slurm against logged runs of a real one.

MUSTER_REFERENCE=FOLDER python -m experiments.slurm
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments.slurm.log import SlurmLog, read_log
from experiments.slurm.replay import by_logged_priority, free_run, one_step
from experiments.slurm.twin import (
    PHASES,
    PRIORITY,
    first_other_decision,
    with_logged_cycles,
    with_own_clocks,
)
from muster.cluster.ledger_arrays import Floats

SINCE = {"run3_multifactor": (600.0, 800.0)}
"""Moments from which the clocks are own ones too: before and after the decision that changes most of the run."""


def main() -> None:
    """Print the figures of each run."""
    parser = argparse.ArgumentParser(prog="python -m experiments.slurm", description=__doc__)
    parser.add_argument(
        "--reference",
        type=Path,
        default=os.environ.get("MUSTER_REFERENCE"),
        metavar="FOLDER",
        help="Folder of the reference data (default: that of MUSTER_REFERENCE).",
    )
    parser.add_argument(
        "--phases", type=int, default=PHASES, metavar="N", help=f"Phases of the clocks (default: {PHASES})."
    )
    arguments = parser.parse_args()
    if arguments.reference is None:
        parser.error("--reference or MUSTER_REFERENCE names the folder of the reference data")
    for run in PRIORITY:
        log = read_log(arguments.reference / "parity/slurm", run)
        step = one_step(log)
        print(f"{run}: {step.starts} of {step.starts + len(step.wrong_starts)} starts, ", end="")
        print(f"{step.plans:,} of {step.plans + len(step.wrong_plans):,} plans, one cycle at a time")
        for what, found in (
            ("logged cycles and priorities", free_run(log, by_logged_priority)),
            ("logged cycles, own priorities, in the simulator", with_logged_cycles(log, run)),
        ):
            errors = np.abs(found - log.allocated)
            print(
                f"  {what}: start error median {np.median(errors):.3f} s, max {errors.max():.1f} s; ", end=""
            )
            print(f"mean wait {np.mean(found - log.accepted):.1f} s, logged {log.wait.mean():.1f} s")
            print(f"    {_quantiles(log.wait, [found - log.accepted])}")
        for since in (-np.inf, *SINCE.get(run, ())):
            _print_own_clocks(log, with_own_clocks(log, run, arguments.phases, since), since)


def _print_own_clocks(log: SlurmLog, phases: Sequence[Floats], since: float) -> None:
    """Print the figures of runs with own clocks, and the first decision that they change."""
    waits = np.array([np.mean(found - log.accepted) for found in phases])
    off = np.mean([np.median(np.abs(found - log.allocated)) for found in phases])
    begin = "" if since == -np.inf else f" from {since:g} s on"
    print(f"  own clocks{begin}, {len(phases)} phases: mean wait {waits.mean():.1f} s ", end="")
    print(f"({waits.mean() / log.wait.mean() - 1:+.1%}), standard deviation {waits.std():.1f} s; ", end="")
    print(f"start error median {off:.1f} s")
    print(f"    {_quantiles(log.wait, [found - log.accepted for found in phases])}")
    firsts = Counter(first_other_decision(log, found) for found in phases).most_common()
    print(f"    first other decision: {', '.join(f'{job} in {count}' for job, count in firsts)}")


def _quantiles(logged: Floats, runs: Sequence[Floats]) -> str:
    """Quantiles of the wait as logged and in the mean of the runs, and how far these are apart in single runs."""
    parts = []
    for name, share in (("p50", 0.5), ("p90", 0.9)):
        real = np.quantile(logged, share)
        each = np.array([np.quantile(waits, share) for waits in runs])
        spread = f", runs {each.min():.1f} to {each.max():.1f} s" if len(runs) > 1 else ""
        parts.append(
            f"{name} wait {each.mean():.2f} s, logged {real:.2f} s ({each.mean() / real - 1:+.1%}{spread})"
        )
    return "; ".join(parts)


if __name__ == "__main__":
    main()
