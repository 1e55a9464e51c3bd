"""The network of one run: how much communication each job's place leaves exposed, alone or among neighbours.

A job's speed needs one number of the network, seconds of exposed communication for each second of compute;
it is written into the job's facts before the world works out its rate. Jobs on one GPU, of a model without
a network profile, or with parameter servers (whose traffic is not an all-reduce) have none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from muster.cluster import Cluster
from muster.cluster.books import ENTRIES, PUT, ROWS_USED, SERVER, Books, Bools, Floats, Ints, Rows
from muster.compiling import njit
from muster.speed.network.model_file import network_models
from muster.speed.network.models import NetworkModel
from muster.speed.network.placement import Placements, shapes_of
from muster.speed.network.speed import NetworkSpeed

AUTO, NONE = "auto", "none"


def network_of_run(
    names: Sequence[str],
    cluster: Cluster,
    *,
    flavour: str,
    congestion: float,
    profiles: Mapping[str, NetworkModel] | None,
) -> NetworkSpeed | None:
    """The network's speeds by the trace's model names; None where it does not count for any of them.

    `auto`: the physical network where the cluster tells more of it than one rack. `profiles` go before the
    shipped network models of the same name.
    """
    if flavour == NONE or (flavour == AUTO and len(cluster.racks) < 2):
        return None
    own = {name.lower(): model for name, model in (profiles or {}).items()}
    shipped, _ = network_models(names)
    models = [own.get(name.lower(), model) for name, model in zip(names, shipped, strict=True)]
    if not any(models):
        return None
    return NetworkSpeed(
        models, cluster, flavour="physical" if flavour == AUTO else flavour, congestion=congestion
    )


class NetworkOfRun:
    """Keeps `exposed` in the facts true while jobs come, move and go."""

    def __init__(
        self, speed: NetworkSpeed, cluster: Cluster, names: Sequence[str], *, contention: bool
    ) -> None:
        self.contention = contention
        self.speed = speed
        self._cluster = cluster
        self._compute = speed.compute_seconds
        self._sensitive = self._compute > 0.0
        known = zip(names, self._sensitive, strict=True)
        unknown = dict.fromkeys(name for name, sensitive in known if name and not sensitive)
        told = f"no network model for {', '.join(unknown)}: taken as insensitive to the network"
        self.notes = (told,) if unknown else ()
        self._gathered = np.zeros((4, 0), np.int64)

    def best_exposed(self, model: int, gpus: int) -> float:
        """Of a gang that is alone in the cluster, as close together as it can be."""
        if not 2 <= gpus <= self._cluster.total_gpus or not self._sensitive[model]:
            return 0.0
        placements = _closest(gpus, self._cluster)
        return float(self._alone(np.array([model]), placements)[0])

    def expose_draft(self, books: Books, asked: Rows, facts: Rows) -> None:
        """Write the exposed communication of every job that a draft puts somewhere, as if it were alone."""
        gathered = self._room(books)
        count, rows = _put_by_draft(books, asked, facts, self._sensitive, *gathered)
        if count:
            jobs = gathered[0, :count]
            facts["exposed"][jobs] = self._alone(asked["model"][jobs], _placements(gathered, count, rows))

    def among_neighbours(self, books: Books, asked: Rows, active: Ints) -> tuple[Ints, Floats]:
        """The running jobs that talk to each other's machines, and what each has exposed side by side."""
        gathered = self._room(books)
        count, rows = _talking(books, asked, active, self._sensitive, *gathered)
        jobs = gathered[0, :count]
        models = asked["model"][jobs]
        seconds = self.speed.contended_seconds(models, _placements(gathered, count, rows))
        return jobs, seconds / self._compute[models]

    def _alone(self, models: Ints, placements: Placements) -> Floats:
        shapes = shapes_of(placements, self.speed.tree)
        exposed: Floats = self.speed.exposed_seconds(models, shapes) / self._compute[models]
        return exposed

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


@njit(cache=True)
def _write_rows(books: Books, job: int, at: int, nodes: Ints, bits: Ints) -> int:
    """Append a job's rows; where the next one goes, or `at` if it has servers or sits on one GPU."""
    to = at
    gpus = 0.0
    row = books.heads[job]
    while row >= 0:
        if books.rows[row]["role"] == SERVER:
            return at
        if books.rows[row]["mask"]:
            nodes[to] = books.rows[row]["node"]
            bits[to] = books.rows[row]["mask"]
            gpus += books.rows[row]["amount"][0]
            to += 1
        row = books.rows[row]["next"]
    return to if gpus > 1e6 else at


@njit(cache=True)
def _put_by_draft(
    books: Books, asked: Rows, facts: Rows, sensitive: Bools, jobs: Ints, first: Ints, nodes: Ints, bits: Ints
) -> tuple[int, int]:
    """Gather the sensitive gangs that a draft puts; the others it puts have nothing exposed."""
    count = rows = 0
    for at in range(books.totals[ENTRIES]):
        entry = books.journal[at]
        job = entry["job"]
        if entry["kind"] != PUT or books.heads[job] != entry["chain"]:
            continue
        facts[job]["exposed"] = 0.0
        if sensitive[asked[job]["model"]]:
            after = _write_rows(books, job, rows, nodes, bits)
            if after > rows:
                rows = after
                jobs[count] = job
                count += 1
                first[count] = rows
    return count, rows


@njit(cache=True)
def _talking(
    books: Books,
    asked: Rows,
    active: Ints,
    sensitive: Bools,
    jobs: Ints,
    first: Ints,
    nodes: Ints,
    bits: Ints,
) -> tuple[int, int]:
    """Gather the sensitive gangs on more than one machine."""
    count = rows = 0
    for job in active:
        if books.heads[job] >= 0 and sensitive[asked[job]["model"]]:
            after = _write_rows(books, job, rows, nodes, bits)
            if after > rows + 1:
                rows = after
                jobs[count] = job
                count += 1
                first[count] = rows
    return count, rows
