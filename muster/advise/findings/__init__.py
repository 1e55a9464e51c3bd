"""The questions that `muster advise` asks of a site, one file for each."""

from __future__ import annotations

from collections.abc import Callable

from muster.advise.finding import Finding
from muster.advise.findings import (
    fragmentation,
    idle_gpus,
    more_nodes,
    oversized_requests,
    queue_order,
    scattered_gangs,
    stranded_gpus,
    time_limits,
    walled_partitions,
)
from muster.advise.site import Site

QUESTIONS: dict[str, Callable[[Site], Finding]] = {
    one.NAME: one.judge
    for one in (
        idle_gpus,
        stranded_gpus,
        oversized_requests,
        fragmentation,
        scattered_gangs,
        walled_partitions,
        time_limits,
        queue_order,
        more_nodes,
    )
}
"""By name, in the order in which they are asked."""
