"""Which jobs a real Slurm preempts, and which the preset `slurm` with the settings that Slurm shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from muster.cluster.slurm_nodes import expand_hosts
from muster.slurm_config import read_slurm_config
from tests.building import job
from tests.schedulers.test_slurm_preemption import simulated
from tests.slurm.cluster import GPUS, SlurmCluster, slurm_for_a_test, wait_for

pytestmark = pytest.mark.needs_slurm

NODES, ROUNDS = 4, 8
PARTITIONS = ("high PriorityTier=10", "mid PriorityTier=5", "safe PreemptMode=OFF")
BACKFILL_SECONDS = 600
"""Longer than the test, so that only the main loop decides."""
_PREEMPTED = re.compile(r"preempted JobId=(\d+) has been \w+ to reclaim resources for JobId=(\d+)")


@dataclass(frozen=True)
class Shape:
    """What a job asks for."""

    partition: str
    nodes: int
    gpus_a_node: int


@pytest.fixture
def preempting() -> Iterator[SlurmCluster]:
    loops = f"bf_interval={BACKFILL_SECONDS},batch_sched_delay=0,sched_min_interval=0"
    with slurm_for_a_test(
        nodes=NODES,
        partitions=PARTITIONS,
        SchedulerParameters=loops,
        PreemptType="preempt/partition_prio",
        PreemptMode="CANCEL",
        KillWait=2,
    ) as cluster:
        yield cluster


def test_the_preset_chooses_slurms_victims(preempting: SlurmCluster, tmp_path: Path) -> None:
    shown = [preempting.run("scontrol", "show", what) for what in ("config", "partition")]
    (tmp_path / "scontrol.txt").write_text("\n".join(shown))
    found = read_slurm_config(tmp_path / "scontrol.txt")
    assert not found.notes
    draw, rounds = Random(1), 0
    while rounds < ROUNDS:
        low = [
            Shape(draw.choice(["train", "train", "mid", "safe"]), *shape(draw))
            for _ in range(draw.randint(3, 9))
        ]
        high = Shape("high", draw.choice([1, 1, 2, 3]), draw.choice([4, GPUS]))
        places, victims = by_the_preset(low, high, dict(found.settings))
        if victims:
            assert in_slurm(preempting, low, high, places) == victims, (low, high, places)
            rounds += 1


def shape(draw: Random) -> tuple[int, int]:
    return draw.choice([1, 1, 1, 2]), draw.choice([2, 4, GPUS])


def by_the_preset(
    low: list[Shape], high: Shape, settings: dict[str, str]
) -> tuple[dict[int, set[str]], set[int]]:
    """Where the low jobs run, and which of them the high one preempts half a minute later."""
    rows = [
        job(
            at,
            600,
            gpus=one.nodes * one.gpus_a_node,
            nodes=one.nodes,
            time_limit_seconds=1200,
            partition=one.partition,
        )
        for at, one in [*((0, one) for one in low), (30, high)]
    ]
    result, watched = simulated(rows, (GPUS,) * NODES, {**settings, "bf_phase": f"{BACKFILL_SECONDS - 1}"})
    places: dict[int, set[str]] = {}
    for row in result.record.allocations.iter_rows(named=True):
        if row["from_seconds"] == 0:
            places.setdefault(int(row["job_id"]), set()).add(f"node{int(row['node'][len('node') :]) + 1}")
    return places, {victim for when, victim, _ in watched.seen if when == 30}


def in_slurm(slurm: SlurmCluster, low: list[Shape], high: Shape, places: dict[int, set[str]]) -> set[int]:
    """The low jobs that the high one preempts, once they run on these nodes; afterwards all jobs are gone."""
    numbers = [submit(slurm, one, "--hold") for one in low]
    slurm.run("scontrol", "release", ",".join(numbers))

    def run_on() -> dict[int, set[str]]:
        lines = [line.split() for line in slurm.run("squeue", "-h", "-t", "R", "-o", "%i %N").splitlines()]
        return {numbers.index(number): set(expand_hosts(nodes)) for number, nodes in lines}

    wait_for(
        lambda: run_on() == places, lambda: f"runs on {run_on()}, by the preset on {places}", patience=15
    )
    urgent = submit(slurm, high)
    log = slurm.folder / "slurmctld.log"
    wait_for(lambda: f"Allocate JobId={urgent} " in log.read_text(), lambda: f"job {urgent} does not start")
    preempted = _PREEMPTED.findall(log.read_text())
    slurm.run("scancel", "--user=root")
    wait_for(lambda: not slurm.run("squeue", "-h").strip(), lambda: "jobs do not end")
    return {numbers.index(victim) for victim, by in preempted if by == urgent}


def submit(slurm: SlurmCluster, one: Shape, *options: str) -> str:
    asked = [f"--partition={one.partition}", f"--nodes={one.nodes}", f"--gres=gpu:{one.gpus_a_node}"]
    fixed = [
        "--parsable",
        "--ntasks-per-node=1",
        "--mem=1000",
        "--time=20",
        "--output=/dev/null",
        "--chdir=/",
    ]
    return slurm.run("sbatch", *fixed, *asked, *options, stdin="#!/bin/sh\nexec sleep 600\n").strip()
