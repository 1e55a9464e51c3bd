"""A scheduler's decision as a value: what every job holds from now on, and when to ask again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, nan
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from muster.cluster.ledger import Changes, Transaction
from muster.cluster.ledger_arrays import Bools, Floats, Ints
from muster.schedulers.gpu_limits import GpuLimits

_UNKNOWN: Ints = np.zeros(0, np.int64)


class Trigger:
    """Why a scheduler is asked; a decision's `wake_on` is a sum of these."""

    ROUND = 1
    ARRIVAL = 2
    COMPLETION = 4
    LEASE_END = 8
    TIMER = 16
    CAPACITY = 32
    """Nodes failed or came back, or what was releasing is free."""

    ALL = 63


class Decision(NamedTuple):
    """What every job holds from now on, why the others wait, and when the scheduler is to be asked again."""

    changes: Changes
    """Of the jobs whose allocation is another one afterwards; all others keep what they hold."""
    reasons: Ints
    """A code of `reasons` for each job of the snapshot, `PLACED` for those that hold an allocation."""
    reason_a: Floats
    reason_b: Floats
    next_wake: float = inf
    """The next moment at which the scheduler is to be asked, whatever happens."""
    stable_until: float = -inf
    """Rounds before then may be skipped if none of `wake_on` happens."""
    wake_on: int = Trigger.ALL
    lease_ends: Mapping[int, float] = MappingProxyType({})
    """Job number to the end of its lease; a job that is not named keeps its own."""
    bound: float = nan
    """The most that any decision could reach, in the scheduler's own measure; NaN: not known."""
    value: float = nan
    """What this decision reaches in the same measure; NaN: not known."""
    ranked: Ints = _UNKNOWN
    """Positions of the jobs that could be served, best first; empty: the scheduler has no such order."""
    notes: tuple[str, ...] = ()
    """What did not go as it should while deciding; each is reported once, with how often it happened."""
    cancelled: tuple[int, ...] = ()
    """Numbers of the jobs that lose their allocation for good: they end without their work done."""


@dataclass(slots=True)
class Proposal:
    """A decision in the making: a transaction, and beside it what the decision will say."""

    transaction: Transaction
    reasons: Ints
    reason_a: Floats
    reason_b: Floats
    next_wake: float = inf
    stable_until: float = -inf
    wake_on: int = Trigger.ALL
    lease_ends: dict[int, float] = field(default_factory=dict)
    bound: float = nan
    value: float = nan
    ranked: Ints = field(default_factory=lambda: _UNKNOWN)
    assured: Floats = field(default_factory=lambda: np.zeros(0))
    """By position: the GPUs that a job has before all others, as it was promoted or is within a guarantee; 0: none."""
    stops_jobs: bool = True
    """Whether the order stops running jobs for others."""
    pinned: Bools | None = None
    """By position: running jobs that the allocator may not interrupt now; None: it is to work them out."""
    limits: tuple[GpuLimits, ...] = ()
    """How many GPUs jobs may have, for an allocator that chooses their sizes."""
    shares: tuple[GpuLimits, ...] = ()
    """How many GPUs groups of jobs have before others get more, for such an allocator."""
    remembered: Any = None
    """What the allocator wrote here at an earlier decision; None: nothing."""
    notes: tuple[str, ...] = ()
    cancelled: tuple[int, ...] = ()

    @classmethod
    def blank(cls, transaction: Transaction, jobs: int) -> Proposal:
        """Everything stays, and each of so many jobs counts as placed until a reason is written."""
        none = np.zeros(jobs)
        return cls(transaction, np.zeros(jobs, np.int64), none.copy(), none.copy(), assured=none)

    def decision(self) -> Decision:
        """The decision, as the last step of the transaction: all that was tried is undone."""
        return Decision(
            self.transaction.take_changes(),
            self.reasons,
            self.reason_a,
            self.reason_b,
            self.next_wake,
            self.stable_until,
            self.wake_on,
            self.lease_ends,
            self.bound,
            self.value,
            self.ranked,
            self.notes,
            self.cancelled,
        )
