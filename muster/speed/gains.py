"""What a running job would gain from more than it holds, by the one law of speed.

An iteration takes as long as the input stage of its slowest node, or as its compute with the communication that its
place leaves exposed, whichever is longer (`speed.worker_options`). All else stays as it is: the job is alone on its
links.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from muster.cluster import Cluster
from muster.cluster.ledger import NodeAllocation
from muster.speed.input_pipeline import ModelTable, model_table
from muster.speed.input_stage import input_stage_seconds
from muster.speed.local_batch import local_batches
from muster.speed.network.forms import EVENLY, IN_ISLAND, IN_MACHINE, IN_RACK, PlacementShapes
from muster.speed.network.model_file import network_of
from muster.speed.network.placement import Placements, shapes_of
from muster.speed.network.speed import NetworkSpeed, places_count
from muster.workload.models import Model

MEMORY_STEP_GB = 10.0
"""More memory on each node whose gain is asked for."""
_LEAST = 1e-9
"""A place that is faster by less is as good."""


@dataclass(frozen=True)
class Gains:
    """How many times as fast a job would be; 1: no faster."""

    one_more_cpu: float
    """On each of its nodes."""
    more_memory: float
    """`MEMORY_STEP_GB` on each of its nodes."""
    best_place: float
    best_place_kind: str
    """`1 machine`; "" where no place is faster."""
    one_more_gpu: float
    """With as much CPU and memory as the others have, on the best place for so many; 1 if the cluster has no more."""


@dataclass(frozen=True)
class Stages:
    """Seconds that an iteration takes, by what it waits for."""

    input: float
    """For its input, beyond compute and communication."""
    compute: float
    communication: float
    """That compute does not hide."""

    @property
    def total(self) -> float:
        """Seconds of an iteration."""
        return self.input + self.compute + self.communication


def network_for(model: Model, cluster: Cluster) -> NetworkSpeed | None:
    """Return how fast a model communicates; None where that is not known or, as in one rack, does not count."""
    file = network_of(model)
    return NetworkSpeed([file.model], cluster) if file is not None and places_count(cluster) else None


def gains_of(
    model: Model,
    cluster: Cluster,
    held: Sequence[NodeAllocation[str]],
    asked: float,
    network: NetworkSpeed | None,
) -> Gains:
    """Return what a job of this model would gain, given what it holds on its nodes with GPUs.

    `asked` are the GPUs whose total batch it keeps. The model is model 0 of `network`; None: the network does not
    count.
    """
    gang = _Gang(model, cluster, held, asked, network)
    gpus = sum(here.gpus for here in held)
    present, (best, kind) = gang.exposed_here(gpus), gang.exposed_at_best(gpus)
    now = gang.seconds(gpus, present)
    there = min(gang.seconds(gpus, best), now)
    then = now
    if gpus + 1 <= cluster.total_gpus:
        then = now * gang.seconds(gpus + 1, gang.exposed_at_best(gpus + 1)[0]) / there
    return Gains(
        now / gang.seconds(gpus, present, more_cpus=1.0),
        now / gang.seconds(gpus, present, more_gb=MEMORY_STEP_GB),
        now / there,
        kind if now > there * (1 + _LEAST) else "",
        now / then,
    )


def stages_of(
    model: Model,
    cluster: Cluster,
    held: Sequence[NodeAllocation[str]],
    asked: float,
) -> Stages:
    """Return what an iteration of a job of this model takes on its nodes with GPUs; all as for `gains_of`."""
    gang = _Gang(model, cluster, held, asked, network_for(model, cluster))
    gpus = sum(here.gpus for here in held)
    return gang.stages(gpus, gang.exposed_here(gpus))


class _Gang:
    """One job's law of speed on its nodes."""

    def __init__(
        self,
        model: Model,
        cluster: Cluster,
        held: Sequence[NodeAllocation[str]],
        asked: float,
        network: NetworkSpeed | None,
    ) -> None:
        self._table: ModelTable = model_table([model], cluster.gpu_types)
        self._cluster, self._held, self._asked = cluster, held, asked
        self._nodes = [cluster.node_index[here.node] for here in held]
        self._records = [
            int(self._table[0]["on_type"][cluster.gpu_types.index(cluster.nodes[node].gpu_type)])
            for node in self._nodes
        ]
        known = network is not None and bool(network.compute_seconds[0] > 0)
        self._network = network if known else None

    def seconds(self, gpus: float, exposed: float, more_cpus: float = 0.0, more_gb: float = 0.0) -> float:
        """Return the seconds of an iteration; all as for `stages`."""
        return self.stages(gpus, exposed, more_cpus, more_gb).total

    def stages(self, gpus: float, exposed: float, more_cpus: float = 0.0, more_gb: float = 0.0) -> Stages:
        """Return what an iteration takes on so many GPUs, with so much more on each of its nodes.

        `exposed` is communication, in seconds for each second of compute with the GPUs that were asked for.
        """
        samples, passes, last_pass = self._batch(gpus)
        compute = float(self._table["compute_seconds"][self._records].max())
        feeding = max(
            input_stage_seconds(
                self._table,
                record,
                (here.cpus + more_cpus) / here.gpus,
                (here.memory_gb + more_gb) / here.gpus,
                here.storage_gb_per_s / here.gpus,
            )
            for here, record in zip(self._held, self._records, strict=True)
        )
        computing, communicating = compute * passes * last_pass, compute * exposed
        waiting = max(feeding * samples - computing - communicating, 0.0)
        return Stages(waiting, computing, communicating)

    def exposed_here(self, gpus: float) -> float:
        """Return the communication that its place leaves exposed, for `seconds`."""
        if self._network is None or gpus <= 1:
            return 0.0
        bits = [sum(1 << gpu for gpu in here.gpu_ids) for here in self._held]
        placements = Placements(np.array([0, len(bits)]), np.array(self._nodes), np.array(bits))
        last_pass = np.array([self._batch(gpus)[2]])
        seconds = self._network.exposed_seconds(
            np.zeros(1, np.int64), shapes_of(placements, self._network.tree), last_pass
        )
        return float(seconds[0] / self._network.compute_seconds[0])

    def exposed_at_best(self, gpus: float) -> tuple[float, str]:
        """Return what the best place for so many GPUs leaves exposed, and what kind of place that is."""
        if self._network is None or gpus <= 1:
            return 0.0, ""
        last_pass = self._batch(gpus)[2]
        shapes = PlacementShapes(self._network, self._cluster)
        line, forms = shapes.of(
            np.zeros(1, np.int64), np.array([round(gpus)], np.int64), np.array([last_pass])
        )
        speed, kind = float(forms.speeds[line[0], 0]), forms.kinds[line[0], 0].tolist()
        return last_pass * (1 / speed - 1), _kind_of_place(*kind)

    def _batch(self, gpus: float) -> tuple[float, float, float]:
        """Return the samples of each GPU in batches of the model, the passes, and the compute of the last one."""
        found = local_batches(self._table, np.zeros(1, np.int64), np.array([self._asked / gpus]))
        samples, passes, last_pass = (float(one[0]) for one in found)
        return samples, passes, last_pass


def _kind_of_place(kind: int, machines: int, racks: int) -> str:
    if kind == IN_ISLAND:
        return "1 island"
    if kind == IN_MACHINE:
        return "1 machine"
    if kind == EVENLY:
        return f"{machines} machines" if racks == 1 else f"{machines} machines of {racks} racks"
    return "1 rack" if kind == IN_RACK else "several racks"
