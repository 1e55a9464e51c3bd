"""How much a daemon takes in, and how soon its queue is found: `python -m benchmarks.service [NAME ...]`.

A real `muster serve` on fake nodes and SQLite on this disk, its clients in this process, over its Unix socket.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from muster.cluster.ledger import NodeAllocation
from muster.service.client import Client
from muster.service.home import read_endpoint, store_url
from muster.service.request import JobRequest
from muster.service.store import Store
from muster.service.store.rows import AllocationInterval, PendingInterval, State, StoreChanges, Submission
from muster.workload.models import synergy_models

CLUSTER = "512x8gpu,24cpu,500gb"
MUSTER = [sys.executable, "-c", "from muster.cli import main; main()"]
SECONDS, CLIENTS, BATCH, QUEUED, ENDED = 10, 8, 1_000, 10_000, 100_000
DECIDED, DECIDES_SECONDS = 5_000, 30

Figures = dict[str, str]


def job(gpus: int = 1) -> dict[str, Any]:
    """One whose steps are not known, as most."""
    return {
        "name": "load",
        "command": ["python", "train.py", "--epochs", "3"],
        "directory": "/",
        "gpus": gpus,
    }


@contextmanager
def daemon(
    scheduler: str = "fifo", *flags: str, fill: Callable[[Store], None] | None = None
) -> Iterator[dict[str, str]]:
    """One that serves until the end of the body, on a store with what `fill` writes into it; the environment in which
    its clients find it, with its process id as DAEMON."""
    with tempfile.TemporaryDirectory() as folder:
        if fill is not None:
            store = Store.open(store_url(Path(folder)))
            fill(store)
            store.close()
        environment = {**os.environ, "MUSTER_HOME": folder}
        command = [*MUSTER, "serve", "--scheduler", scheduler, "--fake-nodes", CLUSTER, *flags]
        log = Path(folder) / "daemon.log"
        with log.open("wb") as output:
            process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        try:
            while read_endpoint(Path(folder)) is None:
                if process.poll() is not None:
                    raise RuntimeError(log.read_text())
                time.sleep(0.05)
            os.environ["MUSTER_HOME"] = folder
            with Client.of_environment() as client:
                client.post("/v1/jobs", job())  # what is imported at the first request
            yield environment | {"DAEMON": str(process.pid)}
        finally:
            process.terminate()
            process.wait()


def batches() -> Figures:
    """A batch of 1,000 jobs begun every second for ten seconds."""
    with daemon(), Client.of_environment() as client:
        began, answers = time.perf_counter(), []
        for second in range(SECONDS):
            time.sleep(max(0.0, began + second - time.perf_counter()))
            sent = time.perf_counter()
            client.post("/v1/jobs:batch", {"jobs": [job()] * BATCH})
            answers.append(time.perf_counter() - sent)
        whole = max(time.perf_counter() - began, SECONDS)
    rate = f"{SECONDS * BATCH / whole:,.0f} jobs/s"
    return {"kept up": rate, "slowest answer": f"{1000 * max(answers):.0f} ms"}


def singles() -> Figures:
    """Single submissions of eight clients, each sending the next one once the last is answered."""
    took: list[float] = []

    def client_until(end: float) -> None:
        with Client.of_environment() as client:
            while time.perf_counter() < end:
                sent = time.perf_counter()
                client.post("/v1/jobs", job())
                took.append(time.perf_counter() - sent)

    with daemon():
        end = time.perf_counter() + SECONDS
        clients = [threading.Thread(target=client_until, args=(end,)) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
    took.sort()
    at = {name: took[int(share * len(took))] for name, share in (("median", 0.5), ("p99", 0.99))}
    return {"rate": f"{len(took) / SECONDS:,.0f} jobs/s"} | {
        name: f"{1000 * seconds:.1f} ms" for name, seconds in at.items()
    }


def queue() -> Figures:
    """What `muster queue` asks for, with 10,000 jobs that wait, and the whole command."""
    with daemon() as environment, Client.of_environment() as client:
        for _ in range(QUEUED // BATCH):
            client.post("/v1/jobs:batch", {"jobs": [job(gpus=4096)] * BATCH})
        # Those at the head may run; the rest waits for as long as this takes.
        answers = []
        for _ in range(20):
            sent = time.perf_counter()
            counts = client.get("/v1/queue")["counts"]
            answers.append(time.perf_counter() - sent)
        sent = time.perf_counter()
        subprocess.run([*MUSTER, "queue"], env=environment, stdout=subprocess.DEVNULL, check=True)
        command = time.perf_counter() - sent
    answers.sort()
    return {
        "queued": f"{counts['queued']:,}",
        "median answer": f"{1000 * answers[len(answers) // 2]:.0f} ms",
        "slowest answer": f"{1000 * answers[-1]:.0f} ms",
        "command with its start": f"{command:.2f} s",
    }


def ended_jobs(store: Store) -> None:
    """A long history: what each job held and waited for, and three decisions for each."""
    chance = random.Random(1)
    gpus = {"needs": 1.0, "free": 0.0}
    free = dict.fromkeys(("free_gpus", "free_cpus", "free_memory_gb", "free_storage_gb_per_s"), 0.0)
    for _ in range(ENDED // 5_000):
        changes = StoreChanges()
        for number in store.submit(
            [Submission(f"user{at % 40}", JobRequest(**job())) for at in range(5_000)]
        ):
            since = 15.0 * number
            until = since + chance.uniform(60, 20_000)
            held = NodeAllocation(f"node-{number % 512}", (chance.randrange(8),), 3.0, 62.5, 0.0)
            changes.job(number, state=State.COMPLETED, epoch=1, first_start=since, finished=until, status=0)
            changes.job(number, run_seconds=until - since, attained_gpu_seconds=until - since)
            changes.opened.append(AllocationInterval(number, 1, held, since, until))
            changes.pending += [PendingInterval(number, "no_gpus", gpus, since - 9, since)] * 2
            changes.event(number, since, "started")
            changes.event(number, until, "completed")
            figures = {"time_seconds": since, "running": 9, "waiting": 9, "stopped": 0, "changed": 0}
            changes.decisions += [figures | free | {"started": one} for one in (0, 1, 1)]
        store.commit(changes)


def history() -> Figures:
    """What `muster export` and `muster queue --all` take with 100,000 ended jobs."""
    with daemon(fill=ended_jobs) as environment, tempfile.TemporaryDirectory() as folder:
        status = Path("/proc", environment["DAEMON"], "status")

        def megabytes(figure: str) -> float:
            found = re.search(rf"^{figure}:\s+(\d+) kB$", status.read_text(), re.MULTILINE)
            assert found is not None
            return int(found[1]) / 1000

        before, took = megabytes("VmRSS"), []
        for command in (["export", f"{folder}/record"], ["queue", "--all"]):
            began = time.perf_counter()
            subprocess.run([*MUSTER, *command], env=environment, stdout=subprocess.DEVNULL, check=True)
            took.append(time.perf_counter() - began)
        more = megabytes("VmHWM") - before
    return {
        "export": f"{took[0]:.1f} s",
        "queue --all": f"{took[1]:.1f} s",
        "daemon's memory": f"+{more:.0f} MB",
    }


def decisions(scheduler: str) -> Figures:
    """With every GPU held and 5,000 jobs queued: decisions at arrivals, and where jobs take turns, all at once."""
    chance, models = random.Random(1), sorted(synergy_models())

    def some() -> dict[str, Any]:
        gpus = chance.choices([1, 2, 4, 8, 16], [70, 10, 10, 8, 2])[0]
        return {**job(gpus), "model": chance.choice(models), "steps": chance.randint(10**6, 10**7)}

    def figure(name: str) -> float:
        metrics = b"".join(client.download("/metrics")).decode()
        found = re.search(rf"^muster_{name} (\S+)$", metrics, re.MULTILINE)
        assert found is not None
        return float(found[1])

    took: dict[float, float] = {}
    silent = 0.0
    with daemon(scheduler, "--round", "5"), Client.of_environment() as client:
        while client.get("/v1/jobs", limit=1)["counts"]["queued"] < DECIDED:
            client.post("/v1/jobs:batch", {"jobs": [some() for _ in range(BATCH)]})
            time.sleep(2.0)
        end = time.perf_counter() + DECIDES_SECONDS
        while time.perf_counter() < end:
            client.post("/v1/jobs", some())
            time.sleep(0.2)
            took[figure("decisions_total")] = figure("last_decision_seconds")
            silent = max(silent, time.time() - figure("controller_seen_timestamp_seconds"))
        counts = client.get("/v1/jobs", limit=1)["counts"]
    in_order = sorted(took.values())
    return {
        "running": f"{counts['running']:,}",
        "queued": f"{counts['queued']:,}",
        "decisions": f"{len(in_order):,}",
        "median": f"{1000 * in_order[len(in_order) // 2]:.0f} ms",
        "slowest": f"{1000 * in_order[-1]:.0f} ms",
        "longest turn with all that is written and begun": f"{silent:.1f} s",
    }


CASES: dict[str, tuple[str, Callable[[], Figures]]] = {
    "service-batch": ("1,000 jobs/s for 10 s", batches),
    "service-single": (">= 200 jobs/s, p99 <= 100 ms", singles),
    "service-queue": ("answers <= 200 ms with 10,000 queued", queue),
    "service-history": ("each <= 10 s, daemon <= +300 MB with 100,000 ended", history),
    **{
        f"service-decision-{name}": ("<= 1 s with 5,000 queued", partial(decisions, name))
        for name in ("fifo", "las+tune-plus", "srtf+tune-plus")
    },
}


def main() -> None:
    """All cases, or those whose names begin with one of the arguments."""
    wanted = tuple(sys.argv[1:]) or ("",)
    table = Table("case", "goal", "measured")
    for name, (goal, measure) in CASES.items():
        if name.startswith(wanted):
            figures = measure()
            table.add_row(name, goal, ", ".join(f"{what} {value}" for what, value in figures.items()))
            print(json.dumps({"case": name, **figures}), flush=True)
    Console().print(table)


if __name__ == "__main__":
    main()
