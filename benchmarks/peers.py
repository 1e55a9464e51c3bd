"""CPU seconds of another simulator beside Muster's, on the same jobs: `python -m benchmarks.peers [JOBS LOAD]`.

AccaSim comes from the package index (`pip install accasim`): first in, first out, best fit, GPUs as cores. It knows no
gangs on one machine: a job of four GPUs is four requests for one. Both write their schedules.
"""

from __future__ import annotations

import collections
import collections.abc
import importlib.util
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.cases import Case, mixed_trace
from benchmarks.one import run
from muster.workload.trace import Trace

NODES, GPUS = 64, 8
ORDERS = ("fifo-strict", "fifo")


def muster_seconds(trace: Trace, order: str) -> float:
    """Of a complete run under an order, records and summary written."""
    case = Case("peers", lambda: trace, f"{NODES}x{GPUS}gpu", order, "")
    with tempfile.TemporaryDirectory() as folder:
        run(case, case.warm_trace(), Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        run(case, trace, Path(folder))
        return time.process_time() - began


def accasim_seconds(trace: Trace) -> float:
    """Of a complete run of AccaSim, with its reading of the list and its schedule written."""
    collections.Mapping = collections.abc.Mapping  # type: ignore[attr-defined]  # AccaSim 1.1.3 is older than Python 3.10
    simulator = importlib.import_module("accasim.base.simulator_class").Simulator
    first = importlib.import_module("accasim.base.scheduler_class").FirstInFirstOut
    best_fit = importlib.import_module("accasim.base.allocator_class").BestFit
    columns = trace.jobs.select("submit_seconds", "duration_seconds", "gpus").iter_rows()
    jobs = [(round(submit), max(1, round(seconds)), int(gpus)) for submit, seconds, gpus in columns]
    cluster = {
        "groups": {"node": {"core": GPUS, "mem": 1_000_000}},
        "resources": {"node": NODES},
        "start_time": 0,
        "equivalence": {"processor": {"core": 1}},
    }
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "cluster.json").write_text(json.dumps(cluster))
        Path(folder, "jobs.swf").write_text(
            "".join(
                f"{number} {submit} -1 {seconds} {gpus} -1 -1 {gpus} {seconds} -1 1 1 1 -1 1 -1 -1 -1\n"
                for number, (submit, seconds, gpus) in enumerate(jobs, start=1)
            )
        )
        os.chdir(folder)  # where AccaSim writes
        try:
            began = time.process_time()
            simulator("jobs.swf", "cluster.json", first(best_fit()), show_statistics=False).start_simulation()
            return time.process_time() - began
        finally:
            os.chdir(before)


def main() -> None:
    """Both simulators on the mixed kind of 512 GPUs."""
    count, load = (int(sys.argv[1]), float(sys.argv[2])) if len(sys.argv) > 2 else (20_000, 0.8)
    trace = mixed_trace(count, NODES * GPUS, load)()
    for order in ORDERS:
        print(f"Muster, {order}: {muster_seconds(trace, order):.2f} CPU s", flush=True)
    if importlib.util.find_spec("accasim") is None:
        print("AccaSim: not installed; pip install accasim")
        return
    print(f"AccaSim, fifo: {accasim_seconds(trace):.2f} CPU s")


if __name__ == "__main__":
    main()
