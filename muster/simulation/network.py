"""The network of one run: how much communication each job's place leaves exposed, alone or among neighbours.

A job's speed needs one number of the network, seconds of exposed communication for each second of compute;
it is written into the job's facts before the world works out its rate. Jobs on one GPU, of a model without
a network profile, or with parameter servers (whose traffic is not an all-reduce) have none. Of a ring of workers
each is one GPU to the network, however many it has, and its compute goes by how many there are. A gang on other than
the GPUs that it asked for computes on other local batches (`speed.worker_options`), behind which more or less hides;
so does one whose total batch has doubled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from muster.cluster import Cluster
from muster.cluster.ledger_arrays import ROWS_USED, Books, Bools, Floats, Ints
from muster.simulation.network_gangs import on_machines, put_by_journal
from muster.speed.input_pipeline import ModelTable
from muster.speed.local_batch import local_batches
from muster.speed.network.placement import Placements, Shapes, shapes_of
from muster.speed.network.speed import NetworkSpeed
from muster.workload.jobs import AskedArray, FactArray, JobTable
from muster.workload.sized import RIGID, RING


class _Compute(NamedTuple):
    """Compute seconds of some jobs, as their network models have them."""

    reference: Floats
    """An iteration of a gang with the GPUs that it asked for; of a ring, with the workers that it has."""
    seconds: Floats
    """An iteration."""
    stretched: Floats | None
    """Of one pass, times the model's own; None: 1 for all."""


