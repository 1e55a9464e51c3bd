"""A queue that a real Slurm serves, and the same queue under the preset `slurm` with the settings that it shows."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.cli.conftest import muster_process
from tests.slurm.cluster import GPUS, SlurmCluster, slurm_for_a_test, wait_for

pytestmark = pytest.mark.needs_slurm

NODES, JOBS = 4, 80
ARRIVALS_SECONDS = 30.0
LOOPS = "bf_interval=2,bf_resolution=1,batch_sched_delay=0,sched_min_interval=0"
"""Fine clocks: the moment at which a loop of Slurm looks decides less, 4 % of the median wait and not 12 %."""
HEADER = (
    "JobID|User|Account|Partition|State|ExitCode|Submit|Start|End|Elapsed|Timelimit|NNodes|NodeList|ReqTRES"
)
"""What the guide for sites asks sacct for, as far as a Slurm without a database knows it."""


@pytest.fixture
def busy() -> Iterator[SlurmCluster]:
    with slurm_for_a_test(nodes=NODES, MinJobAge=3600, SchedulerParameters=LOOPS) as cluster:
        yield cluster


def test_the_twin_of_a_real_queue_waits_as_long(busy: SlurmCluster, tmp_path: Path) -> None:
    serve_a_queue(busy, Random(1))
    (tmp_path / "sacct.txt").write_text("\n".join([HEADER, *recorded(busy), ""]))
    shown = [busy.run("scontrol", "show", what) for what in ("config", "partition", "node")]
    (tmp_path / "scontrol.txt").write_text("\n".join(shown))
    files = (str(tmp_path / "sacct.txt"), "--cluster", str(tmp_path / "scontrol.txt"))
    found = muster_process("calibrate", *files, "--slurm-config", str(tmp_path / "scontrol.txt"), "--json")
    figures = json.loads(found.out)
    assert figures["jobs"] == JOBS
    waited, simulated = figures["recorded_wait_seconds"], figures["simulated_wait_seconds"]
    assert waited["p50"] > 20
    for quantile in ("p50", "p90"):
        assert simulated[quantile] == pytest.approx(waited[quantile], rel=0.2), figures


def serve_a_queue(slurm: SlurmCluster, draw: Random) -> None:
    """Submit jobs one after the other that ask for more than there is, and wait until the last has ended."""
    began = time.monotonic()
    for at in range(JOBS):
        due = began + at * ARRIVALS_SECONDS / JOBS
        while (early := due - time.monotonic()) > 0:
            time.sleep(early)
        nodes, gpus = draw.choice([(1, 1), (1, 2), (1, 4), (1, GPUS), (2, GPUS), (3, 2)])
        slurm.run(
            "sbatch",
            "--parsable",
            f"--nodes={nodes}",
            f"--gres=gpu:{gpus}",
            "--ntasks-per-node=1",
            "--mem=1000",
            f"--time={draw.choice([1, 2, 5])}",
            "--output=/dev/null",
            "--chdir=/",
            stdin=f"#!/bin/sh\nexec sleep {draw.randint(2, 14)}\n",
        )
    wait_for(lambda: not slurm.run("squeue", "-h").strip(), lambda: slurm.run("squeue"))


def recorded(slurm: SlurmCluster) -> Iterator[str]:
    """Lines of sacct for what slurmctld still knows. Only a Slurm with a database counts GPUs itself."""
    for line in slurm.run("scontrol", "--oneliner", "show", "job").splitlines():
        row = dict(word.partition("=")[::2] for word in line.split())
        gpus = int(row["NumNodes"]) * int(row["TresPerNode"].rpartition(":")[2])
        fields = (
            row["JobId"],
            "root",
            "",
            row["Partition"],
            row["JobState"],
            row["ExitCode"],
            row["SubmitTime"],
            row["StartTime"],
            row["EndTime"],
            row["RunTime"],
            row["TimeLimit"],
            row["NumNodes"],
            row["NodeList"],
            f"{row.get('TRES') or row['AllocTRES']},gres/gpu={gpus}",
        )
        yield "|".join(fields)
