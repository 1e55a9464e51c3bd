"""Three simulators agree on strict FIFO; the other readings of "FIFO" and its kin, each with its figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster.cluster.shipped import parse_cluster
from muster.workload.trace import read_trace
from tests.building import run

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
def test_skipping_in_rounds_on_nodes_of_four(reference: Path) -> None:
    """The one figure that no reading of ours meets within 1 %: 60,454 s.

    With nobody waiting the mean is 58,623 s. Starting at ticks of 360 s adds half a round (59,096 with pack, 59,287
    with consolidate), ending at ticks with everybody competing anew another half (59,484): 1.6 % short of the
    published figure, or 2.7 rounds a job. Blocking in rounds gives 61,042, more than it. What is known of that
    run ("skipping, 4-GPU nodes, round based, 360 s") says nothing of rounds lost between arrival, start
    and report, which is what is missing; the test holds ours between the empty cluster and that figure.
    """
    jobs = read_trace(reference / "parity" / "fifo" / "mixed_128gpus_1000.csv")
    skipping = run(jobs, parse_cluster(FOURS), "fifo+proportional+consolidate", round_seconds=360.0)
    blocking = run(jobs, parse_cluster(FOURS), "fifo-strict", round_seconds=360.0)
    means = [float(result.record.jobs["jct_seconds"].to_numpy().mean()) for result in (skipping, blocking)]
    assert 58_623 + 180 < means[0] < 60_454 < means[1]
    assert means == pytest.approx([60_454, 60_454], rel=0.02)
