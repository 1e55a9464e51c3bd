"""Records made by hand: a small scheduler in rounds, obviously right, so that the report has real runs to show."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from muster.runtime.records import ALLOCATIONS, DECISIONS, JOBS, REASONS, CompactTable, Record

CPUS_PER_GPU, MEMORY_PER_GPU = 3.0, 60.0
NODES, GPUS_PER_NODE = 4, 8
SEED, MEAN_GAP_SECONDS, ROUND_SECONDS = 1, 400.0, 300.0
Job = dict[str, Any]
# Less is served first; `None` for "running jobs keep what they have".
ORDERS: Mapping[str, Callable[[Job], float]] = {
    "fifo": lambda job: float(job["submit"]),
    "sjf": lambda job: float(job["left"]),
    "las": lambda job: float(job["attained"]),
    "largest": lambda job: -float(job["gpus"]),
    "smallest": lambda job: float(job["gpus"]),
    "lifo": lambda job: -float(job["submit"]),
}
PREEMPTIVE = {"las"}


def run_record(
    nodes: int, gpus_per_node: int, name: str = "fifo+proportional+pack", **more: Any
) -> dict[str, Any]:
    """The `run.json` of a hand-made run."""
    return {
        "muster_version": "0.1.0",
        "trace": {"source": "hand-made.csv", "jobs": 0, "notes": [], "sha256": "0" * 64},
        "cluster": {
            "name": f"{nodes}x{gpus_per_node}gpu",
            "nodes": [
                {
                    "name": f"node-{index}",
                    "type": "standard",
                    "rack": f"rack-{index // 8}",
                    "gpus": gpus_per_node,
                    "gpu_type": "V100",
                    "cpus": gpus_per_node * CPUS_PER_GPU,
                    "memory_gb": gpus_per_node * MEMORY_PER_GPU,
                    "storage_gb_per_s": 2.0,
                }
                for index in range(nodes)
            ],
        },
        "scheduler": {"name": name, "parts": {"order": name.split("+")[0]}, "settings": {}, "needs": []},
        "settings": {"round_seconds": 300.0, "restart_cost_seconds": 0.0, "measure": None},
        "rules": {
            "name": "exact",
            "queue": "skips what does not fit",
            "gang": "whole, over as few nodes as possible",
            "rounding": "none",
            "tie_break": "arrival, then id",
        },
        "knowledge": "oracle",
        "seed": 0,
        **more,
    }


def tables(
    jobs: Sequence[Mapping[str, Any]],
    allocations: Sequence[Mapping[str, Any]] = (),
    decisions: Sequence[Mapping[str, Any]] = (),
    reasons: Sequence[Mapping[str, Any]] = (),
    run: Mapping[str, Any] | None = None,
) -> Record:
    """A record of rows that name only what matters; the rest is plain."""
    job_defaults: dict[str, Any] = {
        "model": "resnet18", "tenant": None, "user": None, "gpus": 1.0, "preemptions": 0, "moves": 0,
        "attained_gpu_seconds": 0.0, "iterations": 1.0, "iterations_done": 1.0, "input_stall_seconds": 0.0,
        "compute_seconds": 0.0, "communication_seconds": 0.0, "restart_seconds": 0.0, "outcome": "completed",
        "measured": True,
    }  # fmt: skip
    full_jobs = []
    for job in jobs:
        full = {**job_defaults, **job}
        if full.get("finish_seconds") is not None:
            full.setdefault("jct_seconds", full["finish_seconds"] - full["submit_seconds"])
        full_jobs.append(full)
    allocation_defaults = {"role": "worker", "gpu_ids": [0], "gpus": 1.0, "cpus": 3.0, "memory_gb": 60.0,
                           "storage_gb_per_s": 0.1}  # fmt: skip
    full_allocations = [{**allocation_defaults, **row} for row in allocations]
    return Record(
        pl.DataFrame(full_jobs, schema=JOBS),
        CompactTable(pl.DataFrame(full_allocations, schema=ALLOCATIONS)),
        pl.DataFrame(list(decisions), schema=DECISIONS),
        CompactTable(pl.DataFrame(list(reasons), schema=REASONS)),
        run if run is not None else run_record(1, 4),
    )


def random_jobs(count: int, tenants: Sequence[str]) -> list[Job]:
    random = np.random.default_rng(SEED)
    submits = np.cumsum(random.exponential(MEAN_GAP_SECONDS, count))
    jobs = []
    for index in range(count):
        work = float(np.clip(random.lognormal(8.3, 1.4), 120, 400_000))
        gpus = int(random.choice([1, 1, 1, 1, 2, 4, 8, 16]))
        jobs.append(
            {"id": f"job-{index}", "submit": float(submits[index]), "gpus": gpus, "work": work, "left": work,
             "attained": 0.0, "model": str(random.choice(["resnet18", "gnmt", "transformer-xl"])),
             "tenant": str(random.choice(list(tenants))) if tenants else None, "pieces": None, "since": 0.0,
             "start": None, "finish": None, "preemptions": 0}
        )  # fmt: skip
    return jobs


class Rounds:
    """A scheduler in rounds: sort, place each whole gang on the fullest nodes that take it, or skip it."""

    def __init__(self, order: str) -> None:
        self.order = order
        self.free = [set(range(GPUS_PER_NODE)) for _ in range(NODES)]
        self.allocations: list[dict[str, Any]] = []
        self.decisions: list[dict[str, Any]] = []

    def work(self, job: Job, now: float) -> None:
        """A job that holds GPUs works for a round, or until it is done."""
        if job["pieces"] is None:
            return
        seconds = min(job["left"], ROUND_SECONDS)
        job["left"] -= seconds
        job["attained"] += seconds * job["gpus"]
        if job["left"] == 0:
            job["finish"] = now + seconds
            self.stop(job, job["finish"])

    def decide(self, present: list[Job], now: float) -> None:
        before = {job["id"]: job["pieces"] for job in present}
        queue = sorted(present, key=lambda job: (ORDERS[self.order](job), job["submit"]))
        if self.order in PREEMPTIVE:
            self.preempt(queue, now)
        for job in queue:
            if job["pieces"] is None and (pieces := self.place(job["gpus"])) is not None:
                for node, ids in pieces:
                    self.free[node] -= ids
                job["pieces"], job["since"] = pieces, now
                job["start"] = now if job["start"] is None else job["start"]
        started = sum(job["pieces"] is not None and before[job["id"]] is None for job in present)
        stopped = sum(job["pieces"] is None and before[job["id"]] is not None for job in present)
        if started or stopped:
            running = sum(job["pieces"] is not None for job in present)
            self.decisions.append(
                {"time_seconds": now, "running": running, "waiting": len(present) - running, "started": started,
                 "stopped": stopped, "changed": 0, "free_gpus": float(sum(map(len, self.free)))}
            )  # fmt: skip

    def preempt(self, queue: list[Job], now: float) -> None:
        """Stop the jobs that the cluster's GPUs do not suffice for, in the order of the queue."""
        budget = NODES * GPUS_PER_NODE
        for job in queue:
            if job["gpus"] <= budget:
                budget -= job["gpus"]
            elif job["pieces"] is not None:
                self.stop(job, now)
                job["preemptions"] += 1

    def place(self, missing: int) -> list[tuple[int, set[int]]] | None:
        def fullest_first(node: int) -> tuple[bool, int, int]:
            count = len(self.free[node])
            return count < missing, count % GPUS_PER_NODE, node

        pieces = []
        for node in sorted(range(NODES), key=fullest_first):
            take = min(missing, len(self.free[node]))
            if take:
                pieces.append((node, set(sorted(self.free[node])[:take])))
                missing -= take
            if missing == 0:
                return pieces
        return None

    def stop(self, job: Job, now: float) -> None:
        for node, ids in job["pieces"]:
            self.free[node] |= ids
            self.allocations.append(
                {"job_id": job["id"], "node": f"node-{node}", "gpu_ids": sorted(ids), "gpus": float(len(ids)),
                 "cpus": len(ids) * CPUS_PER_GPU, "memory_gb": len(ids) * MEMORY_PER_GPU,
                 "from_seconds": job["since"], "to_seconds": now}
            )  # fmt: skip
        job["pieces"] = None


