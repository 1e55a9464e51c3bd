"""Three simulators agree on strict FIFO; the other readings of "FIFO" and its kin, each with its figure."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from muster.cluster.shipped import parse_cluster
from muster.workload.trace import read_trace
from tests.building import column, run

EIGHTS = "16x8gpu,24cpu,500gb"
FOURS = "32x4gpu,12cpu,250gb"
STRICT = {"strict": "true"}


@pytest.mark.reference
@pytest.mark.parametrize(
    ("trace", "cluster", "scheduler", "settings", "options", "published", "within"),
    [
        ("mixed_128gpus_1000", EIGHTS, "fifo-strict", {}, {}, 69_797.02, 1e-4),
        ("mixed_512gpus_1000", "64x8gpu,24cpu,500gb", "fifo-strict", {}, {}, 58_622.59, 1e-4),
        ("mixed_128gpus_1000", EIGHTS, "fifo", {}, {}, 58_898.6, 0.01),
        ("mixed_128gpus_1000", EIGHTS, "sjf+proportional+consolidate", STRICT, {}, 59_671.0, 0.01),
        *(
            ("mixed_128gpus_1000", EIGHTS, "srtf+proportional+consolidate", {}, cost, 59_491.0, 0.01)
            for cost in ({"restart_cost_seconds": 7.0}, {"restart_cost_seconds": 60.0})
        ),
    ],
)
def test_mean_jct(
    reference: Path,
    trace: str,
    cluster: str,
    scheduler: str,
    settings: dict[str, str],
    options: dict[str, Any],
    published: float,
    within: float,
) -> None:
    jobs = read_trace(reference / "parity" / "fifo" / f"{trace}.csv")
    result = run(jobs, parse_cluster(cluster), scheduler, settings, **options)
    assert result.record.jobs["jct_seconds"].mean() == pytest.approx(published, rel=within)


@pytest.mark.reference
@pytest.mark.parametrize("scheduler", ["fifo", "fifo+proportional+consolidate"])
def test_skipping_in_rounds_on_nodes_of_four(reference: Path, scheduler: str) -> None:
    """60,454 s: 4-GPU nodes, rounds of 360 s, of which every sixth decides who runs.

    The simulator among the peers with such rounds is Gavel's. A round there moves on what is allocated, and a new
    allocation is worked out no sooner than 1,920 s after the last (`minimum_time_between_allocation_resets` in its
    scheduler.py), so in rounds of 360 s at every sixth: an arrival and a freed GPU wait for the next multiple of
    2,160 s. Under FIFO nothing else happens in the rounds between. Had every round decided, a start would come
    900 s earlier on average (half of six rounds less half of one), and the mean be 1.9 % short of the figure.
    """
    jobs = read_trace(reference / "parity" / "fifo" / "mixed_128gpus_1000.csv")
    every_sixth, every = (
        fmean(column(run(jobs, parse_cluster(FOURS), scheduler, round_seconds=seconds), "jct_seconds"))
        for seconds in (6 * 360.0, 360.0)
    )
    assert every_sixth == pytest.approx(60_454, rel=0.01)
    assert every_sixth - every == pytest.approx((6 * 360 - 360) / 2, rel=0.2)
