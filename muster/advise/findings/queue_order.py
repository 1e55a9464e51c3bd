"""A queue that another order of the same cycles would shorten."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from muster.advise.finding import NOTHING, Finding, Saving, not_judged
from muster.advise.site import TWIN, Site
from muster.advise.trial import SiteTrial
from muster.formatting import HOUR, duration, percent

NAME = "queue-order"
_COLUMNS = ("order", "mean wait", "against the twin", "p99 of the wait")


@dataclass(frozen=True)
class _Order:
    """An order that Slurm can be set to."""

    what: str
    how: str
    knowledge: str = "oracle"


_ORDERS: Mapping[str, _Order] = {
    "fifo": _Order("by submission", "PriorityType=priority/basic."),
    "sjf": _Order(
        "shortest time limit first",
        "No weight of Slurm is the limit alone: a job_submit plug-in may set priorities by it, or "
        "PriorityFlags=SMALL_RELATIVE_TO_TIME with PriorityWeightJobSize comes near.",
        "limit",
    ),
    "smallest": _Order("fewest GPUs first", "PriorityFavorSmall=YES with a large PriorityWeightJobSize."),
}
"""None of them stops a running job."""


def trials(site: Site) -> dict[str, SiteTrial]:
    """The orders in the cycles of the twin; none for another scheduler."""
    if site.scheduler != TWIN:
        return {}
    return {f"order {name}": site.trial(name, knowledge=order.knowledge) for name, order in _ORDERS.items()}


def judge(site: Site) -> Finding:
    """Run the twin's jobs in other orders; a gain counts only above the twin's own error."""
    twin = site.twin
    if twin is None:
        return not_judged(NAME, site.lacks_of_twin)
    if site.scheduler != TWIN:
        return not_judged(
            NAME, "cycles of Slurm", f"in {site.scheduler}, which stands for the site's scheduler"
        )
    waits = {
        name: site.waits(trial, one) for name, (trial, one) in zip(_ORDERS, trials(site).items(), strict=True)
    }
    own = twin.simulated
    rows = [("the site's own", duration(own.mean), "", duration(own.p99))] + [
        (
            _ORDERS[name].what,
            duration(one.mean),
            percent(one.mean / own.mean - 1 if own.mean else None),
            duration(one.p99),
        )
        for name, one in waits.items()
    ]
    best = min(waits, key=lambda name: waits[name].mean)
    gain = own.mean - waits[best].mean
    evidence = [
        f"Of the site, {twin}.",
        "Orders are compared between simulations of the same jobs in the cycles of Slurm, with the site's settings.",
        "A shorter mean may be paid for by large or long jobs: see the p99.",
    ]
    if gain <= twin.error:
        title = "No other order shortens the queue by more than the twin's error"
        return Finding(NAME, title, NOTHING, twin.jobs, evidence, None, (), _COLUMNS, rows)
    hours = twin.jobs / HOUR
    return Finding(
        NAME,
        f"The order {_ORDERS[best].what} would change the mean wait from {duration(own.mean)} to "
        f"{duration(waits[best].mean)}, give or take {duration(twin.error)}, and the p99 from {duration(own.p99)} to "
        f"{duration(waits[best].p99)}",
        jobs=twin.jobs,
        evidence=evidence,
        saving=Saving((gain - twin.error) * hours, (gain + twin.error) * hours, "job-hours of waiting"),
        what_to_do=[
            _ORDERS[best].how,
            "`muster compare LOG --cluster CLUSTER --scheduler slurm --scheduler ...` has the figures of each user.",
        ],
        columns=_COLUMNS,
        rows=rows,
    )