def scheduled(order: str, jobs: int = 120, tenants: Sequence[str] = (), name: str | None = None) -> Record:
    """A run of random jobs under `Rounds`."""
    everybody = random_jobs(jobs, tenants)
    rounds, waiting, now = Rounds(order), everybody, 0.0
    while waiting:
        for job in waiting:
            rounds.work(job, now)
        waiting = [job for job in waiting if job["finish"] is None]
        now += ROUND_SECONDS
        rounds.decide([job for job in waiting if job["submit"] <= now], now)
    rows = [
        {"job_id": job["id"], "model": job["model"], "tenant": job["tenant"], "gpus": float(job["gpus"]),
         "submit_seconds": job["submit"], "start_seconds": job["start"], "finish_seconds": job["finish"],
         "wait_seconds": job["finish"] - job["submit"] - job["work"], "run_seconds": job["work"],
         "ideal_seconds": job["work"], "attained_gpu_seconds": job["attained"],
         "preemptions": job["preemptions"]}
        for job in everybody
    ]  # fmt: skip
    reasons = [
        {"job_id": row["job_id"], "reason": "no_free_gpus", "parameters": "{}",
         "from_seconds": row["submit_seconds"], "to_seconds": row["start_seconds"]}
        for row in rows
    ]  # fmt: skip
    full_name = name if name is not None else f"{order}+proportional+pack"
    run = run_record(NODES, GPUS_PER_NODE, full_name)
    return tables(rows, rounds.allocations, rounds.decisions, reasons, run)


def write(record: Record, folder: Path) -> Path:
    """The record as a run leaves it, without `summary.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("jobs", "allocations", "decisions", "reasons"):
        getattr(record, name).write_parquet(folder / f"{name}.parquet")
    (folder / "run.json").write_text(json.dumps(record.run), encoding="utf-8")
    return folder


def write_comparison(records: Sequence[Record], folder: Path) -> Path:
    """Several runs beside each other, as `muster compare` leaves them."""
    for record in records:
        write(record, folder / record.scheduler)
    names = [record.scheduler for record in records]
    (folder / "comparison.json").write_text(json.dumps({"runs": names}), encoding="utf-8")
    return folder