class NetworkOfRun:
    """Keeps `exposed` in the facts true while jobs come, move and go."""

    def __init__(
        self, speed: NetworkSpeed, cluster: Cluster, table: JobTable, models: ModelTable, *, contention: bool
    ) -> None:
        self.contention = contention
        self.speed = speed
        self._cluster = cluster
        self._models = models
        self._compute = speed.compute_seconds
        self.sensitive: Bools = self._compute > 0.0
        """By model, whether it is known how its gangs communicate."""
        self._some_rings = bool((table.asked["sync"] == RING).any())
        unknown = self._unknown(table)
        note = f"no network model for {', '.join(unknown)}: taken as insensitive to the network"
        self.notes = (note,) if unknown else ()
        self._gathered = np.zeros((4, 0), np.int64)

    def best_exposed(self, model: int, gpus: int) -> float:
        """Of a gang that is alone in the cluster, as close together as it can be; on all GPUs if it asks for more."""
        gpus = min(gpus, self._cluster.total_gpus)
        if gpus < 2 or not self.sensitive[model]:
            return 0.0
        placements = _closest(gpus, self._cluster)
        seconds = self.speed.exposed_seconds(np.array([model]), shapes_of(placements, self.speed.tree))
        return float(seconds[0] / self._compute[model])

    def expose_placed(self, books: Books, asked: AskedArray, facts: FactArray) -> None:
        """Write the exposed communication of every job that the journal puts somewhere, as if it were alone."""
        gathered = self._room(books)
        count, rows = put_by_journal(books, asked, facts, self.sensitive, gathered)
        self._expose_alone(asked, facts, gathered, count, rows)

    def expose_running(self, books: Books, asked: AskedArray, facts: FactArray, jobs: Ints) -> None:
        """The same for some running jobs, whose batch has changed."""
        gathered = self._room(books)
        facts["exposed"][jobs] = 0.0
        count, rows = on_machines(books, asked, jobs, self.sensitive, gathered, 1)
        self._expose_alone(asked, facts, gathered, count, rows)

    def _expose_alone(
        self, asked: AskedArray, facts: FactArray, gathered: Ints, count: int, rows: int
    ) -> None:
        """Write the exposed communication of the gathered jobs as if each were alone."""
        if count:
            jobs = gathered[0, :count]
            models, placements = asked["model"][jobs], _placements(gathered, count, rows)
            shapes = shapes_of(placements, self.speed.tree)
            compute = self._compute_of(asked, facts, jobs, shapes)
            seconds = self.speed.exposed_seconds(models, shapes, compute.stretched)
            facts["exposed"][jobs] = seconds / compute.reference

    def among_neighbours(
        self, books: Books, asked: AskedArray, facts: FactArray, active: Ints
    ) -> tuple[Ints, Floats]:
        """The running jobs that talk to each other's machines, and what each has exposed side by side."""
        gathered = self._room(books)
        count, rows = on_machines(books, asked, active, self.sensitive, gathered, 2)
        jobs = gathered[0, :count]
        placements = _placements(gathered, count, rows)
        compute = self._compute_of(asked, facts, jobs, shapes_of(placements, self.speed.tree))
        seconds = self.speed.contended_seconds(
            asked["model"][jobs], placements, compute.seconds, compute.stretched
        )
        return jobs, seconds / compute.reference

    def _compute_of(self, asked: AskedArray, facts: FactArray, jobs: Ints, shapes: Shapes) -> _Compute:
        """Seconds of compute an iteration that go with the network model's seconds: a ring's by its workers."""
        models, workers = asked["model"][jobs], shapes["gpus"]
        reference: Floats = self._compute[models]
        if self._some_rings and len(jobs):
            forward, backward = asked["terms"][jobs, 0, :2].T
            reference = np.where(asked["sync"][jobs] == RING, forward / workers + backward, reference)
        whole = asked["gpus"][jobs] << facts["doublings"][jobs]
        resized = (asked["sync"][jobs] == RIGID) & (whole != workers)
        if not resized.any():
            return _Compute(reference, reference, None)
        ratio = np.where(resized, whole / workers, 1.0)
        _, passes, last_pass = local_batches(self._models, models, ratio)
        return _Compute(reference, reference * (passes * last_pass), last_pass)

    def _unknown(self, table: JobTable) -> list[str]:
        """The models of gangs that are not known; none where the network does not count for any gang."""
        models = np.arange(len(table.model_names))
        if self._some_rings:
            models = np.unique(table.asked["model"][table.asked["sync"] != RING])
            if not self.sensitive[models].any():
                return []
        unknown = models[~self.sensitive[models]].tolist()
        return list(dict.fromkeys(filter(None, (table.model_names[model] for model in unknown))))

    def _room(self, books: Books) -> Ints:
        """Scratch for jobs, where their rows begin, and the rows' nodes and GPUs."""
        needed = int(books.totals[ROWS_USED]) + 2
        if needed > self._gathered.shape[1]:
            self._gathered = np.zeros((4, 2 * needed), np.int64)
        return self._gathered


def _placements(gathered: Ints, jobs: int, rows: int) -> Placements:
    return Placements(gathered[1, : jobs + 1], gathered[2, :rows], gathered[3, :rows])


def _closest(gpus: int, cluster: Cluster) -> Placements:
    """A gang on the smallest machine that holds it, else on the fewest of one rack, else on the largest racks."""
    by_size = [
        sorted(rack, key=lambda node: -cluster.nodes[node].gpus)
        for rack in sorted(
            cluster.nodes_by_rack, key=lambda rack: -sum(cluster.nodes[node].gpus for node in rack)
        )
    ]
    ways = [[node] for rack in by_size for node in reversed(rack)]
    ways += sorted(by_size, key=lambda rack: np.searchsorted(_held_by(rack, cluster), gpus))
    ways.append([node for rack in by_size for node in rack])
    nodes = next(way for way in ways if _held_by(way, cluster)[-1] >= gpus)
    held = np.minimum(_held_by(nodes, cluster), gpus)
    taken = np.diff(held, prepend=0)
    used = np.array(nodes)[taken > 0]
    return Placements(np.array([0, len(used)]), used, (1 << taken[taken > 0]) - 1)


def _held_by(nodes: Sequence[int], cluster: Cluster) -> Ints:
    """GPUs of the first one, two, ... of these machines."""
    return np.cumsum([cluster.nodes[node].gpus for node in nodes])
