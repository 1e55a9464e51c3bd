"""Tiresias' skew rule (NSDI'19 §3.3): a gang is kept together only if one tensor dominates its model."""

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

from muster.schedulers.contract import Floats, Ints, Snapshot
from muster.schedulers.parts import Placement, setting
from muster.schedulers.placement.job_columns import CONSOLIDATE, PACK
from muster.speed.network.model_file import find
from muster.speed.network.models import CompactModel


@dataclass(frozen=True)
class Skew(Placement):
    """As few machines as possible for models whose largest tensor is a large share of them, anywhere for others."""

    name: ClassVar[str] = "skew"

    threshold: float = setting(
        0.4, "share of the gradients in the largest one, from which on gangs stay together"
    )

    def rules(self, snapshot: Snapshot) -> Ints:
        """Consolidate or pack, by the job's model; a model without a network profile has no skew."""
        return np.where(skews_of(snapshot) >= self.threshold, CONSOLIDATE, PACK)


def skews_of(snapshot: Snapshot) -> Floats:
    """Of each job's model the share of its gradients in the largest one; 0 without a network profile."""
    skews: Floats = np.array([_skew(name) for name in snapshot.table.model_names])[snapshot.jobs.model]
    return skews


@cache
def _skew(model: str) -> float:
    """Share of the gradients in the largest one."""
    file = find(model)
    return file.model.largest_share if file and isinstance(file.model, CompactModel) else 0.0
