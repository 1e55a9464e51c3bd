"""What a running job would gain from more than it holds, by the one law of speed.

An iteration takes as long as the input stage of its slowest node, or as its compute with the communication that its
place leaves exposed, whichever is longer. All else stays as it is: the job is alone on its links.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from muster.cluster import Cluster
from muster.cluster.ledger import NodeAllocation
from muster.speed.input_pipeline import model_table
from muster.speed.input_stage import input_stage_seconds
from muster.speed.network.model_file import network_of
from muster.speed.network.placement import place
from muster.speed.network.speed import NetworkSpeed
from muster.speed.network.survey import look_at, survey
from muster.workload.models import Model

MEMORY_STEP_GB = 10.0
"""More memory on each node whose gain is asked for."""


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


def gains_of(model: Model, cluster: Cluster, held: Sequence[NodeAllocation[str]]) -> Gains:
    """Return what a job of this model would gain, given what it holds on its nodes with GPUs."""
    table = model_table([model])
    compute = float(table[0]["compute_seconds"])
    gpus_by_rack = _gpus_by_rack(cluster, held)
    efficiency, best, kind = _efficiencies(model, cluster, gpus_by_rack)

    def seconds(more_cpus: float = 0.0, more_gb: float = 0.0, of_compute: float = efficiency) -> float:
        return max(_input_seconds(table, held, more_cpus, more_gb), compute / of_compute)

    now = seconds()
    gains = Gains(
        now / seconds(more_cpus=1.0),
        now / seconds(more_gb=MEMORY_STEP_GB),
        now / seconds(of_compute=best),
        kind,
    )
    return gains if gains.best_place > 1.0 else replace(gains, best_place_kind="")


def _input_seconds(
    table: Any, held: Sequence[NodeAllocation[str]], more_cpus: float, more_gb: float
) -> float:
    """Return the seconds that the slowest node's input stage takes for an iteration."""
    return max(
        input_stage_seconds(
            table,
            0,
            (here.cpus + more_cpus) / here.gpus,
            (here.memory_gb + more_gb) / here.gpus,
            here.storage_gb_per_s / here.gpus,
        )
        for here in held
    )


def _gpus_by_rack(cluster: Cluster, held: Sequence[NodeAllocation[str]]) -> list[list[int]]:
    racks: dict[int, list[int]] = {}
    for here in held:
        rack = cluster.nodes[cluster.node_index[here.node]].rack
        racks.setdefault(rack, []).append(len(here.gpu_ids))
    return [sorted(counts, reverse=True) for counts in racks.values()]


def _efficiencies(
    model: Model, cluster: Cluster, gpus_by_rack: Sequence[Sequence[int]]
) -> tuple[float, float, str]:
    """Return the share of time that compute takes on this place and on the best, and what kind the best is."""
    file, gpus = network_of(model), sum(map(sum, gpus_by_rack))
    placements = place(gpus_by_rack, cluster) if file is not None and gpus > 1 else None
    if file is None or placements is None:
        return 1.0, 1.0, ""
    speed = NetworkSpeed([file.model], cluster)
    present = look_at(speed, "", gpus_by_rack, placements).efficiency
    kinds = [row for row in survey(speed, cluster, gpus) if row.gpus == gpus]
    best = max(kinds, key=lambda row: row.efficiency, default=None)
    if best is None or best.efficiency <= present:
        return present, present, ""
    return present, best.efficiency, best.kind
