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
from muster.advise.site import TWIN_TRIAL, Site
from muster.advise.trial import SiteTrial
from muster.report.recorded import has_starts

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


def trials_of(site: Site) -> dict[str, SiteTrial]:
    """The simulations that the answers rest on, by name; none where the log has no starts."""
    if not has_starts(site.newest):
        return {}
    asked = (one.trials(site) for one in (time_limits, queue_order, more_nodes))
    return {TWIN_TRIAL: site.trial(), **{name: trial for some in asked for name, trial in some.items()}}
