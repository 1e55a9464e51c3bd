"""Times one case in this process and prints its figures as JSON: `python -m benchmarks.one NAME`."""

from __future__ import annotations

import gc
import json
import resource
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.cases import CASES, Case
from muster.api import Result
from muster.cluster.shipped import parse_cluster
from muster.schedulers.registry import build
from muster.simulation import EXACT, Options, Run, rules_named, simulate
from muster.workload.trace import Trace


def run(case: Case, trace: Trace, folder: Path) -> Run:
    """Simulate and write everything."""
    rules = rules_named("synergy-published") if case.published_rules else EXACT
    scheduler = build(case.scheduler, {**rules.settings, **case.settings})
    options = Options(rules=rules, **{"restart_cost_seconds": 0.0, **case.options})
    result = simulate(trace, parse_cluster(case.cluster), scheduler, options)
    Result.of(result).write(folder)
    return result


def main(name: str) -> None:
    """Warm up, so that imports are not counted; then time one whole run, records included."""
    case = next(case for case in CASES if case.name == name)
    options = {name: value for name, value in case.options.items() if name != "measure"}
    warm = replace(case, trace=case.warm_trace, cluster=case.warm_on, options=options)
    with tempfile.TemporaryDirectory() as folder:
        run(warm, warm.trace(), Path(folder))
    trace = case.trace()
    with tempfile.TemporaryDirectory() as folder:
        gc.collect()  # what imports left; else it falls into the run or not, by chance
        began, began_wall = time.process_time(), time.perf_counter()
        result = run(case, trace, Path(folder))
        cpu, wall = time.process_time() - began, time.perf_counter() - began_wall
    figures = {
        "case": case.name,
        "goal": case.goal,
        "jobs": len(trace.jobs),
        "decisions": len(result.record.decisions),
        "cpu_seconds": cpu,
        "wall_seconds": wall,
        "jobs_per_cpu_second": len(trace.jobs) / cpu,
        "decision_microseconds": 1e6 * result.cost.decision_seconds["mean"],
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1])
