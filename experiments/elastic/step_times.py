"""Seconds of a training step by placement: measured rows, and between them linear interpolation in both worlds.

A placement is the tuple of GPU counts per node, in node order; only its smallest rotation counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl
from scipy.interpolate import LinearNDInterpolator, NearestNDInterpolator

from experiments.elastic.files import read_table
from muster.cluster.ledger_arrays import Floats

Placement = tuple[int, ...]
MOST_NODES = 16
"""More nodes count as so many."""


def key_of(placement: Placement) -> str:
    """The smallest rotation of a placement, as digits."""
    return "".join(map(str, min(placement[at:] + placement[:at] for at in range(len(placement)))))


def closest(gpus: int, gpus_per_node: int) -> Placement:
    """So many GPUs on as few nodes as possible."""
    full, rest = divmod(gpus, gpus_per_node)
    return (gpus_per_node,) * full + (rest,) * bool(rest)


@dataclass
class StepTimes:
    """Of one application on one type of GPU: seconds of a pass and of what of it is synchronisation."""

    rows: pl.DataFrame
    """source, placement, nodes, gpus, batch_per_gpu, step_s, sync_s"""
    _known: dict[tuple[str, float], tuple[float, float]] = field(default_factory=dict)

    def of(self, placement: Placement, batch: float) -> tuple[float, float]:
        """Seconds of a pass over `batch` samples a GPU, and of its synchronisation."""
        key = key_of(placement), batch
        if key not in self._known:
            self._known[key] = self._computed(placement, *key)
        return self._known[key]

    def _computed(self, placement: Placement, key: str, batch: float) -> tuple[float, float]:
        rows = self.by_placement.get(key)
        if rows is None:
            point = min(len(placement), MOST_NODES), sum(placement), batch
            step, sync = self._surface([point])[0]
            if np.isnan(step):
                step, sync = self._nearest([point])[0]
            return float(step), float(sync)
        sizes, steps, syncs = rows
        return float(np.interp(batch, sizes, steps)), float(np.interp(batch, sizes, syncs))

    @cached_property
    def by_placement(self) -> Mapping[str, tuple[Floats, Floats, Floats]]:
        """Batches, steps and synchronisations that were measured on a placement."""
        measured = self.rows.filter(pl.col("source") == "placements").sort(
            "batch_per_gpu", maintain_order=True
        )
        return {
            str(rows["placement"][0]): (
                rows["batch_per_gpu"].cast(pl.Float64).to_numpy(),
                rows["step_s"].to_numpy(),
                rows["sync_s"].to_numpy(),
            )
            for rows in measured.partition_by("placement", maintain_order=True)
        }

    @cached_property
    def scalability(self) -> Floats:
        """Nodes, GPUs, batch, step and synchronisation of the rows that state no placement."""
        return self._numbers("scalability")

    def _numbers(self, source: str) -> Floats:
        columns = ("nodes", "gpus", "batch_per_gpu", "step_s", "sync_s")
        rows = self.rows.filter(pl.col("source") == source)
        return rows.select(pl.col(columns).cast(pl.Float64)).to_numpy()

    @cached_property
    def _surface(self) -> LinearNDInterpolator:
        rows = self._points
        return LinearNDInterpolator(rows[:, :3], rows[:, 3:])

    @cached_property
    def _nearest(self) -> NearestNDInterpolator:
        """For what lies outside all that was measured; no recorded run has such a placement."""
        rows = self._points
        return NearestNDInterpolator(rows[:, :3], rows[:, 3:], rescale=True)

    @cached_property
    def _points(self) -> Floats:
        """Nodes, GPUs, batch, step and synchronisation, the means of the placements of as many nodes and GPUs."""
        grouped = defaultdict(list)
        for nodes, gpus, batch, step, sync in self._numbers("placements").tolist():
            grouped[nodes, gpus, batch].append((step, sync))
        means = [(*point, *np.mean(grouped[point], axis=0)) for point in sorted(grouped)]
        return np.array([*means, *self.scalability])

    def largest_batch(self, placement: Placement) -> float:
        """The largest batch of a GPU that was measured on a placement, else on at least its nodes and GPUs."""
        rows = self.by_placement.get(key_of(placement))
        if rows is not None:
            return float(rows[0][-1])
        nodes, gpus, batches = self.scalability[:, :3].T
        return float(batches[(nodes >= len(placement)) & (gpus >= sum(placement))].max())

    @cached_property
    def largest_batch_anywhere(self) -> float:
        """The largest batch of a GPU that was measured on any placement."""
        return max(float(batches[-1]) for batches, _, _ in self.by_placement.values())

    @cached_property
    def most_samples_alone(self) -> float:
        """Samples a second on one GPU with the largest batch that was measured there."""
        batches, steps, _ = self.by_placement["1"]
        return float(batches.max() / steps.max())

    @cached_property
    def _largest_of_gpus(self) -> Mapping[int, float]:
        largest: dict[int, float] = {}
        for gpus, batch in self.rows.select(pl.col("gpus", "batch_per_gpu").cast(pl.Float64)).iter_rows():
            largest[int(gpus)] = max(largest.get(int(gpus), 0.0), batch)
        return largest

    def largest_batch_of_gpus(self, gpus: int) -> float:
        """The largest batch of a GPU that was measured on so many GPUs; inf where none was."""
        return self._largest_of_gpus.get(gpus, np.inf)


def step_times(files: Iterable[Path]) -> dict[tuple[str, str], StepTimes]:
    """By application and type of GPU, from one or more tables; the first that has a pair counts."""
    found: dict[tuple[str, str], StepTimes] = {}
    for file in files:
        for rows in read_table(file).partition_by("app", "gpu_type", maintain_order=True):
            found.setdefault((rows["app"][0], rows["gpu_type"][0]), StepTimes(rows))
    return found
