"""Runs each scheduler named as an argument on nodes with little power and prints what the jobs hold, as JSON.

A process of its own, because a resource is there from the start of a process or not at all.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from muster.cluster.cluster_file import write_cluster_file
from muster.cluster.shipped import parse_cluster
from muster.workload.trace import trace_of
from tests.building import run

CLUSTER = """
[types.a]
gpus = 8
resources = { power_watts = 2000.0 }
[[nodes]]
type = "a"
count = 2
"""
WATTS = [400] * 10 + [100] * 4 + [None] * 2
"""For each GPU of each job: 10 hungry jobs, 4 modest ones and 2 that state nothing."""


def main(schedulers: list[str]) -> None:
    """Print the rows of each run's table of allocations."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "cluster.toml")
        path.write_text(CLUSTER)
        cluster = parse_cluster(str(path))
        write_cluster_file(cluster, path)
        assert parse_cluster(str(path)).nodes == cluster.nodes
    trace = trace_of(
        {
            "job_id": [str(number) for number in range(len(WATTS))],
            "submit_seconds": [float(number) for number in range(len(WATTS))],
            "gpus": [2 if number % 5 == 0 else 1 for number in range(len(WATTS))],
            "duration_seconds": [3600.0] * len(WATTS),
            "power_watts": WATTS,
        },
        "test",
    )
    columns = ("job_id", "node", "gpus", "power_watts", "from_seconds", "to_seconds")
    runs = {name: run(trace, cluster, name).record.allocations.select(columns).rows() for name in schedulers}
    json.dump(runs, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
