"""Gangs on more nodes or racks than they need."""

from __future__ import annotations

from collections import defaultdict
from statistics import median

import numpy as np

from muster.advise.finding import Finding, Saving, not_judged, nothing
from muster.advise.site import Site
from muster.formatting import counted, duration, percent, three_figures

NAME = "scattered-gangs"
_LISTED = 10


def judge(site: Site) -> Finding:
    """Count gangs on more nodes or racks than hold them, and compare their run times with compact ones."""
    occupancy = site.occupancy
    if occupancy is None:
        return not_judged(NAME, "node names (NodeList) of this cluster")
    nodes = site.cluster.nodes
    racks = site.cluster.rack_of_node
    rack_gpus = np.bincount(racks, weights=[node.gpus for node in nodes])
    run_of: defaultdict[tuple[str, float], tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    scattered, gangs, hours = [], 0, 0.0
    table = occupancy.jobs.select("user", "gpus", "start_seconds", "end_seconds", "job_id")
    for (user, gpus, start, end, job), places, named in zip(
        table.iter_rows(), occupancy.places, occupancy.named, strict=True
    ):
        if not gpus or gpus < 2 or start is None or end is None or not len(places):
            continue
        gangs += 1
        needed = int(np.ceil(gpus / max(nodes[at].gpus for at in places.tolist())))
        wide = len(set(racks[places].tolist()))
        # The racks of its own nodes, fullest first: fewer could not hold it.
        least = 1 + int(np.searchsorted(np.cumsum(np.sort(rack_gpus)[::-1]), gpus))
        apart = named > needed or wide > least
        run_of[user, gpus][apart].append(end - start)
        if apart:
            hours += gpus * (end - start) / 3600
            scattered.append((gpus * (end - start), job, user, gpus, named, needed, wide, least))
    if not scattered:
        return nothing(NAME, "Gangs run on as few nodes and racks as hold them", gangs)
    ratios = [
        median(apart) / median(near) for near, apart in run_of.values() if len(near) >= 3 and len(apart) >= 3
    ]
    compared = (
        f"Users ran {counted(len(ratios), 'size')} of gang both ways, at least three times each: scattered ones took "
        f"{min(ratios):.2f} to {max(ratios):.2f} times as long (medians). Other work may differ too."
        if ratios
        else "No user ran one size of gang both ways three times, so the log does not say what it costs."
    )
    most = max(0.0, 1 - 1 / max(ratios)) if ratios else 0.0
    largest = sorted(scattered, key=lambda one: (-one[0], one[1]))[:_LISTED]
    return Finding(
        NAME,
        f"{percent(len(scattered) / gangs)} of the gangs are on more nodes or racks than they need",
        jobs=gangs,
        evidence=[
            f"{counted(len(scattered), 'gang')} of {gangs:,} held {three_figures(hours)} GPU-hours that way; the log "
            "does not say whether their owners asked for these nodes.",
            compared,
        ],
        saving=Saving(0.0, most * hours, "GPU-hours") if ratios else None,
        what_to_do=[
            "Let users request nodes (-N) or --switches, or set TopologyPlugin and SelectTypeParameters=CR_PACK_NODES.",
            "`muster network MODEL` shows what each kind of placement costs a model.",
        ],
        columns=("job", "user", "GPUs", "nodes", "would fit on", "racks", "would fit in", "ran"),
        rows=[
            (
                job,
                user or "",
                f"{gpus:g}",
                str(used),
                str(need),
                str(wide),
                str(least),
                duration(seconds / gpus),
            )
            for seconds, job, user, gpus, used, need, wide, least in largest
        ],
    )
