"""How much an iteration advances a job, by its batch and by how far training is (Pollux's statistical efficiency)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from experiments.elastic.files import read_table
from muster.speed.statistical_efficiency import gain


@dataclass(frozen=True)
class Application:
    """What is known of a training program; progress counts in iterations of the initial batch."""

    name: str
    epochs: int
    initial_batch: int
    max_batch: int
    min_batch_per_gpu: int
    max_batch_per_gpu: int
    restart_seconds: float
    slowdown: float
    """How many times longer an iteration takes than its profile says."""
    ends: tuple[float, ...]
    """Progress at the end of each epoch."""
    statistics: Mapping[int, tuple[tuple[float, float], ...]]
    """By profiled batch and epoch: the squared norm of the gradient and its variance."""

    @property
    def batches(self) -> list[int]:
        """The profiled batches, ascending."""
        return sorted(self.statistics)

    def gradient(self, batch: float, epoch: int) -> tuple[float, float]:
        """Squared norm and variance of the gradient of a batch in an epoch."""
        known = self.batches
        low = known[bisect_right(known, batch) - 1]
        high = known[bisect_left(known, batch)]
        first, second = self.statistics[low][epoch], self.statistics[high][epoch]
        if low == high:
            return first
        norm, variance = (
            ((batch - low) * above + (high - batch) * below) / (high - low)
            for below, above in zip(first, second, strict=True)
        )
        return norm, variance

    def gain(self, batch: float, epoch: int) -> float:
        """Progress of one iteration of a batch."""
        return gain(batch / self.initial_batch, *self.gradient(batch, epoch))


def applications(tables: Path) -> dict[str, Application]:
    """The applications of a folder of tables, by name."""
    rows = read_table(tables / "statistics.csv").sort("app", "batch", "epoch", maintain_order=True)
    by_app = {str(each["app"][0]): each for each in rows.partition_by("app", maintain_order=True)}
    made = {}
    for row in read_table(tables / "apps.csv").iter_rows(named=True):
        name = row["app"]
        batches = by_app[name].partition_by("batch", maintain_order=True)
        made[name] = Application(
            name=name,
            epochs=row["epochs"],
            initial_batch=row["initial_batch"],
            max_batch=row["max_batch"],
            min_batch_per_gpu=row["min_batch_per_gpu"],
            max_batch_per_gpu=row["max_batch_per_gpu"],
            restart_seconds=float(row["restart_s"]),
            slowdown=float(row["slowdown"]),
            ends=tuple(
                min(of_epoch) for of_epoch in zip(*(each["progress"] for each in batches), strict=True)
            ),
            statistics={
                each["batch"][0]: tuple(zip(each["grad_sqr"], each["grad_var"], strict=True))
                for each in batches
            },
        )
    return made
