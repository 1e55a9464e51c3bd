"""Jobs that wait in one partition while nodes of another one lie idle."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from muster.advise.finding import Finding, Saving, not_judged, nothing
from muster.advise.occupancy import Occupancy, most_gpus, nodes_needed, room_for
from muster.advise.site import Site
from muster.cluster.ledger_arrays import Bools, Floats
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
    pairs = list(jobs.select("partition", "constraint").iter_rows())
    gpus = jobs["gpus"].fill_null(0.0).to_list()
    stated = jobs["nodes"].to_list()
    places = {pair: _places_of(site, *pair) for pair in site.usable if pair[0] in site.partitions}
    walled: defaultdict[tuple[str, str], float] = defaultdict(float)
    waiting: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for moment in occupancy.moments():
        for row in moment.waiting.tolist():
            if not gpus[row] or pairs[row] not in places:
                continue
            need = (gpus[row], stated[row], occupancy.amounts[row])
            own, *others = places[pairs[row]]
            if own.holds(moment.free, *need):
                continue  # Its own nodes would do, so the wall is not why it waits.
            for other in others:
                if other.holds(moment.free, *need):
                    walled[own.partition, other.partition] += moment.seconds
                    waiting[own.partition, other.partition].add(row)
    return walled, waiting


@dataclass(frozen=True)
class _Place:
    """Nodes of a partition on which jobs of one partition and constraint could run, but for the wall."""

    partition: str
    nodes: Bools
    most: float
    """GPUs of the largest of them."""

    def holds(self, free: Floats, gpus: float, stated: float | None, amounts: Floats) -> bool:
        """Whether a job with these GPUs, stated nodes and amounts in all has room on them."""
        nodes = nodes_needed(gpus, stated, self.most)
        return room_for(free, amounts / nodes, self.nodes) >= nodes


def _places_of(site: Site, partition: str, constraint: str) -> list[_Place]:
    """The nodes of a partition, then those of each other one that it does not have, of the type that is asked for."""
    own, typed = site.partitions[partition], site.of_type(constraint)
    others = {name: mask & ~own for name, mask in site.partitions.items() if name != partition}
    masks = {partition: own, **others}
    return [_Place(name, mask & typed, most_gpus(site.cluster, mask & typed)) for name, mask in masks.items()]
