"""Jobs that wait in one partition while nodes of another one lie idle."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from muster.advise.finding import Finding, Saving, not_judged, nothing
from muster.advise.occupancy import Occupancy, room_for
from muster.advise.site import Site
from muster.cluster.ledger_arrays import Bools
from muster.formatting import HOUR, three_figures

NAME = "walled-partitions"


def judge(site: Site) -> Finding:
    """Sum the time in which a waiting job would have fitted on nodes that its partition does not have."""
    occupancy = site.occupancy
    if occupancy is None:
        return not_judged(NAME, "node names (NodeList) of this cluster")
    if not site.partitions:
        return not_judged(NAME, "partitions of nodes", "in the cluster (scontrol show node)")
    jobs = occupancy.jobs
    partitions = jobs["partition"].to_list()
    if not any(partitions):
        return not_judged(NAME, "partition of the jobs (Partition)")
    if len(site.partitions) == 1 or all(mask.all() for mask in site.partitions.values()):
        return nothing(NAME, "Every partition has all nodes", jobs.height)
    walled, waiting = _walled(site, occupancy)
    if not walled:
        return nothing(NAME, "No job waited while another partition had room for it", jobs.height)
    largest = sorted(walled.items(), key=lambda one: (-one[1], one[0]))
    (of, other), seconds = largest[0]
    return Finding(
        NAME,
        f"Jobs of {of} waited {three_figures(seconds / HOUR)} hours while {other} had room for them",
        jobs=jobs.height,
        evidence=[
            "Counted is the time in which the nodes of a waiting job's partition had no room for it, and nodes of "
            "another partition, with the type of GPU that it asks for, had. Several waiting jobs may count one room.",
            "The log does not say whether the owners may use the other partition.",
        ],
        saving=Saving(0.0, seconds / HOUR, "job-hours of waiting"),
        what_to_do=[
            "Let a partition of lower PriorityTier span all nodes, with PreemptMode=REQUEUE for its jobs.",
            f"Or let users name both: sbatch --partition={of},{other}.",
        ],
        columns=("partition", "had no room while", "jobs", "job-hours"),
        rows=[
            (mine, theirs, f"{len(waiting[mine, theirs]):,}", three_figures(length / HOUR))
            for (mine, theirs), length in largest
        ],
    )


def _walled(
    site: Site, occupancy: Occupancy
) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], set[int]]]:
    """By partition that had no room and partition that had: seconds, and the rows of the jobs that waited."""
    jobs = occupancy.jobs
    partitions = jobs["partition"].to_list()
    gpus = jobs["gpus"].fill_null(0.0).to_numpy()
    types = _types_asked(site)
    most = max(node.gpus for node in site.cluster.nodes)
    nodes = np.maximum(jobs["nodes"].fill_null(0.0).to_numpy(), np.ceil(gpus / most)).clip(1)
    walled: defaultdict[tuple[str, str], float] = defaultdict(float)
    waiting: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for moment in occupancy.moments():
        for row in moment.waiting.tolist():
            mine = partitions[row]
            if not gpus[row] or mine not in site.partitions:
                continue
            need = occupancy.amounts[row] / nodes[row]
            own = site.allowed(mine)
            usable = types.get(jobs["job_id"][row], np.ones_like(own))
            if room_for(moment.free, need, own & usable) >= nodes[row]:
                continue  # Its own nodes would do, so the wall is not why it waits.
            for name, mask in site.partitions.items():
                if room_for(moment.free, need, mask & ~own & usable) >= nodes[row]:
                    walled[mine, name] += moment.seconds
                    waiting[mine, name].add(row)
    return walled, waiting


def _types_asked(site: Site) -> dict[str, Bools]:
    """For each job that asks for a type of GPU, the nodes that have it."""
    prefix = "gpu_type="
    types = np.array([node.gpu_type.casefold() for node in site.cluster.nodes])
    if not site.cluster.states_gpu_types:
        return {}
    return {
        job: np.isin(types, constraint.removeprefix(prefix).casefold().split("|"))
        for job, constraint in site.trace.jobs.select("job_id", "constraint").iter_rows()
        if constraint.startswith(prefix)
    }
