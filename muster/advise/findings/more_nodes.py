"""The kind of node of which a few more would shorten the queue most."""

from __future__ import annotations

from math import ceil

from muster.advise.finding import NOTHING, Finding, Saving, not_judged
from muster.advise.site import Site
from muster.advise.trial import SiteTrial
from muster.cluster import Node
from muster.cluster.more_nodes import with_more
from muster.formatting import HOUR, counted, duration

NAME = "more-nodes"
_SHARE = 0.1
"""Of the nodes of a kind, how many more are tried."""


def trials(site: Site) -> dict[str, SiteTrial]:
    """A tenth more nodes of each kind."""
    return {
        f"more {node.type_name}": site.trial(cluster=with_more(site.cluster, node, count))
        for node, count in _kinds(site)
    }


def _kinds(site: Site) -> list[tuple[Node, int]]:
    """A node of each kind with GPUs, and how many more are tried."""
    kinds = dict.fromkeys(node.type_name for node in site.cluster.nodes if node.gpus)
    alike = ([node for node in site.cluster.nodes if node.type_name == kind] for kind in kinds)
    return [(nodes[0], ceil(_SHARE * len(nodes))) for nodes in alike]


def _named(node: Node, site: Site) -> str:
    """A kind of node; where several are called the same, as in other partitions, by one of its nodes too."""
    several = sum(other.kind == node.kind for other, _ in _kinds(site)) > 1
    return f"{node.kind} like {node.name}" if several else node.kind


def judge(site: Site) -> Finding:
    """Run the twin with a tenth more nodes of each kind."""
    twin = site.twin
    if twin is None:
        return not_judged(NAME, site.lacks_of_twin)
    tried = []
    for (name, trial), (node, count) in zip(trials(site).items(), _kinds(site), strict=True):
        wait = site.waits(name, trial).mean
        gained = twin.simulated.mean - wait
        tried.append((gained / (count * node.gpus), node.type_name, count, node, wait))
    columns = ("kind", "more nodes", "GPUs each", "mean wait", "seconds saved for each GPU")
    rows = [
        (_named(one, site), str(more), str(one.gpus), duration(mean), f"{per_gpu:.2f}")
        for per_gpu, _, more, one, mean in sorted(tried, key=lambda one: -one[0])
    ]
    evidence = [f"Of the site, {twin}."]
    enough = [one for one in tried if twin.simulated.mean - one[-1] > twin.error]
    if not enough:
        title = "A tenth more nodes of no kind shortens the queue by more than the twin's error"
        return Finding(NAME, title, NOTHING, twin.jobs, evidence, None, (), columns, rows)
    _, _, count, node, wait = max(enough, key=lambda one: one[0])
    gain, hours = twin.simulated.mean - wait, twin.jobs / HOUR
    return Finding(
        NAME,
        f"{counted(count, 'more node')} of {_named(node, site)} would shorten the mean wait from "
        f"{duration(twin.simulated.mean)} to {duration(wait)}, give or take {duration(twin.error)}",
        jobs=twin.jobs,
        evidence=evidence,
        saving=Saving((gain - twin.error) * hours, (gain + twin.error) * hours, "job-hours of waiting"),
        what_to_do=["`muster capacity LOG --cluster CLUSTER --add ... --target ...` draws the whole curve."],
        columns=columns,
        rows=rows,
    )
