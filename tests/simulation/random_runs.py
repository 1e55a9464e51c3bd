"""100 small random runs, whose records must stay the same: `python -m tests.simulation.random_runs`.

The fixed runs have long queues of plain jobs. These have few jobs and all that a trace, a cluster and the options can
say: shares of a GPU, jobs without GPUs, GPU types, labels, islands, racks, priorities, deadlines, limits, restart
costs, failures, rounds. A change that is meant to change results writes new digests.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from muster.cluster import Cluster, Link, Links, Node
from muster.simulation import Failures, Options
from muster.workload.generators import smd
from tests.simulation.cases import Case, allowed, room, simulated
from tests.simulation.fixed_runs import digest

DIGESTS = Path(__file__).parent / "random_runs.json"
NUMBERS = range(100)
"""Of the runs."""

_DEFAULTS: dict[str, str] = {}
_MODELS = ("", "resnet18", "resnet50", "alexnet", "gnmt", "m5", "lstm")
_ORDERS: tuple[tuple[str, dict[str, str]], ...] = (
    ("fifo", {}),
    ("fifo-strict", {}),
    ("las", {"quantum_seconds": "7", "queues": "20,80"}),
    ("gittins", {"quantum_seconds": "7", "learn_from": "2"}),
    ("2d-las", {"quantum_seconds": "7", "thresholds": "15,60", "promote_knob": "2"}),
    ("2d-gittins", {"quantum_seconds": "7", "thresholds": "15,60"}),
    ("srtf", {}),
    ("srtf-speed", {}),
    ("srsf-placed", {"quantum_seconds": "11"}),
    ("sjf", {}),
    ("smallest", {}),
    ("drf", {}),
    ("drf-static", {}),
    ("edf", {}),
    ("ftf", {}),
    ("priority", {}),
    ("tetris", {"alignment": "0.5"}),
    ("network-sensitivity", {}),
)
_REST: tuple[tuple[str, dict[str, str]], ...] = (
    *(
        (f"proportional+{rule}", _DEFAULTS)
        for rule in ("pack", "first-fit", "consolidate", "spread", "yarn", "skew")
    ),
    *((f"requested+{rule}", _DEFAULTS) for rule in ("pack", "scatter", "spread")),
    ("least-loss", {"horizon_seconds": "40"}),
    ("least-loss", {}),
    ("delay-timers", {"lease_seconds": "9"}),
    (
        "delay-timers",
        {"lease_seconds": "9", "fit": "published", "bids": "with-offers", "forgets": "published"},
    ),
    ("manual-timers", {"lease_seconds": "9", "machine_leases": "2", "rack_leases": "3"}),
    ("no-wait", {"lease_seconds": "9"}),
    ("fully-consolidated", {"lease_seconds": "9"}),
    ("skew-leases", {"lease_seconds": "9"}),
    ("tune+delay-timers", {"lease_seconds": "9"}),
    ("greedy", {}),
    ("greedy", {"gpu_choice": "consolidating", "listed": "true"}),
    *(("tune", _DEFAULTS) for _ in range(2)),
    *(("tune-plus", _DEFAULTS) for _ in range(6)),
    ("tune-published", {}),
    ("tune-published", {"gpu_choice": "consolidating", "listed": "true"}),
)
_TIMERS = ("timers", "no-wait", "fully-consolidated", "skew-leases")
_ALL_WITH_GPUS = (*_TIMERS, "least-loss", "gandiva")
"""Schedulers of these names refuse jobs without GPUs."""
_SIZED = (
    "smd",
    "smd-reservation",
    "optimus",
    "oasis",
    "equal-1to1",
    "first-fit-sized",
    "density-first-fit",
    "drf-1to1",
    "tetris-1to1",
)


def case_of(number: int) -> Case:
    """A whole run; the same for a number for ever."""
    chance = Random(number)
    if number % 10 == 9:
        return _sized(chance)
    cluster = _cluster(chance)
    scheduler, settings = _scheduler(chance)
    options = Options(
        round_seconds=chance.choice([None, None, 5.0, 7.5]),
        restart_cost_seconds=chance.choice([0.0, 1.0, 3.0]),
        resize_restarts=chance.random() < 0.3,
        release_seconds_per_gpu=chance.choice([0.0, 0.0, 0.5]),
        knowledge=chance.choice(["oracle", "oracle", "noisy:0.7", "none"]),
        failures=Failures(chance.choice([150.0, 600.0]), 15.0) if chance.random() < 0.3 else None,
        network=chance.choice(["auto", "physical", "astra", "none"]),
        congestion=chance.choice([0.0, 0.3]),
        contention=chance.random() < 0.5,
        checkpoint_seconds=4.0,
        end_at_limit=True,
        certify=chance.random() < 0.2,
        seed=number,
    )
    some_without_gpus = not any(word in scheduler for word in _ALL_WITH_GPUS)
    rows = [_job(chance, cluster, number, some_without_gpus) for number in range(chance.randint(5, 18))]
    return Case(cluster, rows, scheduler, settings, options)


def _cluster(chance: Random) -> Cluster:
    """One to seven nodes in up to three racks; the networks between them are slow, so that places matter."""
    racks = chance.randint(1, 3)
    nodes = []
    for at in range(chance.randint(max(racks, 1), 7)):
        gpus = chance.choice([1, 2, 4, 4, 8])
        nodes.append(
            Node(
                name=f"node{at}",
                type_name=f"{gpus}gpu",
                rack=at % racks,
                gpus=gpus,
                gpu_type=chance.choice(["v100", "v100", "p100"]),
                gpus_per_island=chance.choice([1, 2, gpus]) if gpus > 1 else 1,
                cpus=gpus * chance.choice([2.0, 3.0, 7.5]),
                memory_gb=gpus * chance.choice([40.0, 62.5]),
                storage_gb_per_s=gpus * chance.choice([0.0625, 0.25]),
                nic_gb_per_s=1.25,
                labels=("fast",) if chance.random() < 0.4 else (),
            )
        )
    slow = chance.choice([1.0, 10.0])
    links = Links(
        Link(60.0 / slow, 0.0),
        Link(30.0 / slow, 5e-6),
        Link(5.0 / slow, 5e-5),
        Link(2.5 / slow, 5e-4, oversubscription=chance.choice([1.0, 2.0])),
    )
    return Cluster("random", tuple(nodes), tuple(f"rack{rack}" for rack in range(racks)), links)


def _job(chance: Random, cluster: Cluster, number: int, some_without_gpus: bool) -> dict[str, Any]:
    """One of several jobs that the cluster can hold, which arrive faster than they can be served."""
    constraint = chance.choice(["", "", "", "", "gpu_type=v100", "label=fast", "gpu_type=p100|v100"])
    if "|" in constraint or not room(cluster, constraint):
        constraint = ""
    gpus = min(chance.choice([1, 1, 1, 2, 2, 3, 4, 7, 12]), room(cluster, constraint))
    milli = chance.choice([1000, 1000, 250, 400, 999]) if gpus == 1 else 1000
    submit = chance.randint(0, 40) + chance.choice([0.0, 0.25, 0.3])
    row: dict[str, Any] = {
        "job_id": str(number),
        "submit_seconds": submit,
        "duration_seconds": float(chance.randint(1, 60)),
        "gpus": gpus,
        "gpu_milli": milli,
        "min_gpus": chance.randint(1, gpus),
        "max_gpus": gpus + chance.randint(0, 3) * (milli == 1000),
        "model": chance.choice(_MODELS),
        "tenant": chance.choice("ab"),
        "user": chance.choice("xyz"),
        "priority": float(chance.randint(0, 2)),
        "preemptible": chance.random() < 0.8,
        "min_runtime_seconds": chance.choice([0.0, 0.0, 12.0]),
        "restart_cost_seconds": chance.choice([None, None, 0.0, 2.0]),
        "deadline_seconds": submit + chance.randint(20, 200) if chance.random() < 0.5 else None,
        "time_limit_seconds": float(chance.randint(5, 60)) if chance.random() < 0.2 else None,
        "constraint": constraint,
        "cpus": None,
        "memory_gb": None,
    }
    smallest = [node for node in cluster.nodes if allowed(node, constraint)]
    share = gpus * milli / 1000
    if chance.random() < 0.3:
        row["cpus"] = share * min(node.cpus / node.gpus for node in smallest) * chance.choice([0.3, 0.9])
        row["memory_gb"] = share * min(node.memory_gb / node.gpus for node in smallest) * 0.4
    if some_without_gpus and chance.random() < 0.1:
        row |= {"gpus": 0, "gpu_milli": 1000, "min_gpus": None, "max_gpus": None, "model": ""}
        row["cpus"] = chance.choice([0.5, 1.0, 1.5])
    return row


def _scheduler(chance: Random) -> tuple[str, dict[str, str]]:
    if chance.random() < 0.1:
        return "gandiva", {
            "trial_seconds": "6",
            "most_turns": chance.choice(["1", "2", "9"]),
            "defragment_from": chance.choice(["0.2", "0.7"]),
        }
    order, first = chance.choice(_ORDERS)
    rest, second = chance.choice(_REST)
    name, settings = f"{order}+{rest}", {**first, **second}
    if chance.random() < 0.25:
        name = f"quota+{name}"
        settings |= chance.choice(
            [
                {"guaranteed": "a:2"},
                {"weights": "a:2,b:1"},
                {"limits": "a:6"},
                {"limits": "b:4", "weights": "a:3"},
            ]
        )
    if chance.random() < 0.3:
        settings["promote_after_seconds"] = "20"
    if not any(word in rest for word in _TIMERS):
        if "promote_after_seconds" in settings and chance.random() < 0.4:
            settings["promote_for_good"] = "true"
        if chance.random() < 0.2:
            settings["strict"] = "true"
        if chance.random() < 0.2:
            settings["preemptive"] = chance.choice(["true", "false"])
    return name, settings


def _sized(chance: Random) -> Case:
    """Jobs of workers and parameter servers, or rings, on a cluster of three machines."""
    nodes = tuple(
        Node(f"node{at}", "sized", at % 2, 4, "v100", 4, chance.choice([20.0, 40.0]), 200.0, 1.0, 1.25)
        for at in range(3)
    )
    trace = smd.generate(
        chance.randint(4, 9), per_hour=chance.choice([None, 2.0]), ring=0.4, seed=chance.randint(0, 10_000)
    )
    options = Options(
        restart_cost_seconds=30.0, failures=Failures(90_000.0, 900.0) if chance.random() < 0.3 else None
    )
    cluster = Cluster("sized", nodes, ("rack0", "rack1"))
    rows = trace.jobs.drop("duration_seconds", "gpu_work_seconds").to_dicts()
    return Case(cluster, rows, chance.choice(_SIZED), {}, options)


def digest_of(number: int) -> str:
    """Of the record of a run, watched as the runs of the invariants are."""
    return digest(simulated(case_of(number)))


def main() -> None:
    """Write the digests of all runs as they are now."""
    digests = {number: digest_of(number) for number in NUMBERS}
    DIGESTS.write_text(json.dumps(digests, indent=1) + "\n")


if __name__ == "__main__":
    main()
