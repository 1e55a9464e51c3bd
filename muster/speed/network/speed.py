"""The network stage of a job's speed: seconds of communication an iteration that nothing hides.

Alone, a job's stage depends on its model and the shape of its placement, and is computed once for each
pair. Among neighbours, every job that leaves its machine sends over the uplinks it crosses for a part of the time, and
shares them then (`contention`); what of that hides behind its compute is worked out again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from muster.cluster import Cluster
from muster.cluster.structured import Structured, zero_records
from muster.speed.network.collectives import ALGORITHMS, BANDWIDTH_AWARE, BASELINE
from muster.speed.network.dimensions import ASTRA, FLAVOURS
from muster.speed.network.models import Floats, MeasuredModel, NetworkModel
from muster.speed.network.placement import Placements, Shapes, loads_of, shapes_of, uplinks_of
from muster.speed.network.speed_core import fill_contended, fill_stages
from muster.speed.network.tree import link_tree

Ints = npt.NDArray[np.int64]

MODEL_DTYPE = np.dtype(
    [
        ("compute_seconds", np.float64),
        ("gradient_gb", np.float64),
        ("first", np.int64),  # its messages: first ... first + messages - 1
        ("messages", np.int64),
        ("measured", np.int64),  # 1: by the fields below, 0: by its messages
        ("local_seconds", np.float64),
        ("local_seconds_per_gpu", np.float64),
        ("uplink_seconds", np.float64),
        ("uplink_seconds_per_gpu", np.float64),
        ("overlap", np.float64),
        ("nic_gb_per_s", np.float64),
    ]
)
NetworkModelArray: TypeAlias = Structured[
    Literal[
        "compute_seconds",
        "gradient_gb",
        "first",
        "messages",
        "measured",
        "local_seconds",
        "local_seconds_per_gpu",
        "uplink_seconds",
        "uplink_seconds_per_gpu",
        "overlap",
        "nic_gb_per_s",
    ]
]
STAGE_DTYPE = np.dtype(
    [
        ("exposed_seconds", np.float64),
        ("all_reduce_seconds", np.float64),  # of all gradients, one after the other, hidden or not
        ("volume_gb", np.float64),  # GB that the all-reduces of an iteration sum
        ("busy_seconds", np.float64),  # of an iteration, in which it sends over uplinks
    ]
)
StageArray: TypeAlias = Structured[
    Literal["exposed_seconds", "all_reduce_seconds", "volume_gb", "busy_seconds"]
]


class _ModelArrays(NamedTuple):
    """What the models of a run send."""

    table: NetworkModelArray
    """MODEL_DTYPE, a row a model."""
    messages: npt.NDArray[np.float64]
    """Rows ready_seconds, gradient_gb and update_seconds; a column a message."""


class _AllReduce(NamedTuple):
    """How all-reduces run on the links of a cluster."""

    flavour: int
    """Place in FLAVOURS."""
    algorithm: int
    """Place in ALGORITHMS."""
    hierarchy: int
    """BASELINE or BANDWIDTH_AWARE."""
    level_gb_per_s: npt.NDArray[np.float64]
    hop_seconds: npt.NDArray[np.float64]


class NetworkSpeed:
    """Communication seconds for the models and the cluster of one run; a model is its position in `models`.

    A model that is None has no layers that anybody knows of: it is insensitive to the network.
    """

    def __init__(
        self,
        models: Sequence[NetworkModel | None],
        cluster: Cluster,
        *,
        flavour: str = "physical",
        algorithm: str = "ring",
        congestion: float = 0.0,
    ) -> None:
        self.tree = link_tree(cluster, congestion)
        self.congestion = congestion
        self.models = tuple(models)
        self.flavour = flavour
        number = FLAVOURS.index(flavour)
        self._all_reduce = _AllReduce(
            number,
            ALGORITHMS.index(algorithm),
            BASELINE if number == ASTRA else BANDWIDTH_AWARE,
            self.tree.level_gb_per_s,
            self.tree.hop_seconds,
        )
        self._arrays = _model_arrays(models)
        self._stages: dict[tuple[int, bytes, float], Any] = {}

    @property
    def compute_seconds(self) -> Floats:
        """Of an iteration on one GPU, by model; 0 for a model that is insensitive to the network."""
        return self._arrays.table["compute_seconds"]

    def largest_shares(self) -> Floats:
        """By model the share of the gradients in the largest message (Tiresias' skew); 0 where none are known."""
        table, messages = self._arrays
        spans = zip(table["first"].tolist(), table["messages"].tolist(), strict=True)
        sizes = [messages[1, first : first + count] for first, count in spans]
        return np.array([gb.max(initial=0.0) / max(gb.sum(), 1e-300) for gb in sizes])

    def stages(self, models: Ints, shapes: Shapes, stretched: Floats | None = None) -> StageArray:
        """STAGE_DTYPE for every pair of model and shape, alone; from the cache where it has been seen.

        `stretched` says how many times as long as the model's the compute is that communication can hide behind: that
        of one pass over the samples of a GPU, where those are not the model's batch.
        """
        times = np.ones(len(shapes)) if stretched is None else stretched
        shape_bytes = np.ascontiguousarray(shapes).view(f"V{shapes.dtype.itemsize}").tolist()
        keys = list(zip(np.asarray(models).tolist(), shape_bytes, times.tolist(), strict=True))
        known = self._stages
        new = {key: at for at, key in enumerate(keys) if key not in known}
        if new:
            fresh: StageArray = zero_records(len(new), STAGE_DTYPE)
            at = np.fromiter(new.values(), np.int64)
            numbers = np.asarray(models, dtype=np.int64)[at]
            fill_stages(self._arrays, self._all_reduce, numbers, shapes[at], times[at], fresh)
            known.update(zip(new, fresh.tolist(), strict=True))
        stages: StageArray = zero_records(len(keys), STAGE_DTYPE)
        stages[:] = [known[key] for key in keys]
        return stages

    def exposed_seconds(self, models: Ints, shapes: Shapes, stretched: Floats | None = None) -> Floats:
        """Communication seconds an iteration that compute does not hide, each job alone; `stretched` as in `stages`."""
        return self.stages(models, shapes, stretched)["exposed_seconds"]

    def efficiency(self, models: Ints, shapes: Shapes, stretched: Floats | None = None) -> Floats:
        """compute / (compute + exposed communication), each job alone (Dally's eff); `stretched` as in `stages`."""
        return self._efficiency(models, self.exposed_seconds(models, shapes, stretched), stretched)

    def contended_seconds(
        self,
        models: Ints,
        placements: Placements,
        compute_seconds: Floats | None = None,
        stretched: Floats | None = None,
    ) -> Floats:
        """Exposed communication seconds an iteration of all these jobs running side by side.

        `compute_seconds` an iteration, where a job's are others than its model's; `stretched` as in `stages`.
        """
        shapes = shapes_of(placements, self.tree)
        stages = self.stages(models, shapes, stretched)
        times = np.ones(len(shapes)) if stretched is None else stretched
        compute = self.compute_seconds[models] if compute_seconds is None else compute_seconds
        return self._contended(models, placements, shapes, stages, compute, times)

    def _contended(
        self,
        models: Ints,
        placements: Placements,
        shapes: Shapes,
        stages: StageArray,
        compute: Floats,
        times: Floats,
    ) -> Floats:
        """Exposed communication of these jobs side by side, from their stages alone; `stages` is overwritten."""
        first, links, uses = self._uses(placements, shapes, stages)
        uplinks = first, links, uses, self.tree.uplink_gb_per_s
        numbers = np.asarray(models, dtype=np.int64)
        fill_contended(self._arrays, self._all_reduce, numbers, shapes, times, compute, uplinks, stages)
        contended: Floats = stages["exposed_seconds"]
        return contended

    def _uses(self, placements: Placements, shapes: Shapes, stages: StageArray) -> tuple[Ints, Ints, Floats]:
        """The uplinks that jobs cross, and the GB/s of each that a job uses while it sends undisturbed."""
        first, links = uplinks_of(placements, self.tree)
        volume, busy = stages["volume_gb"], stages["busy_seconds"]
        rate = np.divide(volume, busy, out=np.zeros_like(volume), where=busy > 0)
        return first, links, loads_of(placements, shapes, self.tree) * np.repeat(rate, np.diff(first))

    def contended_efficiency(self, models: Ints, placements: Placements) -> Floats:
        """compute / (compute + exposed communication) of all these jobs running side by side."""
        return self._efficiency(models, self.contended_seconds(models, placements))

    def share_beside_others(self, models: Ints, placements: Placements) -> Floats:
        """The speed of each of these jobs running side by side, against that alone."""
        shapes, compute = shapes_of(placements, self.tree), self.compute_seconds[models]
        stages = self.stages(models, shapes)
        alone = compute + stages["exposed_seconds"]
        contended = compute + self._contended(
            models, placements, shapes, stages, compute, np.ones(len(shapes))
        )
        return np.divide(alone, contended, out=np.ones_like(alone), where=contended > 0.0)

    def _efficiency(self, models: Ints, exposed: Floats, stretched: Floats | None = None) -> Floats:
        compute = self.compute_seconds[models]
        if stretched is not None:
            compute = compute * stretched
        whole = compute + exposed
        return np.divide(compute, whole, out=np.ones_like(whole), where=whole > 0.0)


def _model_arrays(models: Sequence[NetworkModel | None]) -> _ModelArrays:
    table: NetworkModelArray = zero_records(len(models), MODEL_DTYPE)
    rows: list[Floats] = [np.zeros((3, 0))]
    filled = 0
    for record, model in zip(table, models, strict=True):
        if isinstance(model, MeasuredModel):
            record["measured"] = 1
            record["compute_seconds"] = model.compute_seconds
            record["local_seconds"] = model.local_seconds
            record["local_seconds_per_gpu"] = model.local_seconds_per_gpu
            record["uplink_seconds"] = model.uplink_seconds or 0.0
            record["uplink_seconds_per_gpu"] = model.uplink_seconds_per_gpu or 0.0
            record["overlap"] = model.overlap
            record["nic_gb_per_s"] = model.nic_gb_per_s or 0.0
        elif model is not None:
            messages = model.messages()
            record["compute_seconds"] = messages.compute_seconds
            record["gradient_gb"] = messages.gradient_gb.sum()
            record["first"], record["messages"] = filled, messages.ready_seconds.size
            rows.append(np.stack([messages.ready_seconds, messages.gradient_gb, messages.update_seconds]))
            filled += messages.ready_seconds.size
    return _ModelArrays(table, np.ascontiguousarray(np.concatenate(rows, axis=1)))


def places_count(cluster: Cluster) -> bool:
    """Whether places differ by the network unless a run says otherwise: in one rack all are taken to be alike."""
    return len(cluster.racks) > 1
