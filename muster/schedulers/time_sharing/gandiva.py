"""Gandiva (OSDI'18): no job waits long for its first minutes; turns, packing, migration, growing.

Jobs are placed by affinity. Where no GPU is free they take turns on those of others; two that share are packed if
a trial shows that it pays; what becomes free goes to those that share, then to places that are closer together,
then to nodes that can be emptied, and in the end to jobs that can use more than they asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

from muster.cluster import Cluster
from muster.schedulers.ageing import next_overdue
from muster.schedulers.contract import Decision, Proposal, Snapshot, State
from muster.schedulers.honours import SIZES
from muster.schedulers.parts import check_seconds, setting, settings_of
from muster.schedulers.phases import log_phase
from muster.schedulers.reasons import PLACED
from muster.schedulers.time_sharing import packing
from muster.schedulers.time_sharing.moves import Moves


@dataclass(frozen=True)
class Gandiva:
    """Gandiva: time slices instead of waiting, packing where a trial pays, migration to better places, growing."""

    name: ClassVar[str] = "gandiva"
    slots: ClassVar[tuple[str, ...]] = ("whole scheduler",)
    needs: ClassVar[tuple[str, ...]] = ()
    honours: ClassVar[frozenset[str]] = frozenset({SIZES})

    most_turns: float = setting(inf, "jobs that take turns on a GPU at most; more wait")
    trial_seconds: float = setting(
        300.0, "how long two jobs are watched in turns, and then packed, to see whether packing pays"
    )
    least_gain: float = setting(0.05, "packing stays if the two get at least so much more done than in turns")
    defragment_from: float = setting(
        0.75, "a node in use of which so large a part is free is emptied if its jobs fit elsewhere"
    )

    promote_after_seconds: float = setting(
        inf, "a job that has waited so long shares GPUs with any number, and no job is served before it"
    )

    def __post_init__(self) -> None:
        if not self.promote_after_seconds >= 0:
            raise ValueError("promote_after_seconds: allowed: a number of seconds from 0 on")
        if not self.most_turns >= 1:
            raise ValueError("most_turns: allowed: a number from 1 on")
        check_seconds(self, "trial_seconds", finite=True)
        if not -inf < self.least_gain < inf:
            raise ValueError("least_gain: allowed: a number, 0.05 for a twentieth")
        if not self.defragment_from > 0:
            raise ValueError("defragment_from: allowed: a number above 0; above 1 no node is emptied")

    def describe(self) -> dict[str, Any]:
        """Name and settings, for the record."""
        return {
            "name": self.name,
            "parts": {
                "queue_order": "arrival",
                "allocation": "proportional",
                "placement": "affinity, in turns",
            },
            "settings": {self.name: settings_of(self)},  # type: ignore[arg-type]
            "needs": [],
        }

    def initial(self, cluster: Cluster) -> State:
        """No pair tried."""
        return packing.NOTHING_LEARNED

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        """Place the waiting jobs, improve what can be, try pairs; then write it all down at once."""
        moves = Moves(snapshot, self.most_turns, self.defragment_from, self.promote_after_seconds)
        while moves.serve() | moves.improve():
            pass
        packed, wake, state = packing.step(snapshot, moves.floor, state, self.trial_seconds, self.least_gain)
        with snapshot.transaction() as transaction:
            plan = Proposal.blank(transaction, len(snapshot.jobs))
            moves.write(plan, packed)
            log_phase(snapshot, "placed, alone or in turns", lambda: plan.reasons == PLACED)
            waiting = snapshot.jobs.index[plan.reasons != PLACED]
            due = next_overdue(snapshot.table.facts, waiting, snapshot.now, self.promote_after_seconds)
            plan.next_wake = plan.stable_until = min(wake, moves.next_release(), due)
            return plan.decision(), state
