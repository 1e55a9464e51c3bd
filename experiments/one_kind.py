"""gittins without kinds of jobs: `muster simulate TRACE --scheduler experiments/one_kind.py:OneKind+joint`."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar

from muster.cluster import Cluster
from muster.schedulers.contract import State
from muster.schedulers.queue_order.gittins import Gittins
from muster.schedulers.queue_order.lengths_by_kind import KnownLengths


@dataclass(frozen=True)
class OneKind(Gittins):
    """As gittins, but all jobs are believed to be as long as all others: for the gain of lengths by kind."""

    name: ClassVar[str] = "one-kind"

    def initial(self, cluster: Cluster) -> State:
        """Sure from the beginning that kinds are alike."""
        scores = (inf, *KnownLengths().scores[1:])
        return {**super().initial(cluster), "lengths": KnownLengths(scores=scores)}
