"""Seconds from a decision to a process, for short jobs that plain sbatch submits to a real Slurm.

    python -m tests.slurm.latency [--jobs 200]

Prints the median and the 95th percentile, where the time goes by the log of slurmctld, and how fast the API shows the
queue meanwhile. On a busy machine all of them are longer.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from datetime import datetime
from pathlib import Path
from statistics import median, quantiles

from muster.service.client import Client
from muster.service.home import socket_path, store_url
from muster.service.store import Store
from tests.slurm.cluster import SlurmCluster, slurm_cluster, wait_for
from tests.slurm.test_serving import Site

_LINE = re.compile(
    r"\[(\S+)\] (?:_slurm_rpc_(update)_job|sched: (Allocate)|sched/backfill: _start_now: (Started)).* JobId=(\d+)"
)
_PATIENCE = 600.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=200)
    count: int = parser.parse_args().jobs
    with tempfile.TemporaryDirectory(prefix="muster-latency-") as folder:
        Path(folder).chmod(0o711)
        with slurm_cluster(Path(folder) / "cluster", nodes=4) as slurm:
            site = Site(slurm, Path(folder) / "home")
            with site.serves():
                answers = _run(site, count)
            _report(site, slurm, answers)


def _run(site: Site, count: int) -> list[float]:
    """Submit the jobs and wait for their end; how long each look at the queue took."""
    output = f"--output={site.home.parent}/%j.out"
    for _ in range(count):
        words = ("--hold", "--comment=muster:", "--gres=gpu:1", "--mem=1G", output)
        site.slurm.run("sbatch", *words, "--wrap=date +%s.%N; sleep 1")
    answers: list[float] = []
    with Client(f"unix://{socket_path(site.home)}") as client:

        def all_done() -> bool:
            began = time.monotonic()
            queue = client.get("/v1/queue")
            answers.append(time.monotonic() - began)
            return len(list(site.home.parent.glob("*.out"))) == count and not queue["jobs"]

        wait_for(all_done, lambda: "the jobs did not end", pause=0.5, patience=_PATIENCE)
    return answers


def _report(site: Site, slurm: SlurmCluster, answers: list[float]) -> None:
    """Print each part of the way, by its median."""
    logged = _logged(slurm)
    store = Store.open(store_url(site.home))
    parts: dict[str, list[float]] = {}
    for row in store.jobs():
        number = str(row.engine_key).partition("@")[0]
        process = float((site.home.parent / f"{number}.out").read_text().split()[0])
        decided = max(one.time for one in store.events(row.id) if one.kind == "started") + store.origin
        allocated = min((at for at in logged.get((number, "start"), []) if at >= decided), default=process)
        updates = [at for at in logged.get((number, "update"), []) if decided <= at <= allocated]
        parts.setdefault("decision to process", []).append(process - decided)
        parts.setdefault("decision to Slurm's first change", []).append(min(updates) - decided)
        parts.setdefault("first change to the release", []).append(max(updates) - min(updates))
        parts.setdefault("release to allocation", []).append(allocated - max(updates))
        parts.setdefault("allocation to process", []).append(process - allocated)
    parts["answer of the API to a look at the queue"] = answers
    store.close()
    for name, seconds in parts.items():
        print(f"{name}: median {median(seconds):.2f} s, 95 % within {quantiles(seconds, n=20)[-1]:.2f} s")


def _logged(slurm: SlurmCluster) -> dict[tuple[str, str], list[float]]:
    """Unix seconds at which slurmctld has changed and started jobs."""
    found: dict[tuple[str, str], list[float]] = {}
    for line in (slurm.folder / "slurmctld.log").read_text().splitlines():
        if match := _LINE.match(line):
            at = datetime.fromisoformat(match[1]).timestamp()
            found.setdefault((match[5], "update" if match[2] else "start"), []).append(at)
    return found


if __name__ == "__main__":
    main()
