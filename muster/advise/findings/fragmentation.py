"""Large jobs that wait although enough GPUs are free, because these lie on too many nodes."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from muster.advise.finding import Finding, Saving, not_judged, nothing
from muster.advise.occupancy import GPUS, most_gpus, nodes_needed, room_for
from muster.advise.site import Site
from muster.formatting import HOUR, counted, duration, three_figures

NAME = "fragmentation"
_LISTED = 10


def judge(site: Site) -> Finding:
    """Sum the time in which a waiting job had enough free GPUs in all, and not on the nodes that it needs."""
    occupancy = site.occupancy
    if occupancy is None:
        return not_judged(NAME, "node names (NodeList) of this cluster")
    jobs = occupancy.jobs
    gpus = jobs["gpus"].fill_null(0.0).to_numpy()
    stated = jobs["nodes"].to_list()
    pairs = list(jobs.select("partition", "constraint").iter_rows())
    most = {pair: most_gpus(site.cluster, allowed) for pair, allowed in site.usable.items()}
    kept: defaultdict[int, float] = defaultdict(float)
    for moment in occupancy.moments():
        for row in moment.waiting[gpus[moment.waiting] > 1].tolist():
            allowed = site.usable[pairs[row]]
            wanted = nodes_needed(gpus[row], stated[row], most[pairs[row]])
            need = np.array([np.ceil(gpus[row] / wanted), 0.0, 0.0])
            enough = np.floor(moment.free[allowed, GPUS] + 1e-9).sum() >= gpus[row]
            if enough and room_for(moment.free, need, allowed) < wanted:
                kept[row] += moment.seconds
    total = sum(kept.values()) / HOUR
    if not kept:
        return nothing(NAME, "No job waited for free GPUs that lay on too many nodes", jobs.height)
    waits = (jobs["start_seconds"] - jobs["submit_seconds"]).to_list()
    return Finding(
        NAME,
        f"Free GPUs lay scattered while {counted(len(kept), 'job')} waited for whole nodes, "
        f"{three_figures(total)} hours in all",
        jobs=jobs.height,
        evidence=[
            "Counted is the time in which a waiting job's nodes, with the type of GPU that it asks for, had as many "
            "GPUs free in all as it asked for, and not enough of them on each of as many nodes as it needs. "
            "Reservations for others are not counted.",
        ],
        saving=Saving(0.0, total, "job-hours of waiting"),
        what_to_do=[
            "Place small jobs on nodes that are partly used: SelectTypeParameters=CR_PACK_NODES, or bf_busy_nodes in "
            "SchedulerParameters.",
            "`muster compare LOG --cluster CLUSTER --scheduler slurm --scheduler fifo+easy+requested+pack` shows what "
            "packing brings.",
        ],
        columns=("job", "user", "GPUs", "waited", "of it for scattered GPUs"),
        rows=[
            (
                jobs["job_id"][row],
                jobs["user"][row],
                f"{gpus[row]:g}",
                duration(waits[row]),
                duration(seconds),
            )
            for row, seconds in sorted(kept.items(), key=lambda one: (-one[1], one[0]))[:_LISTED]
        ],
    )
